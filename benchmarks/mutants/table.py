"""Small mistakes that a careless change could make: the file, the change, and the tests that should notice it."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One mistake: in ``file``, the text ``old``, which occurs there once, is replaced by ``new``.

    ``tests`` run in the given order, with the likeliest to fail first. ``why`` says what the mistake does.
    """

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    why: str


_GRADE = ("tests/tables/test_by_hand.py", "tests/scoring/test_grade.py", "tests/tables/test_tables.py")
_STATISTICS = (
    "tests/project/test_stats.py",
    "tests/scoring/test_intervals.py",
    "tests/tables/test_by_hand.py",
    "tests/tables/test_tables.py",
)
_PARSER = ("tests/prompts/test_answer_parser.py",)
_ATTRIBUTES = ("tests/attributes/test_attribute_keys.py", "tests/attributes/test_stability.py")
_RUNNER = ("tests/models/test_http.py", "tests/runs/test_runner.py", "tests/runs/test_storm.py")

MUTANTS = (
    # grading
    Mutant("chexqa/contract/forms.py", "len(wanted & chosen) / len(wanted | chosen)",
           "len(wanted & chosen) / len(wanted)", _GRADE, "the Jaccard index is divided by the key's size, not by the union"),
    Mutant("eval/scoring/outcomes.py", "    if turn.state != \"answered\":\n        return turn.state\n", "", _GRADE,
           "a refusal is graded by its empty answer"),
    Mutant("eval/scoring/outcomes.py", "best = max(shares) if shares else 0.0", "best = 1.0 if shares else 0.0", _GRADE,
           "coverage is not relative to the best cell"),
    Mutant("eval/scoring/outcomes.py", "if shares is not None and shares[cell - 1] > 0:",
           "if shares is not None and shares[cell - 2] > 0:", _GRADE, "the cell before the chosen one is looked up"),
    Mutant("chexqa/contract/forms.py", "2.0 ** -(options - 1)", "2.0 ** -options",
           ("tests/contract/test_forms.py",),
           "the chance of several options counts \"none\" as one of them"),
    # weights and shares
    Mutant("eval/scoring/sample.py", "(weight * answered).alias(", "(weight * 1.0).alias(", _GRADE,
           "unanswered items count as answered"),
    Mutant("eval/scoring/sample.py", "(1.0 / pl.len().over([*WHO, \"item_id\"]))", "pl.lit(1.0)", _GRADE,
           "an item that was asked twice counts twice"),
    Mutant("eval/scoring/sample.py", "~pl.col(\"flags\").list.contains(CONTESTED)",
           "~pl.col(\"flags\").list.contains(\"none\")",
           ("tests/scoring/test_contested.py", *_GRADE), "contested items count as others do"),
    Mutant("eval/scoring/sample.py", "((pl.col(\"unfinished\") == 0) | allow_partial)", "pl.lit(True)", _GRADE,
           "a model with unfinished items has numbers"),
    # statistics
    Mutant("chexqa/stats.py", "random.integers(0, size, size)", "random.integers(0, size, size - 1)",
           _STATISTICS, "a resample lacks a cluster"),
    Mutant("chexqa/stats.py", "    if patient_id:\n", "    if patient_id and not study_id:\n", _STATISTICS,
           "studies are drawn instead of patients"),
    Mutant("chexqa/stats.py", "TAIL = (1 - CONFIDENCE) / 2", "TAIL = 1 - CONFIDENCE", _STATISTICS,
           "intervals are 90 % ones instead of 95 %"),
    Mutant("eval/scoring/intervals.py", "(clusters < LEAST_CLUSTERS)", "(clusters < 2)", _STATISTICS,
           "an interval is given for very few patients"),
    Mutant("eval/scoring/intervals.py", "_ratio(above.total, room.total)", "_ratio(above.total, whole.total)",
           _STATISTICS, "chance is subtracted, but the result is not divided by one minus chance"),
    Mutant("eval/scoring/intervals.py", "_ratio(_row_sums(members, 2)", "_ratio(_row_sums(members)",
           _STATISTICS, "the weights that spread the prior's answers over patients are not squared"),
    Mutant("eval/scoring/intervals.py", "up @ self.low_parts - down @ self.high_parts", "up @ self.low_parts + down @ self.high_parts",
           _STATISTICS, "the interval of a difference has a wrong sign in one part"),
    Mutant("eval/scoring/intervals.py", "_weighted(up, own, power=2)", "_weighted(up, own)",
           _STATISTICS, "the weights of numbers without variation are not squared"),
    Mutant("eval/scoring/significance.py", "return (1 + reached) / (1 + draws)", "return reached / draws", _STATISTICS,
           "a p-value can be zero"),
    Mutant("chexqa/stats.py", "(len(p) - np.arange(len(p)))", "len(p)", _STATISTICS,
           "Bonferroni instead of Holm"),
    Mutant("eval/scoring/significance.py", "stats.norm.isf(alpha / 2)", "stats.norm.isf(alpha)", _STATISTICS,
           "the detectable difference is that of a one-sided test"),
    # parser
    Mutant("eval/prompts/answer_parser.py", "item.options[place - 1].n for place", "place for place", _PARSER,
           "an option's position is taken for its number"),
    Mutant("eval/prompts/answer_parser.py", "return Reading(None, \"truncated\" if cut else \"unparsed\")",
           "return Reading(None, \"unparsed\")", _PARSER, "a cut reply counts as unreadable"),
    Mutant("eval/prompts/answer_parser.py", "return None if cut and reader.multi else whole", "return whole", _PARSER,
           "the first half of a cut list is read as an answer"),
    Mutant("eval/prompts/answer_parser.py", "    place = candidates[-1]\n", "    place = candidates[0]\n", _PARSER,
           "the first answer counts, not the last"),
    Mutant("eval/prompts/answer_parser.py", "return labelled.pop() if len(labelled) == 1 and",
           "return labelled.pop() if labelled and", _PARSER, "one of two labelled answers is chosen"),
    Mutant("eval/prompts/answer_parser.py", "    if any(set(one or ()) & set(value.parsed) for one in denied) or",
           "    if", _PARSER, "a denied answer counts"),
    # attributes
    Mutant("generators/attributes/attribute_keys.py", "min(judged.zones, 4)", "min(judged.zones, 3)", _ATTRIBUTES,
           "four zones count as three"),
    Mutant("generators/attributes/attribute_keys.py", "sum(covered >= cut for cut", "sum(covered > cut for cut", _ATTRIBUTES,
           "a share equal to the threshold counts as below it"),
    Mutant("chexqa/imaging/anatomy.py", "return top + height // 3, top + 2 * height // 3",
           "return top + height // 3, top + height // 2", ("tests/imaging/test_anatomy.py",), "the mid zone ends too high"),
    Mutant("generators/attributes/attribute_keys.py", "if left >= larger_ratio * right:", "if left >= right:", _ATTRIBUTES,
           "any difference makes a lung the larger one"),
    Mutant("generators/attributes/attribute_keys.py", "if right == 0 or left == 0:", "if right == 0 and left == 0:",
           _ATTRIBUTES, "a lesion in one lung only is compared like one in both"),
    Mutant("generators/attributes/attribute_keys.py", "named or (len(drawn.location) + 1,)", "named or (len(drawn.location),)",
           _ATTRIBUTES, "\"none of the regions\" is keyed as the last region"),
    Mutant("generators/attributes/attribute_keys.py", "if part.pixels >= least)", "if part.pixels)", _ATTRIBUTES,
           "specks count as parts"),
    Mutant("generators/attributes/attribute_keys.py", "involved = reached | most", "involved = reached", _ATTRIBUTES,
           "a small lesion lies in no region"),
    Mutant("generators/attributes/attribute_keys.py", "connectivity=4", "connectivity=8", _ATTRIBUTES,
           "parts that touch at a corner count as one part"),
    Mutant("generators/attributes/attribute_keys.py", "round(abs(value / threshold - 1), 4)", "round(abs(value - threshold), 4)",
           _ATTRIBUTES, "the distance to a threshold is absolute instead of relative"),
    Mutant("eval/prompts/option_order.py", "shift = 0 if item.is_ordered else rotation % moving",
           "shift = rotation % moving", ("tests/prompts/test_protocols.py", *_RUNNER), "ordered options are rotated"),
    # runner and budget
    Mutant("eval/runs/conversations.py", "in (NOT_ASKED, ERROR) for item", "in (NOT_ASKED,) for item", _RUNNER,
           "an error is never asked again"),
    Mutant("eval/runs/conversations.py", "                if turn is None or turn.state == ERROR:\n                    return\n",
           "                if turn is None:\n                    return\n", _RUNNER,
           "a conversation goes on after an error"),
    Mutant("eval/runs/conversations.py", "            if turn.state != ERROR and (place :=", "            if (place :=", _RUNNER,
           "an error is put into the history as a reply"),
    Mutant("eval/runs/budget.py", "return self.spent >= self.limit or self.expected(in_flight) > self.limit",
           "return self.spent >= self.limit", ("tests/runs/test_runner.py",), "turns in flight cost nothing"),
    Mutant("eval/runs/conversations.py", "        await self.log.append(turn)\n", "", _RUNNER, "a paid turn is not logged"),
)  # fmt: skip
