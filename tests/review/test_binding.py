"""What a verdict is bound to, and proposals that are wrong on purpose."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from review_sheets import fill, rows_in, write_small

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.cases import read_manifest
from chexqa.contract.items import CaseKey, Item
from chexqa.files.errors import InputError
from chexqa.files.terminal import progress
from chexqa.phantoms import write_cases
from chexqa.review import columns
from chexqa.review.binding import mask_seen, proposal_seen, question_seen
from chexqa.review.collect.import_sheets import ImportOptions, import_sheets
from chexqa.review.collect.verdicts import Verdict, by_item, load_batch, read_store
from chexqa.review.planted import planted, wrong_answer
from chexqa.review.resolve.decide import UNREVIEWED, decide
from chexqa.review.sheets.export import Wish, export
from chexqa.review.sheets.masks_sheet import from_manifest
from chexqa.review.sheets.questions import Questions
from chexqa.review.study.reader_run import turns_of

pytestmark = pytest.mark.xdist_group("binding")

MASKS = {name: {"size": [4, 4], "counts": name[:2]} for name in ("lesion", "right_lung", "left_lung", "heart")}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return benchmark.load(write_small(tmp_path_factory.mktemp("small") / "bench"))


@pytest.fixture(scope="module")
def phantom_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cases(tmp_path_factory.mktemp("phantoms") / "cases", 3, seed=2, size=256)


def item_of(bench: Benchmark, kind: str) -> tuple[Item, CaseKey]:
    item = next(item for item in bench.items if item.kind == kind)
    return item, replace((bench.cases or {})[item.case_id], measures={"masks": MASKS})


def test_a_verdict_is_bound_to_all_that_a_proposal_shows_and_to_nothing_else(bench: Benchmark) -> None:
    item, case = item_of(bench, "distribution")
    same = proposal_seen(item, (2,), case)
    assert proposal_seen(item, (2,), replace(case, sex="F", age=40.0, patient_id="other", case_id="renamed")) == same
    assert proposal_seen(replace(item, item_id="renamed", seq=9), (2,), case) == same
    turned = tuple(replace(option, n=5 - option.n) for option in reversed(item.options[:4]))
    picture = replace(item.alone_images[0], image=f"images/ab/{'ab' * 32}.png")
    others = [
        proposal_seen(item, (3,), case),
        proposal_seen(replace(item, question="Another?"), (2,), case),
        proposal_seen(replace(item, options=turned), (2,), case),
        proposal_seen(replace(item, alone_images=(picture,)), (2,), case),
        question_seen(item),
    ]
    moved = [{**MASKS, name: {"size": [4, 4], "counts": "moved"}} for name in MASKS]
    others += [proposal_seen(item, (2,), replace(case, measures={"masks": masks})) for masks in moved]
    assert len({same, *others}) == 10


def test_a_blind_answer_stands_whatever_becomes_of_the_key_and_contours_mind_no_lungs(bench: Benchmark) -> None:
    item, case = item_of(bench, "contour_evaluation")
    moved = replace(case, measures={"masks": {**MASKS, "left_lung": {"size": [4, 4], "counts": "moved"}}})
    assert proposal_seen(item, (2,), case) == proposal_seen(item, (2,), moved)
    assert question_seen(item) != proposal_seen(item, (2,), case) != proposal_seen(item, (1,), case)


def test_a_mask_is_bound_to_lungs_and_radiograph(phantom_cases: Path) -> None:
    first, second = (subject.load() for subject in from_manifest(read_manifest(phantom_cases)[:2]))
    assert first.seen == first._replace(image_key=first.image_key).seen != second.seen
    assert first.left_lung is not None
    lung = np.roll(first.left_lung, 1, axis=0)
    assert first._replace(left_lung=lung).seen != first.seen != first._replace(image_key=second.image_key).seen
    assert mask_seen("k", {"heart": MASKS["heart"]}) == mask_seen("k", {})


def test_an_import_stores_the_hash_of_the_row_and_a_store_of_before_keeps_its_bytes(
    bench: Benchmark, tmp_path: Path
) -> None:
    export(bench.folder, tmp_path / "sheets", Wish(("anna",), 0.0, 1), None, progress)
    batch = load_batch(tmp_path / "sheets")
    sheet = fill(tmp_path / "sheets" / "anna" / "anna.xlsx", lambda row: {columns.VERDICT: "accept"})
    done = import_sheets(ImportOptions((sheet,), tmp_path / "sheets", day="2026-03-01"))
    answers, cases = bench.key("a test")
    for verdict in done.verdicts.values():
        item = bench.item[verdict.row[2:]]
        assert verdict.seen == proposal_seen(item, answers[item.item_id].answer, cases[item.case_id])
    (dealt,) = batch.sheets.values()
    assert set(dealt.seen) == dealt.rows

    line = json.loads(done.store.read_text("utf-8").splitlines()[0])
    assert line.pop("schema_version") == 2
    del line["seen"]
    old = tmp_path / "verdicts.jsonl"
    old.write_text(json.dumps(line) + "\n")
    (verdict,) = read_store(old).values()
    assert verdict.seen is None
    assert verdict.to_record() == line


def test_one_proposal_in_twenty_is_wrong_and_only_the_batch_file_says_so(
    bench: Benchmark, tmp_path: Path, cli: Callable[..., tuple[int, str, str]]
) -> None:
    answers = bench.answers or {}
    assert len(bench.items) < 40
    assert cli("review", "export", bench.folder, "-o", tmp_path / "s", "--reviewers", "anna")[0] == 0
    about = json.loads((tmp_path / "s" / "review.json").read_text())
    ((row, shown),) = about["sheets"][0]["planted"].items()
    item = bench.item[row[2:]]
    assert not item.form.is_right(answers[item.item_id].answer, shown)
    for cells in rows_in(tmp_path / "s" / "anna" / "anna.xlsx"):
        if cells[columns.ID] == row and item.form.lists_options:
            assert [line.split(".")[0] for line in cells[columns.PROPOSED].splitlines()] == [str(n) for n in shown]
    assert not [path for path in (tmp_path / "s" / "anna").rglob("*.html") if b"planted" in path.read_bytes()]
    # No other row of the case presupposes the right answer.
    assert item.kind not in ("detection", "contour_evaluation")

    sheet = fill(tmp_path / "s" / "anna" / "anna.xlsx", lambda row: {columns.VERDICT: "accept"})
    assert cli("review", "import", sheet, "--batch", tmp_path / "s")[0] == 0
    verdicts = read_store(tmp_path / "s").values()
    assert [verdict.row for verdict in verdicts if not verdict.counts] == [row]

    assert cli("review", "export", bench.folder, "-o", tmp_path / "t", "--reviewers", "a", "--planted", "0")[0] == 0
    assert "planted" not in (tmp_path / "t" / "review.json").read_text()
    assert cli("review", "export", bench.folder, "-o", tmp_path / "u", "--reviewers", "a", "--planted", "2")[0] == 2


def test_no_evidence_stands_beside_proposals_of_which_some_are_wrong(bench: Benchmark) -> None:
    """The words of the evidence are the key's: beside a wrong proposal they would say what is right."""
    measured = {item_id: replace(answer, evidence={"area": 12}) for item_id, answer in (bench.answers or {}).items()}
    shown = Questions(replace(bench, answers=measured))
    cases = [work.case_id for work in shown.works]
    assert {entry.row.cells[columns.EVIDENCE] for entry in shown.tabs(cases, "items")[1].values()} == {"area: 12"}
    some_wrong = shown.planted(cases, "anna", 0, 0.1)
    assert some_wrong.wrong
    assert not [entry for entry in some_wrong.tabs(cases, "items")[1].values() if columns.EVIDENCE in entry.row.cells]


