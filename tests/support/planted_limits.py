"""Simulated models of known threshold, calibration and sensitivity to stress, and the numbers that tables must show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from grades import said
from handmade import Handmade
from planted_looks import graded, run_with, turn_of
from scipy import special

from chexqa import question_banks
from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.contract.read_run import Turn
from chexqa.eval.confidence.calibration import bin_of
from chexqa.eval.scoring.grade import Graded
from chexqa.eval.scoring.sample import scored_sample
from chexqa.eval.stress import cells
from chexqa.eval.stress.degradations import DEGRADATIONS
from chexqa.eval.stress.stressed_pictures import StressedPictures
from chexqa.eval.thresholds.observations import PICTURES, POINTS, observations
from chexqa.files.seeds import stream

SLOPE, LAPSE, CRITERION, FLOOR, FOUR = 1.5, 0.02, 0.8, 0.08, 0.25
# Share right of the questions without an error of known depth, such as detection.
OTHERS = 0.7


@dataclass(frozen=True)
class Planted:
    """A simulated model.

    - ``threshold``: depth in pixels from which it sees an error.
    - ``shift``: the amount that it adds to the probability that its answer is right; it states the result as
      confidence.
    - ``knows``: share of the answers for which it knows this probability; for the others it uses the mean probability.
    - ``stress``: probability of another answer under each kind of stress. For a degradation, the number is for severity
      5; at severity k the probability is k fifths of it.
    """

    name: str
    threshold: float
    shift: float
    knows: float
    stress: dict[str, float]

    def changes(self, cell: str) -> float:
        """Return the probability of another answer in a cell of stress."""
        most = self.stress.get(cells.kind_of(cell), 0.0)
        return most * (cells.severity_of(cell) or 5) / 5


def _all(degraded: float, wording: float, history: float, **own: float) -> dict[str, float]:
    return {**dict.fromkeys(DEGRADATIONS, degraded), "wording": wording, "history": history, **own}


SIX = (
    Planted("sees 4 px", 4, 0.0, 1.0, _all(0.0, 0.0, 0.0)),
    Planted("noise and blur", 7, 0.0, 1.0, _all(0.05, 0.0, 0.0, noise=0.6, blur=0.4)),
    Planted("wording", 12, 0.1, 0.8, _all(0.1, 0.2, 0.0)),
    Planted("history", 12, -0.1, 0.8, _all(0.1, 0.0, 0.3)),
    Planted("always sure", 25, 0.3, 0.0, _all(0.3, 0.1, 0.1)),
    Planted("sees nothing", 1e6, 0.2, 0.3, _all(0.2, 0.2, 0.2)),
)


def handmade(folder: Path, cases: int = 560) -> Benchmark:
    """Return a benchmark of plain pictures: half of the outlines fit, half have one error of 2 to 60 px.

    Two cases are of one patient. The questions are those of the bank, with the values of the recipe ``jnd``.
    """
    made, random = Handmade(folder), np.random.default_rng(0)
    depths = {}
    for number in range(cases):
        who = f"patient-{number // 2}"
        if number % 2:
            case_id = made.case(f"n{number}", "edema", "revision_required", patient=who, contour_evaluation=(1,),
                                revision_expansion=(1,), revision_contraction=(5,), revision_result=(3,))  # fmt: skip
            depths[case_id] = float(np.exp(random.uniform(*np.log((2, 60)))))
        else:
            made.case(f"n{number}", "edema", "revision_free", patient=who, contour_evaluation=(2,))
    made.items = [replace(item, question=_worded(item.kind)) for item in made.items]
    bench = benchmark.load(made.write())
    answers = {name: replace(one, evidence=_evidence(name, depths)) for name, one in (bench.answers or {}).items()}
    return replace(bench, answers=answers)


def _worded(kind: str) -> str:
    values = defaultdict(str, finding="pulmonary edema", outline="the lung affected by edema", side="left",
                         least_error="0.02 %", area="one unbroken area", least_share="a fifth",
                         least_lung="a hundredth", times="1.5")  # fmt: skip
    return str(question_banks.load("en")["kinds"][kind]["question"]).format_map(values)


def _evidence(item_id: str, depths: dict[str, float]) -> dict[str, Any]:
    """Return the evidence of a question: one true edit and one other edit, which the four pictures combine."""
    case_id, _, kind = item_id.partition("/")
    depth = depths.get(case_id)
    if depth is None:
        return {}
    true = {"true": True, "depth": depth, "share": 0.1, "over": False}
    edits = [true, {**true, "true": False, "depth": 3 * depth}]
    return {
        "contour_evaluation": {"iou": 0.8, "edits": edits},
        "revision_expansion": {"points": [{"edit": 0 if number == 0 else None, "inside": False, "distance": depth}
                                          for number in range(4)]},
        "revision_contraction": {"points": []},
        "revision_result": {"edits": edits, "errors": [[0], [0, 1], [], [1]]},
    }.get(kind, {})  # fmt: skip


@dataclass(frozen=True)
class Question:
    """An item with the depths of the errors behind its responses (NaN: no error), by option number.

    Other questions, such as detection, have no depths.
    """

    item: Item
    task: str | None
    depths: dict[int, float]


def questions(bench: Benchmark) -> list[Question]:
    """Return all questions; a question on an outline with several errors has no depths."""
    rows = observations(scored_sample(graded(bench, run_with(bench, ["m"], said(bench)))))
    found: dict[str, tuple[str, dict[int, float]]] = {}
    for item_id, task, option, depth in rows.select("item_id", "seen_in", "option", "depth").iter_rows():
        found.setdefault(item_id, (task, {}))[1][option] = np.nan if depth is None else depth
    return [Question(item, *found.get(item.item_id, (None, {}))) for item in bench.items]


def responses(model: Planted, one: Question) -> dict[int, float]:
    """Return the probability of each response: yes, that a point is marked, or that the right picture is chosen."""
    depth = np.array([*one.depths.values()])
    z = np.nan_to_num((depth / model.threshold) ** SLOPE, nan=0.0)
    if one.task == PICTURES:
        shares = FOUR + (1 - FOUR - LAPSE) * (1 - 2.0**-z)
    elif one.task == POINTS:
        shares = FLOOR + (1 - FLOOR - LAPSE) * (1 - 2.0**-z)
    else:
        shares = LAPSE / 2 + (1 - LAPSE) * special.ndtr(z - CRITERION)
    return dict(zip(one.depths, shares.tolist(), strict=True))


def chance_of_right(one: Question, shares: dict[int, float], key: Sequence[int]) -> float:
    """Return the probability that the whole answer is right."""
    if one.task is None:
        return OTHERS
    if one.task == PICTURES:
        return shares[key[0]]
    if one.task == POINTS:
        return float(np.prod([share if option in key else 1 - share for option, share in shares.items()]))
    return shares[1] if 1 in key else 1 - shares[1]


def answer(
    one: Question, shares: dict[int, float], key: tuple[int, ...], random: np.random.Generator
) -> tuple[int, ...]:
    """Return an answer with these probabilities of responses."""
    if one.task is None:
        return key if random.random() < OTHERS else another(one, key, random)
    drawn = {option: random.random() < share for option, share in shares.items()}
    if one.task == POINTS:
        return tuple(option for option, marked in drawn.items() if marked) or (len(one.item.options),)
    (option, hit), *_ = drawn.items()
    return (option,) if hit else another(one, (option,), random)


def another(one: Question, first: tuple[int, ...], random: np.random.Generator) -> tuple[int, ...]:
    """Return an answer that differs: another option, or one point more or less."""
    none = len(one.item.options)
    if one.task == POINTS:
        point = int(random.choice([*one.depths]))
        kept = {option for option in first if option != none} ^ {point}
        return tuple(sorted(kept)) or (none,)
    return (int(random.choice([option.n for option in one.item.options if option.n not in first])),)


def stated(model: Planted, chances: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return the confidences of answers with these probabilities of being right, in whole percent."""
    known = np.where(random.random(len(chances)) < model.knows, chances, chances.mean())
    return np.asarray(np.clip(np.round(known + model.shift, 2), 0, 1))


