"""Builders of items on an outline of the lesion: contour evaluation, revision points and revision result."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import cached_property

from chexqa.chances import of_points
from chexqa.contract.evidence import Edit, MarkedPoint, OutlineEvidence, PointsEvidence, ResultEvidence
from chexqa.contract.items import Option, Picture
from chexqa.contract.kinds import Kind
from chexqa.files.seeds import stream
from chexqa.generators.contour import plan as contour
from chexqa.generators.pipeline.builders.registry import CaseToBuild, builds
from chexqa.imaging import overlays as drawing
from chexqa.imaging.colors import PALETTES
from chexqa.imaging.hand_drawn import Line, hand_drawn
from chexqa.imaging.masks import iou
from chexqa.imaging.read import Mask


@dataclass(frozen=True, eq=False)
class Outlines:
    """Outlines that are made from the plan of a case with the finding, and the pictures of these outlines."""

    case: CaseToBuild
    plan: contour.ContourPlan
    optimal: Mask

    @property
    def is_altered(self) -> bool:
        """Return True if the outline shown has an error."""
        return self.case.path == "revision_required"

    def line(self, mask: Mask, picture: str) -> list[Line]:
        """Return the outline of a mask as if drawn by hand.

        ``picture`` names the picture, and selects the random stream.
        """
        return hand_drawn(mask, stream(0, self.case.builder.case_id, "outline", picture))

    @cached_property
    def shown(self) -> list[Line]:
        """Return the lines of the outline that the questions show."""
        return self.line(self.plan.suboptimal(self.optimal) if self.is_altered else self.optimal, "contour")

    @cached_property
    def overlay(self) -> Picture:
        """Return the radiograph with the outline that the questions show."""
        (picture,) = self.case.builder.drawn(
            "contour", self.case.working, lambda image: drawing.draw_outline(image, self.shown)
        )
        return picture

    @cached_property
    def pointed(self) -> Picture:
        """Return the radiograph with the coloured points, and with the outline that the questions show."""
        assert self.case.perception is not None
        palette = self.case.perception.points.palette
        points = [
            drawing.Mark(point.xy, PALETTES[palette][point.color], letter, point.distance)
            for point, letter in zip(self.plan.points, self.plan.letters, strict=True)
        ]
        (picture,) = self.case.builder.drawn(
            "points",
            self.case.working,
            lambda image: drawing.draw_points(drawing.draw_outline(image, self.shown), points, self.shown),
        )
        return picture

    @property
    def edits(self) -> list[Edit]:
        """Return the edits of the plan."""
        return [
            Edit(
                over=edit.over,
                true=number in self.plan.true,
                depth=round(edit.depth, 1),
                share=round(edit.share, 4),
                point_xy=edit.point_xy,
            )
            for number, edit in enumerate(self.plan.edits)
        ]

    @property
    def difficulty(self) -> dict[str, float]:
        """Return depth and area of the suboptimal outline's shallowest edit.

        The depth is divided by the picture's longer side, and the area by the lesion's area.
        """
        edit = min((self.plan.edits[number] for number in self.plan.true), key=lambda edit: edit.depth)
        return {"depth": round(edit.depth / max(self.case.working.shape), 5), "share": round(edit.share, 4)}


def _outlines(case: CaseToBuild) -> Outlines | None:
    """Return the outlines of a case; None for a case on the path ``lesion_free``."""
    if case.perception is None or case.path in (None, "lesion_free"):
        return None

    def make() -> Outlines:
        optimal = case.mask("lesion")
        assert optimal is not None, "a case on a lesion-present path has a lesion"
        assert case.survey.perception is not None
        assert case.survey.perception.plan is not None, "a case on a lesion-present path has a plan"
        return Outlines(case, case.survey.perception.plan, optimal)

    found: Outlines = case.once("outlines", make)
    return found


@builds("contour_evaluation")
def evaluation(case: CaseToBuild, kind: Kind) -> None:
    """Add the item that asks for an evaluation of the outline, if the case has a lesion."""
    found = _outlines(case)
    if found is None:
        return
    altered = found.is_altered
    case.builder.ask(
        kind,
        case.builder.words(kind, "yes", "no"),
        (1,) if altered else (2,),
        turn=[found.overlay],
        alone=[case.radiograph, found.overlay],
        evidence=OutlineEvidence(iou=found.plan.overlap if altered else 1.0, edits=found.edits if altered else []),
        difficulty=found.difficulty if altered else {},
    )


@builds("revision_expansion", "revision_contraction")
def points(case: CaseToBuild, kind: Kind) -> None:
    """Add an item that asks to choose among coloured points; add none if the outline shown before has no error.

    The ``kind`` is ``revision_expansion`` (at which points must the outline be expanded?) or ``revision_contraction``
    (at which points must it be contracted?).
    """
    found = _outlines(case)
    if found is None or not found.is_altered:
        return
    builder, plan, is_expansion = case.builder, found.plan, kind.name == "revision_expansion"
    words = builder.texts(kind)
    names = builder.bank["colors"]
    options = [
        Option(
            number,
            words["point"].format(color=names[point.color], letter=letter),
            color=point.color,
            letter=letter,
            side="inside" if point.inside else "outside",
        )
        for number, (point, letter) in enumerate(zip(plan.points, plan.letters, strict=True), start=1)
    ]
    options.append(Option(len(options) + 1, words["none"]))
    asked = sum(point.inside != is_expansion for point in plan.points)
    assert case.perception is not None
    weights = case.perception.deformation.edit_count_weights
    marked = [
        MarkedPoint(xy=point.xy, edit=point.edit, inside=point.inside, distance=point.distance) for point in plan.points
    ]
    builder.ask(
        kind,
        options,
        plan.marked(not is_expansion) or (len(options),),
        # In a conversation, the picture is shown only once.
        turn=[found.pointed] if is_expansion else [],
        alone=[case.radiograph, found.pointed],
        evidence=PointsEvidence(points=marked),
        difficulty=found.difficulty,
        chance=of_points(asked, len(plan.points) - asked, weights),
    )


@builds("revision_result")
def result(case: CaseToBuild, kind: Kind) -> None:
    """Add the item that asks which of four revised outlines fits; add none if the outline shown before has no error."""
    found = _outlines(case)
    if found is None or not found.is_altered:
        return
    plan = found.plan
    masks = [plan.with_errors(found.optimal, errors) for errors in plan.results]
    four = [found.line(mask, f"option {number}") for number, mask in enumerate(masks, start=1)]
    fits = case.builder.drawn(
        "option", case.working, *(functools.partial(drawing.draw_outline, lines=option) for option in four)
    )
    case.builder.ask(
        kind,
        [Option(number, image=picture.image) for number, picture in enumerate(fits, start=1)],
        (plan.right_result,),
        turn=fits,
        alone=[case.radiograph, found.overlay, *fits],
        evidence=ResultEvidence(
            errors=plan.results,
            true_edits=plan.true,
            edits=found.edits,
            iou=[iou(mask, found.optimal) for mask in masks],
        ),
        difficulty=found.difficulty,
    )
