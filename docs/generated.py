"""Script that writes the pages of documentation made from the program: ``python docs/generated.py``.

``make docs`` runs this script. ``formats.md`` is made from the schemas, and ``columns.md`` from the report's glossary
and the schema of turns. A test in ``tests/project/test_docs.py`` fails if a page is not current.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chexqa import frames, schemas
from chexqa.eval.heatmaps import study
from chexqa.eval.tables import glossary

DOCS = Path(__file__).parent
Schema = dict[str, Any]

FORMATS = """# File formats

*This page is made from `schemas/*.json` by `make docs`; change the schema, not the page.*

chexqa checks every file of these formats when it writes the file and when it reads it. Unless a format says otherwise,
an unknown field is an error, so a misspelt name is never overlooked. `chexqa validate PATH` checks a file or a folder;
with `--format github` it prints problems as annotations of a GitHub workflow.

JSON Lines files (`.jsonl`) have one object per line, in UTF-8. `[]` in a field's name means each entry of a list, and
`.*` each value of an object. Fields in **bold** are required.

"""
COLUMNS = """# Tables and columns

*This page is made from the report's own glossary by `make docs`.*

[Reading a report](report.md) explains the tables. A column whose name ends in `_low` or `_high` is the lower or upper
end of a 95 % interval; the rest of the name is the column that the interval belongs to.

"""


def _plain(text: str) -> str:
    """Return text with escapes, so that it fits in a table's cell."""
    return text.replace("|", "\\|").replace("\n", " ")


def _kind(field: Schema) -> str:
    """Return the type of a field in words."""
    if "$ref" in field:
        return f"as `{field['$ref'].rsplit('/', 1)[-1]}`"
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return "one of " + ", ".join(f"`{json.dumps(value).strip(chr(34))}`" for value in field["enum"])
    for word in ("anyOf", "oneOf"):
        if word in field:
            return " or ".join(dict.fromkeys(_kind(choice) for choice in field[word]))
    types = field.get("type", "any")
    words = " or ".join(types) if isinstance(types, list) else types
    if "items" in field and isinstance(field["items"], dict):
        words = words.replace("array", f"list of {_kind(field['items'])}")
    return str(words)


def _limits(field: Schema) -> Iterator[str]:
    """Yield the bounds of a field in words, one bound at a time."""
    for key, words in (("minimum", "at least"), ("exclusiveMinimum", "above"), ("maximum", "at most"),
                       ("exclusiveMaximum", "below")):  # fmt: skip
        if key in field:
            yield f"{words} {field[key]}"
    least, most = field.get("minItems"), field.get("maxItems")
    if least is not None and least == most:
        yield f"{least} entries"
    elif least and most:
        yield f"{least} to {most} entries"
    elif least or most:
        yield f"{least} or more entries" if least else f"at most {most} entries"
    if field.get("uniqueItems"):
        yield "no entry twice"
    if "maxLength" in field:
        yield f"at most {field['maxLength']} characters"
    if "pattern" in field:
        yield f"matches `{field['pattern']}`"