def study(bench: Benchmark, models: Sequence[Planted], seed: int) -> tuple[Graded, dict[str, dict[str, float]]]:
    """Return the grades of the models, and the planted numbers of each by their name."""
    asked, keys = questions(bench), {name: one.answer for name, one in (bench.answers or {}).items()}
    known = {one.item.item_id: one for one in asked}
    lungs = StressedPictures(bench)
    has_lungs = {item.case_id: lungs.has_lungs(item.case_id) for item in bench.items}
    spoilt = cells.stressed([one.item for one in asked], cells.KINDS, bench.about["question_bank"], has_lungs)
    turns, planted = list[Turn](), {}
    for model in models:
        random = stream(seed, model.name)
        shares = {name: responses(model, one) for name, one in known.items()}
        chances = np.array([chance_of_right(one, shares[name], keys[name]) for name, one in known.items()])
        sure = stated(model, chances, random)
        first = {name: answer(one, shares[name], keys[name], random) for name, one in known.items()}
        turns += [replace(turn_of(model.name, known[name].item, name, parsed), confidence=float(value))
                  for (name, parsed), value in zip(first.items(), sure, strict=True)]  # fmt: skip
        turns += _under_stress(model, spoilt, known, first, random)
        planted[model.name] = {"threshold": model.threshold, **calibrated(chances, sure), **flips(model, spoilt)}
    run = run_with(bench, [model.name for model in models], turns)
    about: dict[str, Any] = {**run.about, "stress": list(cells.KINDS), "condition": {"confidence": True}}
    return graded(bench, replace(run, about=about)), planted


