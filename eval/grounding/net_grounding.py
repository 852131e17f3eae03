"""Net grounding: do answers change more often if the lesion is filled in than if another part of the lung is?

Net grounding is the difference of the two shares of changed answers. A model that answers at random has 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item, clusters
from chexqa.eval.grounding.answer_pairs import WHO
from chexqa.eval.scoring.intervals import LEAST_CLUSTERS, Estimates, Groups, Sample, proportion
from chexqa.eval.scoring.sample import contrasts, mean_weights
from chexqa.files.terminal import plural
from chexqa.generators.interventions import altered_items

LEAST = 0.10  # net grounding from which a model counts as using the lesion
# A finding counts in the mean from this many audited patients on. The next number holds if no finding has as many.
LEAST_PATIENTS = (10, 2)
NOT_SHOWN_PATIENTS = 28  # with fewer patients the interval reaches 10 points even if no answer ever changes
USES, NOT_SHOWN, UNDECIDED = "uses the lesion", "not shown to use it", "undecided"
_SAME = (*WHO, "repeat", "rotation", "item_id")


def triples(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each item that was answered on the original picture and on both filled pictures.

    - ``target``: True if the answer changes when the lesion is filled in.
    - ``irrelevant``: True if the answer changes when another part of the lung is filled in.

    ``pairs`` is the table that :func:`answer_pairs` returns.
    """
    changed = pairs.with_columns((pl.col("first") != pl.col("second")).alias("changed"))
    target, irrelevant = (
        changed.filter(condition=name).select(*_SAME, pl.col("changed").alias(name))
        for name in ("target", "irrelevant")
    )
    cases = changed.filter(condition="target").drop("condition", "second", "new_key", "changed")
    return cases.join(target, on=_SAME, how="left").join(irrelevant, on=_SAME, how="inner", maintain_order="left")


@dataclass(frozen=True, eq=False)
class NetGrounding:
    """Net grounding of models, for each finding and as a mean over findings.

    - ``cells``: the model, protocol and finding that each value of the next three fields belongs to.
    - ``target``: the share of answers that change when the lesion is filled.
    - ``irrelevant``: the share of answers that change when another part of the lung is filled.
    - ``by_finding``: net grounding, ``target - irrelevant``.
    - ``keys``: the model and protocol that each value of the next three fields belongs to.
    - ``macro``: the mean of net grounding over the findings with enough patients.
    - ``right_and_grounded``: the share of all answers that are right and change only when the lesion is filled; a mean
      over the same findings.
    - ``findings``: the number of findings in these means.
    """

    keys: pl.DataFrame
    macro: Estimates
    cells: pl.DataFrame
    by_finding: Estimates
    target: Estimates
    irrelevant: Estimates
    right_and_grounded: Estimates
    findings: npt.NDArray[np.integer]


def net_grounding(sample: Sample, rows: pl.DataFrame) -> NetGrounding:
    """Return net grounding with intervals over patients; ``rows`` comes from :func:`triples`."""
    groups = Groups(sample, rows, [*WHO, "finding"])
    whole = groups.sums(pl.repeat(1.0, pl.len()))
    target, irrelevant = (proportion(groups.sums(name), whole) for name in ("target", "irrelevant"))
    size = groups.keys.height
    both = target.join(irrelevant).combine(contrasts(2 * size, [(one, size + one) for one in range(size)]))
    keys = groups.keys.select(WHO).unique(maintain_order=True)
    mean = mean_weights(keys, groups.keys.select(WHO), _in_mean(groups.keys, np.diff(whole.by_cluster.indptr)))
    direct = sparse.csr_matrix(sparse.hstack([mean, -mean]))
    good = pl.col("right") & pl.col("target") & ~pl.col("irrelevant")
    grounded = proportion(groups.sums(good), whole).combine(mean)
    macro, findings = target.join(irrelevant).combine(direct), np.diff(mean.indptr)
    return NetGrounding(keys, macro, groups.keys, both, target, irrelevant, grounded, findings)


def _in_mean(cells: pl.DataFrame, patients: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """Return True for each finding that counts in a model's mean: findings with enough patients."""
    table = cells.select(WHO).with_columns(pl.Series("patients", patients))
    return table.select(pl.col("patients") >= _enough(pl.col("patients").max().over(WHO))).to_series().to_numpy()


def _enough(most: pl.Expr) -> pl.Expr:
    """Return the number of patients from which a finding counts, where the largest finding has ``most`` patients.

    If no finding has two patients, all findings count.
    """
    many, few = LEAST_PATIENTS
    return pl.when(most >= many).then(many).when(most >= few).then(few).otherwise(0)


def verdict(value: float | None, low: float | None, high: float | None) -> str | None:
    """Return the verdict on a model's net grounding with its 95 % interval (fractions); None if ``value`` is None.

    - "uses the lesion": net grounding is at least 0.1 (:data:`LEAST`), and the interval lies above 0.
    - "not shown to use it": the interval lies below 0.1, so net grounding of 0.1 or more is unlikely.
    - "undecided": otherwise.

    >>> verdict(0.3, 0.2, 0.4), verdict(0.02, -0.03, 0.07), verdict(0.08, 0.01, 0.15)
    ('uses the lesion', 'not shown to use it', 'undecided')
    """
    if value is None:
        return None
    if low is None or high is None:
        return UNDECIDED
    if low > 0 and value >= LEAST:
        return USES
    return NOT_SHOWN if high < LEAST else UNDECIDED


def few_audited(benchmark: Benchmark, items: Sequence[Item]) -> str | None:
    """Return a sentence for the user if too few patients have altered pictures for a verdict; None otherwise.

    Only the cases of ``items`` count.
    """
    patients = clusters(items, benchmark.cases or {})
    altered = altered_items.load(benchmark).of(items, ("irrelevant",))
    rows = pl.DataFrame(
        [(item.finding, patients[item.case_id]) for item in altered],
        schema={"finding": pl.String, "patient": pl.String}, orient="row",
    ).with_columns(pl.col("patient").n_unique().over("finding").alias("patients"))  # fmt: skip
    every = rows["patient"].n_unique()
    counts = (pl.col("patients") >= _enough(pl.col("patients").max())) & (pl.col("patients") >= LEAST_PATIENTS[-1])
    count = rows.filter(counts)["patient"].n_unique()
    if count >= NOT_SHOWN_PATIENTS:
        return None
    audited = f"{plural(every, 'patient')} can be audited with target and irrelevant pictures"
    if count < every and every >= LEAST_CLUSTERS:
        audited += f", {count:,} of them in findings with enough patients for the mean"
    if count < LEAST_CLUSTERS:
        return (
            f"No verdict on whether a model looks: {audited}, and a verdict needs {LEAST_CLUSTERS}. Add cases whose "
            "lesion lies in the lungs."
        )
    return (
        f"{audited}: enough for the verdict '{USES}', too few for '{NOT_SHOWN}', which needs {NOT_SHOWN_PATIENTS} or "
        "more."
    )
