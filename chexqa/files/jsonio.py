"""Reading and writing of JSON, JSON lines and YAML, with each record checked against its schema.

Every record file passes through this module, so all errors have the same form: file, line, field, value, and the
expected value.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, AnyStr

import yaml

from chexqa import schemas
from chexqa.files import limits
from chexqa.files.atomic import new_file
from chexqa.files.errors import InputError, unreadable
from chexqa.files.opening import open_text, read_whole

if TYPE_CHECKING:
    from jsonschema import ValidationError

Record = dict[str, Any]

# For a name that is too long for the system, these functions return False, and the methods of Path raise an error.
exists, is_file, is_folder = os.path.exists, os.path.isfile, os.path.isdir


def sha256(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def check(record: object, schema: str, where: str) -> None:
    """Raise ``InputError`` unless ``record`` fits the schema; the message begins with ``where``, the file and line."""
    if schemas.fits(schema)(record):
        return
    from jsonschema.exceptions import best_match  # this import takes 0.1 s and is needed only for an error

    error = best_match(schemas.validator(schema).iter_errors(record))
    assert error is not None, "jsonschema-rs and jsonschema disagree"
    raise InputError(f"{where}: {_explain(error)}.")


# Rules of JSON Schema in words; {wanted} is the rule's value.
_RULES = {
    "minimum": "at least {wanted}",
    "maximum": "at most {wanted}",
    "exclusiveMinimum": "above {wanted}",
    "exclusiveMaximum": "below {wanted}",
    "minLength": "a text of {wanted} or more characters",
    "maxLength": "a text of {wanted} or fewer characters",
    "pattern": "a text of the form {wanted}",
    "minItems": "a list of {wanted} or more entries",
    "maxItems": "a list of {wanted} or fewer entries",
    "uniqueItems": "a list without repeated entries",
    "minProperties": "an object with {wanted} or more fields",
    "maxProperties": "an object with {wanted} or fewer fields",
}
# Types of JSON in words.
_TYPES = {
    "null": "null",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "array": "a list",
    "object": "an object",
}


def _explain(error: ValidationError) -> str:
    """Return one clause that names the wrong field, its value and the schema's rule."""
    field = ".".join(str(part) for part in error.absolute_path)
    prefix = f"field '{field}': " if field else ""
    # jsonschema types these as possibly unset; a validation error has them all.
    rule = error.validator
    value: Any = error.instance
    wanted: Any = error.validator_value
    around: Any = error.schema
    if rule == "additionalProperties":
        known = around.get("properties", {})
        extra = sorted(set(value) - set(known))
        return f"{prefix}unknown field {_short(extra[0])}; known fields are {', '.join(known)}"
    if rule == "required":
        missing = [name for name in wanted if name not in value]
        return f"{prefix}the field '{missing[0]}' is missing; add it"
    if rule in ("enum", "const"):
        allowed = wanted if rule == "enum" else [wanted]
        return f"{prefix}{_short(value)} is not one of {', '.join(json.dumps(entry) for entry in allowed)}"
    if rule == "type":
        types = wanted if isinstance(wanted, list) else [wanted]
        if {"number", "integer"} & set(types) and _is_out_of_range(value):
            return f"{prefix}{_short(value)} is out of range: a number of 64 bits lies between -2^63 and 2^63"
        fields = f" with the field {around['required'][0]}" if types == ["object"] and around.get("required") else ""
        return f"{prefix}{_short(value)} must be {' or '.join(_TYPES[name] for name in types)}{fields}"
    if rule == "anyOf":
        return f"{prefix}{_short(value)} is not {around.get('description', 'one of the forms the schema allows')}"
    told = _RULES.get(str(rule), "as the schema's rule {rule} demands: {wanted}")
    return f"{prefix}{_short(value)} must be {told.format(rule=rule, wanted=_short(wanted))}"


