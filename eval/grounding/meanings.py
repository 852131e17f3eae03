"""Meanings of the tables and columns on grounding, a part of the glossary of all tables."""

from __future__ import annotations

TABLES: dict[str, str] = {
    "grounding": "changes of answers when the lesion or another part of the lung is filled in, or the picture mirrored",
    "grounding_findings": "changes of detection answers for each finding, when the lesion or another part of the lung "
    "is filled in",
    "not_audited": "cases that have no altered picture, by finding, condition and reason",
}
COLUMNS: dict[str, str] = {
    "audited": "number of cases with the finding that were answered on the original and on both filled pictures "
    "(lesion; other lung tissue)",
    "audited_share": "audited cases divided by all answered cases with the finding",
    "looks": "verdict on net grounding: uses the lesion (interval above 0 and at least 10 points), not shown to use it "
    "(interval below 10 points, which takes 28 patients or more), or undecided",
    "net_grounding": "share of detection answers that change (from yes to no, or from no to yes) when the lesion is "
    "filled in, minus the share that change when another part of the lung is filled in; mean of the findings with at "
    "least ten audited patients (with at least two, if none has ten); a finding with fewer is left out",
    "right_and_grounded": "share of audited cases whose answer is right, changes when the lesion is filled in, and "
    "stays when another part of the lung is filled in; mean of the same findings as net "
    "grounding",
    "true_removal": "among phantoms with a right yes: share whose twin, the same picture drawn without the "
    "lesion, is answered no",
    "key_following": "share of right answers that change to the new key when a part of the lesion is filled in",
    "mirror": "share of right answers that change to the mirrored picture's key when the picture is mirrored",
    "mirror_side": "as mirror, but only for comparisons whose key is left or right; a model that cannot tell "
    "sides has 50 %",
    "flips_again": "share of detection answers that change when the original is asked again",
    "cgr": "of the correct answers yes, the share that change when the lesion is filled in (published measure)",
    "uar": "mean over right detection answers: share of other patients with the same key, finding, view and sex who "
    "get the same answer (published measure)",
    "is": "of the correct answers yes, the share that stay when another part of the lung is filled in (published "
    "measure)",
    "fresh_drop": "accuracy on the benchmark minus accuracy on a fresh seed of it, mean of the kinds drawn anew",
    "fresh_verdict": "falls (the model has memorised the benchmark), does not fall, or undecided",
    "published_class": "class of the model by the published rules on CGR, UAR and IS; guessing can give any class",
    "flipped_target": "share of detection answers that change (from yes to no, or from no to yes) when the lesion is "
    "filled in",
    "flipped_irrelevant": "share of detection answers that change when another part of the lung is filled in",
    "condition": "target (lesion filled in), partial (part of it), irrelevant (other lung tissue filled in) or mirror",
    "reason": "why the cases have no altered picture",
}
