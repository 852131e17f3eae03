"""Export of a benchmark's single-choice items as a table that VLMEvalKit reads as a custom multiple-choice set.

The format is documented by VLMEvalKit (docs/en/Development.md and the loader of its image data sets). The columns,
separated by tabs:

- ``index``: a whole number.
- ``image``: a picture as base64 text, a list of such texts for several pictures (their names are in ``image_path``), or
  the index of an earlier row with the same pictures.
- ``hint``, ``question``; ``A``, ``B``, …: the options; ``answer``: a letter; ``category`` and ``l2-category``.
"""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from string import ascii_uppercase

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.files.atomic import new_file
from chexqa.files.errors import InputError
from chexqa.interchange.folders import KeyChoice
from chexqa.interchange.layout import LIST_HEAD


def export_table(benchmark: Benchmark, out: Path, key: KeyChoice, advance: Callable[[], None] = lambda: None) -> int:
    """Write the table ``out`` (``.tsv``), and return the number of items.

    Multi-select items are left out, and so are grid items, which have more options than there are letters;
    ``chexqa.eval.harnesses.vlmevalkit_folder`` writes items of all kinds. ``key`` says where the answers are written:
    into the table (``inside``), into ``<name>.key.tsv`` beside it (``beside``), or nowhere (``none``).
    """
    if key != "none":
        benchmark.key("an export with answers")
    items = [item for item in benchmark.items if item.form.name == "single"]
    if not items:
        raise InputError(
            f"{benchmark.folder}: has no single-choice item, and a .tsv table of VLMEvalKit holds only "
            "single-choice items; name a folder with -o to export items of all kinds."
        )
    beside = out.with_suffix(".key.tsv")
    for path in (out, beside) if key == "beside" else (out,):
        if path.exists():
            raise InputError(f"{path}: exists already; name another file.")
    letters = ascii_uppercase[: max(len(item.options) for item in items)]
    head = ["index", "item_id", "image", "image_path", "hint", "question", *letters, "category", "l2-category"]
    _write(
        out, head + (["answer"] if key == "inside" else []), _rows(benchmark, items, letters, key == "inside", advance)
    )
    if key == "beside":
        answers = ([str(index), item.item_id, _letter(benchmark, item)] for index, item in enumerate(items))
        _write(beside, ["index", "item_id", "answer"], answers)
    return len(items)


def _rows(
    benchmark: Benchmark, items: list[Item], letters: str, answers: bool, advance: Callable[[], None]
) -> Iterator[list[str]]:
    """Yield the table's rows; instead of pictures that an earlier row has, a row has that row's index."""
    first: dict[tuple[str, ...], int] = {}
    words = benchmark.conversation_texts
    for index, item in enumerate(items):
        images = tuple(picture.image for picture in item.alone_images)
        earlier = first.setdefault(images, index)
        names = [Path(image).name for image in images]
        options = [_option(words, option.text, option.image, images) for option in item.options]
        hint = " ".join(words["pictures"][picture.role].format(n=number)
                        for number, picture in enumerate(item.alone_images, start=1))  # fmt: skip
        yield [
            str(index),
            item.item_id,
            _image(benchmark, images) if earlier == index else str(earlier),
            names[0] if len(names) == 1 else json.dumps(names),
            hint,
            item.question.removesuffix(LIST_HEAD).rstrip(),
            *options,
            *[""] * (len(letters) - len(options)),
            item.kind,
            item.level or "",
            *([_letter(benchmark, item)] if answers else []),
        ]
        advance()


def _option(words: dict[str, str], text: str | None, image: str | None, images: tuple[str, ...]) -> str:
    if text is not None or image is None:
        return text or ""
    return str(words["option_picture"].format(picture=images.index(image) + 1))


def _image(benchmark: Benchmark, images: tuple[str, ...]) -> str:
    coded = [base64.b64encode(benchmark.image_bytes(image)).decode("ascii") for image in images]
    return coded[0] if len(coded) == 1 else json.dumps(coded)


def _letter(benchmark: Benchmark, item: Item) -> str:
    return ascii_uppercase[benchmark.key("an export with answers")[0][item.item_id].answer[0] - 1]


def _write(path: Path, head: list[str], rows: Iterator[list[str]]) -> None:
    """Write the table, one row at a time; after an error, no file is left."""
    with new_file(path) as hidden, hidden.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)
