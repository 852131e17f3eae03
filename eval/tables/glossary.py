"""Meaning of every table and every column of a report."""

from __future__ import annotations

from chexqa.eval.confidence import meanings as sure
from chexqa.eval.grounding import meanings as looking
from chexqa.eval.thresholds import meanings

TABLES: dict[str, str] = {
    "levels": "the headline: accuracy of each level, corrected for chance, mean over its kinds, without cardiomegaly",
    "groups": "models from best to worst on each score; models with a common letter do not differ significantly",
    "drops": "corrected score of a level minus the corrected score of a later level",
    "powered": "accuracy if reviewers' answers replace the key, estimated from a random sample of reviewed items",
    "states": "number of questions that ended in each state",
    "depth": "number of stages that a model passes in a row, from the first",
    "stages": "accuracy of complete stages, alone and gated (gated: all earlier stages must be right too)",
    "kinds": "accuracy of each kind of question",
    "finding_kinds": "accuracy of each kind of question on each finding",
    "answers_by_key": "how often each option was named, for each right option",
    "second_reader": "accuracy of answers made from another reader's masks, for each kind, beside chance and oracle",
    "decisions": "detection and contour evaluation as yes/no decisions",
    "grid": "choice of one cell of an 8 x 8 grid: hits, the largest possible hit rate, and kinds of misses",
    "pointing": "correlation over cases between detecting the finding and naming a right cell",
    **meanings.TABLES,
    "cells": "how often models choose each cell of the grid, and how often this cell is right",
    "places": "places given by coordinates: right places of present findings, and places given for absent findings",
    "place_frames": "check of each model's coordinate system (unit and order of its numbers), by test markers",
    "where": "hits of one grid cell by models, maps and readers: the named cell, or the cell of a point, peak or box",
    "pairs": "differences between every two models on the same items, with the verdict alike, different or not settled",
    "differences": "every two models on the same items of a level, a kind or a finding: items that both or one has "
    "right",
    "protocols": "each model under two protocols that differ in one thing, on the same items",
    "rankings": "agreement of two rankings of the models: by two scores, or by one score under two protocols",
    "random_readers": "models minus readers; intervals and tests allow for other readers and other patients",
    "decided": "runs that asked patient after patient until two models differed on a score named before the run",
    "contrast": "mean of medical models minus mean of general models",
    "detectable": "the smallest difference between two models that a test detects with 80 % power",
    "subgroups": "scores of groups of patients and lesions, and gaps within the same finding and kind",
    "without_radiograph": "scores with and without the radiograph",
    "rotations": "scores in each order of options",
    "positions": "how often the option at each position is chosen, and how often it is the key",
    **sure.TABLES,
    "agreement": "agreement between the answers to repeated questions",
    "contradictions": "answers in one conversation that contradict each other",
    "swapped": "accuracy after left and right are exchanged in the key",
    **looking.TABLES,
    "contested": "grades of items on which reviewers disagree; these items count in no other table",
    "costs": "cost in dollars, tokens of a reply, and seconds to a reply",
    "plan": "what was planned before the study, and what was done in it",
    "facts": "the items that were asked: counts, chance and other values that do not depend on a model",
    "published": "published scores, measured on another sample",
}

