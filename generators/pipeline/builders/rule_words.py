"""The words in which a question says its recipe's rule, so that it is answered by what it is keyed by."""

from __future__ import annotations

from chexqa.files.jsonio import Record
from chexqa.generators.pipeline.recipe import GridRecipe, PerceptionRecipe
from chexqa.question_banks import share_words


def rule_words(
    bank: Record, finding: str, perception: PerceptionRecipe | None, grid: GridRecipe | None
) -> dict[str, str]:
    """Return the words of :data:`chexqa.question_banks.RULES` by name, as far as the recipes given have the rule."""
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
