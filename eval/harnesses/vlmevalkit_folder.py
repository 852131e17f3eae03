"""Export of a benchmark for VLMEvalKit, with every kind of question except places: two tables, pictures, a launcher.

The first table asks every item alone. The second asks every case as one conversation with the model's own earlier
answers, like the protocol ``end_to_end``. VLMEvalKit's multiple-choice format allows neither several right options nor
the 64 cells of the grid. The questions are therefore complete texts, and the launcher registers dataset classes that
grade the replies with chexqa's parser. :mod:`chexqa.interchange.vlmevalkit` writes the plain multiple-choice table.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from chexqa.contract.benchmark import Benchmark, image_digest
from chexqa.contract.items import Item, Picture, clusters
from chexqa.eval.harnesses.alone import prompt_of
from chexqa.eval.harnesses.vlmevalkit_dataset import CASES
from chexqa.eval.prompts import protocols
from chexqa.eval.prompts.protocols import Message, PriorReply
from chexqa.files.atomic import new_file
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, dump, sha256, write_bytes
from chexqa.interchange.folders import KeyChoice, new_folder

COLUMNS = ("index", "item_id", "case_id", "cluster", "image_path", "question", "answer", "category", "l2-category",
           "chexqa")  # fmt: skip
_PLACE = "<ImageHere>"  # where VLMEvalKit's class for conversations puts the next picture
_LAUNCHER = '''"""Run VLMEvalKit on this benchmark: python run_chexqa.py --model MODEL, with VLMEvalKit's other options.

VLMEvalKit and chexqa are needed in the same environment. --data NAME chooses one of the
two datasets below; without it, every item is asked alone.
"""

import os
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
os.environ.setdefault("LMUData", str(HERE))
# Cells of a spreadsheet cut long replies.
os.environ.setdefault("PRED_FORMAT", "json")

import vlmeval.dataset  # noqa: E402
from vlmeval.dataset.image_base import ImageBaseDataset  # noqa: E402
from vlmeval.dataset.image_mt import ImageMTDataset  # noqa: E402

from chexqa.eval.harnesses.vlmevalkit_dataset import Questions  # noqa: E402


class ChexqaItems(Questions, ImageBaseDataset):
    """Every item alone, with all pictures that it needs."""

    TYPE = "VQA"
    DATASET_URL = {"NAME": ""}
    folder = HERE


class ChexqaCases(Questions, ImageMTDataset):
    """Every case as one conversation with the model's own earlier answers."""

    DATASET_URL = {"NAMECASES": ""}
    folder = HERE


for one in (ChexqaItems, ChexqaCases):
    setattr(vlmeval.dataset, one.__name__, one)
    vlmeval.dataset.DATASET_CLASSES.insert(0, one)

if __name__ == "__main__":
    package = Path(vlmeval.__file__).parent
    beside, inside = package.parent / "run.py", package / "run.py"  # in a checkout, and in an installed package
    harness = beside if beside.exists() else inside
    chosen = [] if "--data" in sys.argv else ["--data", "NAME"]
    sys.argv = [str(harness), *chosen, *sys.argv[1:]]
    sys.path.insert(0, str(harness.parent))
    runpy.run_path(str(harness), run_name="__main__")