COLUMNS: dict[str, str] = {
    "model": "the model's name",
    "protocol": "protocol by which questions were asked; in brackets: another wording, examples, or missing pictures",
    "prompt": "wording around the questions: bank (the question bank's own), plain, reason, or another of its wordings",
    "system": "bank if the wording's own system text was sent; otherwise the first digits of the sent text's SHA-256",
    "shots": "examples shown before each question",
    "level": "coarse: presence of the lesion; fine: its outline; semantic: its description",
    "kinds": "number of kinds of question in the mean",
    "kinds_corrected": "number of kinds in the mean of scores corrected for chance; a yes/no kind without a finding "
    "that is keyed both yes and no has no such score, and neither has a kind whose items have one possible answer",
    "items": "number of items",
    "cases": "number of cases",
    "patients": "number of clusters: patients; where these are unknown, studies or images",
    "clusters": "the unit of intervals: patients, studies or images",
    "corrected": "accuracy of all asked items, corrected for chance: sum(a - c) / sum(1 - c) with accuracy a and "
    "chance c; for yes/no kinds sensitivity + specificity - 1, mean over findings; guessing gives 0, and so does a "
    "constant yes or no; items, accuracy, chance and prior also count what is left out here: items with one possible "
    "answer and, in yes/no kinds, findings that are not keyed both yes and no",
    "accuracy": "share of right answers among all asked items",
    "chance": "expected accuracy of guessing among the possible answers",
    "items_fresh": "number of items of the fresh seed",
    "accuracy_fresh": "share of right answers among the items of the fresh seed",
    "prior": "accuracy of always giving other patients' most frequent answer to this kind and finding",
    "prior_corrected": "accuracy of always giving other patients' most frequent answer, corrected for chance "
    "(below 0 where leaving a patient out turns a small majority round)",
    "answered": "share of asked items with a readable answer",
    "accuracy_answered": "accuracy among answered items only",
    "corrected_answered": "accuracy corrected for chance among answered items only",
    "corrected_guessed": "accuracy corrected for chance, in which an item without a readable answer counts as guessed",
    "unfinished": "questions in error or not asked; a model with such questions has no scores, unless its "
    "finished questions alone are scored",
    "upper": "the level before the drop",
    "lower": "the level after the drop",
    "drop": "corrected score of the upper level minus the corrected score of the lower level",
    "kind": "kind of question",
    "right": "number of right answers (mean over repeats and rotations)",
    "jaccard": "mean partial credit of multi-select questions: number of options both chosen and right, divided by "
    "number of options chosen or right; it counts in no headline",
    "point_sensitivity": "share of the points to be moved that the model named",
    "false_marks": "share of the other points that the model named",
    "correct": "number of right answers",
    "wrong": "number of answers that are not right",
    "unparsed": "number of replies without a readable answer",
    "truncated": "number of replies cut off before an answer",
    "refused": "number of refusals, as the server or the model's code marks them; a refusal in words alone is unparsed",
    "empty": "number of empty replies",
    "overflow": "number of questions in conversations longer than the model's context",
    "error": "number of failed requests (unfinished)",
    "not_asked": "number of questions not asked yet (unfinished)",
    "path": "question path of a case: lesion_free (no lesion), revision_free (the outline fits), revision_required "
    "(the outline needs revision)",
    "stage": "1 detection, 2 contour evaluation, 3 contour revision, 4 attributes",
    "reading": "history with which a stage was asked: the model's own answers (maybe wrong), right answers, or none",
    "gated": "share of cases in which this stage and all earlier stages are right",
    "lost": "share of cases in which this stage is the first with an answer that is not right",
    "product": "product of the accuracies of the stage's kinds; the stage's accuracy if its kinds are independent",
    "depth": "mean number of stages passed in a row, from the first; a case of cardiomegaly, which has no stage 4, "
    "gets the full depth of its path if it passes its stages",
    "maximum": "number of stages on the path",
    "depth_always_yes": "depth if every detection answer is yes and every contour evaluation answer is yes",
    "depth_yes_then_no": "depth if every detection answer is yes and every contour evaluation answer is no",
    "depth_always_no": "depth if every detection answer is no and every contour evaluation answer is no",
    "positives": "number of cases with a lesion (detection) or an outline that needs revision (contour evaluation)",
    "negatives": "number of cases without a lesion (detection) or with an outline that fits (contour evaluation)",
    "sensitivity": "share of positives answered yes",
    "specificity": "share of negatives answered no",
    "balanced_accuracy": "mean of sensitivity and specificity; 50 % is guessing",
    "yes_rate": "share of all cases answered yes",
    "always_yes": "accuracy of always saying yes",
    "always_no": "accuracy of always saying no",
    "finding": "the finding that is looked for",
    "attainable": "number of items in which at least one cell is a hit",
    "hit_rate": "share of items in which the lesion covers at least half of the chosen cell",
    "hit_rate_attainable": "hit rate among the items in which at least one cell is a hit",
    "coverage": "covered share of the chosen cell, divided by the covered share of the best cell; 0 without a cell",
    "ceiling": "share of items in which at least one cell is a hit",
    "most_frequent": "hit rate of always choosing the cell that is a hit most often in other patients with the finding",
    "partial_hit": "misses in a cell that the lesion covers by less than half",
    "position_error": "misses in a cell that the lesion does not touch, in anatomy that is plausible for the finding",
    "anatomy_error": "misses in a cell outside the anatomy that is plausible for the finding",
    "position_unknown": "misses that cannot be classified, because the case has no masks of the anatomy",
    "no_answer": "replies that name no cell",
    "cell": "cell number by row: 1 is A1, 64 is H8",
    "column": "column letter of the cell, from the picture's left",
    "row": "row number of the cell, from the top",
    "chosen": "share of answers that choose this position",
    "key_share": "share of items whose key is at this position",
    "present": "number of items whose finding is present",
    "absent": "number of items whose finding is absent",
    "net": "share of present findings with a right place minus share of absent findings with any place; always "
    'answering "nowhere" gives 0',
    "right_present": "share of present findings with a right place: a point in the mask (or within 1.5 % of the "
    "longer side), one box with IoU of at least 0.5, all boxes with IoU of at least 0.3, an outline with Dice of at "
    "least 0.5, a ratio within 0.03",
    "placed_absent": "share of absent findings for which a place was given",
    "misplaced": "share of present findings with a wrong place",
    "missed": 'share of present findings for which the answer is "nowhere"',
    "unread": "share of present findings without a readable answer",
    "iou": "mean intersection over union (IoU) of the answered box and the finding's box, or of the answered outline "
    "and the mask; 0 without a place",
    "iou_10": "share of present findings with a box or outline whose IoU is at least 0.1",
    "iou_30": "share of present findings with a box or outline whose IoU is at least 0.3",
    "iou_50": "share of present findings with a box or outline whose IoU is at least 0.5",
    "dice": "mean Dice of the answered outline and the mask; 0 without an outline",
    "precision": "mean share of answered boxes that match an area of the finding one to one (IoU of at least 0.3)",
    "recall": "mean share of the finding's areas that match an answered box one to one (IoU of at least 0.3)",
    "f1_10": "mean F1 of boxes matched one to one with IoU of at least 0.1",
    "f1_30": "mean F1 of boxes matched one to one with IoU of at least 0.3",
    "f1_50": "mean F1 of boxes matched one to one with IoU of at least 0.5",
    "distance": "mean distance between the borders of the answered outline and of the mask, in pixels of the picture",
    "ratio_error": "mean absolute error of the cardiothoracic ratio",
    "chance_uniform": "expected share of right places if the model's places were drawn evenly in the lungs",
    "chance_average_map": "expected share of right places if the model's places came from other patients' average map",
    "frame": "coordinate system (unit and order of a model's numbers) that the model declares",
    "form": "form of the answers to the test markers: a point or a box",
    "marks": "number of test markers asked",
    "found": "number of test markers found in the declared coordinate system",
    "fitting": "coordinate systems in which at least 11 of 12 test markers are found within 3 % of the longer side",
    "proof": "proved: only the declared coordinate system fits; ambiguous: another coordinate system fits too; "
    "another fits: only other coordinate systems fit; not proved: none fits; unfinished: test markers without a reply; "
    "given: a reader, whose pictures have rulers in pixels",
    "score": "a level or the mean of levels (corrected for chance), or the grid's hit rate (mean of findings)",
    "place": "rank of the model; equal scores have the same rank",
    "value": "the score",
    "letters": "models with a common letter do not differ significantly (family-wise 5 %)",
    "model_a": "the first model",
    "model_b": "the second model",
    "difference": "the first score minus the second",
    "readers": "number of readers, at least three; each reader is compared with the model on the reader's own cases",
    "df": "degrees of freedom of the single-treatment analysis of Obuchowski and Rockette (Hillis)",
    "both": "number of items that both models have right",
    "only_a": "number of items that only the first model has right",
    "only_b": "number of items that only the second model has right",
    "neither": "number of items that neither model has right",
    "every": "number of items that every model has right",
    "key": "the option that is right",
    "answer": "the option that the model named, or no answer",
    "p": "two-sided p of the sign-flip test over patients",
    "p_holm": "p after Holm's correction for all tests of the family",
    "p_labels": "share of exchanges of the labels medical and general with a difference at least as large as observed",
    "family": "confirmatory: test in the family fixed in advance (levels and their mean, under end_to_end or, without "
    "it, the first protocol); readers: test in the family of pairs with a reader; exploratory: test in neither family, "
    "such as every pair with a baseline",
    "differ": "true if the corrected p is below 0.05",
    "margin": "equivalence margin, set before grading: scores are alike if their difference is shown to be below it",
    "p_alike": "p of two one-sided t tests of equivalence within the margin; it is below 0.05 if and only if the 90 % "
    "interval lies within the margin",
    "p_alike_holm": "p of the test of equivalence after Holm's correction for all tests of the family",
    "verdict": "alike: within the margin (corrected p of the test of equivalence below 0.05); different: corrected p "
    "below 0.05; not settled: neither",
    "protocol_a": "the first protocol",
    "protocol_b": "the second protocol",
    "value_a": "the score under the first protocol",
    "value_b": "the score under the second protocol",
    "score_a": "the first score",
    "score_b": "the second score",
    "models": "number of models that are ranked, without baselines and readers",
    "tau": "Kendall's tau-b of the two rankings: 1 for the same order, -1 for the opposite order",
    "item": "the part of the plan",
    "planned": "what the plan says",
    "done": "what was done in the study",
    "kept": "true if this part of the plan was kept",
    "how": "all findings: over all cases; within findings: the mean of each finding is subtracted first; at equal "
    "lesion size: a line over the logarithm of the lesion's size is subtracted too",
    "correlation": "correlation between right detection and grid hit, over the cases with the finding",
    **meanings.COLUMNS,
    "tau_least": "smallest tau when any one model is left out",
    "tau_most": "largest tau when any one model is left out",
    "of": "number of patients in the benchmark with items of the score",
    "alpha": "probability of deciding between two equal models, although the test is repeated after every patient",
    "target": "patients to whom the result applies: population (all similar patients) or benchmark (only its own)",
    "decided": "true if the confidence sequence excludes zero; the run then stopped",
    "reviewed": "number of items in a random sample that reviewers answered without seeing the proposal",
    "against_key": "number of reviewed items whose settled answer is not the key",
    "unsettled": "number of reviewed items without a settled answer, because readers differ and no blind adjudicator "
    "decided; for these items the key counts",
    "keyed": "accuracy by the key, mean over the level's kinds",
    "powered": "accuracy by the reviewers, mean over the level's kinds: accuracy by the key times the factor, plus a "
    "correction from the reviewed items",
    "by_second": "share of the benchmark's items whose key is also the answer made from the second reader's mask",
    "items_back": "number of items made from the second reader's mask",
    "by_first": "share of items_back whose key is also the answer made from the first mask",
    "second_reader": "mean of by_second and by_first",
    "oracle": "share of the items that have a right answer",
    "ties": "number of answers left out because two pictures fit the other mask about equally well",
    "factor": "weight of the accuracy by the key in the estimate, from 0 (only the reviewed items count) to 1",
    "medical": "number of medical models",
    "general": "number of general models",
    "basis": "origin of the standard error: observed pairs of models; without such a pair, what chexqa power assumes",
    "standard_error": "standard error of a difference between two models: half the width of its interval over the t "
    "quantile, median over pairs; empty if the pairs have fewer than 10 patients",
    "detectable": "smallest difference a 5 % test detects with 80 % power: 2.80 errors, and at least 7.9 patients",
    "detectable_in_family": "smallest difference that the first test of the family detects with 80 % power: the normal "
    "quantile of 0.05 / tests (two-sided) plus 0.84, times the error; at least as many differ as sign flips need",
    "dimension": "the property by which patients or cases are grouped",
    "group": "the group; thirds are made among the cases of each finding",
    "gap": "accuracy of the group minus accuracy of the dimension's other groups, within the same finding and kind, "
    "weighted by n1 n2 / (n1 + n2) with the numbers of items of both sides; not corrected for chance; no interval "
    "with fewer than 10 patients on a side",
    "without": "what was not sent: no picture was sent (blind), or the radiograph was left out (overlay only)",
    "with_image": "score with the radiograph",
    "without_image": "score without the radiograph",
    "retained": "score without the radiograph divided by the score with it; its interval needs a score with it above 0",
    "rotation": "order of options; 0 is the order in the benchmark",
    "spread": "largest score over the orders of options minus the smallest",
    "position": "position of the option as displayed, from 1",
    "answers": "number of items with a readable answer",
    "bias": "share of answers minus share of keys at the position; above 0, the position is chosen too often",
    "repeats": "number of times an item was asked in one order",
    "same_answer": "share of pairs of repeats with the same answer; two replies without a readable answer are the same",
    "same_verdict": "share of pairs of repeats that are both right or both not right",
    "rule": "two answers that contradict each other",
    "asked": "number of questions with an outcome",
    "contradictions": "number of conversations whose answers contradict each other by the rule",
    "share": "number of contradictions divided by the number asked",
    "mirrored": "accuracy with left and right exchanged in the key",
    "gain": "mirrored accuracy minus accuracy",
    **looking.COLUMNS,
    **sure.COLUMNS,
    "cost_usd": "cost in dollars of the questions on the original pictures, with their failed attempts as far as the "
    "server counted tokens; empty if the cost of a question is unknown",
    "asked_altered": "number of questions with an outcome on altered or degraded pictures, with another wording, or "
    "after a false history",
    "cost_altered_usd": "cost in dollars of these further questions; empty if the cost of a question is unknown",
    "known_usd": "cost in dollars of all questions whose cost is known",
    "without_cost": "number of questions of unknown cost: without a price or without token counts",
    "uncounted_attempts": "number of attempts without token counts that may be billed, but are in no cost",
    "cost_per_1000_usd": "cost in dollars per thousand questions",
    "output_tokens": "mean number of tokens of a reply, with reasoning",
    "latency_s": "median time to a reply in seconds",
    "findings": "number of findings",
    "unstable": "number of items whose key changes with a little noise in the masks",
    "task": "the task that was measured",
    "name": "the model or readers that were measured",
    "measure": "what the value measures",
    "source": "the publication",
    "sample": "the data on which the value was measured",
    "note": "how to read the value",
}

