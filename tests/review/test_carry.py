"""The loop closes: verdicts hold for what was seen, new masks come back with their author, and the rest is listed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from review_sheets import answer_cells, fill, rows_in, sheets_of, write_small

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Contents
from chexqa.contract.cases import load_case, read_manifest
from chexqa.files.jsonio import read_lines
from chexqa.phantoms import write_cases
from chexqa.review import columns
from chexqa.review.collect.contours import compare
from chexqa.review.collect.verdicts import Verdict, read_store
from chexqa.review.resolve.apply_masks import state_of

pytestmark = pytest.mark.xdist_group("carry")

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def reviewed_items(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a benchmark of five cases."""
    folder = tmp_path_factory.mktemp("items")
    write_small(folder / "bench")
    return folder


def accepted(bench: Path, out: Path, cli: Cli) -> Path:
    """The verdicts of two reviewers who accept everything they are shown, blind answers left out."""
    command = ("review", "export", bench, "-o", out, "--reviewers", "anna,ben", "--overlap", "1", "--planted", "0")
    assert cli(*command, "--both-parts")[0] == 0
    paths = [out / f"{name}-2" / f"{name}-2.xlsx" for name in ("anna", "ben")]
    sheets = [fill(path, lambda row: {columns.VERDICT: "accept"}) for path in paths]
    assert cli("review", "import", *sheets, "--batch", out)[0] == 0
    return out / "verdicts.jsonl"


def changed_copy(bench: Path, out: Path, change: Callable[[Contents], Contents]) -> Path:
    """Another version of a benchmark, with its key or cases changed and the same pictures."""
    loaded = benchmark.load(bench)
    answers, cases = loaded.key("a test")
    for name in ("images", "thumbs"):
        if (bench / name).exists():
            shutil.copytree(bench / name, out / name)
    old = Contents(loaded.items, tuple(answers[item.item_id] for item in loaded.items), tuple(cases.values()), (), ())
    benchmark.write_contents(out, {**loaded.about, "version": "1b"}, change(old))
    return out


def test_a_changed_key_costs_its_own_review_and_no_more(reviewed_items: Path, tmp_path: Path, cli: Cli) -> None:
    bench = reviewed_items / "bench"
    store = accepted(bench, tmp_path / "sheets", cli)
    loaded = benchmark.load(bench)
    place, item = next((at, item) for at, item in enumerate(loaded.items) if item.kind == "distribution")

    def mended(old: Contents) -> Contents:
        answers = list(old.answers)
        answers[place] = replace(answers[place], answer=(answers[place].answer[0] % 4 + 1,))
        return replace(old, answers=tuple(answers), cases=tuple(replace(case, sex="M") for case in old.cases))

    new = changed_copy(bench, tmp_path / "mended", mended)
    out, rest = tmp_path / "carried.jsonl", tmp_path / "rest.txt"
    code, text, err = cli("review", "carry", bench, new, store, "-o", out, "--rest", rest)
    assert (code, err) == (0, "")
    row = columns.item_row_id(item.item_id)
    assert f"not carried over: {row} (2 verdicts): its key changed" in text
    carried = read_store(out).values()
    assert {verdict.row for verdict in carried} == {columns.item_row_id(one.item_id) for one in loaded.items} - {row}
    assert {verdict.carried for verdict in carried} == {loaded.hash}
    assert rest.read_text() == f"{item.item_id}\n"
    assert "1 item of 1 case to judge: chexqa review export" in text
    assert cli("review", "apply", new, out, "-o", tmp_path / "next")[0] == 0
    answers = benchmark.load(tmp_path / "next").answers or {}
    assert [name for name, answer in answers.items() if answer.review is None] == [item.item_id]

    def without(old: Contents) -> Contents:
        return replace(old, items=tuple(one for one in old.items if one != item),
                       answers=tuple(one for one in old.answers if one.item_id != item.item_id))  # fmt: skip

    before, known = changed_copy(bench, tmp_path / "before", without), tmp_path / "known.jsonl"
    known.write_text("".join(line for line in store.read_text().splitlines(keepends=True) if row not in line))
    command = ("review", "carry", before, bench, known, "-o", tmp_path / "more.jsonl", "--rest", tmp_path / "more.txt")
    code, text, err = cli(*command)
    assert (code, err) == (0, "")
    assert "0 not carried over" in text
    assert "to judge: chexqa review export" in text
    assert (tmp_path / "more.txt").read_text() == f"{item.item_id}\n", "a new question about a reviewed case"

    _, text, _ = cli("review", "carry", bench, bench, store, "-o", tmp_path / "same.jsonl")
    assert "Nothing is left to judge." in text

    code, _, err = cli("review", "apply", new, store, "-o", tmp_path / "never")
    assert (code, "chexqa review carry OLD NEW" in err) == (2, True)
    code, _, err = cli("review", "agreement", new, store)
    assert (code, "chexqa review carry OLD NEW" in err) == (2, True)
    assert cli("review", "carry", bench, new, store, "-o", out)[0] == 2
    code, _, err = cli("review", "carry", new, bench, out, "-o", tmp_path / "back.jsonl", "--json")
    assert code == 0


