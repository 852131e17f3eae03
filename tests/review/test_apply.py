"""From verdicts to a new version: who decides, what stays, what leaves, and what is contested."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from review_sheets import answer_cells, as_reviewer, fill, fill_all, rows_in, work_tabs, write_small

from chexqa.cli.validate import validate
from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Answer, Item, Option
from chexqa.eval.scoring.grade import grade_folders
from chexqa.files.jsonio import read_jsonl, read_lines, sha256
from chexqa.phantoms import write_cases
from chexqa.review import columns
from chexqa.review.collect.verdicts import Verdict, read_store, write_store
from chexqa.review.columns import item_row_id, mask_row_id
from chexqa.review.followup.adjudication_sheet import disputes
from chexqa.review.resolve.apply_masks import state_of
from chexqa.review.resolve.compare import SheetPlace, compare
from chexqa.review.resolve.decide import against_key, decide
from chexqa.review.resolve.new_version import CHANGED, MASK_REVIEW, apply_verdicts, next_version, write_version
from chexqa.review.study.reader_run import MAJORITY, majority

Cli = Callable[..., tuple[int, str, str]]


def said(
    row: str, reviewer: str = "anna", verdict: str | None = "accept", answer: tuple[int, ...] | None = None,
    kind: Any = "items", reason: str | None = None, hash_: str = "0" * 64, day: str = "2026-03-01",
) -> Verdict:  # fmt: skip
    """A verdict as an import makes it."""
    return Verdict(
        "r-000000000001", hash_, f"{reviewer}-{kind}", kind, reviewer, row, verdict, answer, reason, None, None, day,
        {"file": "a.xlsx", "tab": "part 1", "row": 2},
    )  # fmt: skip


def an_item(kind: str, multi: bool = False) -> Item:
    options = tuple(Option(n, text) for n, text in enumerate("abcd", start=1))
    return Item(f"c1/{kind}", "c1", 1, kind, "coarse", 1, "edema", "?", options, multi, (), ())


def key_of(item: Item, *answer: int) -> Answer:
    return Answer(item.item_id, answer, 0.25, 0.25, "revision_required", {})


def votes(text: str) -> list[Verdict]:
    """Verdicts from "anna accept, ben fix 3, dora! reject, eva? 2": ! adjudicates, ? answers blind."""
    found = []
    for part in text.split(", "):
        name, *words = part.split()
        if name.endswith("?"):
            answer = (int(words[0]),) if words[0].isdigit() else None
            found.append(said("i-x", name[:-1], None, answer, "blind", None if answer else "cannot tell"))
            continue
        kind = "adjudication" if name.endswith("!") else "items"
        answer = (int(words[1]),) if len(words) > 1 and words[1].isdigit() else None
        reason = "wrong contour" if words[-1] == "contour" else None
        found.append(said("i-x", name.strip("!"), words[0], answer, kind, reason))
    return found


@pytest.mark.parametrize(
    ("kind", "text", "status", "why"),
    [
        ("severity", "anna accept", "accepted", "nobody objects"),
        ("severity", "anna accept, ben accept", "accepted", ""),
        ("severity", "anna accept, ben unsure", "accepted", ""),
        ("severity", "anna unsure", "contested", "all reviewers are unsure"),
        ("severity", "anna accept, ben reject", "contested", "disagree: 1 accept, 1 reject"),
        ("severity", "anna reject, ben reject", "rejected", "no reason"),
        ("severity", "anna fix 3", "contested", "two are needed"),
        ("severity", "anna fix 3, ben fix 3", "corrected", "2 readers"),
        ("severity", "anna fix 3, ben fix 4", "contested", "different corrected answers"),
        ("severity", "anna fix 3, ben accept", "contested", "disagree"),
        ("severity", "anna fix 3, ben accept, dora! fix 3", "corrected", "2 readers"),
        ("severity", "anna accept, ben reject, dora! fix 3", "contested", "two are needed"),
        ("severity", "anna fix 2, dora! fix 3", "contested", "only the adjudicator gives this"),
        ("severity", "anna fix 2, dora! fix 3, eva! fix 3", "corrected", "2 readers"),
        ("severity", "anna fix 2, dora! fix 3, eva! fix 4", "contested", "adjudicators give different"),
        ("severity", "anna? 1, ben reject", "contested", "disagree: 1 accept (blind answer), 1 reject"),
        ("severity", "anna? 1, ben? 1, cem accept, dan reject", "contested", "1 accept, 2 accept (blind answer), 1"),
        ("severity", "anna fix 3, anna! fix 3", "contested", "two are needed; ask a second adjudicator"),
        ("severity", "anna accept, ben reject, dora! accept", "accepted", "by adjudication"),
        ("severity", "anna accept, ben reject, dora! unsure", "contested", "the adjudicator is unsure"),
        ("severity", "anna accept, dora! accept, eva! reject", "contested", "adjudicators disagree"),
        ("severity", "anna fix contour", "contested", "only one reader doubts its mask"),
        ("severity", "anna fix contour, ben fix contour", "sent back", "mask or label is doubted (wrong contour)"),
        ("severity", "anna reject", "contested", "only one reader rejects it, and 2 are needed"),
        ("severity", "anna reject, ben unsure", "contested", "only one reader rejects it, and 2 are needed"),
        ("severity", "anna reject, dora! reject", "rejected", ""),
        ("severity", "anna reject, anna! reject", "contested", "only one reader rejects it"),
        ("severity", "anna accept, dora! reject", "rejected", ""),
        ("severity", "anna? 3, ben? 3, anna accept, ben accept", "contested", "two readers gave a blind answer"),
        ("severity", "anna? 3, ben? 4, anna accept, ben accept", "contested", "a blind answer that differs"),
        ("severity", "anna? 3, ben? 1, anna accept, ben accept", "accepted", "nobody objects"),
        ("severity", "anna? 3, ben? 3, anna fix 3, ben fix 3", "corrected", "2 readers"),
        ("severity", "anna? 3, ben? 3, anna accept, ben accept, dora! accept", "accepted", "by adjudication"),
        ("severity", "anna? 3, ben? 3, anna accept, dora! unsure", "contested", "the adjudicator is unsure"),
        ("severity", "anna fix contour, ben fix 3", "contested", "different corrected answers"),
        ("severity", "anna? 1", "accepted", ""),
        ("severity", "anna? 3", "contested", "a blind answer differs"),
        ("severity", "anna? 3, ben? 3", "contested", "a blind answer differs"),
        ("severity", "anna? 3, ben fix 3", "corrected", "2 readers"),
        ("severity", "anna? 3, anna accept", "accepted", ""),
        ("severity", "anna? none", "contested", "all reviewers are unsure"),
        ("contour_evaluation", "anna fix", "contested", "only one reader doubts its mask or label"),
        ("contour_evaluation", "anna fix, dora! fix", "sent back", "mask or label is doubted"),
        ("contour_evaluation", "anna fix 2, ben fix 2", "sent back", ""),
        ("contour_evaluation", "anna accept, ben fix", "contested", "disagree"),
        ("detection", "anna fix, ben fix", "sent back", ""),
        ("grid_cell", "anna fix, ben fix", "sent back", ""),
        ("grid_cell", "anna fix 2, ben fix 3", "contested", "different corrected answers"),
        ("grid_cell", "anna fix 3", "contested", "two are needed"),
        ("grid_cell", "anna fix 3, ben fix 3", "corrected", ""),
    ],
)  # fmt: skip
def test_who_decides(kind: str, text: str, status: str, why: str) -> None:
    item = an_item(kind)
    decision = decide(item, key_of(item, 1), votes(text))
    assert decision.status == status
    assert why in decision.why
    assert (decision.answer == (3,)) == (status == "corrected")
    shuffled = decide(item, key_of(item, 1), list(reversed(votes(text))))
    assert (shuffled.status, shuffled.why) == (decision.status, decision.why)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("anna? 3, ben? 4", "not reviewed"),
        ("anna? 3, ben accept", "accepted"),
        ("anna? 3, ben? 4, anna accept, ben accept", "accepted"),
        ("anna? 3, ben? 3, anna fix 3, ben fix 3", "corrected"),
    ],
)
def test_blind_cells_do_not_count_on_a_grid_without_a_hit(text: str, status: str) -> None:
    """A reader without a proposal has to name a cell, and none can be right."""
    item = an_item("grid_cell")
    assert decide(item, key_of(item), votes(text)).status == status


def test_one_reader_may_be_enough_to_remove_where_the_coordinator_says_so() -> None:
    item = an_item("severity")
    assert decide(item, key_of(item, 1), votes("anna reject"), 1).status == "rejected"
    three = "anna reject, ben reject"
    assert decide(item, key_of(item, 1), votes(three), 3).why == "only 2 readers reject it, and 3 are needed"


@pytest.mark.parametrize(
    ("kind", "key", "answers", "against"),
    [
        ("detection", (1,), [(2,)], False), ("detection", (1,), [(2,), (2,)], True),
        ("severity", (1,), [(2,), (3,)], True), ("severity", (1,), [(2,), (1,)], False),
        ("grid_cell", (10, 11), [(10,), (11,)], False), ("grid_cell", (10, 11), [(1,), (64,)], True),
        ("location", (1, 3), [(1,), (1, 2, 3)], False), ("location", (1, 3), [(1,), (1, 2)], True),
        ("location", (1, 3), [(1,), (2, 3), (1, 2, 3)], True), ("location", (4,), [(1,), (2,)], True),
    ],
)  # fmt: skip
def test_what_two_readers_must_say_to_be_against_the_key(
    kind: str, key: tuple[int, ...], answers: list[tuple[int, ...]], against: bool
) -> None:
    item = an_item(kind, multi=kind == "location")
    assert against_key(item, key_of(item, *key), answers) is against


def test_without_a_verdict_nothing_is_decided() -> None:
    item = an_item("severity")
    assert decide(item, key_of(item, 1), []).status == "not reviewed"
    readers = [said("i-x", verdict=None, answer=(2,), kind="readers")]
    assert decide(item, key_of(item, 1), readers).status == "not reviewed"


words = st.sampled_from(["accept", "reject", "unsure", "fix 2", "fix 3"])


@given(st.lists(words, min_size=1, max_size=5))
@settings(max_examples=80, deadline=None)
def test_one_more_who_objects_never_makes_an_item_accepted(said_so: list[str]) -> None:
    item = an_item("severity")
    text = ", ".join(f"r{number} {word}" for number, word in enumerate(said_so))
    before = decide(item, key_of(item, 1), votes(text)).status
    after = decide(item, key_of(item, 1), votes(f"{text}, z reject")).status
    assert after in ("contested", "rejected")
    assert not (before == "accepted" and after == "rejected")


@pytest.fixture
def bench(tmp_path: Path) -> Benchmark:
    return benchmark.load(write_small(tmp_path / "bench"))


def of_case(bench: Benchmark, name: str, kind: str) -> str:
    """The row id of an item, from its case's source id and its kind."""
    _, keys = bench.key("a test")
    return next(
        item_row_id(item.item_id)
        for item in bench.items
        if keys[item.case_id].source_case_id == name and item.kind == kind
    )