# Meanings of columns that differ in some tables, keyed by column and table. ``fresh`` is the table of
# ``chexqa compare --fresh``.
IN_TABLE: dict[str, dict[str, str]] = {
    "items": {"states": "number of questions asked, with repeats and rotations"},
    "drop": {"fresh": "accuracy on the benchmark minus accuracy on its fresh seed"},
    "correct": {"cells": "number of items in which the cell is a hit"},
    "chosen": {"cells": "number of answers that name the cell"},
    "frame": {"places": "the verdict on the model's coordinate system"},
    "difference": {
        "differences": "share of right answers of the first model minus that of the second, every item counted once",
        "random_readers": "the model's score minus the mean of the readers",
    },
    "p": {
        "random_readers": "p of a t test over readers and patients, given for at least five readers",
        "fresh": "one-sided p, with the labels of the two benchmarks exchanged patient by patient",
    },
    "verdict": {
        "fresh": "does not fall (the drop's interval ends below the margin), falls (corrected p below 0.01), or "
        "undecided",
    },
    "asked": {"contradictions": "number of conversations with both questions answered"},
    "patients": {"grounding": "number of patients whose cases count in net grounding"},
    "findings": {"grounding": "number of findings in the mean of net grounding"},
}
# Names, in a text, of the tables in :data:`IN_TABLE`.
_CALLED = {
    "states": "states of questions", "fresh": "drops on a fresh seed", "cells": "cells of the grid",
    "places": "places by coordinates", "differences": "two models side by side",
    "random_readers": "models and readers", "contradictions": "contradictions", "grounding": "altered pictures",
}  # fmt: skip

