"""Meanings of the tables and columns on limits of perception, a part of the glossary of all tables."""

from __future__ import annotations

TABLES: dict[str, str] = {
    "thresholds": "the depth from which a model or a reader sees an error in an outline, for each of three tasks",
    "stress": "accuracy on degraded radiographs, in other wordings and after a false history, compared with the "
    "originals",
    "abstention": "how often models abstain if they are allowed to, and the accuracy of their other answers",
    "stress_curve": "effect of stress at each severity of a degradation, and for each other wording",
}
COLUMNS: dict[str, str] = {
    "seen_in": "contour evaluation: does the outline need a revision; points: which points mark an error; four "
    "pictures: which of four outlines is right",
    "with_error": "number of answers about an error: outlines with one error (outlines with several errors are "
    "left out), points at an error, or sets of four pictures",
    "false_alarms": "share of fitting outlines that were called wrong; in the task on points: share of points without "
    "an error that were marked",
    "criterion": "fitted criterion: normal quantile of the share of fitting outlines that are called fitting, apart "
    "from lapses; above 0, the model tends to call outlines fitting",
    "threshold": "depth of the error in pixels (of 1024) at which d' is 1 (contour evaluation), or at which the share "
    "of right responses is halfway between guessing and the best that can be reached; the threshold or an end of its "
    "interval is empty where it lies outside the tested depths",
    "reads": "the threshold as text; outside the tested depths, the nearest tested depth with < or >; cannot be told: "
    "the answers are the same with and without an error, exclude no tested depth, or are fewer than 200",
    "reads_between": "the threshold's 95 % interval as text",
    "threshold_mm": "the threshold in millimetres: pixels times the cases' mean size of a pixel of 1024 (at the "
    "detector if a radiograph has no other spacing); empty if the spacing of a radiograph is unknown",
    "stress": "noise, blur, jpeg, resolution, contrast, window, collimation, marker: how the radiograph was degraded; "
    "wording: the question in other words of the same meaning; history: one line of false history before the question",
    "strength": "1 (slight) to 5 (strong); a letter for another wording",
    "accuracy_original": "share of right answers to the originals of the same items",
    "accuracy_stressed": "share of right answers under the stress",
    "change": "accuracy under the stress minus accuracy on the originals of the same items; over all severities it is "
    "the mean change, the area between the two curves",
    "abstained": "share of items in which the model abstained; they count as not right in every score",
    "accuracy_kept": "share of right answers among the items in which the model did not abstain",
    "accuracy_all": "share of right answers among all items; an abstention is not right",
    "changed": "share of answers that differ from the model's run without the permission to abstain, where both runs "
    "have an answer; empty without such a run",
    "flips": "share of answers that differ from the answer to the original, where both could be read",
    "slope": "steepness: the strength of an error is (depth / threshold) to this power; the strength is d', or minus "
    "the binary logarithm of the share not noticed",
    "lapse": "share of answers that do not depend on the picture, at most 6 %; the same for all three tasks",
}
