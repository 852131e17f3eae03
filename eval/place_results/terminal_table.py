"""Table of localization scores for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl
from rich.table import Table
from rich.text import Text

from chexqa.eval.place_results.frame_proofs import PROVED
from chexqa.eval.place_results.place_table import MACRO

_HEADS = {
    "point_at": "point", "box_around": "box", "boxes_around": "boxes", "outline_of": "out-\nline",
    "heart_width": "heart\nwidth",
}  # fmt: skip
_WIDTH, NO_NUMBER = "heart_width", "–"
CAPTION = (
    "Share of present findings with a right place minus share of absent findings with any place; always answering "
    "'nowhere' gives 0. Mean of findings, without those on the heart. Heart width: share of cardiothoracic ratios "
    "within 0.03 of the right one. 95 % intervals under the numbers. A model has no score if its answers on test "
    "markers do not prove its declared coordinate system (unit and order of its numbers). The table then names the "
    "coordinate systems that fit; ask again with --frame NAME."
)

NO_ABSENT = (
    "No finding is absent here, so this number cannot be computed; a report has the share of present findings placed "
    "right (tables/places.csv)."
)


def places_table(
    places: pl.DataFrame, proofs: pl.DataFrame, empty: Callable[[str, str, Sequence[str], str], Table]
) -> Table:
    """Return the main localization scores as a table for the terminal.

    The last column has the verdict on each model's coordinate system. If it is not proved, the model has no scores, and
    the last column lists the coordinate systems that fit (from the table ``proofs``). ``empty`` is a function that
    makes an empty table.
    """
    has_absent = places["placed_absent"].is_not_null().any() or places["net"].is_not_null().any()
    caption = CAPTION if has_absent or not places["right_present"].is_not_null().any() else f"{CAPTION} {NO_ABSENT}"
    table = empty("Places (percent)", "model", (), caption)
    kinds = [kind for kind in _HEADS if kind in places["kind"].unique()]
    for kind in kinds:
        table.add_column(_HEADS[kind], justify="right")
    table.add_column("coordinate\nsystem")
    for model in places["model"].unique(maintain_order=True):
        rows = places.filter(pl.col("model") == model)
        verdicts = sorted(set(rows["frame"]))
        said = (
            verdicts[0] if len(verdicts) == 1 else "\n".join(_of_kinds(rows, one) for one in verdicts if one != PROVED)
        )
        own = proofs.filter((pl.col("model") == model) & (pl.col("proof") != PROVED) & (pl.col("fitting") != ""))
        if own.height:
            said += ":\n" + "\n".join(sorted({name for row in own["fitting"] for name in row.split(", ")}))
        table.add_row(Text(model), *(_number(rows, kind) for kind in kinds), said)
    return table


def _of_kinds(rows: pl.DataFrame, verdict: str) -> str:
    """Return a verdict on a model's coordinate system, after the kinds of question that the verdict is about."""
    kinds = rows.filter(frame=verdict)["kind"].unique()
    names = [_HEADS[kind].replace("-\n", "").replace("\n", " ") for kind in _HEADS if kind in kinds]
    return f"{', '.join(names)}: {verdict}"


def _number(rows: pl.DataFrame, kind: str) -> Text:
    """Return a model's score for a kind with its interval; for the heart's width it is the mean of both findings."""
    name = "right_present" if kind == _WIDTH else "net"
    found = rows.filter(kind=kind) if kind == _WIDTH else rows.filter(kind=kind, finding=MACRO)
    values = [None, None, None] if found.is_empty() else [found[f"{name}{end}"].mean() for end in ("", "_low", "_high")]
    if values[0] is None:
        return Text(NO_NUMBER)
    shown, low, high = (None if value is None else f"{100 * float(str(value)):z.0f}" for value in values)
    under = "" if low is None or kind == _WIDTH else f"\n{low}–{high}"
    return Text(f"{100 * float(str(values[0])):z.1f}{under}") if shown else Text(NO_NUMBER)


WHERE_CAPTION = (
    "Share of present findings for which the answered cell is a hit, mean of findings. Only cases about which all "
    "kinds of the table ask are counted. The cell is named directly, or it contains the answered point, the box's "
    "middle or the map's maximum. 95 % intervals under the numbers."
)


def where_table(where: pl.DataFrame, empty: Callable[[str, str, Sequence[str], str], Table]) -> Table:
    """Return the hit rates of all models, maps and readers as a table for the terminal."""
    table = empty("Where: one cell (percent)", "model", (), WHERE_CAPTION)
    means = where.filter(finding=MACRO)
    kinds = means["kind"].unique(maintain_order=True).to_list()
    for kind in kinds:
        table.add_column(_HEADS.get(kind, "cell"), justify="right")
    for model in means["model"].unique(maintain_order=True):
        cells = []
        for kind in kinds:
            row = next(iter(means.filter(model=model, kind=kind).to_dicts()), {})
            rate, low, high = (row.get(f"hit_rate{end}") for end in ("", "_low", "_high"))
            shown = NO_NUMBER if rate is None else f"{100 * rate:.1f}"
            cells.append(Text(shown if low is None or high is None else f"{shown}\n{100 * low:.0f}–{100 * high:.0f}"))
        table.add_row(Text(model), *cells)
    return table