# Columns of grades.parquet, which has a row for each question asked of each model.
GRADES: dict[str, str] = {
    "model": COLUMNS["model"],
    "protocol": COLUMNS["protocol"],
    "repeat": "number of the repeat, from 0",
    "rotation": "number of the order of options, from 0",
    "case_id": "the case of the item",
    "patient_id": "the patient; empty if unknown",
    "study_id": "the study; empty if unknown",
    "picture": "the radiograph; the unit of intervals if neither patient nor study is known",
    "item_id": "the item",
    "kind": COLUMNS["kind"],
    "level": "coarse, fine or semantic; empty for kinds outside the headline, such as the grid",
    "stage": "the stage of the kind, from 1 to 4; empty for kinds without a stage",
    "finding": "the finding that the question is about",
    "path": "the case's question path: lesion_free, revision_free or revision_required",
    "answer": "numbers of the right options; in a grid item each of these cells is a right answer",
    "chance": "the expected accuracy of a guess at the item",
    "prior": "1 if the answer that is most frequent among other patients' items of the same kind and finding is "
    "right, otherwise 0 (a fraction if several answers are equally frequent); answers are compared by their words, "
    "and none is one answer; yes and no, or outlines, whose numbers differ by this patient's answers alone are equally "
    "frequent",
    "chance_joint": "probability that a guess answers both questions on points right; empty for other kinds",
    "scored": "false for items that count in no score corrected for chance, because they have one possible answer",
    "sex": "the patient's sex; empty if unknown",
    "age": "the patient's age in years; empty if unknown",
    "view": "PA, AP or LATERAL; empty if unknown",
    "lesion_share": "area of the lesion as a share of both lungs",
    "edit_depth": "depth of the case's shallowest error of the outline, in pixels of 1024",
    "edit_area": "area of the case's smallest error of the outline, as a share of the lesion",
    "flags": "remarks of generation and review, such as contested; contested items count only in the table contested",
    "evidence": "the measurements that the key follows from, as JSON",
    "state": "how the question ended: correct or wrong (a readable answer), unparsed, truncated, refused, empty, "
    "overflow, error or not_asked",
    "correct": "true for a right answer; a question without a readable answer is false",
    "partial": "partial credit from 0 to 1; multi-select: number of options both chosen and right, divided by the "
    "number chosen or right; other kinds: 1 for a right answer",
    "parsed": "numbers of the options that the reply names; empty without a readable answer",
    "order": "numbers of the options in the order shown; empty for the benchmark's own order",
    "miss": "kind of a miss on the grid: partial_hit, position_error, anatomy_error or position_unknown",
    "coverage": "on the grid: covered share of the chosen cell divided by the covered share of the best cell",
    "cost_usd": "cost of the turn in dollars, with its failed attempts; 0 for a refused request; empty if unknown",
    "latency_s": "seconds to the reply",
    "output_tokens": "tokens of the reply; empty if unknown",
    "reply": "text of the reply",
    "reasoning": "text that the server sent as reasoning; it is never read for an answer",
    "confidence": "probability from 0 to 1 that the model gave for its answer being right; empty without one",
    "answer_logprob": "natural logarithm of the probability of the answer's tokens; empty if not given by the server",
}

