"""The check, by test markers, of the coordinate system (unit and order of the numbers) that each model uses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.kinds import Kind
from chexqa.contract.read_run import Run, Turn
from chexqa.eval.models.registry import READERS
from chexqa.eval.places import markers
from chexqa.eval.places.coordinate_systems import BOXES, PIXELS, Frame, Shape, Size, named
from chexqa.eval.places.markers import Proof
from chexqa.eval.places.pictures import picture_size
from chexqa.eval.places.target import Target, target_of
from chexqa.eval.prompts import parser_places
from chexqa.eval.scoring.grade import Graded, protocol_name
from chexqa.eval.scoring.sample import ScoredSample

PROVED, GIVEN = "proved", "given"
ACCEPTED = (PROVED, GIVEN)
COLUMNS: dict[str, Any] = {
    "model": pl.String, "protocol": pl.String, "form": pl.String, "frame": pl.String, "marks": pl.Int64,
    "found": pl.Int64, "fitting": pl.String, "proof": pl.String,
}  # fmt: skip
Who = tuple[str, str]


def frame_proofs(graded: Graded) -> pl.DataFrame:
    """Return a table with a row for each model, protocol and form of test markers (``point`` or ``box``).

    The table is empty if the benchmark has no test markers. The test markers show whether a model's numbers are in its
    declared coordinate system; ``proof`` is the verdict. Human readers get no test markers, because their pictures have
    rulers in pixels; their verdict is ``given``. ``docs/columns.md`` explains the further columns.
    """
    benchmark = graded.benchmark
    marks = {item.item_id for item in benchmark.items if item.kind in markers.KINDS}
    if not marks:
        return pl.DataFrame(schema=COLUMNS)
    targets = _targets(benchmark)
    asked = sorted({benchmark.item[item_id].form.name for item_id in marks})
    rows: list[tuple[str, str, str, str, int, int, str, str]] = []
    for run in graded.runs:
        for model in run.models:
            if model.startswith(READERS):
                rows += [(model, protocol_name(run), form, PIXELS.name, 0, 0, "", GIVEN) for form in asked]
                continue
            turns = [turn for turn in run.turns if turn.model == model and turn.item_id in marks and not turn.repeat]
            for form, proof in _proofs(benchmark, run, model, turns, targets).items():
                fitting = ", ".join(proof.fitting)
                rows.append((model, protocol_name(run), form, proof.declared, proof.asked, proof.found, fitting,
                             proof.verdict))  # fmt: skip
    return pl.DataFrame(rows, schema=COLUMNS, orient="row").unique(maintain_order=True)


def proved(graded: Graded) -> set[tuple[str, str, str]]:
    """Return a triple ``(model, protocol, form)`` for each proved coordinate system.

    The form of the test markers is ``point`` or ``box``. The coordinate systems of human readers count as proved.
    """
    accepted = frame_proofs(graded).filter(pl.col("proof").is_in(ACCEPTED))
    return {*accepted.select("model", "protocol", "form").iter_rows()}


def marker_form(kind: Kind) -> str | None:
    """Return the form of the test markers that prove the coordinate system of the answers to a kind of question.

    The form is ``point`` or ``box``. Return None if no proof is needed, because the kind does not ask for a place or
    asks for the test markers themselves.
    """
    if not kind.form.is_place or kind.name in markers.KINDS:
        return None
    return "box" if kind.form.name in BOXES else "point"


def mask_unproved(study: ScoredSample, table: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Return the table with the scores ``names`` set to null for models whose coordinate system is not proved.

    Only rows of kinds of question (column ``kind``) that ask for a place are changed. The ends of a score's interval
    (``…_low`` and ``…_high``) become null too. Kinds that ask for test markers keep their scores.
    """
    kinds = study.benchmark.kinds.items()
    forms = {name: form for name, kind in kinds if (form := marker_form(kind)) is not None}
    if not forms:
        return table
    shown = proved(study.graded)
    rows = table.select("model", "protocol", "kind").iter_rows()
    keep = pl.Series([kind not in forms or (model, protocol, forms[kind]) in shown for model, protocol, kind in rows],
                     dtype=pl.Boolean)  # fmt: skip
    columns = [f"{name}{end}" for name in names for end in ("", "_low", "_high") if f"{name}{end}" in table.columns]
    return table.with_columns(pl.when(keep).then(pl.col(name)).alias(name) for name in columns)


def _targets(benchmark: Benchmark) -> dict[str, Target]:
    cases = benchmark.key("the proof of a coordinate system by test markers")[1]
    marked = {item.case_id for item in benchmark.items if item.kind in markers.KINDS}
    found = {case_id: target_of(cases[case_id].measures, f"the key of case '{case_id}'") for case_id in marked}
    return {case_id: target for case_id, target in found.items() if target is not None}


def _proofs(
    benchmark: Benchmark, run: Run, model: str, turns: list[Turn], targets: dict[str, Target]
) -> dict[str, Proof]:
    """Return the proof of a model's coordinate system, keyed by the answer form of its test markers."""
    quirks = run.about["models"][model].get("quirks", {})
    declared = named(quirks.get("frame"), f"{run.folder}: model '{model}'")
    replies: dict[str, list[tuple[str | None, Target]]] = defaultdict(list)
    sizes: dict[str, Size] = {}
    for turn in turns:
        item = benchmark.item[turn.item_id]
        replies[item.form.name].append((turn.raw, targets[item.case_id]))
        sizes[item.form.name] = picture_size(benchmark, item)

    def proof_of(form: str) -> Proof:
        def read(text: str, frame: Frame) -> tuple[Shape, ...] | None:
            return parser_places.read(form, text, frame, sizes[form]).shapes

        return markers.proof(form, declared, replies[form], read)

    return {form: proof_of(form) for form in sorted(replies)}