def _short(value: object, limit: int = 80) -> str:
    text = "a very long number" if _is_huge(value) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _is_out_of_range(value: Any) -> bool:
    return type(value) in (int, float) and not schemas.LEAST <= value <= schemas.MOST


def _is_huge(value: object) -> bool:
    """Return True if a value is an integer with more digits than Python converts to text."""
    return isinstance(value, int) and value.bit_length() > 10_000


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key '{twice}' is given twice in one object")
    return record


def parse_json(text: str, where: str) -> Any:
    """Decode one JSON value; raise ``InputError`` for NaN, Infinity, a repeated key or more than 64 nested levels."""
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_twins)
    except (ValueError, RecursionError) as error:
        reason = f"{where}: not valid JSON ({error}); correct the text there, or create the file again."
        raise InputError(reason) from None
    if limits.is_deep(text):
        raise InputError(
            f"{where}: lists and objects are nested more than {limits.MAX_DEPTH} deep; check that this is the right "
            "file."
        )
    refuse_halves(value, text, where)
    return value


def refuse_halves(value: object, text: str, where: str) -> None:
    """Raise ``InputError`` if ``value``, decoded from the JSON ``text``, holds a lone surrogate (half a character).

    JSON can escape half of a surrogate pair, but UTF-8 cannot encode it, so the value could never be written again.
    """
    if "\\ud" not in text and "\\uD" not in text:
        return
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise InputError(f"{where}: contains {half}, an unpaired surrogate; write the whole character.") from None


def read_text(path: Path, most_bytes: int = limits.MAX_JSON_BYTES, inside: Path | None = None) -> str:
    """Read a file as text; raise ``InputError`` if it is not UTF-8, or if :func:`read_whole` raises it.

    In all functions of this module, ``inside`` is the folder that the file belongs to. A link that leads out of this
    folder is an error.
    """
    try:
        text = read_whole(path, most_bytes, inside).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8.") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path, schema: str, inside: Path | None = None) -> Record:
    """Read one JSON object from a file; raise ``InputError`` if it is not JSON or does not fit ``schema``."""
    record = parse_json(read_text(path, inside=inside), str(path))
    check(record, schema, str(path))
    loaded: Record = record
    return loaded


def read_lines(path: Path, inside: Path | None = None) -> Iterator[tuple[int, Any]]:
    """Yield ``(line number from 1, JSON value)`` of every non-blank line, unchecked."""
    for number, line in text_lines(path, inside):
        yield number, parse_json(line, f"{path}, line {number}")


def text_lines(path: Path, inside: Path | None = None) -> Iterator[tuple[int, str]]:
    """Yield ``(line number from 1, text)`` of every non-blank line."""
    with reading(path), open_text(path, inside) as file:
        for number, line in enumerate(bounded_lines(file, path), start=1):
            if line.strip():
                yield number, line


def bounded_lines(file: IO[AnyStr], path: Path) -> Iterator[AnyStr]:
    """Yield the lines of an open file; raise ``InputError`` for a line longer than ``limits.MAX_LINE_CHARACTERS``."""
    most = limits.MAX_LINE_CHARACTERS
    for number in itertools.count(1):
        line = file.readline(most + 1)
        if not line:
            return
        if len(line) > most:
            raise InputError(f"{path}, line {number}: is longer than {most:,} characters; check the file's format.")
        yield line


@contextmanager
def many_objects() -> Iterator[None]:
    """Turn off the garbage collector during a block that makes very many objects.

    The collector would scan these objects again and again. Records read from files contain no reference cycles, so
    Python frees their memory without the collector.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors in reading a text file into an ``InputError`` that names the file."""
    try:
        yield
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; save it as UTF-8.") from None
    except OSError as error:
        raise unreadable(path, error) from None


def read_jsonl(path: Path, schema: str, inside: Path | None = None) -> Iterator[tuple[int, Record]]:
    """Yield ``(line number from 1, record)`` of every non-blank line, checked against ``schema``."""
    for number, record in read_lines(path, inside):
        check(record, schema, f"{path}, line {number}")
        yield number, record