def test_of_a_case_with_items_left_only_these_are_asked_blind_and_then_with_the_key(
    reviewed_items: Path, tmp_path: Path, cli: Cli
) -> None:
    bench = benchmark.load(reviewed_items / "bench")
    left = [f"{case}/{kind}" for case, kind in (("c", "distribution"), ("c", "detection"), ("e", "location"))]
    ids = {case.source_case_id: name for name, case in (bench.cases or {}).items()}
    named = [name.replace(name[0], ids[name[0]], 1) for name in left]
    whole = ids["b"]
    (tmp_path / "rest.txt").write_text("\n".join([*named, whole, f"{whole}/detection"]))
    wanted = {columns.item_row_id(item.item_id) for item in bench.items
              if item.item_id in named or item.case_id == whole}  # fmt: skip
    out = tmp_path / "sheets"
    command = ("review", "export", bench.folder, "--reviewers", "anna,ben", "--overlap", "1", "--planted", "0")
    code, _, err = cli(*command, "--cases", tmp_path / "rest.txt", "-o", out)
    assert code == 0, err
    blind = sheets_of(out, "anna-1-blind")
    for path in blind:
        fill(path, lambda row: answer_cells(bench.item[row[2:]], (1,), columns.ANSWER))
    assert {row[columns.ID] for path in blind for row in rows_in(path)} == wanted
    assert cli("review", "import", *blind, "--batch", out)[0] == 0
    assert cli("review", "open", out)[0] == 0
    (shown,) = sheets_of(out, "anna-2")
    assert {row[columns.ID] for row in rows_in(shown)} == wanted


@pytest.mark.long
def test_a_changed_sex_is_another_benchmark_with_the_same_verdicts(
    reviewed_items: Path, tmp_path: Path, cli: Cli
) -> None:
    bench = reviewed_items / "bench"
    store = accepted(bench, tmp_path / "sheets", cli)
    new = changed_copy(bench, tmp_path / "other", lambda old: replace(old,
        cases=tuple(replace(case, sex="M") for case in old.cases)))  # fmt: skip
    assert benchmark.load(new).hash != benchmark.load(bench).hash
    assert cli("review", "apply", new, store, "-o", tmp_path / "next")[0] == 0
    assert cli("review", "agreement", new, store)[0] == 0


# Masks.


@pytest.fixture
def masks(tmp_path: Path, cli: Cli) -> Path:
    """A folder with three phantom cases and the verdicts of one reviewer who approves their masks."""
    cases = write_cases(tmp_path / "cases", 3, seed=2, size=256)
    assert cli("review", "export", cases, "-o", tmp_path / "sheets", "--what", "masks", "--reviewers", "anna")[0] == 0
    sheet = fill(tmp_path / "sheets" / "anna" / "anna-masks.xlsx", lambda row: {columns.VERDICT: "accept"})
    assert cli("review", "import", sheet, "--batch", tmp_path / "sheets")[0] == 0
    return tmp_path


def lines(path: Path) -> list[dict[str, Any]]:
    return [record for _, record in read_lines(path)]


def present(folder: Path) -> str:
    return str(next(row["case_id"] for row in lines(folder / "cases" / "cases.jsonl") if row["present"]))


