"""A small release in CheXpercept's own layout, and results as its own evaluation writes them."""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Entry = dict[str, Any]
COLORS = ("green", "red", "blue")
ATTRIBUTES = ("distribution", "location", "severity/measurement", "comparison")


def listed(question: str, options: list[str]) -> str:
    """Return a question with its options, as the release writes it."""
    return "\n".join([question, "", "Options:", *(f"({number}) {text}" for number, text in enumerate(options, 1))])


def asked(question: str, options: list[str], answer: int | list[int]) -> Entry:
    many = answer if isinstance(answer, list) else [answer]
    words: Any = [options[n - 1] for n in many] if isinstance(answer, list) else options[answer - 1]
    return {"question": listed(question, options), "answer_options": options, "answer": words, "answer_index": answer}


def points(verb: str, answer: list[int]) -> Entry:
    options: list[Entry] = [{"point": [100 * n, 50 * n], "color": color} for n, color in enumerate(COLORS, 1)]
    options.append({"point": None, "color": "None"})
    texts = [f"{color} point" for color in COLORS] + ["None"]
    words = "None" if answer == [4] else [COLORS[n - 1] for n in answer]
    question = listed(f"Towards which points would you {verb} the mask?", texts)
    return {"question": question, "answer_options": options, "answer": words, "answer_index": answer}


def entry(finding: str, path: str, number: int) -> Entry:
    """Return a case's entry on a path; the right answers depend on the case's number."""
    present = path != "lesion_free"
    made: Entry = {
        "detection_qa": asked(f"Can {finding} be seen here?", ["Yes", "No"], 1 if present else 2),
        "pair_id": f"p{number}", "dicom_id": f"dicom-{number}",
    }  # fmt: skip
    if not present:
        return made
    revise = path == "revision_required"
    right = number % 4 + 1
    names = [f"option_{n}_mask_{'answer' if n == right else 'fake'}.png" for n in range(1, 5)]
    options = [{"type": "true" if n == right else "fake", "masks": [f"m{n}"], "relative_path": name}
               for n, name in enumerate(names, 1)]  # fmt: skip
    masks = ["1st mask", "2nd mask", "3rd mask", "4th mask"]
    made["contour_qa"] = {
        "no_deformation": not revise,
        "initial_context": "Coloured points show where the mask may be changed.",
        "contour_eval_qa": {
            **asked(f"A mask of the {finding} is drawn. Must it be revised?", ["Yes", "No"], 1 if revise else 2),
            "relative_path": "contour_eval_qa/xray_with_mask.png",
        },
        "contour_revision_qa_expansion": points("expand", [1, 3]),
        "contour_revision_qa_contraction": points("contract", [4]),
        "contour_revision_qa_revision_result": {
            "question": listed("Which mask shows the change?", masks), "answer_options": options,
            "answer": masks[right - 1], "answer_index": right,
        },
    }  # fmt: skip
    made["attribute_extraction_qa"] = None if finding == "cardiomegaly" else {
        "distribution": asked("How many zones?", ["1", "2", "3", "4 or more"], right),
        "location": asked("Where?", ["left base", "right base", "left apex", "None of the above"], [1, 2]),
        "severity/measurement": asked("How much of the lung?", ["under a third", "a third", "more"], number % 3 + 1),
        "comparison": asked("Which lung has more?", ["left", "right", "both"], number % 3 + 1),
    }  # fmt: skip
    return made


def write_picture(path: Path, key: str) -> None:
    """Write a small PNG that differs by key."""
    path.parent.mkdir(parents=True, exist_ok=True)
    seed = zlib.crc32(key.encode())
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (40, 32), np.uint8)).save(path)


