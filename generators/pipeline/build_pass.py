"""The second pass over a case: its pictures, items and key, once its path is drawn."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from chexqa.contract.cases import Case
from chexqa.contract.findings import FINDINGS
from chexqa.contract.items import Answer, CaseKey, Item, Option, Path, Picture
from chexqa.contract.kinds import GRID, KINDS
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record
from chexqa.files.seeds import digest, stream
from chexqa.generators.attributes import grid as localization
from chexqa.generators.attributes.measure import Attributes, Measures, judge, margins
from chexqa.generators.contour import plan as contour
from chexqa.generators.contour.edits import iou
from chexqa.imaging import overlays as drawing
from chexqa.imaging import png
from chexqa.imaging.masks import from_rle
from chexqa.imaging.read import Gray, Mask, encode_thumb, read_radiograph, to_working

Store = Callable[[bytes, bytes | None], str]
_GREY = 128


def bench_case_id(seed: int, source_case_id: str) -> str:
    """A case's id in a benchmark; tells nothing of its source."""
    return "c" + digest(seed, source_case_id).hex()[:12]


@dataclass(frozen=True, eq=False)
class Shown:
    """What pictures are made of: the working image and, where the finding is present, its mask at that size.

    The masks were checked in the first pass, which keeps them.
    """

    working: Gray
    lesion: Mask | None


@dataclass
class Sheet:
    """Collects the items and answers of one case.

    ``store`` keeps a PNG and, unless it is None, the small JPEG of it, and returns the PNG's path in the benchmark.
    ``controls``: whether every drawing is made on plain grey too.
    """

    case_id: str
    finding: str
    path: Path | None
    bank: Record
    store: Store
    controls: bool = False
    items: list[Item] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def radiograph(self, image: drawing.Image) -> Picture:
        """Keep the radiograph itself."""
        return Picture("radiograph", self.store(png.encode(image), encode_thumb(image)))

    def drawn(self, role: str, image: drawing.Image, *draws: Callable[[drawing.Image], drawing.Image]) -> list[Picture]:
        """Keep what each of ``draws`` makes of the radiograph, and of plain grey where controls are wanted.

        Their files are of one length.
        """
        overlays = [draw(image) for draw in draws]
        files = png.of_one_length([png.encode(overlay) for overlay in overlays])
        images = [self.store(file, encode_thumb(overlay)) for file, overlay in zip(files, overlays, strict=True)]
        controls: list[str | None] = [None] * len(draws)
        if self.controls:
            plain = np.full_like(image, _GREY)
            # Nobody reviews a control.
            files = png.of_one_length([png.encode(draw(plain)) for draw in draws])
            controls = [self.store(file, None) for file in files]
        return [Picture(role, *paths) for paths in zip(images, controls, strict=True)]

    def ask(
        self, kind: str, options: list[Option], answer: tuple[int, ...], *, turn: list[Picture], alone: list[Picture],
        evidence: Record, difficulty: dict[str, float], stable: bool = True, **words: str,
    ) -> None:  # fmt: skip
        """Add one item; its question is the bank's, with ``words`` filled in.

        ``difficulty``: the numbers of the evidence that say how hard it is. ``stable``: whether masks drawn a
        little otherwise give the same answer. That is so by construction of detection and of the contour items, whose
        edits are several times deeper than the noise of drawing.
        """
        about = KINDS[kind]
        note = self.bank["notes"]["heart_overlap"] if FINDINGS[self.finding].field == "lung" else ""
        words = {"finding": self.bank["findings"][self.finding], "note": note, **words}
        item_id = f"{self.case_id}/{kind}"
        self.items.append(
            Item(
                item_id=item_id,
                case_id=self.case_id,
                seq=about.seq,
                kind=kind,
                level=about.level,
                stage=about.stage,
                finding=self.finding,
                question=self.bank["kinds"][kind]["question"].format(**words),
                options=tuple(options),
                multi=about.multi,
                turn_images=tuple(turn),
                alone_images=tuple(alone),
            )
        )
        chance = about.form.chance(len(options), len(answer))
        # The prior needs the whole benchmark: the pipeline fills it in.
        flags = () if stable else ("unstable",)
        self.answers.append(Answer(item_id, answer, chance, 0.0, self.path, evidence, flags, difficulty=difficulty))

    def words(self, kind: str, *names: str) -> list[Option]:
        """Options from the bank's words for this kind, in this order."""
        return _numbered([self.bank["kinds"][kind][name] for name in names])


def _numbered(texts: list[str]) -> list[Option]:
    return [Option(number, text) for number, text in enumerate(texts, start=1)]