def rewrite(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path = folder / "cases" / "cases.jsonl"
    path.write_text("".join(json.dumps(change(row)) + "\n" for row in lines(path)))


def move_mask(folder: Path, case_id: str) -> None:
    row = next(row for row in lines(folder / "cases" / "cases.jsonl") if row["case_id"] == case_id)
    path = folder / "cases" / row["mask"]
    cv2.imwrite(str(path), np.roll(cv2.imread(str(path), cv2.IMREAD_GRAYSCALE), 2, axis=0))


def test_a_changed_sex_refuses_no_verdict_on_a_mask(masks: Path, cli: Cli) -> None:
    rewrite(masks, lambda row: {**row, "sex": "F"})
    code, out, err = cli("review", "apply", masks / "cases", masks / "sheets", "-o", masks / "cases" / "reviewed.jsonl")
    assert (code, err) == (0, "")
    assert "3 approved" in out
    assert cli("review", "agreement", masks / "cases", masks / "sheets")[0] == 0


def test_a_mask_moved_after_review_is_no_longer_approved(masks: Path, cli: Cli) -> None:
    moved = present(masks)
    reviewed = masks / "cases" / "reviewed.jsonl"
    assert cli("review", "apply", masks / "cases", masks / "sheets", "-o", reviewed)[0] == 0
    move_mask(masks, moved)
    again = masks / "cases" / "again.jsonl"
    code, _, err = cli("review", "apply", masks / "cases", masks / "sheets", "-o", again)
    assert (code, f"{moved}: mask, lungs or radiograph changed after the review" in err) == (0, True)
    assert {row["case_id"]: row.get("review") for row in lines(again)}[moved] is None
    code, _, err = cli("review", "agreement", masks / "cases", masks / "sheets")
    assert code == 0

    # A manifest that was approved before the mask moved: generation leaves the case out and says why.
    assert cli("generate", reviewed, "--reviewed", "-o", masks / "bench")[0] in (0, 2)
    skipped = {row["source_case_id"]: row["reason"] for row in lines(masks / "bench" / "skipped.jsonl")}
    assert skipped[moved] == "its mask, lungs or radiograph changed after the mask was approved; review the mask again"


def test_verdicts_on_masks_are_carried_where_the_mask_is_the_same(masks: Path, cli: Cli) -> None:
    shutil.copytree(masks / "cases", masks / "old")
    moved = present(masks)
    move_mask(masks, moved)
    rewrite(masks, lambda row: {**row, "age": 50})
    out = masks / "carried.jsonl"
    code, text, _ = cli("review", "carry", masks / "old", masks / "cases", masks / "sheets", "-o", out)
    assert code == 0
    assert f"not carried over: m-{moved} (1 verdict): its mask, lungs or radiograph changed" in text
    assert len(read_store(out)) == 2


def test_a_redrawn_mask_comes_back_with_its_author_and_somebody_else_must_approve_it(masks: Path, cli: Cli) -> None:
    case_id = present(masks)
    manifest = read_manifest(masks / "cases")
    old = load_case(next(case for case in manifest if case.case_id == case_id)).source_mask
    assert old is not None
    new = cv2.dilate(old.astype(np.uint8), np.ones((5, 5), np.uint8))
    folder = masks / "redrawn" / "dora"
    folder.mkdir(parents=True)
    cv2.imwrite(str(folder / f"{case_id}.png"), new * 255)
    out = masks / "cases" / "redrawn.jsonl"
    command = ("review", "apply", masks / "cases", masks / "sheets", "--mask-dir", masks / "redrawn")
    code, text, _ = cli(*command, "-o", out)
    assert (code, f"{case_id}: redrawn by dora" in text) == (0, True)
    row = next(row for row in lines(out) if row["case_id"] == case_id)
    assert (row["redrawn"]["by"], row["redrawn"]["signed_by"], row["review"]) == ("dora", None, "fix")
    assert "review_seen" not in row
    assert row["redrawn"]["edited_px"] == np.count_nonzero(new) - np.count_nonzero(old)
    loaded = load_case(next(case for case in read_manifest(out) if case.case_id == case_id))
    assert np.array_equal(loaded.source_mask, new.astype(bool))

    # The author may not sign it, another reader may.
    for name, state in (("dora", "fix"), ("ben", "approved")):
        sheets = masks / f"signed-{name}"
        assert cli("review", "export", out, "-o", sheets, "--what", "masks", "--reviewers", name)[0] == 0
        filled = fill(sheets / name / f"{name}-masks.xlsx", lambda row: {columns.VERDICT: "accept"})
        assert cli("review", "import", filled, "--batch", sheets)[0] == 0
        signed = masks / "cases" / f"{name}.jsonl"
        assert cli("review", "apply", out, sheets, "-o", signed)[0] == 0
        assert {row["case_id"]: row.get("review") for row in lines(signed)}[case_id] == state

    for name, pixels, words in (
        ("other", new, "is not a case of"),
        (case_id, new[:-3], "draw it at that size"),
        (case_id, 0 * new, "the mask is empty"),
    ):
        shutil.rmtree(masks / "redrawn")
        folder.mkdir(parents=True)
        cv2.imwrite(str(folder / f"{name}.png"), pixels * 255)
        code, _, err = cli(*command, "-o", masks / "cases" / "never.jsonl")
        assert (code, words in err) == (2, True), err
    assert not (masks / "cases" / "never.jsonl").exists()


def test_the_edit_of_a_mask_is_told_in_pixels() -> None:
    """Against brute force over the pixels of both outlines."""
    rng = np.random.default_rng(4)
    old = cv2.dilate((rng.random((40, 50)) < 0.01).astype(np.uint8), np.ones((7, 7), np.uint8)).astype(bool)
    new = np.roll(old, 3, axis=1)

    def outline(mask: np.ndarray) -> np.ndarray:
        padded = np.pad(mask, 1)
        inner = np.ones_like(mask)
        for y in range(3):
            for x in range(3):
                inner &= padded[y : y + mask.shape[0], x : x + mask.shape[1]]
        return np.argwhere(mask & ~inner).astype(float)

    one, other = outline(old), outline(new)
    far = np.sqrt(((one[:, None] - other) ** 2).sum(axis=2))
    found = compare(old, new)
    assert found.edited_px == np.count_nonzero(old ^ new)
    assert found.hausdorff_px == pytest.approx(max(far.min(axis=0).max(), far.min(axis=1).max()), abs=0.01)
    assert compare(old, old) == (0, 0.0, 0.0)


def test_an_adjudicator_decides_on_a_mask() -> None:
    def said(reviewer: str, verdict: str, kind: Any = "masks") -> Verdict:
        return Verdict("r-000000000001", "0" * 64, reviewer, kind, reviewer, "m-a", verdict, None, None, None, None,
                       "2026-03-01", {"file": "a.xlsx", "tab": "", "row": 2})  # fmt: skip

    disputed = [said("anna", "accept"), said("ben", "fix")]
    assert state_of(disputed) == "unsure"
    assert state_of([*disputed, said("dora", "fix", "adjudication")]) == "fix"


def test_only_the_cases_in_a_file_are_exported(reviewed_items: Path, tmp_path: Path, cli: Cli) -> None:
    """Ids of the benchmark or of the manifest it was made from, as lines or as mask_review.jsonl has them."""
    bench = benchmark.load(reviewed_items / "bench")
    wanted = bench.items[0].case_id
    source = (bench.cases or {})[bench.items[-1].case_id].source_case_id
    named = tmp_path / "cases.txt"
    named.write_text(f"{wanted}\n\n{json.dumps({'case_id': 'gone', 'source_case_id': source})}\n")
    command = ("review", "export", bench.folder, "--reviewers", "anna", "--cases", named)
    assert cli(*command, "-o", tmp_path / "sheets")[0] == 0
    rows = json.loads((tmp_path / "sheets" / "review.json").read_text())["sheets"][0]["rows"]
    assert {row[2:].split("/")[0] for row in rows} == {wanted, bench.items[-1].case_id}
    for text, words in (
        ("nobody", "case 'nobody' is not among the cases to export"),
        ("\n", "names no case"),
        ("{}", "has no 'case_id'"),
    ):
        named.write_text(text)
        code, _, err = cli(*command, "-o", tmp_path / "never")
        assert (code, words in err) == (2, True), err
    assert not (tmp_path / "never").exists()
