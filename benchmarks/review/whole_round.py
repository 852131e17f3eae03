"""A complete review by six simulated readers, who fill in spreadsheets in a real LibreOffice.

    python benchmarks/review/whole_round.py [CASES]

A benchmark is made of phantoms (44 by default). The readers fill in their sheets, first blind, then with proposals. An
unreadable verdict is corrected in a correction sheet. The figures of the review are compared with a second, plain
computation. A rejected mask is redrawn and signed, the benchmark generated again, and the verdicts are carried over.
The script prints the seconds of each step and stops at the first error.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from libreoffice import fill_in_libreoffice  # noqa: E402
from review_round import Readers, check_figures, review  # noqa: E402

from chexqa.cli.main import run as chexqa  # noqa: E402
from chexqa.contract import benchmark  # noqa: E402
from chexqa.contract.cases import load_case, read_manifest  # noqa: E402
from chexqa.review import columns  # noqa: E402

SKILLS = {"anna": 0.95, "ben": 0.9, "carla": 0.85, "dora": 0.8, "emil": 0.75, "fred": 0.7}
REDRAWER, SIGNER = "gina", "hans"


def call(*arguments: object) -> tuple[int, str, str]:
    """Run one ``chexqa`` command; return its exit code, its output, and its error output."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = chexqa([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


def must(*arguments: object) -> str:
    """Run one ``chexqa`` command and return its output; end the script if the command fails."""
    code, out, err = call(*arguments)
    if code:
        raise SystemExit(f"chexqa {' '.join(map(str, arguments))}\n{err}{out}")
    return out


def timed(words: str, step: Callable[[], object]) -> None:
    """Run a step; print ``words``, followed by the seconds that the step took."""
    start = time.perf_counter()
    step()
    print(f"{words}: {time.perf_counter() - start:.0f} s", flush=True)


def redraw(cases: Path, case_id: str, folder: Path) -> None:
    """Write a slightly larger mask of the case into ``folder``, as a redrawn mask."""
    case = next(case for case in read_manifest(cases, None) if case.case_id == case_id)
    mask = load_case(case).source_mask
    assert mask is not None, "a doubted outline has a mask"
    larger = cv2.dilate(mask.astype(np.uint8), np.ones((9, 9), np.uint8))
    (folder / REDRAWER).mkdir(parents=True)
    cv2.imwrite(str(folder / REDRAWER / f"{case_id}.png"), larger * 255)


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        cases, bench, sheets = home / "cases", home / "bench", home / "sheets"
        timed("phantoms", lambda: must("synth", cases, "--cases", count, "--seed", 7))
        timed("benchmark", lambda: must("generate", cases, "-o", bench, "--seed", 7))
        loaded = benchmark.load(bench)
        doubted = next(item for item in loaded.items if item.kind == "revision_result")
        readers = Readers(loaded, SKILLS, frozenset({columns.item_row_id(doubted.item_id)}))
        options = ("--overlap", 1, "--overlap-readers", 2)
        timed("six readers, both parts", lambda: review(loaded, readers, sheets, call, home / "office", *options))
        print(f"{len(loaded.items)} items; {json.dumps(check_figures(loaded, readers, sheets, call))}")
        correct(sheets, home)
        after = home / "after"
        must("review", "apply", bench, sheets, "-o", after)
        key = (loaded.cases or {})[doubted.case_id].source_case_id
        lines = (after / "mask_review.jsonl").read_text().splitlines()
        assert key in {json.loads(line)["source_case_id"] for line in lines}, "the doubted case is sent back"
        timed("mask redrawn, signed, carried, applied", lambda: again(home, key, doubted.case_id))


def correct(sheets: Path, home: Path) -> None:
    """Write an unreadable verdict into a row of anna's sheet, import it, and correct it in the correction sheet."""
    folder = home / "spoilt"
    shutil.copytree(sheets / "anna-2", folder)
    row = next(sheet for sheet in json.loads((sheets / columns.BATCH_FILE).read_text())["sheets"]
               if sheet["kind"] == "items" and sheet["reviewer"] == "anna")["rows"][0]  # fmt: skip
    path = folder / "anna-2.xlsx"
    fill_in_libreoffice([(path, lambda one: {columns.VERDICT: "hm"} if one == row else {})], home / "office-spoilt")
    store = home / "spoilt.jsonl"
    code, out, _ = call("review", "import", path, "--batch", sheets, "-o", store)
    correction = home / "problems" / "round-1" / "anna-2" / "problems.xlsx"
    assert (code, f"{correction}: 1 row for anna to correct" in out) == (2, True), out
    fill_in_libreoffice([(correction, lambda one: {columns.VERDICT: "unsure"})], home / "office-corrected")
    out = must("review", "import", path, correction, "--batch", sheets, "-o", store)
    print(f"one row corrected: {out.splitlines()[0].split(': ')[-1]}")


def again(home: Path, key: str, case_id: str) -> None:
    """Redraw a case's mask, have it signed, generate the benchmark again, and carry the verdicts over.

    ``key`` is the id of the case in the manifest, ``case_id`` its id in the benchmark.
    """
    cases, signing = home / "cases", home / "signing"
    masks, redrawn, signed = home / "masks", home / "redrawn.jsonl", home / "signed.jsonl"
    must("review", "export", cases, "--what", "masks", "--reviewers", "anna", "-o", masks)
    said = {columns.mask_row_id(key): {columns.VERDICT: "fix", columns.REASON: "too small"}}
    accept = {columns.VERDICT: "accept"}
    fill_in_libreoffice([(masks / "anna" / "anna-masks.xlsx", lambda row: said.get(row, accept))], home / "office-1")
    must("review", "import", masks)
    redraw(cases, key, home / "redrawn")
    out = must("review", "apply", cases, masks, "--mask-dir", home / "redrawn", "--image-root", cases, "-o", redrawn)
    print(out.splitlines()[0])
    root = ("--image-root", cases)
    must(
        "review", "export", redrawn, "--what", "masks", "--only", "redrawn", *root, "--reviewers", SIGNER, "-o", signing
    )
    fill_in_libreoffice([(signing / SIGNER / f"{SIGNER}-masks.xlsx", lambda row: accept)], home / "office-2")
    must("review", "import", signing)
    must("review", "apply", redrawn, signing, *root, "-o", signed)
    must("generate", signed, *root, "--reviewed", "-o", home / "bench-2", "--seed", 7)
    out = must("review", "carry", home / "bench", home / "bench-2", home / "sheets", "-o", home / "carried.jsonl",
               "--rest", home / "again.txt")  # fmt: skip
    print(out.splitlines()[0])
    assert case_id not in {item["case_id"] for item in kept(home / "carried.jsonl", case_id)}, "a stale verdict is kept"
    must("review", "apply", home / "bench-2", home / "carried.jsonl", "-o", home / "bench-3")
    must("validate", home / "bench-3")


def kept(store: Path, case_id: str) -> list[dict[str, str]]:
    """Return an entry for each verdict on the attributes of the case; ``store`` is the file of verdicts."""
    rows = [json.loads(line)["row"] for line in store.read_text().splitlines()]
    kinds = ("distribution", "severity", "comparison")
    return [{"case_id": case_id} for row in rows if row.startswith(f"i-{case_id}/") and row.endswith(kinds)]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 44)
