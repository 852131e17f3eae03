"""Kinds of question from plugins: the measurements behind their answers, and their entry in ``benchmark.json``.

With this entry, a benchmark can be asked, graded, reviewed and reported without the plugin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

from chexqa.contract.evidence import Evidence, Near
from chexqa.contract.kinds import KINDS, Kind
from chexqa.files.errors import InputError
from chexqa.question_banks import check_braces

if TYPE_CHECKING:
    from chexqa.contract.items import CaseKey, Option

_TYPES: dict[str, type] = {"integer": int, "number": float, "string": str, "boolean": bool}
_NAMES = {made: name for name, made in _TYPES.items()}


def measured(description: str, least: float | None = None, most: float | None = None) -> Any:
    """Return a dataclass field of a :class:`DeclaredEvidence`, for a measured number, text or truth value.

    ``least`` and ``most`` are the smallest and the largest allowed value of a number.
    """
    bounds = {name: value for name, value in (("minimum", least), ("maximum", most)) if value is not None}
    return field(metadata={**bounds, "description": description})


@dataclass(frozen=True, kw_only=True)
class DeclaredEvidence(Evidence):
    """Evidence of a plugin's kind; its fields are numbers, texts and truth values, each made by :func:`measured`.

    - ``words``: a sentence that states the evidence, with the names of fields in braces.
    - ``near``: for each field with a threshold, the intervals of values that count as near the threshold.
    """

    words: ClassVar[str]
    near: ClassVar[Near] = {}

    @classmethod
    def misfit(cls, record: Mapping[str, Any], options: int) -> str | None:
        """Return an error text for a missing, unknown, mistyped or out-of-range field; None if all are valid."""
        unknown = sorted(record.keys() - {one.name for one in fields(cls)})
        if unknown:
            return f"evidence with the field '{unknown[0]}', which its kind does not declare"
        try:
            found = cls.read(record)
        except ValueError as error:
            return f"evidence that differs from its kind's declaration: {error}"
        for one in fields(cls):
            value, bounds = getattr(found, one.name), one.metadata
            if not bounds.get("minimum", value) <= value <= bounds.get("maximum", value):
                return f"evidence with {one.name} {value}, which is outside the bounds that its kind declares"
        return None

    def is_near(self, margin: float | None = None) -> bool:
        """Return True if the value of any field lies in an interval that the attribute ``near`` gives for that field.

        ``margin`` is ignored.
        """
        return super().is_near(None)

    def sentence(self, options: Sequence[Option], case: CaseKey) -> str:
        """Return the sentence ``words``, with the values of the fields in place of their names."""
        return self.words.format(**vars(self))

    def deciding(self) -> dict[str, list[float]]:
        """Return the values of the fields that are compared with a threshold, keyed by field name."""
        return {name: [float(getattr(self, name))] for name in self.near}


def declaration(kind: Kind) -> dict[str, Any]:
    """Return a plugin's kind of question as it is written to ``benchmark.json``."""
    made = kind.evidence
    if not issubclass(made, DeclaredEvidence):
        raise TypeError(f"the evidence of '{kind.name}' is not a DeclaredEvidence")
    hints = get_type_hints(made)
    for one in fields(made):
        if hints[one.name] not in _NAMES:
            raise TypeError(f"the evidence's field '{one.name}' has another type than int, float, str or bool")
    return {
        "name": kind.name,
        "form": kind.form_name,
        "about": kind.about,
        "heading": kind.heading,
        "ordered": kind.ordered,
        "evidence": {one.name: {"type": _NAMES[hints[one.name]], **one.metadata} for one in fields(made)},
        "words": made.words,
        "near": {name: [list(ends) for ends in intervals] for name, intervals in made.near.items()},
    }


def declared(record: Mapping[str, Any], where: str) -> Kind:
    """Return the kind of question that a declaration of ``benchmark.json`` describes.

    Raise ``InputError`` if it contradicts itself or chexqa's kinds; the message begins with ``where``.
    """
    name, schema = record["name"], record["evidence"]
    if name in KINDS:
        raise InputError(
            f"{where}: declares the kind '{name}', but chexqa has a kind of this name; give the new kind another name."
        )
    check_braces(record["words"], set(), set(schema), f"{where}, field 'words' of the kind '{name}'")
    for field_name in record["near"]:
        if schema.get(field_name, {}).get("type") not in ("integer", "number"):
            raise InputError(
                f"{where}: the kind '{name}' declares a threshold for the field '{field_name}', but this field is not "
                "a number; remove the threshold."
            )
    parts = [(one, _TYPES[rule["type"]], _field(rule)) for one, rule in schema.items()]
    made = make_dataclass(
        "".join(part.title() for part in name.split("_")), parts, bases=(DeclaredEvidence,), frozen=True, kw_only=True,
        namespace={"words": record["words"], "near": {key: tuple((low, high) for low, high in intervals)
                                                      for key, intervals in record["near"].items()}},
    )  # fmt: skip
    return Kind(name, 1, None, None, record["form"], made, record["about"], record["heading"], record["ordered"])


def _field(rule: Mapping[str, Any]) -> Any:
    made = measured(rule["description"], rule.get("minimum"), rule.get("maximum"))
    assert made.default is MISSING
    return made
