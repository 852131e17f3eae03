"""Export of a benchmark in the layout of CheXpercept's own release, which its evaluation scripts read.

The layout has only perception items (stages 1 to 4) and their answers. Grid items, patients, sex, age and evidence are
left out. The name of a phantom case says that it is a phantom.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from chexqa.contract.benchmark import Benchmark, conversations
from chexqa.contract.items import Answer, CaseKey, Item
from chexqa.contract.kinds import KINDS
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, check, write_bytes
from chexqa.interchange import layout
from chexqa.interchange.folders import new_folder
from chexqa.interchange.layout import ATTRIBUTES, REVISIONS


def export_release(benchmark: Benchmark, out: Path, advance: Callable[[], None] = lambda: None) -> int:
    """Write every case that has a path (a sequence of questions), and return the number of cases.

    The benchmark must have its key. The folder ``out`` must not exist.
    """
    answers, cases = benchmark.key("CheXpercept's layout")
    entries: dict[str, Record] = {}
    with new_folder(out) as temporary:
        for conversation in conversations(benchmark.items):
            if conversation[0].stage is not None:
                writer = _Writer(benchmark, temporary, cases[conversation[0].case_id], conversation, answers)
                entries[writer.key_id] = writer.write()
                check(entries[writer.key_id], "chexpercept_case", f"{out / layout.INDEX}, {writer.key_id}")
            advance()
        if not entries:
            raise InputError(
                f"{benchmark.folder}: CheXpercept's layout has only items of stages 1 to 4, and this benchmark has "
                "none; give a benchmark made with the recipe chexpercept or strict."
            )
        text = json.dumps(entries, ensure_ascii=False, allow_nan=False, indent=2)
        write_bytes(temporary / layout.INDEX, (text + "\n").encode())
    return len(entries)


def key_of(benchmark: Benchmark, case: CaseKey, finding: str) -> str:
    """Return a case's name in the release's files, ``<finding>_<id>``; an imported case keeps its original name."""
    if layout.split_key(case.source_case_id) is not None and "release" in case.measures:
        return case.source_case_id
    return f"{finding}_{layout.PHANTOM * benchmark.is_phantom}{case.case_id}"


class _Writer:
    """Writer of the entry and the pictures of one case."""

    def __init__(
        self, benchmark: Benchmark, folder: Path, case: CaseKey, items: tuple[Item, ...], answers: dict[str, Answer]
    ) -> None:
        self._benchmark, self._case, self._answers = benchmark, case, answers
        self._items = {item.kind: item for item in items}
        release = case.measures.get("release") or {}
        own = layout.PHANTOM * benchmark.is_phantom + case.case_id
        self._ids = release or {"pair_id": own, "dicom_id": case.source_case_id}
        self.key_id = key_of(benchmark, case, items[0].finding)
        if layout.split_key(self.key_id) is None:
            raise InputError(
                f"{benchmark.folder}: the case '{case.case_id}' would get a folder named '{self.key_id}', which is not "
                "possible; rename the case, so that <finding>_<case id> can be the name of a folder."
            )
        self._folder = folder / layout.PICTURES / self.key_id

    def write(self) -> Record:
        """Copy the case's pictures and return its entry."""
        detection = self._items.get("detection")
        if detection is None:
            raise InputError(
                f"{self._benchmark.folder}: case '{self._case.case_id}' has no detection item, which CheXpercept's "
                "layout needs; export a benchmark in which every case has one."
            )
        self._copy(layout.XRAY, detection.turn_images[0].image)
        entry: Record = {"detection_qa": self._single(detection)}
        if self._case.path != "lesion_free":
            entry["contour_qa"] = self._contour()
            attributes = {
                name: self._single(self._items[kind]) for kind, name in ATTRIBUTES.items() if kind in self._items
            }
            entry["attribute_extraction_qa"] = attributes or None
        return entry | self._ids

    def _contour(self) -> Record:
        evaluation = self._items.get("contour_evaluation")
        if evaluation is None:
            raise InputError(
                f"{self._benchmark.folder}: case '{self._case.case_id}' has no item of the kind contour_evaluation, "
                "which CheXpercept's layout needs; export a benchmark in which every case with the finding has one."
            )
        place = self._kept(evaluation).get("relative_path", layout.OVERLAY)
        self._copy(f"contour_qa/{place}", evaluation.turn_images[0].image)
        expansion = self._items.get("revision_expansion")
        contour: Record = {
            "no_deformation": self._case.path == "revision_free",
            "initial_context": self._kept(expansion).get("initial_context", "") if expansion else "",
            "contour_eval_qa": {**self._single(evaluation), "relative_path": place},
        }
        if expansion is not None:
            self._copy(f"contour_qa/{layout.POINTS}", expansion.turn_images[0].image)
        for kind, name in REVISIONS.items():
            if kind in self._items:
                contour[f"contour_revision_qa_{name}"] = self._revision(self._items[kind], contour["initial_context"])
        return contour

    def _single(self, item: Item) -> Record:
        """Return the entry of a question with options in words."""
        texts = [option.text or "" for option in item.options]
        return self._asked(item, item.question, texts, texts)

    def _revision(self, item: Item, context: str) -> Record:
        """Return the entry of a question with points or masks as options."""
        question = item.question
        if item.kind == "revision_expansion" and context:
            question = question.removeprefix(f"{context}\n\n")
        if item.kind != "revision_result":
            return self._asked(item, question, [option.text or "" for option in item.options], self._points(item))
        texts = [option.text or layout.ordinal(option.n) for option in item.options]
        options = self._kept(item).get("options")
        if options is None:
            right = self._answers[item.item_id].answer
            options = [
                {
                    "type": "true" if option.n in right else "fake",
                    "masks": [],
                    "relative_path": f"option_{option.n}.png",
                }
                for option in item.options
            ]
        for option, about in zip(item.options, options, strict=True):
            assert option.image is not None, "the options of a revision result are pictures"
            self._copy(f"contour_qa/{layout.REVISION_FOLDER}/{about['relative_path']}", option.image)
        return self._asked(item, question, texts, options)

    def _points(self, item: Item) -> list[Record]:
        kept = self._kept(item).get("options")
        if kept is not None:
            return list(kept)
        places = [point["xy"] for point in self._answers[item.item_id].evidence.get("points", [])]
        places += [None] * (len(item.options) - len(places))
        return [
            {"point": place, "color": option.color or layout.NO_POINT}
            for option, place in zip(item.options, places, strict=True)
        ]

    def _asked(self, item: Item, question: str, texts: list[str], options: list[Any]) -> Record:
        right = list(self._answers[item.item_id].answer)
        words = ", ".join(texts[number - 1] for number in right)
        if KINDS[item.kind].points and right == [len(item.options)]:
            words = layout.NO_POINT  # the only word for which CheXpercept's scripts continue with the right fact
        return {
            "question": layout.with_list(question, texts) if self._kept(item).get("listed", True) else question,
            "answer_options": options,
            "answer": self._kept(item).get("answer") or words,
            "answer_index": right if item.multi else right[0],
        }

    def _kept(self, item: Item) -> Record:
        """Return the fields that an import kept from the release for this item."""
        kept: Record = self._answers[item.item_id].evidence.get("release", {})
        options = kept.get("options")
        if options is None:
            return kept
        places = [option.get("relative_path") if isinstance(option, dict) else None for option in options]
        are_pictures = item.kind != "revision_result" or all(isinstance(place, str) for place in places)
        if len(options) != len(item.options) or not are_pictures:
            raise InputError(
                f"{self._benchmark.folder}: the options of item '{item.item_id}' do not match those in its key, "
                "which were copied from the CheXpercept release; import the release again."
            )
        return kept

    def _copy(self, name: str, image: str) -> None:
        path = self._folder / name
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise InputError(f"{self._benchmark.folder}: the keys of case '{self._case.case_id}' name a picture "
                             f"outside the case's folder ('{name}'); import the release again.")  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._benchmark.image_bytes(image))