def review(bench: Benchmark, *rows: tuple[str, str, str, str]) -> list[Verdict]:
    """Everybody accepts everything, but for rows of (case, kind, reviewer, what is said instead)."""
    other = {(of_case(bench, name, kind), who): text for name, kind, who, text in rows}
    found = []
    for item in bench.items:
        row = item_row_id(item.item_id)
        for who in ("anna", "ben"):
            (vote,) = votes(f"{who} {other.get((row, who), 'accept')}")
            found.append(said(row, who, vote.verdict, vote.answer, reason=vote.reason, hash_=bench.hash))
    return found


def written(bench: Benchmark, verdicts: Iterable[Verdict], version: str | None = None) -> Benchmark:
    out = bench.folder.parent / f"next-{len(list(bench.folder.parent.iterdir()))}"
    write_version(apply_verdicts(bench, verdicts, version), out)
    return benchmark.load(out)


def kinds_of(bench: Benchmark, name: str) -> set[str]:
    _, keys = bench.key("a test")
    return {item.kind for item in bench.items if keys[item.case_id].source_case_id == name}


def changes(bench: Benchmark) -> dict[str, Mapping[str, Any]]:
    return {record["item_id"]: record for _, record in read_jsonl(bench.folder / CHANGED, "review_change")}


def test_all_accepted_is_the_same_items_in_a_new_version(bench: Benchmark) -> None:
    new = written(bench, review(bench))
    assert new.items == bench.items
    assert new.hash != bench.hash
    assert (bench.about["version"], new.about["version"]) == ("1", "2")
    answers, cases = new.key("a test")
    before, old_cases = bench.key("a test")
    assert cases == old_cases
    for item_id, answer in answers.items():
        assert (answer.answer, answer.chance, answer.flags) == (
            before[item_id].answer, before[item_id].chance, before[item_id].flags
        )  # fmt: skip
        assert answer.review is not None
        assert answer.review["status"] == "accepted"
        assert [vote["reviewer"] for vote in answer.review["votes"]] == ["reader 1", "reader 2"]
    assert "all hashes right" in validate(new.folder).summary
    assert changes(new) == {}
    assert (new.folder / MASK_REVIEW).read_bytes() == b""