def test_wrong_proposals_are_clearly_wrong(bench: Benchmark) -> None:
    rng = np.random.default_rng(1)
    answers = bench.answers or {}
    for item in bench.items:
        key = answers[item.item_id].answer
        shown = wrong_answer(item, key, rng)
        if shown is not None and item.form.takes_several:
            assert not {*shown} & {*key}
        elif shown is not None and item.form.lists_options:
            assert shown != key
    severity, _ = item_of(bench, "distribution")
    assert wrong_answer(severity, (1,), rng) == (len(severity.options),)
    grid, _ = item_of(bench, "grid_cell")
    assert wrong_answer(grid, (1, 2), rng) == (7, 8)
    assert wrong_answer(grid, (28, 29, 36, 37), rng) is None
    everything = planted(bench.items, answers, (), "anna", 0, 0.5)
    assert len(everything) == len(bench.items) // 2
    assert not [item for item in bench.items if item.item_id in everything and item.stage in (1, 2)]
    first = [item for item in bench.items if item.kind == "detection"]
    assert len(planted(first, answers, (), "anna", 0, 0.5)) == len(first) // 2
    few = planted(bench.items, answers, (), "anna", 0, 0.2)
    assert len(few) == int(len(bench.items) * 0.2)
    assert few != planted(bench.items, answers, (), "ben", 0, 0.2)
    assert not set(everything) & set(planted(bench.items, answers, everything, "anna", 0, 0.5))