'''


def name_of(benchmark: Benchmark) -> str:
    """Return a name for the benchmark's dataset in VLMEvalKit; each benchmark gets a different name."""
    return f"chexqa_{benchmark.hash[:8]}"


def export_folder(benchmark: Benchmark, out: Path, key: KeyChoice, advance: Callable[[], None] = lambda: None) -> int:
    """Write the export into the new folder ``out``, and return the number of items.

    Items that ask for a place are left out, because scoring a place needs all test markers of a run.

    ``key`` says where the right answers are written: ``inside`` (in the table of items) or ``none`` (nowhere).
    ``beside`` (in a separate file) raises ``InputError``, because VLMEvalKit reads answers only from the table.
    """
    if key == "beside":
        raise InputError(
            "VLMEvalKit reads the answers from the file of the items, so --split-key cannot be used; leave --split-key "
            "out, or give --no-key to write no answers."
        )
    if key == "inside":
        benchmark.key("an export with answers")
    items = [item for item in benchmark.items if not item.form.is_place]
    if not items:
        raise InputError(
            f"{benchmark.folder}: every item asks for a point or box, and this export leaves out all these items; give "
            "a benchmark with other questions."
        )
    name, answers = name_of(benchmark), key == "inside"
    with new_folder(out) as temporary:
        (temporary / "images").mkdir()
        for image in {picture.image for item in items for picture in (*item.alone_images, *item.turn_images)}:
            write_bytes(temporary / "images" / _file(image), benchmark.image_bytes(image))
        _write(temporary / f"{name}.tsv", _alone(benchmark, items, answers, advance))
        _write(temporary / f"{name}{CASES}.tsv", _cases(benchmark, items, answers))
        write_bytes(temporary / "run_chexqa.py", _LAUNCHER.replace("NAMECASES", name + CASES).replace(
            '"NAME"', f'"{name}"').encode())  # fmt: skip
    return len(items)


def _file(image: str) -> str:
    return f"{image_digest(image)}.png"


def _alone(
    benchmark: Benchmark, items: Sequence[Item], answers: bool, advance: Callable[[], None]
) -> Iterator[list[str]]:
    known = clusters(benchmark.items, benchmark.cases) if benchmark.cases is not None else {}
    for index, item in enumerate(items):
        prompt = prompt_of(protocols.render(benchmark, "independent", (item,), ()))
        images = [_file(picture.image) for picture in item.alone_images]
        yield [
            str(index), item.item_id, item.case_id, _cluster(known, item.case_id), json.dumps(images), prompt,
            _answer(benchmark, item) if answers else "", item.kind, item.level or "",
            dump(_doc(benchmark, item, answers)),
        ]  # fmt: skip
        advance()


def _cases(benchmark: Benchmark, items: Sequence[Item], answers: bool) -> Iterator[list[str]]:
    known = clusters(benchmark.items, benchmark.cases) if benchmark.cases is not None else {}
    for index, conversation in enumerate(protocols.conversations(benchmark, "end_to_end", items)):
        messages = protocols.render(
            benchmark, "end_to_end", conversation, [PriorReply("", None)] * (len(conversation) - 1)
        )
        system = next(message for message in messages if message.role == "system")
        asked = [_with_places(message) for message in messages if message.role == "user"]
        asked[0] = f"{prompt_of([system])}\n\n{asked[0]}"
        images = [_file(picture.image) for item in conversation for picture in item.turn_images]
        case_id = conversation[0].case_id
        yield [
            str(index), case_id, case_id, _cluster(known, case_id), json.dumps(images), json.dumps(asked),
            json.dumps([_answer(benchmark, item) if answers else "" for item in conversation]), "case", "",
            json.dumps([_doc(benchmark, item, answers) for item in conversation], ensure_ascii=False),
        ]  # fmt: skip


def _with_places(message: Message) -> str:
    """Return a message as one text, with VLMEvalKit's mark at the position of each picture."""
    return "\n".join(_PLACE if isinstance(part, Picture) else part for part in message.parts)


def _cluster(known: dict[str, str], case_id: str) -> str:
    told = known.get(case_id)
    return case_id if told is None else sha256(told.encode())[:12]


def _answer(benchmark: Benchmark, item: Item) -> str:
    """Return the right answer in the form of the reply that is asked for."""
    return ", ".join(map(str, benchmark.key("an export with answers")[0][item.item_id].answer))


def _doc(benchmark: Benchmark, item: Item, answers: bool) -> Record:
    """Return the data that the dataset class needs to grade one reply, in the fields of
    :mod:`chexqa.eval.harnesses.alone`.
    """
    doc: Record = {
        "item_id": item.item_id,
        "kind": item.kind,
        "item": dump(item.to_record()),
        "benchmark": benchmark.hash,
    }
    if answers:
        answer = benchmark.key("an export with answers")[0][item.item_id]
        doc |= {"answer": list(answer.answer), "chance": answer.chance}
    return doc


def _write(path: Path, rows: Iterable[list[str]]) -> None:
    with new_file(path) as hidden, hidden.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
