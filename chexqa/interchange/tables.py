"""Reader of the rows of other projects' tables: VLMEvalKit's TSV, and the Parquet files of a Hugging Face folder.

VLMEvalKit's columns are those of its documentation: ``index``, ``image`` or ``image_path``, ``question``, ``A``, ``B``,
…, ``answer``, ``category``. A Hugging Face folder has the columns of chexqa's own export, or the usual ones:
``question``, ``options`` or ``choices``, ``answer``, ``image`` or ``images``.
"""

from __future__ import annotations

import base64
import binascii
import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, bounded_lines, read_text, sha256
from chexqa.files.limits import MAX_PICTURE_BYTES, MAX_TABLE_BYTES
from chexqa.files.opening import open_binary, open_text, read_whole, sha256_of
from chexqa.files.terminal import PHANTOM_NOTICE

_CARD = "README.md"
_KEY = "key"  # folder of the answers in an export that separates them from the items
_PATIENTS, _IDS = ("patient_id", "subject_id"), ("item_id", "question_id", "id", "index")
_KINDS, _OPTIONS = ("kind", "category", "subject", "l2-category"), ("options", "choices")
_PICTURES = ("images", "image", "image_path")
_FEWEST = 2


Options = Sequence[tuple[str | None, str | None]]  # text and colour of each option


class Row(NamedTuple):
    """One question of a table.

    - ``options``: text and colour of each option.
    - ``answer``: option numbers from 1.
    - ``where``: the table and the row, for error messages.
    """

    where: str
    item_id: str
    case_id: str
    category: str
    finding: str
    question: str
    options: Options
    multi: bool
    answer: tuple[int, ...]
    pictures: list[bytes]
    patient: str | None


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files with items in a Hugging Face folder, sorted."""
    return [path for path in sorted(folder.rglob("*.parquet")) if path.relative_to(folder).parts[0] != _KEY]


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a table; for a folder, the hash of its tables' hashes."""
    if path.is_file():
        return sha256_of(path, MAX_TABLE_BYTES)
    return sha256("".join(sha256_of(file, MAX_TABLE_BYTES, path) for file in parquet_files(path)).encode())


def is_phantom(path: Path) -> bool:
    """Return True if a dataset's card says that chexqa drew the radiographs."""
    return path.is_dir() and (path / _CARD).is_file() and PHANTOM_NOTICE in read_text(path / _CARD, inside=path)


def read_vlmevalkit(path: Path) -> Iterator[Row]:
    """Yield the rows of a VLMEvalKit table; its answers can be in a separate file beside it, ``<name>.key.tsv``."""
    beside = path.with_suffix(".key.tsv")
    key = {row["index"]: row.get("answer") for _, row in _records(beside)} if beside.is_file() else {}
    coded: dict[str, str] = {}
    for where, row in _records(path):
        for name in ("index", "question"):
            if not row.get(name):
                raise InputError(f"{where}: has no {name}; a row of a VLMEvalKit table needs an index and a question.")
        image = (row.get("image") or "").strip()
        coded[row["index"]] = coded.get(
            image, image
        )  # instead of a picture, the cell can hold the index of an earlier row
        options = [(row[letter], None) for letter in ascii_uppercase if row.get(letter)]
        given = row.get("answer") or key.get(row["index"])
        yield _row(where, row, options, given, _decoded(where, coded[row["index"]], row.get("image_path"), path.parent))


def _records(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield ``(place for error messages, cells keyed by column)`` for each row of a tab-separated table."""
    with open_binary(path, MAX_TABLE_BYTES):
        pass
    csv.field_size_limit(2 * MAX_PICTURE_BYTES)
    with open_text(path) as file:
        try:
            for number, row in enumerate(csv.DictReader(bounded_lines(file, path), delimiter="\t"), start=1):
                yield f"{path}, row {number}", {name: text for name, text in row.items() if name and text is not None}
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{path}: is not a tab-separated table ({error}); save it again.") from None


def _decoded(where: str, image: str, names: str | None, folder: Path) -> list[bytes]:
    """Return the bytes of a row's pictures, from base64 text (one or a list) or from files beside the table."""
    parts = _listed(image)
    try:
        if parts:
            return [base64.b64decode(part, validate=True) for part in parts]
    except (binascii.Error, ValueError):
        raise InputError(
            f"{where}: the column 'image' has neither base64 nor the index of an earlier row; give one of these."
        ) from None
    return [read_whole(folder / name, MAX_PICTURE_BYTES, folder) for name in _listed(names or "")]


def _listed(text: str) -> list[str]:
    """Return the entries of a text that is a JSON list or a Python list with single quotes.

    Any other text becomes the only entry of the result.
    """
    if not text.startswith("["):
        return [text] if text else []
    try:
        found = json.loads(text if '"' in text else text.replace("'", '"'))
    except ValueError:
        return [text]
    return [str(one) for one in found]


def read_dataset(folder: Path) -> Iterator[Row]:
    """Yield the rows of a Hugging Face folder; its answers can be in the folder ``key/``, joined by ``item_id``."""
    import polars as pl

    key: dict[str, Any] = {}
    for path in sorted((folder / _KEY).glob("*.parquet")):
        key.update({row["item_id"]: row["answer"] for row in _frame(pl, path, folder).iter_rows(named=True)})
    number = 0
    for path in parquet_files(folder):
        for row in _frame(pl, path, folder).iter_rows(named=True):
            number += 1
            where = f"{path}, row {number}"
            given = row.get("answer")
            if given is None:
                given = key.get(str(row.get("item_id")))
            yield _row(where, {"index": number, **row}, _options(where, row), given, _pictures(where, row, folder))


def _frame(pl: Any, path: Path, folder: Path) -> Any:
    try:
        return pl.read_parquet(read_whole(path, MAX_TABLE_BYTES, folder))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path}: is not a Parquet file ({str(error).splitlines()[0]}); give another file.") from None


