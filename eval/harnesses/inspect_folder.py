"""Export of a benchmark as a dataset of Inspect: every item asked alone, with its pictures as files.

``samples.jsonl`` is Inspect's own format, which ``json_dataset`` reads without chexqa. ``task.py`` is a task that
grades the replies with chexqa's parser; it needs chexqa in the same environment. A conversation of several turns needs
the registered task ``chexqa/benchmark`` (``inspect_task``), since its later prompts depend on the replies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from chexqa.contract.benchmark import Benchmark, image_digest
from chexqa.contract.items import Item, Picture, clusters
from chexqa.eval.prompts import protocols
from chexqa.files.jsonio import Record, sha256, write_bytes, write_lines
from chexqa.files.terminal import PHANTOM_NOTICE, plural
from chexqa.files.text import markdown
from chexqa.interchange.folders import KeyChoice, new_folder

SAMPLES, KEY, PICTURES = "samples.jsonl", "key.jsonl", "images"
_TASK = '''"""The items of a benchmark, each asked alone: inspect eval task.py --model …"""

from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import json_dataset
from inspect_ai.solver import generate

from chexqa.eval.harnesses.inspect_scorers import alone


@task
def items() -> Task:
    """Ask every item, and grade the replies as chexqa does."""
    samples = json_dataset(str(Path(__file__).parent / "samples.jsonl"))
    return Task(dataset=samples, solver=generate(), scorer=alone())
'''


def export_samples(benchmark: Benchmark, out: Path, key: KeyChoice, advance: Callable[[], None] = lambda: None) -> int:
    """Write the dataset into the new folder ``out``, and return the number of items.

    ``key`` says where the answers are written: into the samples (``inside``), into ``key.jsonl`` beside them
    (``beside``), or nowhere (``none``). Without answers in the samples, Inspect scores nothing.
    """
    if key != "none":
        benchmark.key("an export with answers")
    with new_folder(out) as temporary:
        (temporary / PICTURES).mkdir()
        write_lines(temporary / SAMPLES, _samples(benchmark, temporary / PICTURES, key == "inside", advance))
        if key == "beside":
            rows = ({"item_id": item.item_id, **_key(benchmark, item)} for item in benchmark.items)
            write_lines(temporary / KEY, rows)
        write_bytes(temporary / "task.py", _TASK.encode())
        write_bytes(temporary / "README.md", _card(benchmark, key).encode())
    return len(benchmark.items)


def _samples(benchmark: Benchmark, pictures: Path, answers: bool, advance: Callable[[], None]) -> Iterator[Record]:
    """Yield the samples, and write each picture once."""
    written: set[str] = set()
    cluster = clusters(benchmark.items, benchmark.cases) if benchmark.cases is not None else {}
    for item in benchmark.items:
        messages = protocols.render(benchmark, "independent", (item,), ())
        for image in {part.image for message in messages for part in message.parts if isinstance(part, Picture)}:
            if image not in written:
                write_bytes(pictures / f"{image_digest(image)}.png", benchmark.image_bytes(image))
                written.add(image)
        told = cluster.get(item.case_id)
        about = {
            "item": item.to_record(), "case_id": item.case_id, "kind": item.kind, "level": item.level,
            "finding": item.finding, "cluster": item.case_id if told is None else sha256(told.encode())[:12],
        }  # fmt: skip
        found = _key(benchmark, item) if answers else {}
        yield {
            "id": item.item_id,
            "input": [{"role": one.role, "content": [_part(part) for part in one.parts]} for one in messages],
            "target": ", ".join(map(str, found["answer"])) if answers else "",
            "metadata": about | ({"key": found} if answers else {}),
        }
        advance()


def _part(part: str | Picture) -> Record:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image", "image": f"{PICTURES}/{image_digest(part.image)}.png"}


def _key(benchmark: Benchmark, item: Item) -> Record:
    answer = benchmark.key("an export with answers")[0][item.item_id]
    return {"answer": list(answer.answer), "chance": answer.chance, "scored": answer.scored}


def _card(benchmark: Benchmark, key: KeyChoice) -> str:
    about, counts = benchmark.about, benchmark.about["counts"]
    where = {"inside": "The answers are in the samples.", "beside": f"The answers are in `{KEY}`.",
             "none": "The answers are withheld."}  # fmt: skip
    lines = [
        f"# {markdown(benchmark.name)}, version {markdown(about['version'])}", "",
        f"{plural(counts['items'], 'item')} of {plural(counts['cases'], 'case')} as samples of Inspect, each asked "
        f"alone, exported from the benchmark {benchmark.hash} by chexqa {markdown(about['tool_version'])}.", "",
        *([f"Made from {PHANTOM_NOTICE}.", ""] if benchmark.is_phantom else []),
        where[key], "", "```", "inspect eval task.py --model openai/gpt-5", "```", "",
        markdown(about["canary"]), "",
    ]  # fmt: skip
    return "\n".join(lines)
