"""Three psychometric functions: the probability of a response as a function of an error's depth, and the derivatives.

An error of depth x has the strength ``z = (x / threshold) ** slope``. The strength is 1 at the threshold, and 0 if
there is no error. ``lapse`` is the share of answers that do not depend on the picture.

- ``yes_no`` (does the outline need a revision?): ``lapse / 2 + (1 - lapse) * Phi(z - criterion)``; ``z`` is d'.
- ``marks`` (is this point marked?): ``floor + (1 - floor - lapse) * F(z)`` with ``F(z) = 1 - 2 ** -z``; ``floor`` is
  the share of the error-free points that are marked. At the threshold the probability is halfway between ``floor``
  and ``1 - lapse``.
- ``choice`` (which of four pictures?): the same with a floor of 1/4.
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
    """Observations of one task (yes/no, marks on points, or choice of a picture), as arrays ``(N,)``.

    ``log_depth`` is the logarithm of the depth of the outline's error; NaN if there is no error.
    """

    form: Form
    log_depth: Floats
    response: Floats
    weight: Floats
    cluster: Ints

    @property
    def has_error(self) -> Bools:
        """Return, for each observation, True if the shown outline has an error."""
        return np.asarray(np.isfinite(self.log_depth))


def task_of(form: Form, depth: Floats, response: Bools, cluster: Ints) -> Task:
    """Return the observations of a task; ``depth`` is the depth of the error shown (above 0), or NaN if there is none.

    One observation of an outline without an error is added, so that a model without false alarms has a threshold too.
    Its response counts half as yes and half as no, and it belongs to no patient (cluster -1). It is not added to the
    task ``choice``.
    """
    logs = np.log(depth)
    said, weight = response.astype(np.float64), np.ones(len(logs))
    if form != "choice":
        logs, cluster = np.append(logs, np.nan), np.append(cluster, -1)
        said, weight = np.append(said, 0.5), np.append(weight, 1.0)
    return Task(form, logs, said, weight, cluster)


def pooled(task: Task) -> Task:
    """Return the task with its observations of error-free outlines replaced by a single observation.

    The single observation has their total weight and their mean response, and belongs to no patient (cluster -1).
    """
    alone = ~task.has_error
    weight = float(task.weight[alone].sum())
    if not weight:
        return task
    rate = float((task.weight * task.response)[alone].sum()) / weight
    kept = [column[~alone] for column in task[1:]]
    return Task(task.form, *(np.append(column, value) for column, value in zip(kept, (np.nan, rate, weight, -1),
                                                                               strict=True)))  # fmt: skip


def probability(task: Task, parameters: Floats, lapse: float) -> tuple[Floats, Floats]:
    """Return each observation's probability ``(N,)`` of a positive response (yes, a mark, or the right picture), and
    its derivatives ``(N, 4)`` with respect to the parameters.
    """
    slope = np.exp(parameters[SLOPE])
    log_z = np.where(task.has_error, np.minimum(slope * (task.log_depth - parameters[THRESHOLD]), _LARGEST_LOG), 0.0)
    z = np.where(task.has_error, np.exp(log_z), 0.0)
    of_z, of_bias, of_lapse, share = _of_form(task.form, z, parameters[BIAS], lapse)
    return share, np.stack([-slope * z * of_z, log_z * z * of_z, of_bias, of_lapse], axis=1)


def _of_form(form: Form, z: Floats, bias: float, lapse: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Return four arrays ``(N,)``: the derivatives with respect to strength, bias and lapse, and the probability."""
    if form == "yes_no":
        seen = special.ndtr(z - bias)
        density = (1 - lapse) * np.exp(-0.5 * np.minimum((z - bias) ** 2, 500)) / np.sqrt(2 * np.pi)
        return density, -density, 0.5 - seen, lapse / 2 + (1 - lapse) * seen
    rest = np.exp(-_LOG_2 * np.minimum(z, 500))
    floor = FOUR if form == "choice" else float(special.expit(bias))
    room = 1 - floor - lapse
    of_floor = rest * floor * (1 - floor) if form == "marks" else np.zeros_like(z)
    return room * _LOG_2 * rest, of_floor, rest - 1, floor + room * (1 - rest)


def log_likelihood(task: Task, parameters: Floats, lapse: float) -> tuple[float, Floats, Floats]:
    """Return the log likelihood, the scores ``(N, 4)`` and the expected information ``(4, 4)``.

    The scores are the contributions of the observations to the gradient.
    """
    raw, derivatives = probability(task, parameters, lapse)
    share = np.clip(raw, _LEAST, 1 - _LEAST)
    said, spread = task.response, share * (1 - share)
    most = float(task.weight @ (said * np.log(share) + (1 - said) * np.log1p(-share)))
    inner = np.where(raw == share, task.weight / spread, 0.0)
    scores = (inner * (said - share))[:, None] * derivatives
    return most, scores, derivatives.T @ (inner[:, None] * derivatives)