def test_pictures_are_the_same_bytes_and_unused_ones_are_gone(bench: Benchmark) -> None:
    new = written(bench, review(bench, ("d", "detection", "anna", "reject"), ("d", "detection", "ben", "reject")))
    used = set().union(*(item.image_paths for item in new.items))
    there = {str(path.relative_to(new.folder)) for path in (new.folder / "images").rglob("*.png")}
    assert used == there
    assert there < {str(path.relative_to(bench.folder)) for path in (bench.folder / "images").rglob("*.png")}
    for image in used:
        assert (new.folder / image).samefile(bench.folder / image)


def test_a_changed_picture_stops_it_and_leaves_nothing(bench: Benchmark) -> None:
    image = next((bench.folder / "images").rglob("*.png"))
    image.write_bytes(b"other")
    before = sorted(bench.folder.parent.iterdir())
    with pytest.raises(Exception, match="the picture was changed"):
        written(bench, review(bench))
    assert sorted(bench.folder.parent.iterdir()) == before


def test_a_rejected_attribute_leaves_alone(bench: Benchmark) -> None:
    new = written(bench, review(bench, ("e", "severity", "anna", "reject"), ("e", "severity", "ben", "reject")))
    assert kinds_of(bench, "e") - kinds_of(new, "e") == {"severity"}
    assert new.about["counts"]["paths"] == bench.about["counts"]["paths"]
    (change,) = changes(new).values()
    assert (change["status"], change["before"], change["after"]) == ("rejected", [1], None)


def test_an_item_of_the_first_stages_takes_the_case_along_and_the_grid_stands_alone(bench: Benchmark) -> None:
    rows = [("b", "contour_evaluation", who, "reject") for who in ("anna", "ben")]
    new = written(bench, review(bench, *rows))
    assert kinds_of(new, "b") == {"grid_cell"}
    assert kinds_of(new, "c") == kinds_of(bench, "c")
    answers, cases = new.key("a test")
    (case,) = [case for case in cases.values() if case.source_case_id == "b"]
    assert case.path is None
    assert answers[f"{case.case_id}/grid_cell"].path is None
    counts = new.about["counts"]["paths"]["effusion"]
    assert counts == {"lesion_free": 1, "revision_free": 0, "revision_required": 1}
    assert {"finding": "effusion", "path": "revision_free", "quota": 1, "made": 0} in new.about["shortfall"]
    (skipped,) = [record for _, record in read_jsonl(new.folder / benchmark.SKIPPED, "skipped")]
    assert (skipped["source_case_id"], skipped["task"]) == ("b", "perception")
    assert "contour_evaluation was rejected" in skipped["reason"]
    left = changes(new)
    assert {record["status"] for record in left.values()} == {"rejected", "left with its case"}
    assert "all hashes right" in validate(new.folder).summary


