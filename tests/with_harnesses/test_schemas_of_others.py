"""Files checked against the schemas that other projects ship."""

from __future__ import annotations

import json
import os
from pathlib import Path

import yaml
from jsonschema import Draft7Validator

ROOT = Path(__file__).parents[2]
SCHEMAS = Path(os.environ.get("CHEXQA_TEST_HARNESSES", "")) / "schemas"


def test_the_citation_file_fits_its_format() -> None:
    schema = json.loads((SCHEMAS / "cffconvert" / "schemas" / "1.2.0" / "schema.json").read_text())
    record = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert [error.message for error in Draft7Validator(schema).iter_errors(record)] == []
