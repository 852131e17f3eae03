"""Metadata of a benchmark's files in Croissant 1.1, with the fields on responsible AI (RAI 1.0).

The metadata are tested with ``mlcroissant`` 1.1, which loads them and streams every record. A file's address is
relative to the file of metadata. Sources: the specification of Croissant 1.1 and its RAI vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from chexqa.contract.benchmark import ABOUT, ANSWERS, ITEMS, Benchmark
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, json_bytes, write_bytes
from chexqa.files.opening import sha256_of
from chexqa.interchange.dataset_about import DatasetAbout, description, responsible_ai

CROISSANT = "croissant.json"
_JSONL, _PARQUET, _JSON = "application/jsonlines", "application/x-parquet", "application/json"
_CONTEXT: Record = {
    "@language": "en", "@vocab": "https://schema.org/", "arrayShape": "cr:arrayShape", "citeAs": "cr:citeAs",
    "column": "cr:column", "conformsTo": "dct:conformsTo", "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/", "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"}, "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty", "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract", "field": "cr:field", "fileObject": "cr:fileObject", "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet", "format": "cr:format", "includes": "cr:includes", "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset", "jsonPath": "cr:jsonPath", "key": "cr:key", "md5": "cr:md5",
    "parentField": "cr:parentField", "path": "cr:path", "prov": "http://www.w3.org/ns/prov#",
    "rai": "http://mlcommons.org/croissant/RAI/", "recordSet": "cr:recordSet", "references": "cr:references",
    "regex": "cr:regex", "repeated": "cr:repeated", "replace": "cr:replace", "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/", "separator": "cr:separator", "source": "cr:source", "subField": "cr:subField",
    "transform": "cr:transform",
}  # fmt: skip


class Column(NamedTuple):
    """Field of a record set, and the column of the data file from which it is read.

    - ``kind``: the data type, such as ``sc:Text``.
    - ``words``: the description.
    - ``many``: True if the column's cells are lists.
    - ``column``: the column's name; None if the column has the field's name.
    - ``path``: the path to the value inside one entry of a cell's list; None if the entry is the value.
    """

    name: str
    kind: str
    words: str
    many: bool = False
    column: str | None = None
    path: str | None = None


class Table(NamedTuple):
    """Record set of the metadata.

    - ``files``: paths relative to the metadata.
    - ``form``: the format of the files.
    - ``key``: the column that identifies a row.
    """

    name: str
    files: tuple[str, ...]
    form: str
    columns: tuple[Column, ...]
    key: str = "item_id"


_ITEM = (
    Column("item_id", "sc:Text", "id of the item"),
    Column("case_id", "sc:Text", "the case; its items with a level are asked in one conversation"),
    Column("seq", "sc:Integer", "position of the item in the conversation"),
    Column("kind", "sc:Text", "kind of question"),
    Column("level", "sc:Text", "coarse, fine or semantic; empty for kinds without a level"),
    Column("finding", "sc:Text", "the finding asked about"),
    Column("question", "sc:Text", "the question"),
    Column("multi", "sc:Boolean", "true if several options can be right"),
    Column("option_texts", "sc:Text", "texts of the options, in the order shown", True, "options", "text"),
)
_KEY = (
    Column("answer", "sc:Integer", "numbers of the right options, from 1", True),
    Column("chance", "sc:Float", "probability that a guess is right"),
    Column("prior", "sc:Float", "accuracy of always giving the most frequent answer"),
)


def parquet_tables(shards: Iterable[str], key: str) -> list[Table]:
    """Return the record sets of an exported data set; ``key`` says where its answers are (see :data:`KeyChoice`)."""
    pictures = Column("images", "sc:ImageObject", "all pictures of the item if it is asked alone", True, None, "bytes")
    columns = (*_ITEM, pictures, *(_KEY if key == "inside" else ()))
    tables = [Table("items", tuple(shards), _PARQUET, columns)]
    if key == "beside":
        tables.append(Table("key", ("key/test.parquet",), _PARQUET, (_ITEM[0], *_KEY)))
    return tables


def benchmark_tables() -> list[Table]:
    """Return a list with the one table (record set) of a benchmark folder: items with the paths of their pictures."""
    pictures = Column("pictures", "sc:Text", "paths of the pictures of the item if it is asked alone", True,
                      "alone_images", "image")  # fmt: skip
    return [Table("items", (ITEMS,), _JSONL, (*_ITEM, pictures))]


def describe(
    benchmark: Benchmark, about: DatasetAbout, folder: Path, tables: Iterable[Table], more: Iterable[Record] = ()
) -> Record:
    """Return the metadata of the files in ``folder``.

    ``more`` has entries for files that are in no table; they are added to the field ``distribution``.
    """
    rows = list(tables)
    record: Record = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": about.name(benchmark),
        "description": description(benchmark),
        "version": three_numbers(str(benchmark.about["version"])),
        "license": about.license_url,
        "url": about.get("url") or about.doi_url,
        "datePublished": about.get("date_published"),
        "creator": [_creator(one) for one in about.get("creators") or ()] or None,
        "citeAs": about.get("citation"),
        "identifier": about.doi_url,
        "inLanguage": benchmark.about["question_bank"]["language"],
        "keywords": ["chest radiograph", "vision-language model", "benchmark", "perception"],
        "isLiveDataset": False,
        **responsible_ai(benchmark, about),
        "prov:wasDerivedFrom": [_source(one) for one in about.get("sources") or ()] or None,
        "prov:wasGeneratedBy": [_activity(benchmark)],
        "distribution": [
            *(_file(folder, path, table.form) for table in rows for path in table.files),
            *(_file_set(table) for table in rows if len(table.files) > 1),
            *more,
        ],
        "recordSet": [_record_set(table) for table in rows],
    }
    return {name: value for name, value in record.items() if value is not None}


def export_metadata(benchmark: Benchmark, out: Path, about: DatasetAbout) -> None:
    """Write the metadata of a benchmark's folder to ``out``.

    ``out`` must be in this folder, because the metadata name the files by relative paths.
    """
    if out.absolute().parent != benchmark.folder.absolute():
        raise InputError(
            f"{out}: lies outside the benchmark's folder, but the metadata refer to the files in this folder "
            f"by relative paths; give -o {benchmark.folder / CROISSANT}."
        )
    if out.exists() and out.name != CROISSANT:
        raise InputError(f"{out}: exists already; name another file.")
    others = [name for name in (ABOUT, ANSWERS) if (benchmark.folder / name).is_file()]
    forms = {ABOUT: _JSON, ANSWERS: _JSONL}
    more: list[Record] = [_file(benchmark.folder, name, forms[name]) for name in others]
    more.append({"@type": "cr:FileSet", "@id": "pictures", "name": "pictures", "encodingFormat": "image/png",
                 "includes": "images/*/*.png", "description": "the pictures, named by their SHA-256"})  # fmt: skip
    write_bytes(out, json_bytes(describe(benchmark, about, benchmark.folder, benchmark_tables(), more)))


def three_numbers(version: str) -> str:
    """Return a version as three numbers, as Croissant recommends: 1.0.0 for 1 and 1.0."""
    parts = version.split(".")
    return ".".join([*parts, "0", "0"][:3]) if all(part.isdigit() for part in parts) else version


def _creator(one: Mapping[str, Any]) -> Record:
    made: Record = {"@type": "sc:Organization" if one.get("group") else "sc:Person", "name": one["name"]}
    return made | ({"@id": f"https://orcid.org/{one['orcid']}"} if "orcid" in one else {})


def _source(one: Mapping[str, Any]) -> Record:
    return {"@type": "prov:Entity", "prov:label": one["name"],
            **{name: one[name] for name in ("url", "license") if name in one}}  # fmt: skip


def _activity(benchmark: Benchmark) -> Record:
    about = benchmark.about
    recipes = ", ".join(recipe["name"] for recipe in about["recipes"]) or "none"
    return {
        "@type": "prov:Activity", "prov:label": "generation of the items",
        "sc:description": f"chexqa {about['tool_version']}, recipes {recipes}, seed {about['seed']}, question bank "
                          f"{about['question_bank']['name']}; hash of the benchmark {benchmark.hash}.",
    }  # fmt: skip


def _file(folder: Path, path: str, form: str) -> Record:
    return {
        "@type": "cr:FileObject", "@id": path, "name": path, "contentUrl": path, "encodingFormat": form,
        "sha256": sha256_of(folder / path), "contentSize": f"{(folder / path).stat().st_size} B",
    }  # fmt: skip


def _file_set(table: Table) -> Record:
    """Return the file set of a table; all its files are in one folder."""
    return {
        "@type": "cr:FileSet", "@id": f"{table.name}-files", "name": f"{table.name}-files",
        "encodingFormat": table.form, "includes": f"{table.files[0].rpartition('/')[0]}/*.parquet",
    }  # fmt: skip


def _record_set(table: Table) -> Record:
    return {
        "@type": "cr:RecordSet", "@id": table.name, "name": table.name, "key": {"@id": f"{table.name}/{table.key}"},
        "field": [_field(table, column) for column in table.columns],
    }  # fmt: skip


def _field(table: Table, column: Column) -> Record:
    extract: Record = {"extract": {"column": column.column or column.name}}
    one = len(table.files) == 1
    place = {"fileObject": {"@id": table.files[0]}} if one else {"fileSet": {"@id": f"{table.name}-files"}}
    source = place | extract | ({"transform": {"jsonPath": column.path}} if column.path else {})
    # mlcroissant reads lists of pictures only as "repeated", which Croissant 1.1 keeps for older files.
    pictures = column.kind == "sc:ImageObject"
    many: Record = {} if not column.many else {"repeated": True} if pictures else {"isArray": True, "arrayShape": "-1"}
    return {
        "@type": "cr:Field", "@id": f"{table.name}/{column.name}", "name": column.name, "description": column.words,
        "dataType": column.kind, **many, "source": source,
    }  # fmt: skip
