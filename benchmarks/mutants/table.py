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
_HEATMAPS = ("tests/heatmaps/test_heatmaps.py", "tests/heatmaps/test_study.py")
_PLACES = (
    "tests/places/test_place_score.py",
    "tests/places/test_coordinate_systems.py",
    "tests/places/test_markers.py",
    "tests/place_results/test_places.py",
)
_GROUNDING = ("tests/grounding/test_grounding.py",)
_CONFIDENCE = ("tests/confidence/test_confidence.py", "tests/confidence/test_abstention.py")
_STRESS = ("tests/stress/test_stress.py", "tests/stress/test_wording_review.py")
_AGREEMENT = ("tests/review/test_agreement.py", "tests/review/test_validity.py", "tests/review/test_apply.py")

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
    Mutant("eval/scoring/intervals.py", "(self.clusters < LEAST_CLUSTERS)", "(self.clusters < 2)", _STATISTICS,
           "an interval is given for very few patients"),
    Mutant("eval/scoring/intervals.py", "_ratio(above.total, room.total)", "_ratio(above.total, whole.total)",
           _STATISTICS, "chance is subtracted, but the result is not divided by one minus chance"),
    Mutant("eval/scoring/intervals.py", "_ratio(_row_sums(members, 2)", "_ratio(_row_sums(members)",
           _STATISTICS, "the weights that spread the prior's answers over patients are not squared"),
    Mutant("eval/scoring/intervals.py", "influence = sparse.csr_matrix(weights @", "influence = sparse.csr_matrix(abs(weights) @",
           _STATISTICS, "the variance of a difference is that of a sum"),
    Mutant("eval/scoring/intervals.py", "_mean_square(_heaviest(table))", "_mean_square(table)",
           _STATISTICS, "the patients added to a difference have the weight of an average patient"),
    Mutant("eval/scoring/intervals.py", "(differ + PRIOR_CLUSTERS)", "(differ + 1e9)",
           _STATISTICS, "no patients are added to a difference"),
    Mutant("eval/scoring/intervals.py", "size(_divided(influence, members), most)", "np.inf",
           _STATISTICS, "the patients added to a difference have both the most answers and the heaviest"),
    Mutant("eval/scoring/intervals.py", "np.sqrt(1 - 1 /", "np.sqrt(1 + 1 /",
           _STATISTICS, "the variance of a gap is not the jackknife's"),
    Mutant("eval/scoring/intervals.py", "np.fmin(half, self.best - value)", "half",
           _STATISTICS, "an interval of a difference reaches beyond what is possible"),
    Mutant("eval/scoring/significance.py", "(low <= 0) & (high >= 0)", "(low <= 0)", _STATISTICS,
           "an interval that leaves 0 out is moved to 0"),
    Mutant("eval/scoring/significance.py", "np.minimum((1 + reached) / (1 + draws), ", "np.minimum(reached / draws, ", _STATISTICS,
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
    Mutant("eval/runs/budget.py", "if self._spent < self._limit and expected <= self._limit:",
           "if self._spent < self._limit:", ("tests/runs/test_runner.py",), "turns in flight cost nothing"),
    Mutant("eval/runs/conversations.py", "        await self.log.append(turn)\n", "", _RUNNER, "a paid turn is not logged"),
    # heat maps
    Mutant("eval/heatmaps/metrics.py", "TOLERANCE * max(mask.shape) / TOLERANCE_SIDE", "TOLERANCE", _HEATMAPS,
           "15 pixels are those of any picture, not of one of 1024"),
    Mutant("eval/heatmaps/metrics.py", "256 * otsu(counted.grey_levels()) + 255,", "256 * otsu(counted.grey_levels()),", _HEATMAPS,
           "the level of Otsu's threshold is marked"),
    Mutant("eval/heatmaps/metrics.py", "np.sqrt(inside.var() + spread)", "np.sqrt(inside.var())", _HEATMAPS,
           "the noise outside the mask does not count in CNR"),
    Mutant("eval/heatmaps/tuned.py", "values[\"iou\"][~own]", "values[\"iou\"]", _HEATMAPS,
           "the threshold of a part is chosen on its own patients too"),
    Mutant("eval/heatmaps/recognition.py", "others = fold != one", "others = fold >= 0", _HEATMAPS,
           "a score's threshold is chosen on all patients"),
    Mutant("eval/heatmaps/influence.py", "1 - placements(score[~present], score[present])",
           "placements(score[~present], score[present])", _HEATMAPS, "cases without the finding have a wrong influence"),
    Mutant("eval/heatmaps/influence.py", "counted / (counted - 1) * (influence", "1.0 * (influence", _HEATMAPS,
           "the variance of a score is not corrected for its patients"),
    Mutant("eval/heatmaps/conclusions.py", "np.log(kept[\"lesion_share\"].to_numpy())", "kept[\"lesion_share\"].to_numpy()",
           _HEATMAPS, "recognition is adjusted for the size of a lesion, not for its logarithm"),
    Mutant("eval/heatmaps/conclusions.py", "score.influence * np.sqrt(own / max(1, own - 1))", "score.influence",
           _HEATMAPS, "intervals of a third with few patients are too narrow"),
    # places
    Mutant("eval/places/score.py", "np.concatenate([far[1][borders[0]], far[0][borders[1]]])", "far[1][borders[0]]",
           _PLACES, "the distance of borders is measured in one direction"),
    Mutant("eval/places/score.py", "recall=low / len(wanted)", "recall=low / len(boxes)", _PLACES,
           "recall is divided by the answered boxes"),
    Mutant("eval/places/markers.py", "form != \"point\" and frame.order == \"xywh\"", "frame.order == \"xywh\"", _PLACES,
           "a point in pixels is called ambiguous"),
    Mutant("eval/places/markers.py", "\"proved\" if len(fitting) == 1 else \"ambiguous\"", "\"proved\"", _PLACES,
           "a coordinate system is proved although another one fits"),
    Mutant("eval/places/average.py", "left = total - own", "left = total", _PLACES,
           "a case's own mask is in the average map that guesses for it"),
    Mutant("eval/places/target.py", "disc(GAP / 2 * max", "disc(GAP * max", _PLACES,
           "areas share a box at twice the distance"),
    Mutant("eval/places/coordinate_systems.py", "number * self._scale(size[place % 2])", "number * self._scale(size[0])",
           _PLACES, "y is scaled by the picture's width"),
    # grounding
    Mutant("eval/grounding/net_grounding.py", "pl.col(\"target\") & ~pl.col(\"irrelevant\")", "pl.col(\"target\")",
           _GROUNDING, "an answer that changes wherever lung is filled in counts as grounded"),
    Mutant("eval/grounding/net_grounding.py", "irrelevant, on=_SAME, how=\"inner\"", "irrelevant, on=_SAME, how=\"left\"",
           _GROUNDING, "items without an answer to the irrelevant picture count"),
    Mutant("eval/grounding/net_grounding.py", "if low > 0 and value >= LEAST:", "if low > 0:", _GROUNDING,
           "a tiny effect counts as using the lesion"),
    Mutant("eval/grounding/followed_keys.py", "pl.col(\"repeat\") > pl.col(\"_first\")", "pl.col(\"repeat\") >= pl.col(\"_first\")",
           _GROUNDING, "a first answer is compared with itself"),
    Mutant("eval/grounding/followed_keys.py", "\"rotation\", \"cluster\", \"finding\"]", "\"rotation\", \"cluster\"]",
           _GROUNDING, "a phantom's twin may be of another finding"),
    Mutant("eval/grounding/published_measures.py", "(alike - own_alike) / others", "(alike - 1) / others", _GROUNDING,
           "a patient's own other answers count in UAR"),
    Mutant("eval/grounding/published_measures.py", "(1 - cgr_value) ** answers < _TAIL and", "cgr_value > 0 and",
           _GROUNDING, "one changed answer is enough for the published class"),
    # confidence
    Mutant("eval/confidence/selective.py", "1 - _placements(no, yes)", "_placements(no, yes)", _CONFIDENCE,
           "wrong answers have a wrong sign in the variance of AUROC"),
    Mutant("eval/confidence/selective.py", "others = stated & ~own", "others = stated", _CONFIDENCE,
           "the threshold for handing over is chosen on a patient's own answers"),
    Mutant("eval/confidence/selective.py", "slope * step + (before - slope * start) * logs", "slope * step", _CONFIDENCE,
           "the area under risk and coverage forgets the answers kept before"),
    Mutant("eval/confidence/answers.py", "-pl.col(\"repeat\"), descending", "pl.col(\"repeat\"), descending", _CONFIDENCE,
           "of equally frequent answers the last is taken"),
    Mutant("eval/confidence/abstention.py", "lines[-1])) is not None", "lines[0])) is not None", _CONFIDENCE,
           "a reply abstains by its first line"),
    Mutant("eval/confidence/abstention.py", "(said & ~pl.col(\"state\").is_in(ANSWERED))", "said", _CONFIDENCE,
           "a graded answer counts as an abstention"),
    # stress
    Mutant("eval/stress/cells.py", "(kind, cell) not in refused", "cell not in refused", _STRESS,
           "a wording that a reviewer refused is asked"),
    Mutant("eval/stress/cells.py", "(start + place) % len(usable)", "start % len(usable)", _STRESS,
           "all items of a kind get the same stress"),
    Mutant("eval/stress/degradations.py", "min(centre - width * reach / 2, least)", "centre - width * reach / 2", _STRESS,
           "a window makes lung black"),
    Mutant("eval/stress/degradations.py", "max(held[0] - margin, 0.0)", "max(held[0] + margin, 0.0)", _STRESS,
           "a collimator darkens the lungs"),
    Mutant("eval/stress/degradations.py", "np.zeros(image.shape, bool) if lungs is None else lungs.copy()",
           "np.zeros(image.shape, bool)", _STRESS, "words lie over the lungs"),
    Mutant("eval/stress/stressed_pictures.py", "stream(0, base, \"stress\", cell)", "stream(0, picture.image, \"stress\", cell)",
           _STRESS, "the pictures of one item have different noise"),
    # agreement of reviewers
    Mutant("chexqa/review/resolve/coefficients.py", "(values - 1) * sums[..., 3]", "values * sums[..., 3]", _AGREEMENT,
           "Krippendorff's alpha is not corrected for a small sample"),
    Mutant("chexqa/review/resolve/coefficients.py", "/ max(1, shares.shape[-1] - 1)", "/ max(1, shares.shape[-1])",
           _AGREEMENT, "AC1 has one category too many"),
    Mutant("chexqa/review/resolve/coefficients.py", "1 - ((places[:, None] - places) / max(1, categories - 1)) ** 2",
           "1 - np.abs(places[:, None] - places) / max(1, categories - 1)", _AGREEMENT,
           "weights of disagreement are linear instead of quadratic"),
    Mutant("chexqa/review/resolve/coefficients.py", "len(np.unique(patients)))", "len(patients))", _AGREEMENT,
           "an interval of full agreement counts questions, not patients"),
    Mutant("chexqa/review/resolve/compare.py", "for option in item.options[:-1]", "for option in item.options", _AGREEMENT,
           "\"none\" counts as one more option"),
    Mutant("chexqa/review/resolve/compare.py", "all(unit.ordered for unit in units)", "any(unit.ordered for unit in units)",
           _AGREEMENT, "codes without an order get a weighted kappa"),
    Mutant("chexqa/review/resolve/decide.py", "{*answer} ^ {*key.answer}", "{*answer} - {*key.answer}", _AGREEMENT,
           "two readers who leave out a right option contest nothing"),
    Mutant("chexqa/review/resolve/decide.py", " and vote.reviewer not in readers for vote", " for vote", _AGREEMENT,
           "a reader who adjudicates too removes an item alone"),
    Mutant("chexqa/review/study/self_agreement.py", "(unit.place.kind, unit.categories) for unit in units",
           "(\"\", unit.categories) for unit in units", _AGREEMENT, "chance agreement is pooled over kinds"),
)  # fmt: skip
