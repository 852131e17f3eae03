"""Data of the gallery: every item with its pictures, key and the answers of all models, as scripts beside the page.

A page opened from disk may load scripts but cannot fetch other files. The data are therefore calls of functions in
``gallery.js``: one index for filtering, and files of :data:`CASES_A_FILE` cases each. A file is loaded when one of its
cases is opened. Items that no run asked, as in a trial, are left out. Replies are untrusted text: this module escapes
them for the script, and ``gallery.js`` never inserts them as markup.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from chexqa.contract.benchmark import Benchmark, thumb_path
from chexqa.contract.items import PATHS, Answer, CaseKey, Item, asking_order
from chexqa.contract.kinds import kind_order
from chexqa.eval.place_results import gallery_drawings
from chexqa.eval.scoring.grade import STATES, Graded

FOLDER = "gallery"
CASES_A_FILE = 40
RAW_CHARACTERS = 20_000
_STATE_LETTERS = "0123456789"
# State of an item that this model was not to be asked, but other models were.
_NOT_ITS_OWN = "-"
_WITHHELD = ("masks",)


def files(graded: Graded) -> dict[str, bytes]:
    """Return the gallery's scripts by their path in the report's folder.

    For a repeated or rotated item, the first turn is shown.
    """
    benchmark, grades = graded.benchmark, graded.grades
    answers, cases = benchmark.key("the report's gallery")
    rows = grades.select("model", "protocol").unique(maintain_order=True).rows()
    said = _said(grades, rows)
    drawings = gallery_drawings.drawings(graded, rows)
    by_case: dict[str, list[Item]] = {}
    for item in sorted(asked_items(benchmark, grades), key=lambda item: (item.case_id, asking_order(item))):
        by_case.setdefault(item.case_id, []).append(item)
    ids = list(by_case)
    scripts = {"index": f"chexqa.index({script_json(_index(rows, by_case, cases, said))});\n"}
    for number, start in enumerate(range(0, len(ids), CASES_A_FILE)):
        record = {
            case_id: _case(
                cases[case_id],
                [_item(item, answers[item.item_id], said) | drawings(item) for item in by_case[case_id]],
            )
            for case_id in ids[start : start + CASES_A_FILE]
        }
        scripts[f"cases-{number:04d}"] = f"chexqa.chunk({number},{script_json(record)});\n"
    return {f"{FOLDER}/{name}.js": text.encode("ascii") for name, text in scripts.items()}


def asked_items(benchmark: Benchmark, grades: pl.DataFrame) -> list[Item]:
    """Return the items that at least one run should ask, in the order of the benchmark."""
    asked = set(grades["item_id"].unique())
    return [item for item in benchmark.items if item.item_id in asked]


def thumbnails(items: Iterable[Item]) -> Iterator[str]:
    """Yield the path of each picture of the gallery, in the benchmark's folder.

    The report holds the picture under ``gallery`` at the same path.
    """
    pictures = {picture.image for item in items for picture in item.alone_images}
    return map(thumb_path, sorted(pictures))


def script_json(value: Any) -> str:
    """Return JSON that is safe in a script element of a page: only ASCII, and no ``<``."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")


# Reply to an item for each row (model and protocol); None if the item was not to be asked in this row.
SaidOf = dict[str, list[list[Any] | None]]


def _said(grades: pl.DataFrame, rows: list[tuple[str, str]]) -> SaidOf:
    """Return ``[state, parsed, raw, characters left out]`` for each item and row.

    If a server sent reasoning apart from the reply, ``[text, characters left out]`` of the reasoning follows.
    """
    column = {row: number for number, row in enumerate(rows)}
    said: SaidOf = {}
    names = ["item_id", "model", "protocol", "state", "parsed", "reply", "reasoning"]
    first = grades.unique(["model", "protocol", "item_id"], keep="first", maintain_order=True)
    for item_id, model, protocol, state, parsed, reply, reasoning in first.select(names).iter_rows():
        entry = said.setdefault(item_id, [None] * len(rows))
        apart = [_begun(reasoning)] if reasoning else []
        entry[column[model, protocol]] = [STATES.index(state), parsed, *_begun(reply), *apart]
    return said


def _begun(text: str | None) -> list[Any]:
    """Return the beginning of a text and the number of characters left out."""
    begun = None if text is None else text[:RAW_CHARACTERS]
    return [begun, len(text or "") - len(begun or "")]


def _index(
    rows: list[tuple[str, str]], by_case: dict[str, list[Item]], cases: dict[str, CaseKey], said: SaidOf
) -> dict[str, Any]:
    """Return the data of the filters: small whole numbers, and one character per row for the state of each item."""
    findings = sorted({items[0].finding for items in by_case.values()})
    kinds, paths = kind_order(item.kind for items in by_case.values() for item in items), list(PATHS)
    return {
        "rows": [
            {"model": model, "protocol": protocol, **gallery_drawings.mark(number)}
            for number, (model, protocol) in enumerate(rows)
        ],
        "states": list(STATES),
        "findings": findings,
        "paths": paths,
        "kinds": kinds,
        "casesAFile": CASES_A_FILE,
        "cases": [
            [
                case_id,
                findings.index(items[0].finding),
                _position(paths, cases[case_id].path),
                _thumb(items[0].alone_images[0].image),
            ]
            for case_id, items in by_case.items()
        ],
        "items": [
            [number, kinds.index(item.kind), "".join(map(_letter, said[item.item_id]))]
            for number, items in enumerate(by_case.values())
            for item in items
        ],
    }


def _letter(entry: list[Any] | None) -> str:
    return _NOT_ITS_OWN if entry is None else _STATE_LETTERS[entry[0]]


def _position(values: list[Any], value: Any) -> int:
    return values.index(value) if value in values else -1


def _case(case: CaseKey, items: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a case: its source, patient, measurements and items."""
    return {
        "source": case.source_case_id,
        "path": case.path,
        "sex": case.sex,
        "age": case.age,
        "view": case.view,
        "measures": {name: value for name, value in case.measures.items() if name not in _WITHHELD},
        "items": items,
    }


def _item(item: Item, answer: Answer, said: SaidOf) -> dict[str, Any]:
    """Return an item as it is shown: its pictures when asked alone, question, options, key and replies."""
    pictures = [picture for picture in item.alone_images if picture.role != "option"]
    return {
        "id": item.item_id,
        "kind": item.kind,
        "finding": item.finding,
        "question": item.question,
        "multi": item.multi,
        "options": [[option.text, _thumb(option.image), option.color] for option in item.options],
        "pictures": [[picture.role, _thumb(picture.image)] for picture in pictures],
        "answer": list(answer.answer),
        "chance": answer.chance,
        "prior": answer.prior,
        "flags": list(answer.flags),
        "evidence": answer.evidence,
        "said": said[item.item_id],
    }


def _thumb(image: str | None) -> str | None:
    return None if image is None else thumb_path(image)
