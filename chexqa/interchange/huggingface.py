"""Export of a benchmark as a Hugging Face dataset: Parquet files and a card.

The card lists the columns that are pictures, so ``datasets.load_dataset`` decodes the pictures without a script. The
export is tested with the package ``datasets`` 5.2.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from chexqa.contract import benchmark as benchmarks
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item, Picture
from chexqa.files.jsonio import Record, json_bytes, write_bytes
from chexqa.files.terminal import PHANTOM_NOTICE, plural
from chexqa.files.text import markdown
from chexqa.interchange import croissant, dataset_about, dataset_card
from chexqa.interchange.dataset_about import DatasetAbout
from chexqa.interchange.folders import KeyChoice, new_folder

SPLIT = "test"
# Bytes of pictures in one file; few enough to download and to hold in memory.
SHARD_BYTES = 100_000_000

_PICTURE = pl.Struct({"bytes": pl.Binary, "path": pl.String})
_OPTION = pl.Struct({"n": pl.Int64, "text": pl.String, "picture": pl.Int64, "color": pl.String})
ITEM_COLUMNS: dict[str, Any] = {
    "item_id": pl.String,
    "case_id": pl.String,
    "seq": pl.Int64,
    "kind": pl.String,
    "level": pl.String,
    "stage": pl.Int64,
    "finding": pl.String,
    "question": pl.String,
    "options": pl.List(_OPTION),
    "multi": pl.Boolean,
    "images": pl.List(_PICTURE),
    "roles": pl.List(pl.String),
    "in_turn": pl.List(pl.Boolean),
}
KEY_COLUMNS: dict[str, Any] = {
    "answer": pl.List(pl.Int64),
    "path": pl.String,
    "chance": pl.Float64,
    "prior": pl.Float64,
    "flags": pl.List(pl.String),
}
# Names of column types in the card; a struct of bytes and path is a picture.
_FEATURES = {pl.String: "string", pl.Int64: "int64", pl.Float64: "float64", pl.Boolean: "bool"}
_COLUMN_WORDS = {
    "item_id, case_id": "ids of the item and its case; a case's items with a stage are asked in one conversation",
    "seq": "the item's position in the conversation",
    "kind, level, stage, finding": "the kind of question, its level and stage, and its finding",
    "question, options": "the wording; an option is text, a picture (its number in images, from 1) or a coloured point",
    "multi": "true if several options can be right; the last option then means that no other option is right",
    "images, roles": "all pictures of the item, for asking it alone, and what each picture shows",
    "in_turn": "the pictures that the item adds in a conversation, after the pictures of earlier items",
    "answer": "the numbers of the right options (for a grid item, every cell that is a hit)",
    "path": "the question path of the case",
    "chance, prior": "the probability that a guess is right, and the accuracy of always giving the most "
    "frequent answer",
    "flags": "possible problems of the item",
}


def export_dataset(
    bench: Benchmark | str | Path, out: str | Path, key: KeyChoice, advance: Callable[[], None] = lambda: None,
    about: DatasetAbout | None = None,
) -> int:  # fmt: skip
    """Write the dataset into the new folder ``out``, and return the number of items.

    ``key`` says where the answers are written: into the rows of the items (``inside``), into a separate configuration
    named ``key`` (``beside``), or nowhere (``none``). ``about`` has the user's facts about the data set. The folder
    also gets Croissant metadata (``croissant.json``), ``eval.yaml``, and the figures of the benchmark's audit, if there
    was one. Without the key, the card has the audit's summary alone, because its tables and figures tell answers.
    """
    benchmark = bench if isinstance(bench, Benchmark) else benchmarks.load(Path(bench))
    about = dataset_about.load(None, benchmark) if about is None else about
    if key != "none":
        benchmark.key("an export with answers")
    columns = ITEM_COLUMNS | (KEY_COLUMNS if key == "inside" else {})
    configs = {"default": (columns, f"data/{SPLIT}-*.parquet")}
    parts = list(shards(benchmark, benchmark.items))
    with new_folder(Path(out)) as temporary:
        (temporary / "data").mkdir()
        for number, shard in enumerate(parts):
            rows = []
            for item in shard:
                rows.append(_item_row(benchmark, item) | (_key_row(benchmark, item) if key == "inside" else {}))
                advance()
            name = f"{SPLIT}-{number:05d}-of-{len(parts):05d}.parquet"
            write_bytes(temporary / "data" / name, parquet(rows, columns))
        if key == "beside":
            columns = {"item_id": pl.String, **KEY_COLUMNS}
            configs["key"] = columns, f"key/{SPLIT}.parquet"
            (temporary / "key").mkdir()
            rows = [{"item_id": item.item_id, **_key_row(benchmark, item)} for item in benchmark.items]
            write_bytes(temporary / "key" / f"{SPLIT}.parquet", parquet(rows, columns))
        audit = dataset_card.copy_audit(benchmark, temporary, withheld=key == "none")
        text = (
            _front(benchmark, configs, about)
            + _card(benchmark, key, about)
            + dataset_card.text(benchmark, about, audit, croissant.three_numbers(str(benchmark.about["version"])))
        )
        write_bytes(temporary / "README.md", text.encode())
        write_bytes(temporary / "eval.yaml", dataset_card.eval_yaml(benchmark, about).encode())
        names = [f"data/{path.name}" for path in sorted((temporary / "data").iterdir())]
        tables = croissant.parquet_tables(names, key)
        write_bytes(
            temporary / croissant.CROISSANT, json_bytes(croissant.describe(benchmark, about, temporary, tables))
        )
    return len(benchmark.items)


def shards(benchmark: Benchmark, items: Sequence[Item]) -> Iterator[list[Item]]:
    """Yield the items in lists, one list for each file, so that the pictures in one file have a bounded size."""
    size = {image: benchmark.image_size(image) for item in items for image in _images(item)}
    shard: list[Item] = []
    held = 0
    for item in items:
        more = sum(size[image] for image in _images(item))
        if shard and held + more > SHARD_BYTES:
            yield shard
            shard, held = [], 0
        shard.append(item)
        held += more
    yield shard


def _images(item: Item) -> list[str]:
    return [picture.image for picture in item.alone_images]


def _item_row(benchmark: Benchmark, item: Item) -> Record:
    images = _images(item)
    turn = {picture.image for picture in item.turn_images}
    return {
        "item_id": item.item_id,
        "case_id": item.case_id,
        "seq": item.seq,
        "kind": item.kind,
        "level": item.level,
        "stage": item.stage,
        "finding": item.finding,
        "question": item.question,
        "options": [
            {"n": option.n, "text": option.text, "color": option.color,
             "picture": None if option.image is None else images.index(option.image) + 1}
            for option in item.options
        ],
        "multi": item.multi,
        "images": [picture_record(benchmark, picture) for picture in item.alone_images],
        "roles": [picture.role for picture in item.alone_images],
        "in_turn": [image in turn for image in images],
    }  # fmt: skip


def picture_record(benchmark: Benchmark, picture: Picture) -> Record:
    """Return a picture as a record of the data set: its bytes and its name."""
    return {"bytes": benchmark.image_bytes(picture.image), "path": Path(picture.image).name}


def _key_row(benchmark: Benchmark, item: Item) -> Record:
    answer = benchmark.key("an export with answers")[0][item.item_id]
    return {
        "answer": list(answer.answer),
        "path": answer.path,
        "chance": answer.chance,
        "prior": answer.prior,
        "flags": list(answer.flags),
    }


def parquet(rows: list[Record], columns: dict[str, Any]) -> bytes:
    """Return rows as the bytes of a Parquet file."""
    buffer = io.BytesIO()
    # Row groups are small, since readers hold one in memory at a time.
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(buffer, row_group_size=100)
    return buffer.getvalue()


def _front(benchmark: Benchmark, configs: dict[str, tuple[dict[str, Any], str]], about: DatasetAbout) -> str:
    """Return the card's front matter, from which ``datasets`` learns the files and the types of their columns."""
    license_name = about.get("license")
    listed = license_name is not None and re.fullmatch(r"[\w.-]+", license_name)
    record = {
        "pretty_name": about.name(benchmark),
        "language": [benchmark.about["question_bank"]["language"]],
        "license": license_name.lower() if listed else "other",
        **({} if listed or license_name is None else {"license_link": license_name}),
        **({"doi": about.get("doi")} if about.get("doi") else {}),
        "task_categories": ["visual-question-answering"],
        "tags": ["medical", "chest-x-ray"],
        "configs": [
            {"config_name": name, "data_files": [{"split": SPLIT, "path": files}]}
            for name, (_, files) in configs.items()
        ],
        "dataset_info": [
            {"config_name": name, "features": [{"name": column, **_feature(kind)} for column, kind in columns.items()]}
            for name, (columns, _) in configs.items()
        ],
    }
    return f"---\n{yaml.safe_dump(record, sort_keys=False)}---\n\n"