def write_release(folder: Path, prefix: str = "") -> Path:
    """Write a release of seven cases over two findings and the three paths, and return its folder."""
    plan = [("effusion", "lesion_free"), ("effusion", "revision_free"), ("effusion", "revision_required"),
            ("effusion", "revision_required"), ("cardiomegaly", "revision_required"),
            ("cardiomegaly", "revision_free"), ("cardiomegaly", "lesion_free")]  # fmt: skip
    entries = {}
    for number, (finding, path) in enumerate(plan, 1):
        made = entry(finding, path, number)
        key_id = f"{finding}_{prefix}p{number}"
        entries[key_id] = made
        pictures = folder / "chexpercept" / key_id
        write_picture(pictures / "detection_qa" / "xray.png", f"{key_id} xray")
        if path != "lesion_free":
            write_picture(pictures / "contour_qa" / "contour_eval_qa" / "xray_with_mask.png", f"{key_id} mask")
        if path == "revision_required":
            revision = pictures / "contour_qa" / "contour_revision_qa"
            write_picture(revision / "xray_with_mask_and_points.png", f"{key_id} points")
            for option in made["contour_qa"]["contour_revision_qa_revision_result"]["answer_options"]:
                write_picture(revision / option["relative_path"], f"{key_id} {option['relative_path']}")
    write_index(folder, entries)
    return folder


def write_index(folder: Path, entries: dict[str, Entry]) -> None:
    (folder / "chexpercept.json").write_text(json.dumps(entries))


def read_index(folder: Path) -> dict[str, Entry]:
    loaded: dict[str, Entry] = json.loads((folder / "chexpercept.json").read_text())
    return loaded


# --- results ---------------------------------------------------------------------------------------------------------


def numbers(text: str) -> list[int]:
    """Return the numbers of a reply by the published rule.

    The rule takes numbers after "answer is", otherwise those on a line of their own, otherwise all.
    """
    said = re.search(r"answers?\s*(?:is|are)\s*[:\-]?\s*([\d][\d,\s]*)", text, re.I)
    if said:
        return [int(n) for n in re.findall(r"\d+", said.group(1))]
    for line in reversed(text.split("\n")):
        if line.strip() and re.fullmatch(r"[\d,\s]+", line.strip()):
            return [int(n) for n in re.findall(r"\d+", line)]
    return [int(n) for n in re.findall(r"\d+", text)] or [-1]


def result(key_id: str, made: Entry, replies: dict[str, str]) -> Entry:
    """Return the record that the release's evaluation writes for a case; ``replies`` are by step, in their order."""
    contour = made.get("contour_qa")
    path = "lesion_free" if contour is None else "revision_free" if contour["no_deformation"] else "revision_required"
    done: Entry = {"key_id": key_id, "qa_path": path, "detection_qa": {}, "contour_evaluation_qa": {},
                   "contour_revision_qa": {}, "attribute_extraction_qa": {}, "chat_history": []}  # fmt: skip

    def one(part: Entry, reply: str) -> bool:
        return bool(numbers(reply)[0] == part["answer_index"])

    def many(part: Entry, reply: str) -> bool:
        return set(numbers(reply)) == set(part["answer_index"])

    for step, reply in replies.items():
        done["chat_history"].append(["question", [], f"I looked.\nAnswer: {reply}"])
        if step == "detection":
            part = made["detection_qa"]
            done["detection_qa"] = {
                "response": reply,
                "ground_truth": part["answer_index"],
                "correct": one(part, reply),
            }
        elif step == "evaluation":
            part = made["contour_qa"]["contour_eval_qa"]
            done["contour_evaluation_qa"] = {"responses": reply, "ground_truth": part["answer_index"],
                                             "correct": one(part, reply)}  # fmt: skip
        else:
            revision = step in ("expansion", "contraction", "revision_result")
            stage = done["contour_revision_qa" if revision else "attribute_extraction_qa"]
            part = (
                made["contour_qa"][f"contour_revision_qa_{step}"] if revision else made["attribute_extraction_qa"][step]
            )
            stage.setdefault("responses", {})[step] = reply
            stage.setdefault("ground_truth", {})[step] = part["answer_index"]
            stage[step] = {"correct": (many if isinstance(part["answer_index"], list) else one)(part, reply)}
            stage["correct"] = all(stage[name]["correct"] for name in stage["responses"])
    return done


def steps(made: Entry) -> list[str]:
    """Return the steps that are asked of a case, in order."""
    contour = made.get("contour_qa")
    if contour is None:
        return ["detection"]
    revision = [] if contour["no_deformation"] else ["expansion", "contraction", "revision_result"]
    attributes = [name for name in ATTRIBUTES if made["attribute_extraction_qa"]]
    return ["detection", "evaluation", *revision, *attributes]