def test_a_doubted_mask_is_listed_for_mask_review(bench: Benchmark) -> None:
    rows = [("d", "revision_result", who, "fix") for who in ("anna", "ben")]
    rows += [("e", "location", who, "fix contour") for who in ("anna", "ben")]
    new = written(bench, review(bench, *rows))
    assert kinds_of(new, "d") == kinds_of(new, "e") == set()
    listed = [record for _, record in read_jsonl(new.folder / MASK_REVIEW, "mask_review")]
    assert {record["source_case_id"]: len(record["items"]) for record in listed} == {"d": 1, "e": 1}
    tasks = {
        record["source_case_id"]: record["task"] for _, record in read_jsonl(new.folder / "skipped.jsonl", "skipped")
    }
    assert tasks == {"d": None, "e": None}


def test_two_readers_overrule_an_attribute_and_the_priors_follow(bench: Benchmark) -> None:
    rows = [("c", "distribution", who, "fix 1") for who in ("anna", "ben")]
    new = written(bench, review(bench, *rows))
    before, _ = bench.key("a test")
    answers, _ = new.key("a test")
    item_id = of_case(bench, "c", "distribution").removeprefix("i-")
    assert (before[item_id].answer, answers[item_id].answer) == ((2,), (1,))
    assert answers[item_id].review is not None
    assert answers[item_id].review["proposed"] == [2]
    # Both effusion cases with this item now have answer 1.
    assert answers[item_id].prior == 1.0
    assert changes(new)[item_id]["after"] == [1]


def test_what_is_disputed_stays_and_is_marked(bench: Benchmark) -> None:
    new = written(bench, review(bench, ("e", "location", "anna", "reject"), ("b", "detection", "ben", "fix")))
    assert new.items == bench.items
    answers, _ = new.key("a test")
    marked = {item_id for item_id, answer in answers.items() if "contested" in answer.flags}
    assert marked == {of_case(bench, "e", "location")[2:], of_case(bench, "b", "detection")[2:]}
    text = (new.folder / "README.md").read_text()
    assert "reviewers disagree: 1 accept, 1 reject" in text


def test_a_later_review_clears_a_dispute_and_keeps_the_trail(bench: Benchmark) -> None:
    second = written(bench, review(bench, ("e", "location", "anna", "reject")))
    third = written(second, review(second))
    answers, _ = third.key("a test")
    answer = answers[of_case(bench, "e", "location")[2:]]
    assert answer.flags == ()
    assert answer.review is not None
    assert (answer.review["status"], answer.review["version"]) == ("accepted", "3")
    assert answer.review["earlier"]["status"] == "contested"
    text = (third.folder / "README.md").read_text()
    assert text.index("### Version 3") < text.index("### Version 2")
    with pytest.raises(Exception, match="the item is missing or different in"):
        written(third, review(second))


def test_the_new_version_names_nobody(bench: Benchmark) -> None:
    new = written(bench, review(bench, ("e", "location", "anna", "reject"), ("c", "severity", "ben", "fix 2")))
    for path in new.folder.glob("*.*"):
        text = path.read_text()
        assert "anna" not in text
        assert not any(f'"{name}"' in text for name in ("ben", "part 1"))


def test_items_nobody_judged_stay_as_they_are(bench: Benchmark) -> None:
    row = of_case(bench, "e", "location")
    new = written(bench, [said(row, hash_=bench.hash)])
    answers, _ = new.key("a test")
    assert [item_id for item_id, answer in answers.items() if answer.review] == [row[2:]]
    assert "1 person judged 1 of" in (new.folder / "CHANGES.md").read_text()


@pytest.mark.parametrize(
    ("version", "after"), [("1", "2"), ("1.9", "1.10"), ("2026-01", "2026-01.1"), ("beta", "beta.1"), ("v2", "v2.1")]
)
def test_the_version_after_this_one(version: str, after: str) -> None:
    assert next_version(version) == after


def test_verdicts_that_leave_nothing_or_say_nothing_are_refused(bench: Benchmark) -> None:
    everything = [
        said(item_row_id(item.item_id), reviewer, "reject", hash_=bench.hash)
        for item in bench.items
        for reviewer in ("anna", "ben")
    ]
    with pytest.raises(Exception, match="would remove every item"):
        apply_verdicts(bench, everything)
    with pytest.raises(Exception, match="none of its items has a verdict"):
        apply_verdicts(bench, [])
    with pytest.raises(Exception, match="give the manifest of the cases"):
        apply_verdicts(bench, [said("m-x", kind="masks", hash_=bench.hash)])


