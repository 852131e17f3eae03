"""Abstentions: asked for in a run of their own, never a gain in the headline, counted in a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from grades import run, said, study
from handmade import Handmade

from chexqa.contract import benchmark
from chexqa.contract.kinds import KINDS
from chexqa.eval.confidence.abstention import abstention, is_abstention
from chexqa.eval.prompts import answer_parser
from chexqa.eval.scoring.grade import grade

Cli = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    "reply",
    ["Answer: abstain", "I cannot tell.\n**Answer:** Abstain", "Answer: I abstain.", "answer = abstention"],
)
def test_an_abstention_is_recognised_and_is_no_answer_to_any_kind_of_question(reply: str, tiny_benchmark: Path) -> None:
    assert is_abstention(reply)
    items = {item.kind: item for item in benchmark.load(tiny_benchmark).items}
    assert items.keys() == KINDS.keys()
    for item in items.values():
        assert answer_parser.read(item, reply, "stop").state == "unparsed", item.kind


def test_an_answer_after_thoughts_of_abstaining_is_an_answer() -> None:
    assert not is_abstention("I could abstain: Answer: abstain. No.\nAnswer: 2")
    assert not is_abstention("Should one abstain here?")
    assert not is_abstention(None)


def test_the_permission_is_asked_for_recorded_and_part_of_the_run(
    cli: Cli, tiny_benchmark: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    command = ("eval", tiny_benchmark, "--models", "baseline/oracle", "-o", out)
    assert cli(*command, "--may-abstain")[0] == 0
    assert json.loads((out / "run.json").read_text())["condition"]["may_abstain"] is True
    code, _, err = cli(*command)
    assert code == 2
    assert "--may-abstain was given and is now not given" in " ".join(err.split())
    dry = tmp_path / "dry"
    assert cli("eval", tiny_benchmark, "--models", "baseline/oracle", "--may-abstain", "--dry-run", dry)[0] == 0
    texts = [path.read_text() for path in dry.rglob("*.json")]
    assert all("Answer: abstain" in text for text in texts)


def test_abstentions_are_counted_and_never_raise_a_score(handmade: Handmade) -> None:
    """40 items: 10 wrong without the permission; with it, 8 of these abstain, and one more answer changes.

    A reply from which an answer was read is no abstention, whatever else it says.
    """
    for number in range(40):
        handmade.case(f"n{number}", "edema", "lesion_free", detection=(2,))
    bench = benchmark.load(handmade.write())
    mistakes = {item.item_id: (1,) for item in bench.items[:10]}
    plain = said(bench, mistakes)
    free = [
        replace(turn, state="unparsed", parsed=None, raw="Answer: abstain") if number < 8 else
        replace(turn, parsed=(1,)) if number == 20 else
        replace(turn, raw="Answer: 2\nShould I not answer: abstain?") if number == 30 else turn
        for number, turn in enumerate(plain)
    ]  # fmt: skip
    before, after = run(plain), run(free)
    after = replace(after, about={**after.about, "condition": {"shots": 0, "may_abstain": True}})
    both = [before, replace(after, folder=Path("other"))]
    (row, _) = abstention(study(bench, both)).to_dicts()
    assert row["protocol"] == "end_to_end (may abstain)"
    assert (row["items"], row["abstained"]) == (40, 8 / 40)
    assert row["accuracy_kept"] == 29 / 32
    assert row["accuracy_all"] == 29 / 40
    assert row["changed"] == 1 / 32
    scores = grade(bench, both).group_by("protocol").agg(right=pl.col("correct").sum())
    found = dict(scores.rows())
    assert found["end_to_end (may abstain)"] <= found["end_to_end"]
    assert abstention(study(bench, [before])).height == 0