def _under_stress(
    model: Planted, spoilt: Sequence[Item], known: dict[str, Question], first: dict[str, tuple[int, ...]],
    random: np.random.Generator,
) -> Iterator[Turn]:  # fmt: skip
    for item in spoilt:
        base, _, cell = item.item_id.partition("@")
        new = random.random() < model.changes(cell)
        parsed = another(known[base], first[base], random) if new else first[base]
        yield replace(turn_of(model.name, item, item.item_id, parsed), stress=cell)


def calibrated(chances: np.ndarray, sure: np.ndarray) -> dict[str, float]:
    """Return the calibration error, the overconfidence and the AUROC that many answers would have."""
    where = bin_of(sure)
    gap = np.abs(np.bincount(where, sure - chances, 10)).sum() / len(sure)
    order = np.argsort(sure, kind="stable")
    values, groups = np.unique(sure[order], return_inverse=True)
    right, wrong = (np.bincount(groups, part[order], len(values)) for part in (chances, 1 - chances))
    below = np.cumsum(wrong) - wrong / 2
    return {"ece": float(gap), "overconfidence": float(np.mean(sure - chances)),
            "auroc": float(right @ below / (right.sum() * wrong.sum()))}  # fmt: skip


def flips(model: Planted, spoilt: Sequence[Item]) -> dict[str, float]:
    """Return the expected share of changed answers for each kind of stress."""
    shares = defaultdict(list)
    for item in spoilt:
        cell = item.item_id.partition("@")[2]
        shares[cells.kind_of(cell)].append(model.changes(cell))
    return {kind: float(np.mean(found)) for kind, found in shares.items()}


def by_model(table: pl.DataFrame, column: str) -> dict[str, dict[str, Any]]:
    """Return the rows of a table by model and the value of another column."""
    found: dict[str, dict[str, Any]] = {}
    for row in table.to_dicts():
        found.setdefault(row["model"], {})[row[column]] = row
    return found