def _feature(kind: Any) -> Record:
    """Return a column's type in the form of the card."""
    if kind in _FEATURES:
        return {"dtype": _FEATURES[kind]}
    inner = kind.inner
    if inner == _PICTURE:
        return {"list": "image"}
    if isinstance(inner, pl.Struct):
        return {"list": [{"name": field.name, **_feature(field.dtype)} for field in inner.fields]}
    return {"list": _FEATURES[inner]}


def _card(benchmark: Benchmark, key: KeyChoice, facts: DatasetAbout) -> str:
    """Return the card: the dataset's content, how to load it, where its answers are, and the limits on its use."""
    about, counts = benchmark.about, benchmark.about["counts"]
    words = {name: text for name, text in _COLUMN_WORDS.items()
             if key == "inside" or name.split(", ")[0] not in KEY_COLUMNS}  # fmt: skip
    where = {
        "inside": "The answers are in the same rows as the questions.",
        "beside": 'The answers are the configuration `key`: `load_dataset(folder, "key")`, joined by `item_id`.',
        "none": "The answers are withheld.",
    }
    notes = []
    if benchmark.is_phantom:
        notes.append(f"Made from {PHANTOM_NOTICE}.")
    if about["access"]["credentialed"]:
        held = plural(about["access"]["credentialed"], "case")
        notes.append(f"{held} must be given only to people who signed the data use agreement.")
    lines = [
        f"# {markdown(facts.name(benchmark))}, version {markdown(about['version'])}", "",
        f"Questions about chest radiographs: {plural(counts['items'], 'item')} of {plural(counts['cases'], 'case')}, "
        f"exported from the benchmark {benchmark.hash} by chexqa {markdown(about['tool_version'])}.", "",
        *(line for note in notes for line in (note, "")),
        where[key], "", "```python", "from datasets import load_dataset", "",
        f'items = load_dataset("path/to/this/folder", split="{SPLIT}")', "```", "",
        "| column | meaning |", "|---|---|", *(f"| {name} | {text} |" for name, text in words.items()), "",
        markdown(about["canary"]), "", "",
    ]  # fmt: skip
    return "\n".join(lines)