def _read_again(case: Case) -> Gray:
    """The radiograph, which the survey has read.

    A case whose radiograph is gone is not left out like one that was never usable: a disk that is gone would take all
    others with it.
    """
    try:
        return read_radiograph(case.image)
    except InputError as error:
        raise InputError(
            f"{case.manifest.name}, line {case.line}: {str(error).rstrip('.')}, and it was read before; put it back, "
            "and the same command goes on."
        ) from None


def build(
    case: Case, surveyed: Record, path: Path | None, *, perception: Record | None, grid: Record | None, bank: Record,
    seed: int, store: Store, controls: bool = False,
) -> Record:  # fmt: skip
    """Make a case's items: those of its path (None: none) and its grid item, if it was surveyed for one.

    Returns a JSON-ready record: ``case``, ``items``, ``answers`` as in the benchmark's files.
    """
    lesion = surveyed["masks"].get("lesion")
    shown = Shown(
        to_working(_read_again(case)),
        None if lesion is None else from_rle(lesion, f"the survey of {case.case_id}"),
    )
    sheet = Sheet(bench_case_id(seed, case.case_id), case.finding, path, bank, store, controls)
    if path is not None and perception is not None:
        radiograph = sheet.radiograph(shown.working)
        _detection(sheet, radiograph, case.present, surveyed["measures"])
        if path != "lesion_free":
            _contours(sheet, shown, radiograph, contour.plan_from_record(surveyed["perception"]["plan"]))
            if surveyed["perception"]["attributes"] is not None:
                _attributes(sheet, radiograph, surveyed["perception"]["attributes"], perception)
    if surveyed["grid"] is not None and grid is not None:
        _grid(sheet, shown, surveyed["grid"], grid["hit_share"])
    key = CaseKey(
        case_id=sheet.case_id,
        source_case_id=case.case_id,
        patient_id=case.patient_id,
        study_id=case.study_id,
        path=path,
        sex=case.sex,
        age=case.age,
        view=case.view,
        access=case.access,
        measures={
            **surveyed["measures"],
            "image_key": surveyed["image_key"],
            "negative_kind": case.negative_kind,
            "source": case.source,
            "license": case.license,
            "masks": surveyed["masks"],
        },
    )
    return {
        "case": key.to_record(),
        "items": [item.to_record() for item in sheet.items],
        "answers": [answer.to_record() for answer in sheet.answers],
    }


def _detection(sheet: Sheet, radiograph: Picture, present: bool, measures: Record) -> None:
    sheet.ask(
        "detection",
        sheet.words("detection", "yes", "no"),
        (1,) if present else (2,),
        turn=[radiograph],
        alone=[radiograph],
        evidence={"lesion_share": measures.get("lesion_share", 0.0)},
        difficulty={"lesion_share": measures["lesion_share"]} if present else {},
    )


def _contours(sheet: Sheet, loaded: Shown, radiograph: Picture, plan: contour.Plan) -> None:
    """Contour evaluation and, on the revision-required path, revision."""
    optimal = loaded.lesion
    assert optimal is not None, "a case on a lesion-present path has a lesion"
    revise = sheet.path == "revision_required"
    shown = plan.suboptimal(optimal) if revise else optimal

    def outline(mask: Mask, picture: str) -> list[drawing.Line]:
        """A mask's outline as the hand draws it in this picture of the case."""
        return drawing.hand_drawn(mask, stream(0, sheet.case_id, "outline", picture))

    lines = outline(shown, "contour")
    (overlay,) = sheet.drawn("contour", loaded.working, lambda image: drawing.draw_outline(image, lines))
    sheet.ask(
        "contour_evaluation",
        sheet.words("contour_evaluation", "yes", "no"),
        (1,) if revise else (2,),
        turn=[overlay],
        alone=[radiograph, overlay],
        evidence={"iou": plan.overlap if revise else 1.0, "edits": _edit_evidence(plan) if revise else []},
        difficulty=_edit_difficulty(plan, loaded) if revise else {},
    )
    if not revise:
        return
    points = [(point.xy, point.color) for point in plan.points]
    (pointed,) = sheet.drawn(
        "points", loaded.working, lambda image: drawing.draw_points(drawing.draw_outline(image, lines), points)
    )
    _points(sheet, radiograph, pointed, plan, _edit_difficulty(plan, loaded))
    masks = [plan.with_errors(optimal, errors) for errors in plan.results]
    four = [outline(mask, f"option {number}") for number, mask in enumerate(masks, start=1)]
    fits = sheet.drawn(
        "option", loaded.working, *(functools.partial(drawing.draw_outline, lines=option) for option in four)
    )
    sheet.ask(
        "revision_result",
        [Option(number, image=picture.image) for number, picture in enumerate(fits, start=1)],
        (plan.right_result,),
        turn=fits,
        alone=[radiograph, overlay, *fits],
        evidence={
            "errors": [list(errors) for errors in plan.results],
            "true_edits": list(plan.true),
            "edits": _edit_evidence(plan),
            "iou": [iou(mask, optimal) for mask in masks],
        },
        difficulty=_edit_difficulty(plan, loaded),
    )


