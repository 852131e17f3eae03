"""The checklist of a report: filled from run and benchmark, and what these do not hold is named."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from handmade import Handmade
from logs import log

from chexqa.contract.benchmark import SKIPPED
from chexqa.eval.records import case_flow, checklist
from chexqa.eval.records.checklist import MI_CLEAR
from chexqa.eval.records.methods import _runs, paragraphs
from chexqa.eval.scoring.grade import Graded, grade_folders
from chexqa.eval.tables.all_tables import all_tables
from chexqa.eval.tables.numbers_markdown_latex import latex, markdown


@pytest.fixture
def graded(handmade: Handmade, tmp_path: Path) -> Graded:
    handmade.case("a", "edema", "lesion_free", patient="p1", detection=(2,), measures={"source": "Set A"})
    handmade.case("b", "edema", "revision_free", patient="p1", contour_evaluation=(2,), measures={"source": "Set B"})
    return grade_folders([log(tmp_path / "run", handmade.write("real"), skip=2)], allow_partial=True)


def decisions(sensitivity: float, specificity: float) -> pl.DataFrame:
    """Return a row with intervals from 0.1 below to 0.05 above each share."""
    row = {"model": "m", "protocol": "p", "kind": "detection"}
    shares = {
        f"{name}{end}": min(max(share + by, 0.0), 1.0)
        for name, share in (("sensitivity", sensitivity), ("specificity", specificity))
        for end, by in (("", 0.0), ("_low", -0.1), ("_high", 0.05))
    }
    return pl.DataFrame([row | shares])


@pytest.mark.parametrize("other", ["n", "reader/anna"])
def test_the_methods_name_the_families_of_tests_and_tables_say_what_is_corrected(
    handmade: Handmade, tmp_path: Path, other: str
) -> None:
    for number in range(4):
        path, key = (("lesion_free", {"detection": (2,)}), ("revision_free", {"contour_evaluation": (2,)}))[number % 2]
        handmade.case(f"case-{number}", "edema", path, patient=f"p{number}", **key)
    bench = handmade.write("real")
    graded = grade_folders([log(tmp_path / str(number), bench, model=name) for number, name in enumerate(["m", other])])
    frames = all_tables(graded)
    tests = paragraphs(graded, frames)[-1]
    assert "each family of tests by itself" in tests
    assert ("are a second family" in tests) == (other == "reader/anna")
    for form in (markdown, latex):
        assert "are not corrected. p holm" in form("pairs", frames["pairs"], None)
        assert "not corrected" not in form("levels", frames["levels"], None)


def test_all_six_items_are_there_and_name_what_is_missing(graded: Graded) -> None:
    entries = checklist.mi_clear(graded)
    assert list(dict.fromkeys(entry.item for entry in entries)) == list(MI_CLEAR)
    by_item = {entry.item: entry for entry in entries}
    assert "openai/m" in str(by_item[MI_CLEAR[0]].known)
    assert "asked 2026-01-01 to 2026-01-01" in str(by_item[MI_CLEAR[0]].known)
    assert "the version that the server used" in str(by_item[MI_CLEAR[0]].missing)
    assert "the temperature" in str(by_item[MI_CLEAR[1]].missing)
    assert "--repeats" in str(by_item[MI_CLEAR[1]].missing)
    assert "Set A, Set B" in str(by_item[MI_CLEAR[5]].known)
    assert "training data" in str(by_item[MI_CLEAR[5]].missing)


def test_runs_with_the_same_facts_share_their_rows_and_paragraphs(handmade: Handmade, tmp_path: Path) -> None:
    handmade.case("a", "edema", "lesion_free", detection=(2,))
    bench = handmade.write("real")
    protocols = {"one": "end_to_end", "two": "independent"}
    graded = grade_folders([log(tmp_path / name, bench, protocol=how) for name, how in protocols.items()])
    entries = checklist.mi_clear(graded)
    assert len(set(entries)) == len(entries)
    assert [entry.item for entry in entries].count(MI_CLEAR[0]) == 1


def test_the_methods_say_each_model_once_with_the_protocols_that_asked_it(handmade: Handmade, tmp_path: Path) -> None:
    handmade.case("a", "edema", "lesion_free", detection=(2,))
    bench = handmade.write("real")
    asked = [("a", "end_to_end"), ("b", "end_to_end"), ("a", "independent"), ("c", "independent")]
    runs = [
        log(tmp_path / str(number), bench, model=name, protocol=how, raw=f"Answer: {number}")
        for number, (name, how) in enumerate(asked)
    ]
    settings = json.loads((runs[3] / "run.json").read_text())
    settings["limit"] = 2
    (runs[3] / "run.json").write_text(json.dumps(settings))
    other = json.loads((runs[2] / "run.json").read_text())
    other["models"]["a"]["decoding"] = {"temperature": 1}
    (runs[2] / "run.json").write_text(json.dumps(other))
    first, second, trial, *models = _runs(grade_folders(runs, allow_partial=True).runs)
    assert first.startswith("Protocol 'end_to_end': each case was one conversation")
    assert second == "Protocol 'independent': every item was asked alone, with the pictures it needs."
    assert trial == f"Protocol 'independent' (2): {second[24:]} Only 2 cases were asked, as a trial."
    facts = "openai/m; default decoding; asked on 2026-01-01"
    assert models == [
        f"Models under 'end_to_end' and 'independent': a ('end_to_end': {facts}; "
        "'independent': openai/m; temperature 1; asked on 2026-01-01).",
        f"Models under 'end_to_end': b ({facts}).",
        f"Models under 'independent' (2): c ({facts}).",
    ]


@pytest.mark.parametrize("name", [
    "<img src=x onerror='window.stolen=1'>", "a | b\n# heading", "\u202eevil\u202c", "[a](file:///x) `code` *b* $x$",
    "🫁" * 60,
])  # fmt: skip
def test_a_hostile_name_is_text_in_the_checklist(handmade: Handmade, tmp_path: Path, name: str) -> None:
    handmade.case("a", "edema", "lesion_free", detection=(2,))
    graded = grade_folders([log(tmp_path / "run", handmade.write("real"), model=name)])
    made = checklist.files(graded, decisions(0.9, 0.8))
    text = made["reporting.md"].decode()
    tables, _, _ = text.partition("## A conversation in full")
    rows = [line for line in tables.split("\n") if line.startswith("| ")]
    assert len(rows) == len(list(csv.DictReader(io.StringIO(made["reporting.csv"].decode())))) + 4
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows), "no cell ends early"
    assert "<img" not in text
    assert "\u202e" not in text
    assert not re.search(r"(?<!\\)\[a\]|(?<!\\)`code|^# heading", text, re.MULTILINE)


def test_what_a_run_records_is_no_longer_missing(graded: Graded) -> None:
    (run,) = graded.runs
    run.about["models"]["m"]["decoding"] = {"temperature": 1}
    run.about["repeats"] = 3
    entry = next(entry for entry in checklist.mi_clear(graded) if entry.item == MI_CLEAR[1])
    assert ("temperature 1" in str(entry.known), "3 times" in str(entry.known), entry.missing) == (True, True, None)


def test_predictive_values_follow_bayes_rule(graded: Graded) -> None:
    known = {entry.item: entry for entry in checklist.reviewer(graded, decisions(0.9, 0.8))}
    told = "at a prevalence of 10 %: PPV 33.3 % (22.9 to 41.3), NPV 98.6 % (96.9 to 99.4)"
    assert told in str(known["predictive values"].known)
    few = decisions(0.9, 0.8).with_columns(specificity_low=pl.lit(None, pl.Float64))
    left = next(entry for entry in checklist.reviewer(graded, few) if entry.item == "predictive values")
    assert (left.known, left.missing) == (None, "sensitivity and specificity of detection with intervals")
    constant = checklist.reviewer(graded, decisions(0.0, 1.0))
    assert any("PPV –, NPV 90.0 % (" in str(entry.known) for entry in constant)
    assert known["plan before the study"].missing
    for name in ("device", "site"):
        entry = known[f"results by {name}"]
        assert (entry.known, f"the {name} of 2 cases (field '{name}' of the manifest)" == entry.missing) == (None, True)


def test_results_by_site_and_the_reference_by_finding_are_told_where_the_manifest_names_them(
    handmade: Handmade, tmp_path: Path
) -> None:
    handmade.case("a", "edema", "lesion_free", detection=(2,), measures={"site": "North", "reference": "report"})
    handmade.case("b", "effusion", "revision_free", measures={"site": "South", "reference": "drawn"})
    handmade.case("c", "edema", "lesion_free", detection=(1,))
    graded = grade_folders([log(tmp_path / "run", handmade.write("real"))])
    known = {entry.item: entry for entry in checklist.reviewer(graded, decisions(0.9, 0.8))}
    sources = "sources of masks: edema: not named 2, effusion: not named 1; "
    assert str(known["reference standard by finding"].known).startswith(sources)
    assert str(known["reference standard by finding"].known).endswith("edema: report 1, effusion: drawn 1")
    assert str(known["reference standard by finding"].missing).startswith("for 1 case: drawn, from reports or by")
    site = known["results by site"]
    assert site.missing == "the site of 1 case (field 'site' of the manifest)"
    right = {"North": ["a"], "South": ["b"], "unknown": ["c"]}
    for name, of in right.items():
        ids = [case_id for case_id, case in (graded.benchmark.cases or {}).items() if case.source_case_id in of]
        own = graded.grades.filter(graded.grades["case_id"].is_in(ids))["correct"]
        assert f"{name} {100 * sum(own) / len(own):.1f} % of {len(own)} answer" in str(site.known)
    assert known["results by device"].known is None


def test_the_flow_counts_every_case_once_and_every_answer(graded: Graded) -> None:
    with (graded.benchmark.folder / SKIPPED).open("w") as file:
        for number, reason in enumerate(("no lungs", "no lungs", "too <small>")):
            row = {"source_case_id": f"x{number}", "finding": "edema", "task": None, "reason": reason}
            file.write(json.dumps(row) + "\n")
    found = case_flow.steps(graded)
    assert "left out: 5" in found[0].lines[0]
    assert (found[1].left_out, "Cases in the benchmark: 2 (1 patient)" in found[1].lines) == (
        ("no lungs: 2", "too <small>: 1"), True)  # fmt: skip
    last = found[-1]
    answered, asked, *rest = map(int, re.findall(r"\d+", last.lines[1]))
    assert asked == graded.grades.height == answered + sum(rest)
    svg = case_flow.figure(graded)
    texts = [node.text for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert "too <small>: 1" in texts


def test_a_report_holds_the_checklist_with_a_prompt_in_full(graded: Graded) -> None:
    made = checklist.files(graded, decisions(0.5, 0.5))
    text = made["reporting.md"].decode()
    assert all(name in text for name in MI_CLEAR)
    assert "You are reading frontal chest radiographs" in text
    assert "The detection of edema?" in text
    rows = list(csv.DictReader(io.StringIO(made["reporting.csv"].decode("utf-8-sig"))))
    assert {row["checklist"] for row in rows} == {"MI-CLEAR-LLM", "What a reviewer asks for"}
