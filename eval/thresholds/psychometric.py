"""Psychometric functions: the probability of a response at each depth of an error. Each of three tasks has one.

- ``yes_no``: does the outline need a revision?
- ``marks``: is this point marked?
- ``choice``: which of four pictures is right?

An error has the strength ``z = (depth / threshold) ** slope``: 1 at the threshold. Without an error, ``z`` is 0.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

Form = Literal["yes_no", "marks", "choice"]
Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.integer]
Bools = npt.NDArray[np.bool_]

FOUR = 0.25  # share of guesses among four pictures that are right
_LOG_2 = np.log(2)
_LARGEST_LOG = 25.0  # largest logarithm of a strength
_LEAST = 1e-7  # smallest distance of a probability from 0 and 1
# Indices of a task's parameters: log threshold, log slope, criterion or log odds of the floor, and lapse.
THRESHOLD, SLOPE, BIAS, LAPSE = range(4)


class Task(NamedTuple):
    """N observations of one task, as arrays ``(N,)``.

    - ``form``: how the question is asked: ``yes_no``, ``marks`` or ``choice``.
    - ``log_depth``: the logarithm of the error's depth; NaN if there is no error.
    - ``response``: 1 for the answer yes (``yes_no``), for a marked point (``marks``) or for the choice of the right
      picture (``choice``); 0 for any other response. If observations were merged into one, it has their mean.
    - ``weight``: the weight of the observation; of a merged one, the sum of its parts' weights.
    - ``cluster``: the index of the patient; -1 if there is none.
    """

    form: Form
    log_depth: Floats
    response: Floats
    weight: Floats
    cluster: Ints

    @property
    def has_error(self) -> Bools:
        """Return a bool array ``(N,)``: True for each observation in which the outline has an error."""
        return np.asarray(np.isfinite(self.log_depth))


def task_of(form: Form, depth: Floats, response: Bools, cluster: Ints) -> Task:
    """Return the observations of a task, from arrays ``(N,)``; ``depth`` is above 0, or NaN if there is no error."""
    # An observation without an error is added, so that a model without false alarms has a threshold too. Its response
    # counts half as yes and half as no, and it belongs to no patient (cluster -1).
    logs = np.log(depth)
    said, weight = response.astype(np.float64), np.ones(len(logs))
    if form != "choice":
        logs, cluster = np.append(logs, np.nan), np.append(cluster, -1)
        said, weight = np.append(said, 0.5), np.append(weight, 1.0)
    return Task(form, logs, said, weight, cluster)


def pooled(task: Task) -> Task:
    """Merge all observations that show no error into one observation; return the new task.

    The merged observation has their mean response and their total weight, and belongs to no patient.
    """
    alone = ~task.has_error
    weight = float(task.weight[alone].sum())
    if not weight:
        return task
    rate = float((task.weight * task.response)[alone].sum()) / weight
    kept = [column[~alone] for column in task[1:]]
    return Task(task.form, *(np.append(column, value) for column, value in zip(kept, (np.nan, rate, weight, -1),
                                                                               strict=True)))  # fmt: skip


def probability(task: Task, parameters: Floats) -> tuple[Floats, Floats]:
    """Return the probability ``(N,)`` of the response 1, and its derivatives ``(N, 4)`` by the parameters.

    The four ``parameters`` are the log threshold, the log slope, the bias (the criterion, or the log odds of the
    floor), and the lapse rate, which is the share of answers that do not depend on the picture.
    """
    slope = np.exp(parameters[SLOPE])
    log_z = np.where(task.has_error, np.minimum(slope * (task.log_depth - parameters[THRESHOLD]), _LARGEST_LOG), 0.0)
    z = np.where(task.has_error, np.exp(log_z), 0.0)
    of_z, of_bias, of_lapse, share = _of_form(task.form, z, parameters[BIAS], parameters[LAPSE])
    return share, np.stack([-slope * z * of_z, log_z * z * of_z, of_bias, of_lapse], axis=1)


def _of_form(form: Form, z: Floats, bias: float, lapse: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Return four arrays ``(N,)``: the derivatives by strength, bias and lapse, and the probability."""
    # yes_no: lapse / 2 + (1 - lapse) * Phi(z - criterion); z is d'.
    # marks: floor + (1 - floor - lapse) * (1 - 2 ** -z); floor is the share of the error-free points that are marked.
    # choice: as marks, with a floor of 1/4.
    if form == "yes_no":
        seen = special.ndtr(z - bias)
        density = (1 - lapse) * np.exp(-0.5 * np.minimum((z - bias) ** 2, 500)) / np.sqrt(2 * np.pi)
        return density, -density, 0.5 - seen, lapse / 2 + (1 - lapse) * seen
    rest = np.exp(-_LOG_2 * np.minimum(z, 500))
    floor = FOUR if form == "choice" else float(special.expit(bias))
    room = 1 - floor - lapse
    of_floor = rest * floor * (1 - floor) if form == "marks" else np.zeros_like(z)
    return room * _LOG_2 * rest, of_floor, rest - 1, floor + room * (1 - rest)


def log_likelihood(task: Task, parameters: Floats) -> tuple[float, Floats, Floats]:
    """Return the log likelihood, each observation's part of its gradient ``(N, 4)``, and the information ``(4, 4)``."""
    raw, derivatives = probability(task, parameters)
    share = np.clip(raw, _LEAST, 1 - _LEAST)
    said, spread = task.response, share * (1 - share)
    most = float(task.weight @ (said * np.log(share) + (1 - said) * np.log1p(-share)))
    inner = np.where(raw == share, task.weight / spread, 0.0)
    scores = (inner * (said - share))[:, None] * derivatives
    return most, scores, derivatives.T @ (inner[:, None] * derivatives)
