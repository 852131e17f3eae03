"""Synthetic benchmark as large as CheXpercept, and models of known skill, for measurements that need no pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.findings import CHEXPERCEPT_FINDINGS
from chexqa.contract.forms import SOMEWHERE
from chexqa.contract.items import PATH_STAGES, Answer, CaseKey, Item, Option, Picture
from chexqa.contract.kinds import KINDS
from chexqa.contract.read_run import Run, Turn

OPTIONS = {
    "detection": 2, "contour_evaluation": 2, "revision_expansion": 9, "revision_contraction": 9, "revision_result": 4,
    "distribution": 4, "location": 4, "severity": 3, "comparison": 4, "grid_cell": 64,
}  # fmt: skip
SHOWN = ("right_upper_medial", "right_lower_lateral", "left_lower_peripheral")
SIDES = ("right", "left")
_ONCE = {"overlay_only": False, "rotations": 1, "repeats": 1, "limit": None, "limit_per_path": None}
_MODEL: dict[str, Any] = {"litellm": "openai/sim", "api_base": None, "decoding": {}}


def benchmark(cases_per_path: int = 100, grid: bool = True, seed: int = 0) -> Benchmark:
    """Return a benchmark of seven findings with three paths each, and ``cases_per_path`` cases on each path."""
    random = np.random.default_rng(seed)
    items: list[Item] = []
    answers: dict[str, Answer] = {}
    cases: dict[str, CaseKey] = {}
    patients = 21 * cases_per_path * 6 // 7
    for finding in CHEXPERCEPT_FINDINGS:
        for path, stages in PATH_STAGES.items():
            for _ in range(cases_per_path):
                case_id = f"c{len(cases):012x}"
                share = float(random.uniform(0.01, 0.2))
                cases[case_id] = CaseKey(
                    case_id, case_id, f"p{random.integers(patients)}", None, path, "FM"[random.integers(2)],
                    float(random.integers(20, 90)), ("PA", "AP")[random.integers(2)], "open", {"lesion_share": share},
                )  # fmt: skip
                for kind, declared in KINDS.items():
                    asked = declared.stage in stages and (finding != "cardiomegaly" or declared.stage != 4)
                    if asked or (kind == "grid_cell" and grid and path != "lesion_free"):
                        item = _item(case_id, kind, finding)
                        items.append(item)
                        answers[item.item_id] = _answer(item, path, random)
    about: dict[str, Any] = {
        "name": "synthetic", "version": "1", "data": "phantom", "counts": {"items": len(items), "cases": len(cases)},
        "recipes": [{"name": "synthetic", "hash": "0" * 64}], "question_bank": {"name": "en", "hash": "0" * 64},
        "seed": seed, "tool_version": "0",
    }  # fmt: skip
    return Benchmark(Path("synthetic"), about, "0" * 64, tuple(items), answers, cases)


def _item(case_id: str, kind: str, finding: str) -> Item:
    about = KINDS[kind]
    options = tuple(Option(number, f"option {number}") for number in range(1, OPTIONS[kind] + 1))
    picture = (Picture("radiograph", f"images/{case_id[-2:]}/{case_id}.png"),)
    return Item(f"{case_id}/{kind}", case_id, about.seq, kind, about.level, about.stage, finding, "?", options,
                about.multi, picture, picture)  # fmt: skip


def _answer(item: Item, path: Any, random: np.random.Generator) -> Answer:
    last = len(item.options)
    right = _right(item, path, last, random)
    evidence: dict[str, Any] = {}
    if item.kind == "grid_cell":
        shares = np.zeros(64)
        shares[[cell - 1 for cell in right]] = random.uniform(0.5, 1, len(right))
        evidence = {"coverage": shares.tolist(), "plausible": list(range(9, 57)), "attainable": True}
    elif item.kind == "location":
        evidence = {"shown": list(SHOWN), "involved": [SHOWN[number - 1] for number in right if number < last]}
    elif item.kind == "revision_result":
        evidence = {"edits": [{"true": True, "depth": float(random.uniform(20, 90)), "share": 0.1}]}
    return Answer(item.item_id, right, item.form.chance(last, len(right)), 1.2 / last, path, evidence)


def _right(item: Item, path: Any, last: int, random: np.random.Generator) -> tuple[int, ...]:
    if item.kind == "detection":
        return (2,) if path == "lesion_free" else (1,)
    if item.kind == "contour_evaluation":
        return (1,) if path == "revision_required" else (2,)
    if item.kind == "grid_cell":
        first = int(random.integers(1, 62))
        return (first, first + 1)
    if item.multi:
        return tuple(sorted(int(n) for n in random.choice(last - 1, int(random.integers(1, 4)), replace=False) + 1))
    return (int(random.integers(1, last + 1)),)


def run(bench: Benchmark, models: int = 14, protocol: str = "end_to_end", seed: int = 1) -> Run:
    """Return a run of ``models`` models, with skills from the highest (sim-01) to the lowest.

    A model knows an answer with a probability equal to its skill; otherwise it guesses. Coordinates are always random.
    """
    random = np.random.default_rng(seed)
    assert bench.answers is not None
    turns = []
    for number in range(models):
        skill = 0.9 - 0.8 * number / max(models - 1, 1)
        for item in bench.items:
            answer = bench.answers[item.item_id].answer
            knows = random.random() < skill
            said = (answer[:1] if item.kind == "grid_cell" else answer) if knows else _guess(item, random)
            turns.append(turn(name(number), protocol, item, said, _place(item, said, random)))
    about = {
        "protocol": protocol, "blind": False, "seed": seed, **_ONCE,
        "models": {name(number): dict(_MODEL) for number in range(models)},
        "benchmark": {"name": "synthetic", "version": "1", "hash": bench.hash, "path": "synthetic"},
    }  # fmt: skip
    return Run(Path("run"), about, tuple(turns))


def name(number: int) -> str:
    return f"sim-{number + 1:02d}"


def _guess(item: Item, random: np.random.Generator) -> tuple[int, ...]:
    last = len(item.options)
    if not item.multi:
        return (int(random.integers(1, last + 1)),)
    return tuple(int(n) + 1 for n in np.flatnonzero(random.random(last - 1) < 0.5)) or (last,)


def _place(item: Item, said: tuple[int, ...], random: np.random.Generator) -> tuple[tuple[float, ...], ...] | None:
    if not item.form.is_place:
        return None
    points = {"point": 1, "outline": 3}.get(item.form.name, 2)
    return (tuple(random.integers(100, 900, 2 * points).astype(float).tolist()),) if SOMEWHERE in said else ()


def turn(
    model: str, protocol: str, item: Item, said: tuple[int, ...], place: tuple[tuple[float, ...], ...] | None = None
) -> Turn:
    return Turn(
        model=model, protocol=protocol, case_id=item.case_id, item_id=item.item_id, repeat=0, rotation=0, blind=False,
        attempts=1, state="answered", parsed=said, raw="Answer: " + ", ".join(map(str, said)), finish_reason="stop",
        usage={"input_tokens": 900, "output_tokens": 40}, cost_usd=0.001, latency_s=1.0, provider_model=None,
        request_hash="0" * 64, image_hashes=(), started="2026-01-01T00:00:00Z", error=None,
        place=place,
    )  # fmt: skip
