"""Meanings of the tables and columns on confidence, a part of the glossary of all tables."""

from __future__ import annotations

TABLES: dict[str, str] = {
    "confidence": "estimates of confidence (stated, from repeats, from tokens): calibration, and how well they "
    "separate right answers from wrong ones; grid items on which no cell is a hit are left out",
    "confidence_bins": "share of right answers in each of ten bins of confidence",
    "confidence_curve": "share of wrong answers among those with at least a given confidence",
}
COLUMNS: dict[str, str] = {
    "estimate": "the estimate of confidence: stated (by the model), repeats (share of an item's repeats that give the "
    "most frequent answer) or logprob (probability of the answer's tokens, as given by the server)",
    "stated": "share of answers with an estimate of their confidence",
    "no_unit": "number of answers whose confidence is not used, because it is a fraction without a unit, such as 0.9",
    "mean_confidence": "mean confidence that the whole answer is right",
    "overconfidence": "mean confidence minus the share of right answers, over answers with a confidence",
    "brier": "Brier score: mean squared distance of confidence from 1 (right answer) or 0 (wrong one); lower is better",
    "reliability": "part of the Brier score that comes from miscalibration, over ten bins of confidence; 0 is best",
    "resolution": "part by which the Brier score is lower because confidences separate right answers from wrong ones",
    "uncertainty": "Brier score of always stating the share of right answers",
    "ece": "expected calibration error: mean distance between confidence and share right, over ten bins of confidence",
    "ece_by_chance": "expected calibration error of a perfectly calibrated model with the same confidences",
    "auroc": "probability that a right answer has a higher confidence than a wrong one (0.5: no better than chance); "
    "given if there are at least 15 right and 15 wrong answers",
    "risk_area": "share of wrong answers among the most confident x % of the answers, averaged over x from 0 to 100",
    "handed_over": "share of answers to hand to a reader so that at most 20 % of the remaining ones are wrong; the "
    "threshold is chosen on other patients, and answers without a confidence are handed over",
    "errors_kept": "share of wrong answers among those not handed to a reader",
    "confidence_from": "lower end of the bin of confidence, which belongs to the bin",
    "confidence_to": "upper end of the bin of confidence, which belongs to the next bin (but for 1)",
    "share_right": "share of right answers in the bin",
    "least_confidence": "least confidence of the answers that are kept",
    "kept_share": "share of answers that are kept, of those with a confidence",
    "share_wrong": "share of wrong answers among those that are kept",
}
