"""A random forest over all artefacts together, tested on patients that the forest was not trained on.

The forest needs scikit-learn (the extra ``audit``); if this package is missing, the results say so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from chexqa.files.seeds import digest
from chexqa.generators.audit.exact_tests import (
    BinaryScore,
    Contest,
    NullScore,
    expected_hits,
    interval,
)
from chexqa.generators.audit.rule_scores import Result
from chexqa.generators.audit.shortcuts_tried import (
    OF_POINTS,
    OF_RESULTS,
    POINT_KINDS,
    Choice,
    Features,
    ItemFeatures,
    artefacts_of_items,
)

Table = npt.NDArray[np.float64]
NAME = "classifier over all features"
MISSING = "scikit-learn is not installed: pip install 'chexqa[audit]'"
# Measured by benchmarks/outlines; to be measured again if the drawing of the four outlines changes.
POOLED = (
    "A known bias is too small to be seen in a single audit: a forest trained on 1,226 other lesions picks the "
    "right one of the four outlines for 32.6 % of 1,299 lesions (95 % interval 30.1 to 35.4; 25 by chance)."
)
POOLED_KIND = "revision_result"
_BLOCKS = 5
_LEAST = 20


def installed() -> bool:
    """Return True if scikit-learn is installed."""
    try:
        import sklearn  # noqa: F401
    except ImportError:
        return False
    return True


def score_all(features: Features) -> list[Result]:
    """Return how often a random forest finds the right answer from the features, for each kind of question on outlines.

    The kinds are ``contour_evaluation``, the kinds on points and ``revision_result``; a kind without items is left out.
    If a kind cannot be tested, its result gives the reason.
    """
    results = []
    for kind in ("contour_evaluation", *POINT_KINDS, "revision_result"):
        if not features.rows[kind]:
            continue
        if not installed():
            results.append(_untested(kind, MISSING))
        elif kind == "contour_evaluation":
            results.append(_of_items(kind, features.rows[kind]))
        elif kind in POINT_KINDS:
            names = [*(one.name for one in OF_POINTS if one.sort == "artefact"), "position", "colour"]
            results.append(_of_candidates(kind, features.points_by_side[kind], names))
        else:
            names = [*(one.name for one in OF_RESULTS), "position"]
            results.append(_of_candidates(kind, features.choices[kind], names))
    return results


def _untested(kind: str, why: str) -> Result:
    return Result(kind, "artefact", NAME, why, 0, 0, 0, 0.0, (0.0, 1.0), None)


def _blocks(groups: Iterable[str]) -> dict[str, int]:
    """Return the number of the block that each group is assigned to, by hash.

    Blocks have nearly equal numbers of groups.
    """
    # The hash is of the bare id, so that the blocks are the same whatever the form of a cluster's name.
    order = sorted(sorted(set(groups)), key=lambda group: digest("audit", group.partition(" ")[2]))
    return {group: place * _BLOCKS // len(order) for place, group in enumerate(order)}


def _of_candidates(kind: str, choices: Iterable[Choice], names: Sequence[str]) -> Result:
    """Return the score of picking the candidate that the forest finds most likely to be right."""
    # A missing measure would itself distinguish items, so only measures that all items have are used.
    rows = [choice for choice in choices if 0 < sum(choice.right) < len(choice.right)]
    names = [name for name in names if rows and all(name in choice.features for choice in rows)]
    if len(rows) < _LEAST or not names:
        return _untested(kind, "too few items to learn from")
    words = {name: sorted({str(value) for row in rows for value in row.features[name]}) for name in names}
    tables = [_of_choice(row, names, words) for row in rows]
    blocks = _blocks(row.group for row in rows)
    contests = []
    for train, test in _split([blocks[row.group] for row in rows]):
        truth = np.concatenate([rows[index].right for index in train])
        scores = _forest(np.concatenate([tables[index] for index in train]), truth, [tables[index] for index in test])
        for index, score in zip(test, scores, strict=True):
            right = rows[index].right
            contests.append(Contest(len(right), sum(right), 1, int(right[int(np.argmax(score))])))
    return _result(kind, contests, len(contests), sum(row.hits for row in contests), expected_hits(contests))


def _of_choice(choice: Choice, names: Sequence[str], words: dict[str, list[str]]) -> Table:
    """Return a row of features for each candidate.

    A number gives three features: its value, its difference from the item's mean, and its rank. A word gives a flag.
    """
    columns: list[Table] = []
    for name in names:
        values = choice.features[name]
        if isinstance(values[0], str):
            columns += [np.array([value == word for value in values], float) for word in words[name]]
            continue
        numbers = np.array(values, float)
        below = (numbers[:, None] > numbers[None, :]).sum(axis=1) / (len(numbers) - 1)
        columns += [numbers, numbers - numbers.mean(), below]
    return np.stack(columns, axis=1)


def _of_items(kind: str, rows: list[ItemFeatures]) -> Result:
    """Return the score of yes/no answers.

    In each block and finding, yes is answered for the likeliest cases. Their number is the number of cases whose right
    answer is yes.
    """
    names = [name for name in artefacts_of_items() if all(isinstance(row.features.get(name), float) for row in rows)]
    yes = min(row.label for row in rows)
    truth = np.array([row.label == yes for row in rows])
    if len(rows) < _LEAST or not names or truth.all():
        return _untested(kind, "too few items to learn from")
    numbers = np.array([[row.features[name] for name in names] for row in rows], float)
    findings = np.array([row.finding for row in rows])
    table = np.concatenate([numbers, _within(numbers, findings)], axis=1)
    blocks = _blocks(row.group for row in rows)
    contests = []
    for train, test in _split([blocks[row.group] for row in rows]):
        if len(set(truth[train])) < 2:
            continue
        score = _forest(table[train], truth[train], [table[test]])[0]
        for finding in sorted(set(findings[test])):
            part = np.flatnonzero(findings[test] == finding)
            own = truth[test][part]
            count = int(own.sum())
            picked = part[np.argsort(-score[part], kind="stable")[:count]]
            if 0 < count < len(part):
                contests.append(Contest(len(part), count, count, int(truth[test][picked].sum())))
    return _result(kind, contests, *BinaryScore.of(contests))


def _within(numbers: Table, findings: npt.NDArray[np.str_]) -> Table:
    """Return each number's rank among the cases of its finding, from 0 to 1."""
    ranks = np.zeros_like(numbers)
    for finding in sorted(set(findings)):
        own = findings == finding
        ranks[own] = numbers[own].argsort(axis=0).argsort(axis=0) / max(1, own.sum() - 1)
    return ranks