@given(st.data())
@settings(max_examples=12, deadline=None)
def test_whatever_is_said_the_new_version_is_whole(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Paths have their stages, counts add up, and every item is in the version or in the changes with a reason."""
    folder = tmp_path_factory.getbasetemp() / "any-verdicts"
    bench = benchmark.load(folder if folder.exists() else write_small(folder))
    rows = []
    for item in bench.items:
        for who in ("anna", "ben"):
            word = data.draw(st.sampled_from(["accept"] * 8 + ["reject", "fix 2", "unsure"]))
            (vote,) = votes(f"{who} {word}")
            rows.append(said(item_row_id(item.item_id), who, vote.verdict, vote.answer, hash_=bench.hash))
    if all(row.verdict == "reject" for row in rows):
        return
    applied = apply_verdicts(bench, rows)
    stay = {item.item_id for item in applied.contents.items}
    gone = {record["item_id"] for record in applied.changes if record["after"] is None}
    assert stay | gone == set(bench.item)
    assert not stay & gone
    for case in applied.contents.cases:
        kinds = {item.kind for item in applied.contents.items if item.case_id == case.case_id}
        perception = kinds - {"grid_cell"}
        assert (case.path is None) == (not perception)
        if perception:
            stages = {item.stage for item in bench.items if item.case_id == case.case_id and item.stage}
            first = {item.kind for item in bench.items if item.case_id == case.case_id and item.stage in (1, 2, 3)}
            assert first <= perception
            assert stages
    out = tmp_path_factory.mktemp("any") / "next"
    write_version(applied, out)
    assert "all hashes right" in validate(out).summary
    shutil.rmtree(out)


def simulate(path: Path, bench: Benchmark, said_of: Callable[[Item, Answer], dict[str, str]]) -> None:
    for sheet in sorted(path.rglob("*.xlsx")):
        fill(sheet, as_reviewer(bench, said_of))


def check_agreement_tables(cli: Cli, bench: Path, store: Path, home: Path) -> None:
    """Both tables hold what the command gives to machines."""
    _, out, _ = cli("review", "agreement", bench, store, "--json", "-o", home / "agreement.csv")
    assert cli("review", "agreement", bench, store, "-o", home / "agreement.xlsx")[0] == 0
    whole = json.loads(out)[0]
    for frame in (pd.read_csv(home / "agreement.csv"), pd.read_excel(home / "agreement.xlsx")):
        first, pair = frame.iloc[0], frame[frame["reviewers"] == "anna and ben"].iloc[0]
        assert (first["kind"], first["reviewers"], first["coefficient"]) == ("all", "all", "percent")
        assert (first["units"], first["patients"]) == (whole["units"], whole["patients"])
        assert first["value"] == pytest.approx(whole["percent"]["value"])
        assert pair["value"] == pytest.approx(whole["pairs"][0]["same"]["value"])
        assert set(frame["notice"]) == {"drawn phantoms: a software test, without clinical meaning"}
    code, _, err = cli("review", "agreement", bench, store, "-o", home / "agreement.docx")
    assert (code, "the name of a table must end in .csv or .xlsx" in err) == (2, True)


def test_the_whole_way_by_commands(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    sheets, store = tmp_path / "sheets", tmp_path / "verdicts.jsonl"
    assert (
        cli("review", "export", bench.folder, "-o", sheets, "--reviewers", "anna,ben", "--overlap", 1, "--both-parts")[
            0
        ]
        == 0
    )
    location = of_case(bench, "e", "location")
    accept = as_reviewer(bench, lambda item, key: {columns.VERDICT: "accept"})
    fill(sheets / "anna-2" / "anna-2.xlsx", accept)
    reject = {columns.VERDICT: "reject", columns.REASON: "borderline", columns.COMMENT: "too faint"}
    fill(sheets / "ben-2" / "ben-2.xlsx", lambda row: reject if row == location else accept(row))
    assert cli("review", "import", sheets, "-o", store)[0] == 0
    code, out, _ = cli("review", "status", sheets, "--verdicts", store, "--json")
    assert code == 0
    done = {sheet["sheet"]: sheet["done"] for sheet in json.loads(out)}
    assert done == {"anna-1-blind": 0, "anna-2": len(bench.items), "ben-1-blind": 0, "ben-2": len(bench.items)}
    code, out, _ = cli("review", "agreement", bench.folder, store)
    assert code == 0
    assert "everything" in out
    assert "drawn phantoms" in out
    check_agreement_tables(cli, bench.folder, store, tmp_path)
    code, out, _ = cli("review", "adjudicate", bench.folder, store, "-o", tmp_path / "conflicts", "--blind-names")
    assert code == 0
    assert "1 item to decide" in out
    sheet = tmp_path / "conflicts" / "adjudicator" / "adjudicator.xlsx"
    (row,) = rows_in(sheet)
    assert row[columns.ID] == location
    assert (row["reviewer 1"], row["reviewer 2"]) == ("accept", "reject\nreason: borderline\n“too faint”")
    assert row[columns.PROPOSED]
    assert cli("review", "apply", bench.folder, store, "-o", tmp_path / "disputed")[0] == 0
    fill(sheet, lambda row: {columns.VERDICT: "reject", columns.REASON: "unclear question"})
    code, out, err = cli("review", "import", tmp_path / "conflicts", "-o", store)
    assert (code, err) == (0, "")
    code, out, _ = cli("review", "adjudicate", bench.folder, store, "-o", tmp_path / "again")
    assert code == 2
    code, out, _ = cli("review", "apply", bench.folder, store, "-o", tmp_path / "next", "--new-version", "1.1")
    assert code == 0
    assert "version 1.1" in out
    assert f"Next: chexqa validate {tmp_path / 'next'}, then chexqa audit" in out
    assert "No audit of this version was made" in (tmp_path / "next" / "README.md").read_text()
    code, out, _ = cli("validate", tmp_path / "next")
    assert code == 0
    new = benchmark.load(tmp_path / "next")
    assert location[2:] not in new.item
    assert changes(new)[location[2:]]["why"] == "unclear question"
    assert cli("review", "apply", bench.folder, store, "-o", tmp_path / "next")[0] == 2


def test_missing_reasons_and_missing_verdicts_are_named(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    sheets, store = tmp_path / "sheets", tmp_path / "sheets" / "verdicts.jsonl"
    asked = ("--reviewers", "anna,ben", "--overlap", 1, "--both-parts")
    assert cli("review", "export", bench.folder, "-o", sheets, *asked)[0] == 0
    wrong = {columns.VERDICT: "fix", columns.CORRECTED: "1"}
    rows = {
        of_case(bench, "e", "location"): wrong,
        of_case(bench, "c", "distribution"): {**wrong, columns.COMMENT: "both lungs"},
        of_case(bench, "b", "detection"): {columns.VERDICT: "accept"},
    }
    sheet = fill(sheets / "anna-2" / "anna-2.xlsx", lambda row: rows.get(row, {}))
    place = next(number for number, row in enumerate(rows_in(sheet), 2) if row[columns.VERDICT] == "fix"
                 and not row[columns.COMMENT])  # fmt: skip
    tab = work_tabs(openpyxl.load_workbook(sheet))[0].title
    line = f"anna-2, tab '{tab}', row {place}: the verdict is 'fix', "
    line += "but there is no reason; give one, and import the returned file again with --replace.\n"
    code, _, err = cli("review", "import", sheet, "--batch", sheets)
    assert (code, err) == (0, f"no reason: {line}")
    code, _, err = cli("review", "import", sheet, "--batch", sheets)
    assert (code, err) == (0, "")
    code, out, err = cli("review", "apply", bench.folder, store, "-o", tmp_path / "next")
    assert (code, err) == (0, "")
    assert f"{len(bench.items) - 3} of {len(bench.items)} items have no verdict; they stay as they are." in out
    code, _, err = cli("review", "apply", bench.folder, tmp_path / "nothing", "-o", tmp_path / "other")
    assert (code, "nothing: no such file or folder; 'chexqa review import' makes" in err) == (2, True)
    code, out, _ = cli("validate", tmp_path / "next" / MASK_REVIEW)
    assert (code, "no mask was sent back" in out) == (0, True)
    code, out, err = cli("validate", store)
    assert (code, err) == (0, f"no reason: {line}")
    assert "verdict lines: 3, all fit their schema" in out


def test_an_adjudication_sheet_with_names_shows_who_said_what(bench: Benchmark) -> None:
    row = of_case(bench, "c", "location")
    blind = said(row, "ben", None, (1, 2), "blind", hash_=bench.hash)
    rows = [blind, said(row, "ben", "fix", (1, 3), reason="wrong answer", hash_=bench.hash)]
    rows.append(said(row, "anna", hash_=bench.hash))
    (texts,) = disputes(bench, rows, blind_names=False).values()
    assert texts == (
        "anna:\naccept",
        "ben:\nfix\nanswer: 1. a; 3. c\nreason: wrong answer\nbefore seeing the proposal: 1. a; 2. b",
    )


def test_an_adjudication_sheet_shows_no_comment_on_a_proposal_that_is_wrong_on_purpose(bench: Benchmark) -> None:
    row = of_case(bench, "c", "location")
    blind = replace(said(row, "ben", None, (1, 2), "blind", hash_=bench.hash), comment="both bases")
    rows = [blind, said(row, "anna", "reject", hash_=bench.hash)]
    rows.append(replace(said(row, "ben", "reject", hash_=bench.hash), comment="no effusion there", planted=(4,)))
    (texts,) = disputes(bench, rows, blind_names=False).values()
    assert texts == ("anna:\nreject", "ben:\nanswered without the proposal\nanswer: 1. a; 2. b\n“both bases”")


# A reader study.


@pytest.mark.parametrize(
    ("multi", "answers", "right"),
    [
        (False, [(1,), (1,), (2,)], (1,)),
        (False, [(1,), (2,)], None),
        (False, [(1,), None, None], (1,)),
        (False, [None, None], None),
        (False, [(1,), (1,), (2,), (2,)], None),
        (True, [(1, 2), (2, 3), (2,)], (2,)),
        (True, [(4,), (4,), (1,)], (4,)),
        (True, [(1,), (2,), (3,)], (4,)),
        (True, [(1,), (2,)], None),
        (True, [(1, 2), (1, 2), (1, 3), (1, 3)], None),
        (True, [(1, 2), None], (1, 2)),
    ],
)
def test_what_most_readers_say(
    multi: bool, answers: list[tuple[int, ...] | None], right: tuple[int, ...] | None
) -> None:
    assert majority(an_item("location" if multi else "severity", multi), answers) == right


def test_a_reader_study_is_a_run_that_grades_like_a_model(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    """One reader knows everything, one is always wrong in detection, one cannot tell it: the majority is the first."""
    study = tmp_path / "study"
    assert cli("review", "export", bench.folder, "-o", study, "--reviewers", "anna,ben,cem", "--blind-answers")[0] == 0

    def knows(item: Item, key: Answer) -> dict[str, str]:
        return answer_cells(item, key.answer[:1] if item.kind == "grid_cell" else key.answer, columns.ANSWER)

    def errs(item: Item, key: Answer) -> dict[str, str]:
        wrong = (3 - key.answer[0],)
        return answer_cells(item, wrong, columns.ANSWER) if item.kind == "detection" else knows(item, key)

    def shy(item: Item, key: Answer) -> dict[str, str]:
        return {columns.REASON: "cannot tell"} if item.kind == "detection" else knows(item, key)

    for name, reader in (("anna", knows), ("ben", errs), ("cem", shy)):
        fill_all(study, f"{name}-reader", as_reviewer(bench, reader))
    code, out, err = cli("review", "import", study)
    assert (code, err) == (0, "")
    assert f"{MAJORITY} {len(bench.items)}" in out
    run = read_run.load(study / "run")
    assert run.models == ("reader/anna", "reader/ben", "reader/cem", MAJORITY)
    data = {path.name: path.read_bytes() for path in (study / "run" / "turns").iterdir()}
    assert cli("review", "import", study)[0] == 0
    assert {path.name: path.read_bytes() for path in (study / "run" / "turns").iterdir()} == data
    assert "544" not in validate(study / "run").summary
    grades = grade_folders([study / "run"]).grades
    cases = len({item.case_id for item in bench.items})
    for model, states in (
        ("reader/anna", {"correct": len(bench.items)}),
        ("reader/ben", {"correct": len(bench.items) - cases, "wrong": cases}),
        ("reader/cem", {"correct": len(bench.items) - cases, "empty": cases}),
        # One right and one wrong detection: nobody leads.
        (MAJORITY, {"correct": len(bench.items) - cases, "empty": cases}),
    ):
        rows = [row for row in grades.iter_rows(named=True) if row["model"] == model]
        assert {state: sum(row["state"] == state for row in rows) for state in states} == states, model
    code, _, err = cli("review", "import", study, "--run", bench.folder)
    assert code == 2
    assert "run.json" in err


# Masks.


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("anna accept", "approved"), ("anna accept, ben accept", "approved"), ("anna fix", "fix"),
        ("anna reject, ben unsure", "rejected"), ("anna accept, ben fix", "unsure"), ("anna unsure", "unsure"),
    ],
)  # fmt: skip
def test_what_becomes_of_a_mask(text: str, state: str) -> None:
    assert state_of(votes(text)) == state
    assert state_of([]) is None


def test_mask_verdicts_are_written_into_the_manifest(tmp_path: Path, cli: Cli) -> None:
    cases, sheets = tmp_path / "cases", tmp_path / "sheets"
    assert cli("synth", cases, "--cases", 4, "--size", 256)[0] == 0
    code, _, err = cli(
        "review", "export", cases, "-o", sheets, "--what", "masks", "--reviewers", "anna", "--format", "csv"
    )
    assert code == 0, err
    records = [record for _, record in read_jsonl(cases / "cases.jsonl", "case")]
    said_of = dict(zip((record["case_id"] for record in records), ("y", "N", " yes ", ""), strict=True))
    path = sheets / "anna" / "anna-masks.csv"
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    titles = lines[0].split(",")
    rows = [dict(zip(titles, line.split(","), strict=True)) for line in lines[1:]]
    for row in rows:
        row[columns.OPTIMAL] = said_of[row[columns.KEY_ID]]
    # The published sheets have no marks: their key is enough.
    kept = [columns.KEY_ID, columns.DICOM_ID, columns.TARGET, columns.PLOT_PATH, columns.OPTIMAL]
    path.write_text("\n".join([",".join(kept), *(",".join(row[title] for title in kept) for row in rows)]))
    code, _, err = cli("review", "import", sheets)
    assert (code, err) == (0, "")
    out = cases / "reviewed.jsonl"
    code, text, err = cli("review", "apply", cases, sheets, "-o", out)
    assert (code, err) == (0, "")
    assert "2 approved, 1 fix, 1 not reviewed" in text
    states = {record["case_id"]: record.get("review") for _, record in read_jsonl(out, "case")}
    wanted = {"y": "approved", "N": "fix", " yes ": "approved", "": None}
    assert states == {case_id: wanted[word] for case_id, word in said_of.items()}
    assert cli("validate", out)[0] == 0
    code, text, _ = cli("review", "agreement", cases, sheets)
    assert "No case was judged by two reviewers" in text
    assert cli("review", "apply", cases, sheets, "-o", out)[0] == 2


def test_masks_dealt_from_a_benchmark_are_applied_to_its_manifest(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    """The benchmark's own ids are not the manifest's."""
    _, keys = bench.key("a test")
    case = next(iter(keys.values()))
    record = {
        "case_id": case.source_case_id, "image": "a.png", "finding": "effusion", "present": False, "mask": None,
        "anatomy": {}, "patient_id": None, "study_id": None, "view": None, "sex": None, "age": None, "source": None,
        "license": None, "access": "open",
    }  # fmt: skip
    (tmp_path / "cases.jsonl").write_text(json.dumps(record) + "\n")
    verdict = said(mask_row_id(case.case_id), kind="masks", hash_=bench.hash)
    write_store(tmp_path / "verdicts.jsonl", [verdict])
    assert read_store(tmp_path / "verdicts.jsonl") == {verdict.key: verdict}
    code, _, err = cli("review", "apply", tmp_path / "cases.jsonl", tmp_path, "-o", tmp_path / "new.jsonl")
    assert code == 2
    assert "add --benchmark with its folder" in err
    code, out, _ = cli("review", "apply", tmp_path / "cases.jsonl", tmp_path, "-o", tmp_path / "new.jsonl",
                       "--benchmark", bench.folder)  # fmt: skip
    assert code == 0
    assert "1 approved" in out
    assert sha256((tmp_path / "cases.jsonl").read_bytes()) != bench.hash


# Agreement on a store.


def test_six_reviewers_of_known_accuracy_over_a_thousand_items() -> None:
    """Each is right with 0.8, else takes another of four options: two agree in 0.64 + 3 * (0.2 / 3)² of the items."""
    rng = np.random.default_rng(8)
    places, rows = {}, []
    for number in range(1000):
        item = Item(f"c{number}/severity", f"c{number}", 8, "severity", "semantic", 4, "edema", "?",
                    tuple(Option(n, text) for n, text in enumerate("abcd", start=1)), False, (), ())  # fmt: skip
        row = item_row_id(item.item_id)
        places[row] = SheetPlace("severity", "edema", f"p{number // 2}", item)
        truth = int(rng.integers(4))
        for who in "abcdef":
            slip = 0 if rng.random() < 0.8 else int(rng.integers(1, 4))
            rows.append(said(row, who, None, ((truth + slip) % 4 + 1,), "blind"))
    expected = 0.64 + 3 * (0.2 / 3) ** 2
    by_kind, by_both = compare(rows, places)
    assert (by_kind.units, by_kind.patients, by_kind.kind, by_both.finding) == (1000, 500, "severity", "edema")
    percent = by_kind.estimates["percent"]
    assert percent.value == pytest.approx(expected, abs=0.02)
    assert percent.low is not None
    assert percent.high is not None
    assert percent.low < expected < percent.high
    kappa = (expected - 0.25) / 0.75
    for name in ("fleiss", "alpha", "ac1"):
        assert by_kind.estimates[name].value == pytest.approx(kappa, abs=0.03)
    assert len(by_kind.pairs) == 15
    for pair in by_kind.pairs:
        assert pair.cohen.value == pytest.approx(kappa, abs=0.08)


def test_several_right_options_are_units_of_their_own() -> None:
    item = an_item("location", multi=True)
    row = item_row_id(item.item_id)
    places = {row: SheetPlace("location", "edema", "p", item)}
    group, _ = compare([said(row, "a", None, (1, 2), "blind"), said(row, "b", None, (2, 3), "blind")], places)
    assert group.units == 3
    assert group.estimates["percent"].value == pytest.approx(1 / 3)


def test_options_in_another_order_are_the_same_options() -> None:
    first = an_item("comparison")
    options = tuple(Option(n, text) for n, text in enumerate("dcba", start=1))
    second = Item("c2/comparison", "c2", 9, "comparison", "semantic", 4, "edema", "?", options, False, (), ())
    places = {
        item_row_id(item.item_id): SheetPlace("comparison", "edema", item.case_id, item) for item in (first, second)
    }
    rows = [said(item_row_id("c1/comparison"), "a", None, (1,), "blind"),
            said(item_row_id("c1/comparison"), "b", None, (1,), "blind"),
            said(item_row_id("c2/comparison"), "a", None, (4,), "blind"),
            said(item_row_id("c2/comparison"), "b", None, (4,), "blind")]  # fmt: skip
    group, _ = compare(rows, places)
    assert group.estimates["percent"].value == 1
    assert group.remark is not None
    assert "100%" in group.remark


def test_masks_are_adjudicated_like_items_and_the_third_person_decides(tmp_path: Path, cli: Cli) -> None:
    cases = write_cases(tmp_path / "cases", 3, seed=2, size=256)
    sheets, decided = tmp_path / "sheets", tmp_path / "decided"
    assert cli("review", "export", cases, "-o", sheets, "--what", "masks", "--reviewers", "anna,ben",
               "--overlap", 1)[0] == 0  # fmt: skip
    rows = [row[columns.ID] for row in rows_in(sheets / "anna" / "anna-masks.xlsx")]
    for name, word in (("anna", "accept"), ("ben", "fix")):
        said = {row: {columns.VERDICT: "accept"} for row in rows}
        said[rows[0]] = {columns.VERDICT: word, columns.COMMENT: f"{name} says so"}
        fill(sheets / name / f"{name}-masks.xlsx", said.__getitem__)
    assert cli("review", "import", sheets)[0] == 0
    for name in ("anna", "Ben"):
        code, _, err = cli("review", "adjudicate", cases, sheets, "-o", decided, "--adjudicator", name)
        assert (code, "name a third person" in err) == (2, True)
    code, out, _ = cli("review", "adjudicate", cases, sheets, "-o", decided, "--adjudicator", "dora")
    assert code == 0
    assert "1 mask to decide" in out
    (shown,) = rows_in(decided / "dora" / "dora.xlsx")
    assert (shown[columns.ID], shown["reviewer 1"]) == (rows[0], "anna:\naccept\n“anna says so”")
    assert columns.CORRECTED not in shown
    # A word that is none comes back to the adjudicator too, with the verdicts beside it.
    fill(decided / "dora" / "dora.xlsx", lambda row: {columns.VERDICT: "hm"})
    assert cli("review", "import", decided, "-o", sheets / "verdicts.jsonl")[0] == 2
    mend = decided / "problems" / "round-1" / "dora" / "problems.xlsx"
    assert rows_in(mend)[0]["reviewer 2"] == "ben:\nfix\n“ben says so”"
    fill(mend, lambda row: {columns.VERDICT: "reject", columns.REASON: "finding absent"})
    assert cli("review", "import", mend, "--batch", decided, "-o", sheets / "verdicts.jsonl")[0] == 0
    assert cli("review", "apply", cases, sheets, "-o", tmp_path / "reviewed.jsonl")[0] == 0
    states = {record["case_id"]: record["review"] for _, record in read_lines(tmp_path / "reviewed.jsonl")}
    assert states.pop(rows[0][2:]) == "rejected"
    assert set(states.values()) == {"approved"}
    code, _, err = cli("review", "adjudicate", cases, sheets, "-o", tmp_path / "again", "--adjudicator", "dora")
    assert (code, "none of its masks is disputed" in err) == (2, True)
