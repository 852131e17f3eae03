"""Export of a benchmark as a task folder of lmms-eval, without the items that ask for a place (a point or a box).

Every item is asked alone.
``chexqa.yaml`` is the task, ``utils.py`` names the functions of :mod:`chexqa.eval.harnesses.alone`, and ``data`` has
the rows as Parquet. chexqa's tests load the folder with a loader that follows lmms-eval's documented fields. lmms-eval
0.7.3 itself was run by hand, with its model class for OpenAI-compatible servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item, clusters
from chexqa.eval.harnesses.alone import prompt_of
from chexqa.eval.prompts import protocols
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, dump, sha256, write_bytes
from chexqa.interchange.folders import KeyChoice, new_folder
from chexqa.interchange.huggingface import parquet, picture_record, shards

_PICTURE = pl.Struct({"bytes": pl.Binary, "path": pl.String})
COLUMNS: dict[str, Any] = {
    "item_id": pl.String, "case_id": pl.String, "cluster": pl.String, "kind": pl.String, "level": pl.String,
    "finding": pl.String, "prompt": pl.String, "images": pl.List(_PICTURE), "item": pl.String,
}  # fmt: skip
KEY_COLUMNS: dict[str, Any] = {"answer": pl.List(pl.Int64), "chance": pl.Float64}
_UTILS = '''"""Functions of the task, imported from chexqa: they build prompts, and read and grade replies."""

from chexqa.eval.harnesses.alone import corrected, doc_to_target, doc_to_text, doc_to_visual, process_results

__all__ = ["corrected", "doc_to_target", "doc_to_text", "doc_to_visual", "process_results"]
'''
_TASK = """# Run in this folder: python -m lmms_eval --include_path . --tasks chexqa --model …
task: chexqa
dataset_path: parquet
dataset_kwargs: {data_files: {test: data/*.parquet}}
test_split: test
output_type: generate_until
doc_to_visual: !function utils.doc_to_visual
doc_to_text: !function utils.doc_to_text
doc_to_target: !function utils.doc_to_target
generation_kwargs: {max_new_tokens: 8192, temperature: 0, do_sample: false}
process_results: !function utils.process_results
metric_list:
  - {metric: accuracy, aggregation: mean, higher_is_better: true}
  - {metric: readable, aggregation: mean, higher_is_better: true}
  - {metric: corrected, aggregation: !function utils.corrected, higher_is_better: true}
"""


def export_task(benchmark: Benchmark, out: Path, key: KeyChoice, advance: Callable[[], None] = lambda: None) -> int:
    """Write the task into the new folder ``out``, and return the number of items.

    Items that ask for a place are left out, because scoring a place needs all test markers of a run.

    - ``key``: ``inside`` to write the key into the items' file, ``none`` to write no key. ``beside`` raises
      ``InputError``, because lmms-eval cannot read the key from a second file.
    - ``advance``: a function that is called after each item.
    """
    if key == "beside":
        raise InputError(
            "lmms-eval reads the answers from the file of the items, so --split-key cannot be used; leave --split-key "
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
    columns = COLUMNS | (KEY_COLUMNS if key == "inside" else {})
    with new_folder(out) as temporary:
        (temporary / "data").mkdir()
        for number, shard in enumerate(shards(benchmark, items)):
            rows = list(_rows(benchmark, shard, key == "inside", advance))
            write_bytes(temporary / "data" / f"test-{number:05d}.parquet", parquet(rows, columns))
        write_bytes(temporary / "chexqa.yaml", f"{_TASK}metadata: [{{version: {benchmark.hash[:12]!r}}}]\n".encode())
        write_bytes(temporary / "utils.py", _UTILS.encode())
    return len(items)


def _rows(benchmark: Benchmark, items: list[Item], answers: bool, advance: Callable[[], None]) -> Iterator[Record]:
    known = clusters(items, benchmark.cases) if benchmark.cases is not None else {}
    for item in items:
        told = known.get(item.case_id)
        row: Record = {
            "item_id": item.item_id, "case_id": item.case_id, "kind": item.kind, "level": item.level,
            "finding": item.finding, "cluster": item.case_id if told is None else sha256(told.encode())[:12],
            "prompt": prompt_of(protocols.render(benchmark, "independent", (item,), ())),
            "images": [picture_record(benchmark, picture) for picture in item.alone_images],
            "item": dump(item.to_record()),
        }  # fmt: skip
        if answers:
            answer = benchmark.key("an export with answers")[0][item.item_id]
            row |= {"answer": list(answer.answer), "chance": answer.chance}
        yield row
        advance()
