"""Wording of a recipe's rules in questions, so that a question states the rule that its key follows."""

from __future__ import annotations

from chexqa.files.jsonio import Record
from chexqa.generators.pipeline.recipe import GridRecipe, PerceptionRecipe
from chexqa.question_banks import share_words


def rule_words(
    bank: Record, finding: str, perception: PerceptionRecipe | None, grid: GridRecipe | None
) -> dict[str, str]:
    """Return the wording of the rules that the given recipes set, keyed by the rule's name.

    :data:`chexqa.question_banks.RULES` lists all rules.
    """
    outline = bank.get("outlines", {}).get(finding, bank["findings"][finding])
    words = {"outline": outline}
    if perception is not None:
        rules = perception.attributes
        said = bank.get("rules", {}).get(rules.rule, {"area": outline, "otherwise": ""})
        words |= {
            "area": said["area"].format(outline=outline),
            "otherwise": said["otherwise"],
            "least_error": share_words(bank, perception.deformation.min_share),
            "least_share": share_words(bank, rules.involved_share),
            "least_lung": share_words(bank, rules.lung_share),
            "times": f"{rules.larger_ratio:g}",
        }
    if grid is not None:
        words["cell_share"] = share_words(bank, grid.hit_share)
    return words
