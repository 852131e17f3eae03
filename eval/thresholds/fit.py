"""Fit of thresholds: how deep an error of an outline must be before a model or a reader notices it.

Up to three tasks are fitted together by maximum likelihood. ``docs/limits-of-perception.md`` explains them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.interpolate import Akima1DInterpolator

from chexqa.eval.thresholds.psychometric import (
    BIAS,
    LAPSE,
    SLOPE,
    THRESHOLD,
    Floats,
    Task,
    log_likelihood,
    pooled,
)
from chexqa.stats import TAIL

MOST_LAPSES = 0.06
LEAST_OBSERVATIONS = 200
# The fit searches for thresholds up to this factor outside the tested depths.
_OUTSIDE = 16.0
_SLOPES = (0.3, 6.0)
_BIASES = (-4.0, 4.0)
_STARTS = 9  # thresholds tried first
_FIRST_SLOPES = (0.7, 1.5, 3.0)
# Fisher scoring: largest number of rounds, largest number of halvings of a step, largest step, least gain of a round,
# and the ridge added to the information.
_ROUNDS, _HALVINGS, _MOST_STEP, _LEAST_GAIN, _RIDGE = 60, 12, 1.0, 1e-6, 1e-6
_FIRST_STEP = 0.2  # first step on the log of a threshold in the search for an end of its interval
# Lapse rates at which the likelihood of each task is computed. It changes most near 0, where a single missed error
# speaks against the rate 0.
LAPSES = np.array([0, 0.0002, 0.0006, 0.0015, 0.003, 0.006, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, MOST_LAPSES])
_NOTHING = np.zeros(len(LAPSES))
_EXACT = 0.005  # precision of an interval's end, as a fraction of the threshold


class Threshold(NamedTuple):
    """Fitted threshold of one task, with its 95 % interval and the other parameters of the fit.

    - ``value``: the threshold, in the unit of the depths.
    - ``low``, ``high``: the ends of the interval, 0 and infinity where the interval is open; NaN for fewer than
      :data:`LEAST_OBSERVATIONS` observations.
    - ``slope``: how steeply the responses change with depth.
    - ``bias``: a number that depends on the task. For ``yes_no``, it is the criterion; for ``marks``, the share of
      error-free points that get a mark; for ``choice``, NaN.
    - ``lapse``: the share of answers that do not depend on the picture.
    - ``tested``: the smallest and the largest tested depth.
    - ``is_determined``: False if the responses do not tell where the threshold lies.
    """

    value: float
    low: float
    high: float
    slope: float
    bias: float
    lapse: float
    tested: tuple[float, float]
    is_determined: bool


def fit(tasks: Mapping[str, Task]) -> dict[str, Threshold]:
    """Return the fitted thresholds, by name of the task; a task with too few observations is left out.

    A task needs observations with an error, and, unless its form is ``choice``, observations without one. All tasks
    share one lapse rate of at most :data:`MOST_LAPSES`.
    """
    used = {name: _Model(task) for name, task in tasks.items() if _can_be_fitted(task)}
    # Given the lapse rate the tasks are independent, so only the likelihood of the other tasks at each rate matters.
    at_lapses = {name: model.over_lapses() for name, model in used.items()}
    found = {}
    for name, model in used.items():
        model.others = Akima1DInterpolator(LAPSES, sum((at_lapses[other] for other in used if other != name), _NOTHING))
        found[name] = model.threshold()
    return found


def _can_be_fitted(task: Task) -> bool:
    own = task.cluster >= 0
    return bool((own & task.has_error).any() and (task.form == "choice" or (own & ~task.has_error).any()))


class _Model:
    """Likelihood of one task's parameters."""

    # ``others``: the logarithm of the other tasks' likelihood as a function of the lapse rate, which all tasks share.
    def __init__(self, task: Task) -> None:
        self.task, self.pooled = task, pooled(task)
        self.others = Akima1DInterpolator(LAPSES, _NOTHING)
        self.tested = float(np.nanmin(task.log_depth)), float(np.nanmax(task.log_depth))
        room, (low, high) = np.log(_OUTSIDE), self.tested
        bounds = [(low - room, high + room), tuple(np.log(_SLOPES)), (0.0, 0.0) if task.form == "choice" else _BIASES,
                  (0.0, MOST_LAPSES)]  # fmt: skip
        self.low, self.high = np.array(bounds).T

    def start(self) -> Floats:
        """Return the parameters ``(4,)`` from which the fit starts."""
        # The likeliest of a few thresholds and slopes.
        task, (low, high), bias, middle = self.pooled, self.tested, 0.0, MOST_LAPSES / 3
        if task.form != "choice":
            alone = ~task.has_error
            rate = float(np.clip(np.average(task.response[alone], weights=task.weight[alone]), 0.01, 0.99))
            bias = -float(special.ndtri(rate)) if task.form == "yes_no" else float(special.logit(rate))
        tried = [
            np.array([place, np.log(slope), bias, middle])
            for place in np.linspace(low - 1, high + 1, _STARTS)
            for slope in _FIRST_SLOPES
        ]
        return max(tried, key=lambda one: log_likelihood(task, one)[0])

    def value(self, parameters: Floats) -> tuple[float, Floats, Floats]:
        """Return the log likelihood of all tasks, its gradient ``(4,)`` and the expected information ``(4, 4)``."""
        most, scores, information = log_likelihood(self.pooled, parameters)
        gradient, lapse = scores.sum(axis=0), parameters[LAPSE]
        gradient[LAPSE] += float(self.others(lapse, 1))
        information[LAPSE, LAPSE] += max(-float(self.others(lapse, 2)), 0.0)
        return most + float(self.others(lapse)), gradient, information

    def fitted(self, start: Floats, fixed: int | None = None) -> tuple[Floats, float]:
        """Fit the parameters, beginning with ``start``; return the likeliest ones ``(4,)`` and their log likelihood.

        The parameter with the index ``fixed`` keeps its value in ``start``; None to fit all parameters.
        """
        # Fisher scoring within the bounds; a step is halved until the likelihood grows.
        best, (most, gradient, information) = start, self.value(start)
        for _ in range(_ROUNDS):
            free = self.low < self.high
            free &= ~((best <= self.low) & (gradient <= 0)) & ~((best >= self.high) & (gradient >= 0))
            if fixed is not None:
                free[fixed] = False
            step = np.zeros(len(best))
            held = information[np.ix_(free, free)]
            step[free] = np.linalg.solve(held + _RIDGE * np.eye(len(held)), gradient[free])
            step *= min(1.0, _MOST_STEP / max(float(np.abs(step).max(initial=0.0)), 1e-12))
            gain = 0.0
            for _ in range(_HALVINGS):
                tried = np.clip(best + step, self.low, self.high)
                found = self.value(tried)
                gain = found[0] - most
                if gain > 0:
                    best, (most, gradient, information) = tried, found
                    break
                step /= 2
            if gain < _LEAST_GAIN:
                break
        return best, most

    def likeliest(self, start: Floats, fixed: int | None = None) -> tuple[Floats, float]:
        """Return the likeliest parameters and their log likelihood; slower than :meth:`fitted`, but more reliable.

        The parameter with the index ``fixed`` keeps its value in ``start``; None to fit all parameters.
        """
        # The likelihood of the lapse rate may have two maxima, so the fit is repeated from other lapse rates.
        starts = [np.append(start[:LAPSE], lapse) for lapse in (start[LAPSE], 0.0, MOST_LAPSES)]
        return max((self.fitted(one, fixed) for one in starts), key=lambda found: found[1])

    def over_lapses(self) -> Floats:
        """Return the largest log likelihood of this task at each of the rates :data:`LAPSES`."""
        found, last = [], self.start()
        for lapse in LAPSES:
            last, most = self.fitted(np.append(last[:LAPSE], lapse), LAPSE)
            found.append(most)
        return np.array(found)

    def threshold(self) -> Threshold:
        """Return the task's threshold with its interval."""
        task, (best, most) = self.task, self.likeliest(self.start())
        low, high = self._interval(best, most)
        tested = float(np.exp(self.tested[0])), float(np.exp(self.tested[1]))
        own = task.response[task.cluster >= 0]
        is_constant = task.form == "yes_no" and bool((own == own[0]).all())
        # Not determined: equal answers to every yes/no question, or an interval that contains all tested depths.
        is_determined = not is_constant and (low >= tested[0] or high <= tested[1])
        if len(own) < LEAST_OBSERVATIONS:
            low, high = (np.nan, np.nan)
        bias = {"yes_no": float(best[BIAS]), "marks": float(special.expit(best[BIAS])), "choice": np.nan}[task.form]
        value, slope = np.exp(best[[THRESHOLD, SLOPE]])
        return Threshold(float(value), low, high, float(slope), bias, float(best[LAPSE]), tested, is_determined)

    def _interval(self, best: Floats, most: float) -> tuple[float, float]:
        """Return the ends of the threshold's interval; an open end is 0 or infinity."""
        # The interval has all values whose profile log likelihood is at most ``allowed`` below its maximum.
        patients = len(np.unique(self.task.cluster[self.task.cluster >= 0]))
        quantile = float(special.stdtrit(max(patients - 1, 1), 1 - TAIL))
        allowed = 0.5 * quantile**2 * self._inflation(best)
        last = best

        def beyond(value: float) -> float:
            nonlocal last
            start = np.append(value, last[1:])
            last, reached = self.fitted(start, THRESHOLD)
            if most - reached > allowed:
                last, reached = self.likeliest(start, THRESHOLD)
            return most - reached - allowed

        ends = []
        for direction, bound in ((-1, self.low[THRESHOLD]), (1, self.high[THRESHOLD])):
            last, inside, step = best, float(best[THRESHOLD]), _FIRST_STEP
            end = direction * np.inf
            while direction * inside < direction * bound:
                outside = direction * min(direction * (inside + direction * step), direction * bound)
                if beyond(outside) > 0:
                    while abs(outside - inside) > _EXACT:
                        middle = (inside + outside) / 2
                        inside, outside = (inside, middle) if beyond(middle) > 0 else (middle, outside)
                    end = (inside + outside) / 2
                    break
                inside, step = outside, 2 * step
            ends.append(float(np.exp(end)))
        return ends[0], ends[1]

    def _inflation(self, best: Floats) -> float:
        """Return the factor, at least 1, by which correlated answers on a patient raise the threshold's variance."""
        # The variance clustered by patient, divided by the variance for independent answers.
        free = np.flatnonzero((best > self.low + 1e-6) & (best < self.high - 1e-6))
        free = free[free < LAPSE]
        if THRESHOLD not in free:
            return 1.0
        information = log_likelihood(self.pooled, best)[2][np.ix_(free, free)]
        try:
            inverse = np.linalg.inv(information)
        except np.linalg.LinAlgError:
            return 1.0
        scores = log_likelihood(self.task, best)[1][:, free]
        _, whose = np.unique(self.task.cluster, return_inverse=True)
        summed = np.stack([np.bincount(whose, column) for column in scores.T], axis=1)
        spread = inverse @ (summed.T @ summed) @ inverse * len(summed) / max(len(summed) - 1, 1)
        return float(max(spread[0, 0] / inverse[0, 0], 1.0)) if inverse[0, 0] > 0 else 1.0
