"""The wording of every question and option of the English bank, and banks of one's own that cannot be used.

``CHEXQA_UPDATE_GOLDENS=1 pytest tests/question_banks/test_questions.py`` writes the golden anew; read the difference
first.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from chexqa import question_banks
from chexqa.contract.evidence import LesionEvidence
from chexqa.contract.findings import FINDINGS
from chexqa.contract.items import Item, Option, Picture
from chexqa.contract.kinds import KINDS
from chexqa.files.errors import InputError
from chexqa.generators.pipeline import recipe
from chexqa.generators.pipeline.builders.item_builder import ItemBuilder
from chexqa.generators.pipeline.builders.rule_values import rule_words
from chexqa.imaging.anatomy import REGIONS

GOLDEN = Path(__file__).parents[1] / "goldens" / "questions-en.json"
BANK = question_banks.load("en")
OPTIONS = {
    "detection": ("yes", "no"),
    "contour_evaluation": ("yes", "no"),
    "distribution": ("one", "two", "three", "four"),
    "severity": ("low", "middle", "high"),
    "comparison": ("similar", "left", "right", "single"),
}
RECIPES: dict[str, Any] = {name: recipe.load(name) for name in recipe.names()}
LUNG_ONLY = ("distribution", "location", "severity", "comparison")
Cli = Callable[..., tuple[int, str, str]]


def asked(finding: str, kind: str, strict: str = "chexpercept", **words: str) -> Item:
    """An item as the generators word it."""
    rules = rule_words(BANK, finding, RECIPES[strict], RECIPES["grid"])
    builder = ItemBuilder("case", finding, None, BANK, lambda data, thumb: "", rule_words=rules)
    about = KINDS[kind]
    options = builder.words(about, *OPTIONS[kind]) if kind in OPTIONS else [Option(1, "x"), Option(2, "y")]
    picture = [Picture("radiograph", "")]
    evidence = LesionEvidence(lesion_share=0.0)
    builder.ask(about, options, (1,), turn=picture, alone=picture, evidence=evidence, difficulty={}, **words)
    return builder.items[0]


def rendered() -> dict[str, Any]:
    """Every question of every finding it is asked of, and every option."""
    questions: dict[str, dict[str, str]] = {}
    perception = {finding for name in ("chexpercept", "strict") for finding in recipe.load(name).findings}
    for kind in KINDS:
        findings = recipe.load("grid").findings if kind == "grid_cell" else sorted(perception)
        for finding in findings:
            if kind in LUNG_ONLY and not FINDINGS[finding].attributes:
                continue
            for side in ("right", "left") if kind == "severity" else ("",):
                words = {"side": BANK["sides"][side]} if side else {}
                name = f"{finding} {side}".strip()
                questions.setdefault(kind, {})[name] = asked(finding, kind, **words).question
    options = {kind: [option.text for option in asked("edema", kind, side="right").options] for kind in OPTIONS}
    points = {
        kind: [BANK["kinds"][kind]["point"].format(color=color, letter="A") for color in BANK["colors"].values()]
        + [BANK["kinds"][kind]["none"]]
        for kind in ("revision_expansion", "revision_contraction")
    }
    location = {"location": [*(BANK["regions"][name] for name in REGIONS), BANK["kinds"]["location"]["none"]]}
    return {"questions": questions, "options": {**options, **points, **location}}


def all_questions() -> list[str]:
    return [text for texts in rendered()["questions"].values() for text in texts.values()]


def test_every_wording_is_as_it_was() -> None:
    text = json.dumps(rendered(), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("CHEXQA_UPDATE_GOLDENS"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert GOLDEN.exists(), f"{GOLDEN} is not there; write it with CHEXQA_UPDATE_GOLDENS=1"
    assert text == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["distribution", "location"])
def test_a_question_on_places_says_its_recipe_s_rule(kind: str) -> None:
    published, strict = asked("effusion", kind).question, asked("effusion", kind, "strict").question
    assert "one unbroken area of the pleural fluid fills at least a fifth" in published
    assert "the one it fills most counts" in published
    assert "the pleural fluid, all areas taken together, fills at least a quarter" in strict
    assert "fills most" not in strict


def test_questions_on_contours_and_cells_say_from_which_size_they_count() -> None:
    assert "at least a twentieth" in asked("edema", "contour_evaluation").question
    assert "less than a hundredth of the lung field" in asked("edema", "comparison").question
    assert "to at least half or, if there is none, the cell that it fills most" in asked("edema", "grid_cell").question


@pytest.mark.parametrize(("share", "words"), [(0.2, "a fifth"), (0.25, "a quarter"), (0.3, "30 %"), (0.125, "12.5 %")])
def test_a_share_that_the_bank_has_no_word_for_is_given_in_percent(share: float, words: str) -> None:
    assert question_banks.share_words(BANK, share) == words


def test_no_word_is_left_to_be_filled_in_and_no_article_stands_twice() -> None:
    for text in all_questions():
        assert not re.search(r"[{}]", text), text
        assert not re.search(r"\b(the|a|an|any|this) (the|a|an)\b", text), text
        assert "  " not in text
        assert text[0].isupper()
        assert text.endswith((".", "?"))


def test_only_contours_of_lung_findings_say_that_the_heart_need_not_be_considered() -> None:
    note = BANK["notes"]["heart_overlap"].strip()
    for kind in ("contour_evaluation", "revision_expansion", "revision_contraction", "revision_result"):
        assert note in asked("effusion", kind).question
        assert note not in asked("cardiomegaly", kind).question
    assert note not in asked("effusion", "detection").question


def test_severity_names_the_lung_and_says_that_the_heart_is_not_lung() -> None:
    question = asked("effusion", "severity", side=BANK["sides"]["left"]).question
    assert "left lung" in question
    assert "heart does not count as lung field" in question


def test_the_bank_names_every_finding_region_and_colour_of_its_own() -> None:
    assert set(BANK["findings"]) >= set(FINDINGS)
    assert set(BANK["regions"]) == set(REGIONS)
    for names in (BANK["findings"], BANK["regions"], BANK["colors"]):
        assert len(set(names.values())) == len(names)
    for name, text in BANK["regions"].items():
        side = name.split("_")[0]
        assert side in text
        assert {"right": "left", "left": "right"}[side] not in text


def test_options_of_a_kind_are_all_different() -> None:
    for kind, texts in rendered()["options"].items():
        assert len(set(texts)) == len(texts), kind


def own_bank(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    bank = json.loads(json.dumps(BANK))
    change(bank)
    path = folder / "bank.yaml"
    path.write_text(yaml.safe_dump(bank, allow_unicode=True), encoding="utf-8")
    return path


def put(*keys: str, value: str) -> Callable[[dict[str, Any]], None]:
    """A change of one text."""

    def change(bank: dict[str, Any]) -> None:
        for key in keys[:-1]:
            bank = bank[key]
        bank[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("kinds", "detection", "question", value="Is {findng} there?"), r"detection\.question'.*\{findng\}"),
        (put("kinds", "detection", "question", value="Is it there?"), r"\{finding\} is missing"),
        (put("kinds", "severity", "question", value="How much {finding}?"), r"\{side\} is missing"),
        (put("kinds", "location", "question", value="Where is {finding} {?"), "a brace is unmatched"),
        (put("kinds", "revision_expansion", "point", value="the point"), r"\{color\} is missing"),
        (put("conversation", "option", value="{n} {text} {0}"), r"conversation\.option'.*\{0\}"),
        (
            put("conversation", "option", value="{n:>1000000000} {text}"),
            r"conversation\.option'.*are not allowed in braces",
        ),
        (put("conversation", "answer", value="{answer!r}"), r"conversation\.answer'.*are not allowed in braces"),
        (put("conversation", "pictures", "grid", value="The grid."), r"pictures\.grid'.*\{n\} is missing"),
        (put("kinds", "detection", "yes", value=""), r"kinds\.detection\.yes"),
        (lambda bank: bank["regions"].pop("left_mid_medial"), "left_mid_medial"),
    ],
)
def test_a_bank_that_cannot_be_filled_in_is_refused_by_field(
    tmp_path: Path, cli: Cli, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    path = own_bank(tmp_path, change)
    with pytest.raises(InputError, match=said):
        question_banks.load(str(path))
    code, _, err = cli("validate", path)
    assert code == 2
    assert re.search(said, " ".join(err.split()))


def test_a_bank_of_ones_own_is_read_and_valid(tmp_path: Path, cli: Cli) -> None:
    path = own_bank(tmp_path, put("name", value="mine"))
    assert question_banks.load(str(path))["name"] == "mine"
    code, out, _ = cli("validate", path)
    assert (code, "bank file" in out) == (0, True)
