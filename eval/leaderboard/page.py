"""The static page of a leaderboard: a table for each version of the benchmark, the newest first."""

from __future__ import annotations

from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from chexqa.eval.leaderboard.entry import GRID, MEAN, SCORES
from chexqa.eval.tables.model_pairs import DIGITS
from chexqa.files.jsonio import Record
from chexqa.files.terminal import PHANTOM_NOTICE
from chexqa.files.text import shown

_NO_NUMBER = "–"


def render(board: Record) -> str:
    """Return the page as HTML; all text is escaped, except style and script."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=_finalized
    )
    return environment.from_string(_file("page.html.j2")).render(
        title=board["title"],
        has_predictions=any(entry["source"] == "predictions" for entry in board["entries"]),
        updated=max(entry["added"] for entry in board["entries"]),
        parts=_parts(board),
        scores=SCORES,
        css=Markup(_file("page.css")),  # nosec B704
        js=Markup(_file("page.js")),  # nosec B704
    )


def _parts(board: Record) -> list[dict[str, Any]]:
    """Return a part for each benchmark: its name, notice, rows from best to worst, and reference rows."""
    hashes = list(dict.fromkeys(entry["benchmark"]["hash"] for entry in reversed(board["entries"])))
    parts = []
    for benchmark_hash in hashes:
        entries = [entry for entry in board["entries"] if entry["benchmark"]["hash"] == benchmark_hash]
        newest = {(entry["model"], entry["protocol"]): entry for entry in entries}
        about = entries[0]["benchmark"]
        # The score that orders the models comes first.
        scores = [
            name
            for name in sorted(SCORES, key=lambda name: name != MEAN)
            if any(name in entry["scores"] for entry in entries)
        ]
        ranked, least = sorted(newest.values(), key=_rank), _least(entries)
        parts.append({
            "name": f"{about['name']} {about['version']}",
            "hash": benchmark_hash[:16],
            "notice": PHANTOM_NOTICE if about["data"] == "phantom" else None,
            "scores": scores,
            "zero": _along(0, least) if least < 0 else None,
            "rows": [_row(entry, scores, place, least) for entry, place in zip(ranked, _places(ranked), strict=True)],
            "earlier": [_row(entry, scores, "", least) for entry in reversed(entries) if entry not in ranked],
            "references": _references(board["references"].get(benchmark_hash, {}), scores),
        })  # fmt: skip
    return parts


def _rank(entry: Record) -> float:
    """Return the sort key of an entry, made from the mean of levels or, without this score, from the hit rate.

    The best entry comes first, and entries without a score last.
    """
    values = (entry["scores"].get(name, {}).get("value") for name in (MEAN, GRID))
    return -next((value for value in values if value is not None), float("-inf"))


def _places(ranked: list[Record]) -> list[str]:
    """Return the rank of each entry among the models; equal scores have the same rank, and baselines have none."""
    models = [round(_rank(entry), DIGITS) for entry in ranked if entry["domain"] != "baseline"]
    places = (str(1 + models.index(round(_rank(entry), DIGITS))) if entry["domain"] != "baseline" else ""
              for entry in ranked)  # fmt: skip
    return list(places)


def _least(entries: list[Record]) -> float:
    """Return the left end of the bars' scale in percent: the lowest end of an interval, from -100 to 0."""
    found = [score[end] for entry in entries for score in entry["scores"].values() for end in ("value", "low")]
    lowest: float = min((100 * end for end in found if end is not None), default=0.0)
    return max(-100.0, min(0.0, lowest))


def _along(value: float, least: float) -> float:
    """Return the place of a score in percent on a bar that reaches from ``least`` to 100, as a share of its width."""
    return 100 * (min(100.0, max(least, value)) - least) / (100 - least)


def _row(entry: Record, scores: list[str], rank: str, least: float) -> dict[str, Any]:
    cells = [_cell(entry["scores"].get(score), least) for score in scores]
    return {"simulated": None, **entry, "rank": rank, "cells": cells}


def _cell(score: Record | None, least: float) -> dict[str, Any]:
    """Return a score in percent with its interval, and the ends of both on the bar (see :func:`_along`)."""
    if score is None or score["value"] is None:
        return {"text": _NO_NUMBER, "interval": "", "value": "", "bar": (0.0, 0.0), "ends": None}
    value = 100 * score["value"]
    ends = None if score["low"] is None or score["high"] is None else (100 * score["low"], 100 * score["high"])
    return {
        "text": f"{value:z.1f}",
        "interval": "no interval" if ends is None else f"{ends[0]:z.1f} to {ends[1]:z.1f}",
        "value": f"{value:.4f}",
        "bar": (_along(min(0.0, value), least), _along(max(0.0, value), least)),
        "ends": ends and tuple(_along(end, least) for end in ends),
    }


def _references(found: Record, scores: list[str]) -> list[tuple[str, list[str]]]:
    def texts(name: str) -> list[str]:
        values = (found.get(score, {}).get(name) for score in scores)
        return [_NO_NUMBER if value is None else f"{100 * value:z.1f}" for value in values]

    return [("chance", texts("chance")), ("most frequent answer", texts("frequent"))]


def _finalized(value: object) -> object:
    """Return text with invisible and direction-changing characters made visible; markup is returned unchanged."""
    return shown(value) if type(value) is str else value


def _file(name: str) -> str:
    return (resources.files("chexqa.eval.leaderboard") / name).read_text("utf-8")
