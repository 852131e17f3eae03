"""Builder of items that ask for the grid cell that shows the finding best."""

from __future__ import annotations

from chexqa.contract.evidence import CellsEvidence
from chexqa.contract.kinds import GRID_CELL, Kind
from chexqa.generators.attributes import grid as localization
from chexqa.generators.pipeline.builders.item_builder import numbered
from chexqa.generators.pipeline.builders.registry import CaseToBuild, builds
from chexqa.imaging.grid import draw_grid


@builds(GRID_CELL)
def grid(case: CaseToBuild, kind: Kind) -> None:
    """Add a grid item if the case's survey has measures for the grid."""
    survey = case.survey.grid
    if survey is None or case.grid is None:
        return
    (picture,) = case.builder.drawn("grid", case.working, draw_grid)
    shares = survey.coverage
    hit = case.grid.hit_share
    hits = localization.hits(shares, hit)
    case.builder.ask(
        kind,
        numbered(localization.CELL_NAMES),
        hits,
        turn=[picture],
        alone=[picture],
        evidence=CellsEvidence(
            coverage=[round(share, 6) for share in shares], plausible=survey.plausible, attainable=bool(hits)
        ),
        difficulty={
            "hit_cells": len(hits),
            "best_coverage": round(max(shares), 6),
            "margin": round(min(abs(share - hit) for share in shares) / max(hit, 1e-9), 4),
        },
        stable=survey.stable,
    )