def _inner(name: str, field: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield, for each object inside a field, the prefix for the names of the object's fields, and its schema."""
    for choice in (field, *field.get("anyOf", ()), *field.get("oneOf", ())):
        if "properties" in choice:
            yield f"{name}.", choice
        if isinstance(choice.get("additionalProperties"), dict):
            yield from _inner(f"{name}.*", choice["additionalProperties"])
        if isinstance(choice.get("items"), dict):
            yield from _inner(f"{name}[]", choice["items"])


def _rows(schema: Schema, before: str = "") -> Iterator[str]:
    """Yield a table row for each field; the fields inside a field follow it."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        shown = f"**`{before}{name}`**" if name in required else f"`{before}{name}`"
        words = "; ".join([*([field["description"]] if "description" in field else []), *_limits(field)])
        yield f"| {shown} | {_plain(_kind(field))} | {_plain(words)} |"
        for prefix, inner in _inner(f"{before}{name}", field):
            yield from _rows(inner, prefix)


def _part(schema: Schema) -> str:
    """Return the tables of a schema: its own fields, its conditional fields (``allOf``) and its definitions."""
    head = "| field | type | meaning and bounds |\n| --- | --- | --- |\n"
    text = ""
    # The fields of a file that is a list, or an object with names of the user's, lie in its entries.
    entries = [inner for inner in _inner("", schema) if inner[1] is not schema]
    if rows := [*_rows(schema), *(row for prefix, inner in entries for row in _rows(inner, prefix.lstrip(".")))]:
        text += head + "\n".join(rows) + "\n\n"
    for choice in schema.get("allOf", ()):
        [(name, field)] = choice["if"]["properties"].items()
        text += f"Where `{name}` is {_kind(field)}:\n\n" + head + "\n".join(_rows(choice["then"])) + "\n\n"
    for name, part in schema.get("$defs", {}).items():
        inner = list(_rows(part))
        text += f"`{name}`" + (":\n\n" + head + "\n".join(inner) if inner else f": {_kind(part)}") + "\n\n"
    return text


def formats() -> str:
    """Return the text of ``formats.md``."""
    parts = []
    for name in schemas.names():
        schema = schemas.schema(name)
        parts.append(f"## {name}\n\n{schema['title']}.\n\n{_part(schema)}".rstrip())
    return FORMATS + "\n\n".join(parts) + "\n"


def _of_turn(column: str) -> Schema:
    """Return the schema of the field of a turn that a column of a run's frame has."""
    own = schemas.schema("turn")["properties"]
    used, failed = own["usage"]["properties"], own["failed_usage"]["properties"]
    return own.get(column) or used.get(column) or failed[column.removeprefix("failed_")]


def columns() -> str:
    """Return the text of ``columns.md``."""
    text = COLUMNS + "## Tables\n\n| table | content |\n| --- | --- |\n"
    text += "".join(f"| `{name}` | {_plain(words)} |\n" for name, words in glossary.TABLES.items())
    text += "\n## Columns\n\n| column | meaning |\n| --- | --- |\n"
    text += "".join(f"| `{name}` | {_plain(glossary.meaning(name))} |\n" for name in glossary.COLUMNS)
    text += f"\n## Rows of grades.parquet\n\n{ROWS}\n| column | meaning |\n| --- | --- |\n"
    text += "".join(f"| `{name}` | {_plain(words)} |\n" for name, words in glossary.GRADES.items())
    text += f"\n## Rows of a run's frame\n\n{FRAME}\n| column | meaning |\n| --- | --- |\n"
    text += "".join(f"| `{name}` | {_plain(_of_turn(name)['description'])} |\n" for name in frames.TURN)
    text += "\n## Files of graded maps\n\n`chexqa heatmaps grade` writes these ([heat maps](heatmaps-and-interchange.md"
    text += "#heat-maps)).\n\n| file | content |\n| --- | --- |\n"
    text += "".join(f"| `{name}` | {_plain(words)} |\n" for name, words in study.TABLES.items())
    text += "\n| column | meaning |\n| --- | --- |\n"
    return text + "".join(f"| `{name}` | {_plain(words)} |\n" for name, words in study.COLUMNS.items())


ROWS = """`chexqa grade --out` and `chexqa report` write this file. It has a row for each question asked of each model,
and every table is made from these rows. The accuracy of a kind of question is the mean of `correct`. The kind's score
corrected for chance leaves out rows whose `scored` is false. The score of a level is the mean over its kinds, without
cardiomegaly.

```python
import pandas

rows = pandas.read_parquet("report/grades.parquet")
rows = rows[rows.scored & (rows.finding != "cardiomegaly")].assign(right=rows.correct.astype(float))
rows["gain"], rows["room"] = rows.right - rows.chance, 1 - rows.chance
kinds = rows.groupby(["model", "protocol", "level", "kind"])[["gain", "room"]].sum()
print(kinds.gain / kinds.room)
```

This code prints the corrected score of every kind except the yes/no kinds. The corrected score of a yes/no kind is the
mean of sensitivity + specificity - 1 over those findings for which both answers, yes and no, are in the key.
"""

FRAME = """In [Python](python.md), `frame()` of a run has a row for each question on original pictures. The columns are
fields of a [turn](formats.md#turn), with those of `usage` and `failed_usage`.
"""

PAGES = {"formats.md": formats, "columns.md": columns}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (DOCS / page).write_text(make(), encoding="utf-8")