def test_a_changed_sex_refuses_no_verdict_and_a_changed_key_does(bench: Benchmark, tmp_path: Path) -> None:
    answers, cases = bench.key("a test")
    item, _ = item_of(bench, "distribution")
    key = answers[item.item_id]
    seen = proposal_seen(item, key.answer, cases[item.case_id])
    row = columns.item_row_id(item.item_id)
    verdict = Verdict("r-000000000001", "0" * 64, "anna", "items", "anna", row, "accept", None, None, None, None,
                      "2026-03-01", {"file": "a.xlsx", "tab": "part 1", "row": 2}, seen)  # fmt: skip
    sexes = {name: replace(case, sex="M") for name, case in cases.items()}
    assert list(by_item([verdict], replace(bench, cases=sexes))) == [item.item_id]
    other = {**answers, item.item_id: replace(key, answer=(key.answer[0] % 4 + 1,))}
    for changed, said in (
        (replace(bench, answers=other), verdict),
        (bench, replace(verdict, seen=None)),
        (bench, replace(verdict, row="i-other")),
    ):
        with pytest.raises(InputError, match="chexqa review carry OLD NEW"):
            by_item([said], changed)
    assert by_item([replace(verdict, benchmark=bench.hash, seen=None)], bench)


def test_a_verdict_on_a_wrong_proposal_decides_nothing(bench: Benchmark) -> None:
    item, _ = item_of(bench, "distribution")
    row = columns.item_row_id(item.item_id)
    rejected = Verdict("r-000000000001", bench.hash, "anna", "items", "anna", row, "reject", None, None, None, None,
                       "2026-03-01", {"file": "a.xlsx", "tab": "part 1", "row": 2}, "0" * 32, (3,))  # fmt: skip
    assert decide(item, (bench.answers or {})[item.item_id], [rejected]).status == UNREVIEWED
    assert Verdict.from_record(rejected.to_record()) == rejected


def test_a_number_with_a_point_is_read_as_a_whole_one_and_no_option_beyond_the_last(
    bench: Benchmark,
) -> None:
    item, _ = item_of(bench, "location")
    record = {
        "batch": "r-000000000001", "benchmark": bench.hash, "sheet": "anna", "kind": "readers", "reviewer": "anna",
        "row": columns.item_row_id(item.item_id), "verdict": None, "answer": [1.0], "reason": None, "comment": None,
        "seconds": None, "imported": "2026-03-01", "source": {"file": "a.xlsx", "tab": "part 1", "row": 2},
    }  # fmt: skip
    verdict = Verdict.from_record(record)
    assert isinstance((verdict.answer or ())[0], int)
    assert set(turns_of(bench, [verdict])) == {"reader/anna"}
    wrong = replace(verdict, benchmark=bench.hash, answer=(99,), seen=question_seen(item))
    for read in (lambda: turns_of(bench, [wrong]), lambda: by_item([wrong], bench)):
        with pytest.raises(InputError, match="'answer' names option 99, but the item has options 1 to"):
            read()
