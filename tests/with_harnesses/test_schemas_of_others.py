"""Files checked against the schemas that other projects ship."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator
from logs import log

from chexqa.eval.records.every_eval_ever import Publisher, export_records
from chexqa.eval.scoring.grade import load_runs

ROOT = Path(__file__).parents[2]
SCHEMAS = Path(os.environ.get("CHEXQA_TEST_HARNESSES", "")) / "schemas"


def test_the_citation_file_fits_its_format() -> None:
    schema = json.loads((SCHEMAS / "cffconvert" / "schemas" / "1.2.0" / "schema.json").read_text())
    record = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert [error.message for error in Draft7Validator(schema).iter_errors(record)] == []


@pytest.mark.parametrize("protocol", ["end_to_end", "independent"])
@pytest.mark.parametrize("with_key", [False, True])
def test_records_fit_the_schemas_of_every_eval_ever(
    tiny_benchmark: Path, tmp_path: Path, protocol: str, with_key: bool
) -> None:
    folder = SCHEMAS / "every_eval_ever" / "schemas"
    aggregate, instance = (
        Draft7Validator(json.loads((folder / f"{name}.schema.json").read_text()))
        for name in ("eval", "instance_level_eval")
    )
    benchmark, (run,) = load_runs([log(tmp_path / "run", tiny_benchmark, protocol=protocol, skip=3)])
    (path,) = export_records(run, benchmark, tmp_path / "records", Publisher("A lab", "third_party"), with_key)
    record = json.loads(path.read_text())
    assert [error.message for error in aggregate.iter_errors(record)] == []
    lines = (tmp_path / "records" / record["detailed_evaluation_results"]["file_path"]).read_text().splitlines()
    assert len(lines) == record["detailed_evaluation_results"]["total_rows"] > 20
    assert [error.message for line in lines for error in instance.iter_errors(json.loads(line))] == []