def _options(where: str, row: Record) -> Options:
    """Return the text and colour of each option.

    A row has its options as records of chexqa's export, as a list of texts, or in one column per letter.
    """
    given = next((row[name] for name in _OPTIONS if row.get(name)), None)
    if isinstance(given, str):
        given = _listed(given)
    if isinstance(given, list):
        return [(one.get("text"), one.get("color")) if isinstance(one, dict) else (str(one), None) for one in given]
    lettered = [(str(row[letter]), None) for letter in ascii_uppercase if row.get(letter)]
    if not lettered:
        raise InputError(
            f"{where}: has no options; add a column 'options' or 'choices', or one column per option: 'A', 'B', …"
        )
    return lettered


def _pictures(where: str, row: Record, folder: Path) -> list[bytes]:
    given: Any = next((row[name] for name in _PICTURES if row.get(name)), [])
    found = []
    for one in given if isinstance(given, list) else [given]:
        held = one.get("bytes") if isinstance(one, dict) else one if isinstance(one, bytes) else None
        name = one.get("path") if isinstance(one, dict) else one
        if held is None and not isinstance(name, str):
            raise InputError(f"{where}: a picture has neither bytes nor a path; give one of these.")
        found.append(held if held is not None else read_whole(folder / str(name), MAX_PICTURE_BYTES, folder))
    return found


def _row(where: str, row: Record, options: Options, answer: Any, pictures: list[bytes]) -> Row:
    if len(options) < _FEWEST:
        raise InputError(
            f"{where}: has {len(options)} options, but the audit reads only questions with at least two options; "
            "remove the row."
        )
    if not pictures:
        raise InputError(f"{where}: has no picture, but the audit reads only questions about pictures; remove the row.")
    item_id = str(next(row[name] for name in _IDS if row.get(name) is not None))
    case_id, slash, _ = item_id.rpartition("/")
    several = bool(row.get("multi"))
    return Row(
        where, item_id, str(row.get("case_id") or (case_id if slash else item_id)),
        str(next((row[name] for name in _KINDS if row.get(name)), "question")), str(row.get("finding") or "all"),
        str(row.get("question") or ""), options, several, _answer(where, answer, options), pictures,
        next((str(row[name]) for name in _PATIENTS if row.get(name)), None),
    )  # fmt: skip


def _answer(where: str, given: Any, options: Options) -> tuple[int, ...]:
    """Return the numbers of the right options, from 1.

    The answer can be a list of numbers that count from 1, one number that counts from 0, letters, or the options'
    texts. An empty list is the answer of a grid without a hit; for other forms of question it is an error.
    """
    if given is None or given == "":
        raise InputError(f"{where}: has no answer, but the audit needs the answers; add it.")
    texts = [text for text, _ in options]
    found = []
    for one in given if isinstance(given, list) else [given]:
        word = str(one).strip()
        if one in texts:
            found.append(texts.index(one) + 1)
        elif isinstance(one, int):
            found.append(one if isinstance(given, list) else one + 1)
        elif len(word) == 1 and word.upper() in ascii_uppercase:
            found.append(ascii_uppercase.index(word.upper()) + 1)
        else:
            raise InputError(
                f"{where}: the answer '{word[:40]}' is not the letter, number or text of an option; correct it."
            )
    if not all(1 <= one <= len(options) for one in found):
        raise InputError(
            f"{where}: the answer '{given}' names none of the question's {len(options)} options; correct the answer."
        )
    return tuple(sorted(set(found)))