def _edit_evidence(plan: contour.Plan) -> list[Record]:
    return [
        {
            "over": edit.over,
            "true": number in plan.true,
            "depth": round(edit.depth, 1),
            "share": round(edit.share, 4),
            "point_xy": list(edit.point_xy),
        }
        for number, edit in enumerate(plan.edits)
    ]


def _edit_difficulty(plan: contour.Plan, shown: Shown) -> dict[str, float]:
    """The true edit that is easiest to miss: its depth over the picture's longer side, its share of the lesion."""
    edit = min((plan.edits[number] for number in plan.true), key=lambda edit: edit.depth)
    return {"depth": round(edit.depth / max(shown.working.shape), 5), "share": round(edit.share, 4)}


def _points(
    sheet: Sheet, radiograph: Picture, pointed: Picture, plan: contour.Plan, difficulty: dict[str, float]
) -> None:
    """Expansion, which introduces the picture with the points, and contraction, which looks at it again."""
    evidence = {
        "points": [
            {"xy": list(point.xy), "edit": point.edit, "inside": point.inside, "distance": point.distance}
            for point in plan.points
        ]
    }
    none = (len(plan.points) + 1,)
    for kind, over, turn in (("revision_expansion", False, [pointed]), ("revision_contraction", True, [])):
        words = sheet.bank["kinds"][kind]
        options = [
            Option(number, words["point"].format(color=sheet.bank["colors"][point.color]), color=point.color)
            for number, point in enumerate(plan.points, start=1)
        ]
        options.append(Option(len(options) + 1, words["none"]))
        sheet.ask(
            kind,
            options,
            plan.marked(over) or none,
            turn=turn,
            alone=[radiograph, pointed],
            evidence=evidence,
            difficulty=difficulty,
        )


def _attributes(sheet: Sheet, radiograph: Picture, record: Record, recipe: Record) -> None:
    """Distribution, location, severity and comparison, as far as they were drawn and the recipe releases them."""
    drawn = Attributes.from_record(record["drawn"])
    measures = Measures.from_record(record["measures"])
    judged = judge(measures, recipe["attributes"])
    involved = {"involved": list(judged.involved), "union": measures.union, "components": list(measures.components)}
    lungs = {"lung_share": judged.lung_share, "lung_area": judged.lung_area, "components": involved["components"]}
    regions, location = sheet.bank["regions"], drawn.location or ()
    options = {
        "distribution": sheet.words("distribution", "one", "two", "three", "four"),
        "location": _numbered([regions[name] for name in location] + [sheet.bank["kinds"]["location"]["none"]]),
        "severity": sheet.words("severity", "low", "middle", "high"),
        "comparison": sheet.words("comparison", *drawn.comparison),
    }
    evidence: dict[str, Record] = {
        "distribution": involved,
        "location": {"shown": list(location), **involved},
        "severity": {"side": drawn.severity, **lungs},
        "comparison": lungs,
    }
    margin = margins(drawn, measures, recipe["attributes"])
    for kind, answer in record["right"].items():
        stable = record["stable"][kind]
        if recipe["stable_only"] and not stable:
            continue
        sheet.ask(
            kind,
            options[kind],
            tuple(answer),
            turn=[],
            alone=[radiograph],
            evidence=evidence[kind],
            difficulty={"margin": margin[kind]},
            stable=stable,
            side=sheet.bank["sides"][drawn.severity],
        )


def _grid(sheet: Sheet, shown: Shown, surveyed: Record, hit_share: float) -> None:
    (picture,) = sheet.drawn("grid", shown.working, drawing.draw_grid)
    shares = surveyed["coverage"]
    hits = localization.hits(shares, hit_share)
    evidence = {
        "coverage": [round(share, 6) for share in shares],
        "plausible": surveyed["plausible"],
        "attainable": bool(hits),
    }
    sheet.ask(
        GRID,
        _numbered(list(localization.CELLS)),
        hits,
        turn=[picture],
        alone=[picture],
        evidence=evidence,
        difficulty={"hit_cells": len(hits), "best_coverage": round(max(shares), 6)},
        stable=surveyed["stable"],
    )