# Floats that are neither shares nor differences of shares, with the decimals they are shown with.
PLAIN: dict[str, int] = {
    "depth": 2, "depth_always_yes": 2, "depth_yes_then_no": 2, "depth_always_no": 2, "right": 0, "cost_usd": 2,
    "cost_altered_usd": 2, "known_usd": 2, "df": 1, "factor": 2, "distance": 1, "cost_per_1000_usd": 2, "auroc": 2,
    "output_tokens": 0, "latency_s": 1, "tau": 2, "tau_least": 2, "tau_most": 2, "correlation": 2, "criterion": 2,
    "threshold": 1, "threshold_mm": 2, "slope": 2, "brier": 3, "reliability": 3, "resolution": 3, "uncertainty": 3,
}  # fmt: skip
P_VALUES = ("p", "p_holm", "p_labels", "p_alike", "p_alike_holm")


def meaning(column: str, *tables: str) -> str:
    """Return the meaning of a column in the given tables, or in every table if none is given.

    ``x_low`` and ``x_high`` are the ends of the interval of column ``x``.

    >>> meaning("asked", "costs"), meaning("asked", "contradictions")
    ('number of questions with an outcome', 'number of conversations with both questions answered')
    """
    for end, words in (("_low", "lower end"), ("_high", "upper end")):
        if column.endswith(end):
            return f"{words} of the 95 % interval: {meaning(column.removesuffix(end), *tables)}"
    own = IN_TABLE.get(column, {})
    named = [table for table in own if table in tables or not tables]
    if tables and len(named) == len(tables) == 1:
        return own[named[0]]
    return "; ".join([COLUMNS[column], *(f"in the table of {_CALLED[table]}: {own[table]}" for table in named)])