class _StrictLoader(yaml.SafeLoader):
    """Loader of YAML that accepts only text as keys, and reads only ``true`` and ``false`` as booleans.

    A repeated key is an error, and so are more than ``limits.MAX_YAML_VALUES`` values after aliases are expanded.
    """

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            _count_values(node, {})
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        known: set[str] = set()
        for key in (self.construct_object(key, deep=True) for key, _ in node.value):
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is not text", node.start_mark)
            if key in known:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is given twice", node.start_mark)
            known.add(key)
        return super().construct_mapping(node, deep)


def _count_values(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of values in a node after every alias is expanded; raise an error for too many or a cycle.

    ``known`` has the number for each node that is already counted, and 0 for a node that is being counted.
    """
    key = id(node)
    if known.get(key) == 0:
        raise yaml.composer.ComposerError(None, None, "a value contains an alias of itself", node.start_mark)
    if key not in known:
        known[key] = 0
        inner = itertools.chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
        parts = [] if isinstance(node, yaml.ScalarNode) else inner
        known[key] = 1 + sum(_count_values(part, known) for part in parts)
        if known[key] > limits.MAX_YAML_VALUES:
            reason = f"more than {limits.MAX_YAML_VALUES:,} values after all aliases are expanded"
            raise yaml.composer.ComposerError(None, None, reason, node.start_mark)
    return known[key]


# Booleans as in YAML 1.2: only true and false, so the keys yes and no are text.
_StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_StrictLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(true|false)$"), list("tf"))


def read_yaml(path: Path, schema: str) -> Record:
    """Read a YAML file that contains one mapping, and check the mapping against ``schema``.

    Raises ``InputError`` for a repeated key, and for a value that JSON cannot express, such as a date without quotes.
    """
    text = read_text(path, limits.MAX_YAML_BYTES)
    try:
        as_json = _yaml_to_json(text)
        record = json.loads(as_json)
        refuse_halves(record, as_json, str(path))
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{path}{line}: not valid YAML ({getattr(error, 'problem', error)}); correct it.") from None
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{path}: contains a value that JSON cannot express ({error}); put the value in quotes, or remove it."
        ) from None
    check(record, schema, str(path))
    loaded: Record = record
    return loaded


@functools.lru_cache(maxsize=16)
def _yaml_to_json(text: str) -> str:
    """Return a YAML text as JSON; the last 16 results are cached, since chexqa's own files are read again and again."""
    # The loader is a SafeLoader, which makes only plain values.
    return json.dumps(yaml.load(text, Loader=_StrictLoader), allow_nan=False)  # nosec B506


def dump(record: Mapping[str, Any]) -> str:
    """Return the record as one line of JSON without a newline; equal records give equal text."""
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write a whole file with :func:`chexqa.files.atomic.new_file`; after an error, the old file is unchanged."""
    with new_file(path) as hidden:
        hidden.write_bytes(data)


def write_json(path: Path, record: Record, schema: str) -> None:
    """Write one JSON object, checked against ``schema`` and indented for people."""
    check(record, schema, str(path))
    write_bytes(path, json_bytes(record))


def json_bytes(record: Record) -> bytes:
    """Return the record as a JSON file, indented for people."""
    return (json.dumps(record, ensure_ascii=False, allow_nan=False, indent=2) + "\n").encode()


def write_jsonl(path: Path, records: Iterable[Record], schema: str) -> None:
    """Write records, one per line, each checked against ``schema``."""

    def checked() -> Iterator[Record]:
        for number, record in enumerate(records, start=1):
            check(record, schema, f"{path}, line {number}")
            yield record

    write_lines(path, checked())


def write_lines(path: Path, records: Iterable[Record]) -> None:
    """Write records as JSON lines without checking them; after an error, the old file is unchanged."""
    with new_file(path) as hidden, hidden.open("w", encoding="utf-8", newline="\n") as file:
        for record in records:
            file.write(dump(record) + "\n")