def _split(blocks: list[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the indices to train on and the indices to test on, for each block from the second on."""
    by_block: dict[int, list[int]] = defaultdict(list)
    for index, block in enumerate(blocks):
        by_block[block].append(index)
    for block in range(1, _BLOCKS):
        # The forest never sees the key of a block that it answers, so without a leak its answers are random picks and
        # the p value is exact. In cross-validation, a block would also train forests that answer earlier blocks.
        train = [index for earlier in range(block) for index in by_block[earlier]]
        if train and by_block[block]:
            yield train, by_block[block]


def _forest(table: Table, truth: npt.NDArray[Any], tests: list[Table]) -> list[Table]:
    """Return the predicted probability of being right for every row of each table in ``tests``."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_estimators=100, min_samples_leaf=5, random_state=0).fit(table, truth)
    column = int(np.flatnonzero(forest.classes_)[0])
    scores = forest.predict_proba(np.concatenate(tests))[:, column]
    return np.split(scores, np.cumsum([len(part) for part in tests])[:-1])


def _result(kind: str, contests: list[Contest], answers: int, right: int, expected: float) -> Result:
    if not answers:
        return _untested(kind, "too few items to learn from")
    rule = "forest, trained on earlier cases"
    chance = expected / answers
    null = NullScore.of(contests, answers, right)
    return Result(
        kind, "artefact", NAME, rule, 1, answers, right, chance, interval(right, answers), null.p(right), null=null
    )
