"""The fast check of records (jsonschema-rs) against jsonschema's: both must give one verdict on every value."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexqa import schemas
from chexqa.files import jsonio
from chexqa.files.errors import InputError

TURN: dict[str, Any] = {
    "model": "m/x", "protocol": "end_to_end", "case_id": "c1", "item_id": "c1/detection", "repeat": 0, "rotation": 0,
    "blind": False, "attempts": 1, "state": "answered", "parsed": [2], "raw": "Answer: 2", "finish_reason": "stop",
    "usage": {"input_tokens": 3, "output_tokens": 1}, "cost_usd": None, "latency_s": 0.1, "provider_model": "x",
    "request_hash": "0" * 64, "image_hashes": ["1" * 64], "started": "2026-01-01", "error": None,
    "overlay_only": False, "order": None, "parser_version": 2,
}  # fmt: skip
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([0.0, 1.0, 1.5, -1.0, "", "a", "open", "0" * 64]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcn"), inner, max_size=3),
    max_leaves=6,
)


def same(name: str, record: object) -> bool:
    """True if the fast check and jsonschema say the same of a record."""
    return bool(schemas.fits(name)(record) == schemas.validator(name).is_valid(record))


@pytest.mark.parametrize(
    "change",
    [{}, {"state": "correct"}, {"parsed": [0]}, {"parsed": [1, True]}, {"parsed": [1.0]}, {"attempts": -1},
     {"attempts": 1.5}, {"blind": 1}, {"usage": {"input_tokens": 1}}, {"request_hash": "0"}, {"image_hashes": ["x"]},
     {"usage": {"input_tokens": 1, "output_tokens": None, "more": 1}}, {"model": ""}, {"error": 5}, {"extra": None},
     {"cost_usd": "1"}, {"cost_usd": True}, {"raw": None}, {"order": [2, 1]}, {"order": [0]},
     {"parser_version": None}, {"parser_version": -1}, {"parser_version": "2"}, {"condition": "x"}, {"stress": ""},
     {"prompt": 1}, {"reasoning": "because"}, {"reasoning": "x" * 1_000_001}, {"confidence": 0.5}, {"confidence": 1.1},
     {"answer_logprob": -0.5}, {"answer_logprob": 0.5}],
)  # fmt: skip
def test_a_turn_fits_or_not_as_jsonschema_says(change: dict[str, Any]) -> None:
    assert same("turn", TURN | change)
    assert schemas.fits("turn")(TURN)


def test_a_missing_field_and_what_is_no_object_do_not_fit() -> None:
    assert not schemas.fits("turn")({name: value for name, value in TURN.items() if name != "raw"})
    assert not schemas.fits("turn")([])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a record."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, entry in entries for place in places(entry, (*path, key)))]


@pytest.mark.parametrize("name", ["item", "answer", "answer_case", "benchmark"])
def test_a_benchmark_s_records_changed_anywhere_fit_or_not_as_jsonschema_says(tiny_benchmark: Path, name: str) -> None:
    file = {"item": "items.jsonl", "benchmark": "benchmark.json"}.get(name, "answers.jsonl")
    text = (tiny_benchmark / file).read_text()
    records = [json.loads(text)] if name == "benchmark" else [json.loads(line) for line in text.splitlines()]
    fitting = [record for record in records if schemas.validator(name).is_valid(record)]
    assert fitting

    @given(st.data())
    @settings(max_examples=60, deadline=None)
    def check(data: st.DataObject) -> None:
        record = json.loads(json.dumps(data.draw(st.sampled_from(fitting))))
        assert same(name, record)
        place = data.draw(st.sampled_from(places(record)))
        if not place:
            assert same(name, data.draw(ANY))
            return
        inside = record
        for key in place[:-1]:
            inside = inside[key]
        if data.draw(st.booleans()):
            inside[place[-1]] = data.draw(ANY)
        else:
            del inside[place[-1]]
        assert same(name, record)

    check()


@pytest.mark.parametrize("name", schemas.names())
@given(record=ANY)
@settings(max_examples=25, deadline=None)
def test_anything_fits_or_not_as_jsonschema_says(name: str, record: object) -> None:
    assert same(name, record)


NUMBERS = [
    2**63,
    2**63 - 1,
    -(2**63),
    2.0**63,
    -(2.0**63),
    2**64,
    10**400,
    1e308,
    -1e308,
    math.inf,
    -math.inf,
    math.nan,
]
TEXTS = ["x\n", "١", "7", "7\n", "\ud800", "x\u2028", "\0", "e\u0301", "😀"]


@pytest.mark.parametrize(
    "schema",
    [{"const": 1}, {"minLength": 1, "maxLength": 3}, {"enum": [True, None, "a", 1.0]},
     {"type": ["integer", "null"], "maximum": 2},
     {"type": "array", "minItems": 1, "maxItems": 2,
      "items": {"type": "array", "items": {"type": "number", "minimum": 1}}},
     {"anyOf": [{"type": "null"}, {"type": "object", "required": ["a"], "additionalProperties": {"type": "number"}}]},
     {"properties": {"a": {"type": "object", "properties": {"b": {"minLength": 1}}}}, "additionalProperties": True},
     {"type": "integer"}, {"type": ["number", "null"], "minimum": 0}, {"uniqueItems": True}, {"pattern": r"^\d$"},
     {"pattern": r"^x[^\n]"}, {"pattern": "^[x1]$"}, {"type": "number", "exclusiveMinimum": 0}, {}],
)  # fmt: skip
@given(record=ANY | st.sampled_from([*NUMBERS, *TEXTS]) | st.text(max_size=3))
@settings(max_examples=60, deadline=None)
def test_each_keyword_means_what_jsonschema_means(schema: dict[str, Any], record: object) -> None:
    assert schemas.fast_check(schema)(record) == schemas.slow_validator(schema).is_valid(record)


@pytest.mark.parametrize("name", schemas.names())
def test_no_pattern_has_a_bare_dot(name: str) -> None:
    """The dot means any character but \\n to Python, and no separator of lines at all to ECMA 262 and jsonschema-rs."""
    patterns = [schema["pattern"] for schema in every_schema(schemas.schema(name)) if "pattern" in schema]
    assert [one for one in patterns if "." in re.sub(r"\\.|\[[^\]]*\]", "", one)] == []


@pytest.mark.parametrize("name", schemas.names())
def test_a_bound_stands_beside_the_type_of_number(name: str) -> None:
    """A bound without a type would say something else of numbers beyond 64 bits to each of the two."""
    loose = [schema for schema in every_schema(schemas.schema(name)) if BOUNDS & schema.keys() and "type" not in schema]
    assert loose == []


BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}


def every_schema(value: Any) -> list[dict[str, Any]]:
    """Every dictionary inside a schema."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [value] * isinstance(value, dict) + [found for entry in inner for found in every_schema(entry)]


def test_half_of_a_character_pair_is_text_to_both() -> None:
    assert schemas.fits("turn")(TURN | {"raw": "\ud800"})
    assert not schemas.fits("turn")(TURN | {"raw": "\ud800", "state": "correct"})


@pytest.mark.parametrize("number", ["1e999", "-1e999", str(2**63), str(-(2**63) - 1), "1" * 400])
def test_a_number_that_no_file_can_hold_again_is_refused(tmp_path: Path, number: str) -> None:
    (tmp_path / "x.jsonl").write_text(json.dumps(TURN).replace('"attempts": 1', f'"attempts": {number}') + "\n")
    with pytest.raises(InputError, match=r"x\.jsonl, line 1: field 'attempts'"):
        list(jsonio.read_jsonl(tmp_path / "x.jsonl", "turn"))
