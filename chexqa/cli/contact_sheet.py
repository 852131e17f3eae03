"""Contact sheet of a case: one picture with its radiograph, questions, options, right answers and measured anatomy."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from chexqa.contract import benchmark as benchmarks
from chexqa.contract import read_run
from chexqa.contract.benchmark import ITEMS, Benchmark
from chexqa.contract.evidence import Edit, OutlineEvidence, PointsEvidence, ResultEvidence
from chexqa.contract.findings import FINDINGS
from chexqa.contract.forms import SOMEWHERE
from chexqa.contract.items import Answer, CaseKey, Item, asking_order, clusters
from chexqa.contract.kinds import KINDS
from chexqa.contract.read_run import Run, Turn
from chexqa.eval.places.drawn_places import KEY_RGB, Answerer, first_turns, painted, strokes
from chexqa.eval.places.run_scores import PlaceScores, is_right_place, place_scores
from chexqa.eval.places.target import target_of
from chexqa.eval.scoring.frequent import frequent_accuracy, mean_by_kind
from chexqa.files.atomic import new_file
from chexqa.files.errors import InputError, suggest
from chexqa.files.opening import Given
from chexqa.files.terminal import PHANTOM_NOTICE
from chexqa.files.text import shown
from chexqa.imaging import masks
from chexqa.imaging.anatomy import Lungs, grow_lungs, regions
from chexqa.imaging.colors import RGB
from chexqa.imaging.hand_drawn import Line, smooth_outlines
from chexqa.imaging.overlays import to_rgb
from chexqa.imaging.read import decode_png

WIDTH, THUMB, LARGE_THUMB, GAP, TEXT_SIZE, LINE = 1800, 300, 480, 12, 19, 26
# Okabe and Ito's colours, which colour-blind readers can tell apart, for medial, lateral, peripheral, lesion, heart.
_PART_RGB = {"medial": (86, 180, 233), "lateral": (230, 159, 0), "peripheral": (0, 158, 115)}
_LESION_RGB, _HEART_RGB = (255, 60, 60), (204, 121, 167)
# Side of an enlarged picture; its margin around the edit: least number of pixels, and multiple of the edit's depth.
ZOOM, _LEAST_WINDOW, _WINDOW = 284, 64, 2.6
_SHIFT = 4  # cv2 takes coordinates in sixteenths of a pixel
_SWATCH, _REPLY = 4 * " ", 60  # room for a patch of colour before a line; characters of a reply
_INK, _RIGHT_INK, _PALE = (25, 25, 25), (0, 110, 70), (110, 110, 110)


@cache
def _font(bold: bool = False) -> ImageFont.FreeTypeFont:
    from matplotlib import font_manager

    name = font_manager.FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    return ImageFont.truetype(font_manager.findfont(name), TEXT_SIZE)


def find_case(benchmark: Benchmark, name: str) -> str:
    """Return a case's id from ``name``: the case's id, its id in the data source, or the id of one of its items.

    Raises ``InputError`` with the nearest name if there is no such case.
    """
    _, cases = benchmark.key("'chexqa show'")
    by_source = {case.source_case_id: case_id for case_id, case in cases.items()}
    case_id = name.partition("/")[0] if name.partition("/")[0] in cases else by_source.get(name)
    if case_id is None:
        hint = suggest(name, [*cases, *by_source][:2000], by_source)
        raise InputError(f"{benchmark.folder}: there is no case or item '{name}'{hint}.")
    return case_id


def no_case_given(benchmark: Benchmark) -> InputError:
    """Return the error for a user who did not say which case to show; it suggests items of three cases.

    Raises ``InputError`` if the benchmark has no key, since none of its cases can then be shown.
    """
    benchmark.key("'chexqa show'")
    first: dict[str, str] = {}
    for item in benchmark.items:
        first.setdefault(item.case_id, item.item_id)
    return InputError(
        f"{benchmark.folder}: name an item or a case to show, such as {', '.join(list(first.values())[:3])}; all ids "
        f"are in {benchmark.folder / ITEMS}."
    )


def contact_sheet(bench: Given, name: str, runs: Sequence[Given] = ()) -> Image.Image:
    """Return the contact sheet of one case as an RGB picture ``(H, W, 3)`` uint8, which a notebook shows inline.

    :func:`find_case` finds the case by ``name``. The benchmark must have its key. The places (points, boxes, outlines)
    that the models of ``runs`` answered are drawn over the pictures; each model has a colour and a letter. Raises
    ``InputError`` for a case without items.
    """
    benchmark = bench if isinstance(bench, Benchmark) else benchmarks.load(Path(bench))
    case_id = find_case(benchmark, name)
    answers, cases = benchmark.key("'chexqa show'")
    items = sorted((item for item in benchmark.items if item.case_id == case_id), key=asking_order)
    case = cases[case_id]
    if not items:
        raise InputError(f"{benchmark.folder}: the case '{case_id}' is in the key but has no items; name another case.")
    loaded = [run if isinstance(run, Run) else read_run.load(Path(run)) for run in runs]
    asked = [replace(run, turns=tuple(turn for turn in run.turns if turn.case_id == case_id)) for run in loaded]
    turns, scores = first_turns(asked), place_scores(benchmark, asked)
    groups = {(item.kind, item.finding) for item in items}
    alike = [item for item in benchmark.items if (item.kind, item.finding) in groups]
    frequent = mean_by_kind(alike, frequent_accuracy(alike, answers, clusters(benchmark.items, cases)))
    rows = [_header(benchmark, case, items)]
    if "lesion" in case.measures.get("masks", {}):
        rows.append(_anatomy_row(benchmark, case, items))
    rows += [
        _place_row(benchmark, item, case, turns.get(item.item_id, ()), scores)
        if item.form.is_place
        else _item_row(benchmark, item, answers[item.item_id], frequent[item.kind, item.finding])
        for item in items
    ]
    rows += _zoomed_rows(benchmark, case, items, answers)
    sheet = Image.new("RGB", (WIDTH, sum(row.height for row in rows)), "white")
    top = 0
    for row in rows:
        sheet.paste(row, (0, top))
        top += row.height
    return sheet


def _header(benchmark: Benchmark, case: CaseKey, items: list[Item]) -> Image.Image:
    person = ", ".join(str(value) for value in (case.sex, case.age, case.view) if value is not None)
    source = [f"source {case.source_case_id}", case.patient_id and f"patient {case.patient_id}", person]
    lines = [
        (f"{case.case_id}  {items[0].finding}  {case.path or 'no path'}", _INK, True),
        ("  ".join(part for part in source if part), _PALE, False),
    ]
    if benchmark.is_phantom:
        lines.append((PHANTOM_NOTICE, _PALE, False))
    return _text_row([], lines)


def _item_row(benchmark: Benchmark, item: Item, answer: Answer, frequent: float) -> Image.Image:
    side = THUMB if len(item.turn_images) > 1 else LARGE_THUMB
    thumbs = [_thumb(_read(benchmark, picture.image), side) for picture in item.turn_images]
    lines = [(f"{item.kind}{'  [' + ', '.join(answer.flags) + ']' if answer.flags else ''}", _INK, True)]
    lines += [(line, _INK, False) for line in textwrap.wrap(item.question, _columns(thumbs))]
    for option in item.options if item.form.lists_options else [item.options[n - 1] for n in answer.answer]:
        right = option.n in answer.answer
        text = option.text or f"picture {option.n}"
        lines.append((f"{'✓' if right else '   '} {option.n}. {text}", _RIGHT_INK if right else _INK, right))
    if not item.form.lists_options and not answer.answer:
        lines.append(("no cell can be hit", _RIGHT_INK, True))
    lines.append((f"chance {answer.chance:.3f}, most frequent answer {frequent:.2f}", _PALE, False))
    return _text_row(thumbs, lines)


def _place_row(
    benchmark: Benchmark, item: Item, case: CaseKey, turns: Sequence[tuple[Answerer, Turn]], scores: PlaceScores
) -> Image.Image:
    """Return the row of a question on a place: its text, and its picture with the key and the answers drawn on it."""
    answer = benchmark.key("'chexqa show'")[0][item.item_id]
    target = target_of(case.measures, f"the key of case '{case.case_id}'") if answer.answer == (SOMEWHERE,) else None
    picture = _read(benchmark, item.alone_images[0].image)
    height, width = picture.shape[:2]
    drawn = strokes(item.form.name, (width, height), target, [(who, turn.place) for who, turn in turns])
    thumb = _thumb(painted(picture, drawn), 2 * THUMB)
    lines = [(item.kind, _INK, True)]
    lines += [(line, _INK, False) for line in textwrap.wrap(item.question, _columns([thumb]))]
    colors = {len(lines): KEY_RGB} if target else {}
    lines.append((f"{_SWATCH}key: a place in the picture" if target else "key: nowhere", _RIGHT_INK, True))
    for who, turn in turns:
        colors[len(lines)] = who.rgb
        right = turn.parsed is not None and is_right_place(answer, turn, scores)
        words = textwrap.wrap(f"{who.letter}  {shown(who.name)}: {_said(turn, right, scores)}", _columns([thumb]) - 4)
        lines += [(f"{_SWATCH}{line}", _RIGHT_INK if right else _INK, False) for line in words]
    return _text_row([thumb], lines, colors)


def _said(turn: Turn, right: bool, scores: PlaceScores) -> str:
    """Return a text on one answer: right or wrong, the place's overlap with the key, and the end of the reply.

    Without a place, the text is the turn's state, such as ``refused``.
    """
    if turn.place is None:
        return turn.state
    score = scores.get((turn.item_id, turn.place))
    numbers = {"IoU": score.iou, "Dice": score.dice, "F1": score.f1_30, "ratio off by": score.error} if score else {}
    overlap = "".join(f", {name} {number:.2f}" for name, number in numbers.items() if number is not None)
    reply = "nowhere" if turn.place == () else _ending(turn.raw or "")
    return f"{'right' if right else 'wrong'}{overlap}: {shown(reply)}"


def _ending(text: str) -> str:
    return text if len(text) <= _REPLY else f"… {text[-_REPLY:]}"


def _anatomy_row(benchmark: Benchmark, case: CaseKey, items: list[Item]) -> Image.Image:
    """Return the row with the anatomy: the radiograph with all masks, and the share of each region that is covered."""
    stored = {name: masks.from_rle(rle, f"the key's {name}") for name, rle in case.measures["masks"].items()}
    picture = next(image.image for item in items for image in item.alone_images)
    canvas = _read(benchmark, picture).copy()
    lesion = stored["lesion"]
    empty = np.zeros_like(lesion)
    lungs = Lungs(stored.get("right_lung", empty), stored.get("left_lung", empty))
    # An enlarged heart leaves the lung clear, and no question asks for the regions that the heart covers. Another
    # chexqa's finding may be unknown here; its regions are drawn.
    finding = FINDINGS.get(items[0].finding)
    asked = finding is None or finding.attributes
    areas = regions(grow_lungs(lungs, lesion) if asked else lungs)
    for name, area in areas.items():
        part = name.rpartition("_")[2]
        if part in _PART_RGB:
            canvas[area] = (0.78 * canvas[area] + 0.22 * np.array(_PART_RGB[part])).astype(np.uint8)
    for mask, rgb in ((stored.get("heart"), _HEART_RGB), (lesion, _LESION_RGB)):
        if mask is not None:
            outlines, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
            cv2.drawContours(canvas, outlines, -1, rgb, 3, cv2.LINE_AA)
    lines = [
        ("anatomy", _INK, True),
        ("medial blue, lateral orange, peripheral green; lesion red, heart pink", _PALE, False),
    ]
    for name, model in (case.measures.get("predicted") or {}).items():
        lines.append((f"{name.replace('_', ' ')} predicted by {model}", _INK, True))
    for doubt in case.measures.get("lung_doubts", ()):
        lines.append((f"look at the masks: {doubt}", _INK, True))
    pixels = {name: int(np.count_nonzero(area)) for name, area in areas.items()}
    covered = {name: int(np.count_nonzero(area & lesion)) / max(1, pixels[name]) for name, area in areas.items()}
    shares = [f"{name.replace('_', ' ')} {share:.0%}" for name, share in covered.items() if share > 0 and asked]
    thumb = _thumb(canvas, 2 * THUMB)
    lines += [(line, _INK, False) for line in textwrap.wrap("; ".join(shares), _columns([thumb]))]
    return _text_row([thumb], lines)


def _zoomed_rows(
    benchmark: Benchmark, case: CaseKey, items: list[Item], answers: Mapping[str, Answer]
) -> list[Image.Image]:
    """Return a row for each edit of the outline: the edit's surroundings in each picture, with the approved outline.

    The surroundings are enlarged. There is no row if the key does not say where the edits are, as in benchmarks of
    other projects.
    """
    edits: Sequence[Edit] = ()
    wrong: dict[str, Sequence[Sequence[int]]] = {}  # for each item, the edits in each of its pictures
    shown: list[tuple[str, str]] = []
    for item in items:
        kind = KINDS.get(item.kind)
        evidence = kind.read(answers[item.item_id].evidence) if kind else None
        if isinstance(evidence, ResultEvidence):
            edits, wrong[item.item_id] = evidence.edits, evidence.errors
            shown += [(f"picture {option.n}", option.image) for option in item.options if option.image]
        elif isinstance(evidence, OutlineEvidence):
            edits = edits or evidence.edits
            shown += [("outline shown", picture.image) for picture in item.turn_images]
        elif isinstance(evidence, PointsEvidence):
            shown += [("with the points", picture.image) for picture in item.turn_images]
    stored = case.measures.get("masks", {}).get("lesion")
    if stored is None or not any(edit.point_xy for edit in edits):
        return []
    lines = smooth_outlines(masks.from_rle(stored, "the key's lesion"))
    pictures = {image: _read(benchmark, image) for _, image in shown}
    rows = []
    for number, edit in enumerate(edits):
        if not edit.point_xy:
            continue
        having = [str(n) for errors in wrong.values() for n, own in enumerate(errors, start=1) if number in own]
        where = "in the outline shown" if edit.true else "not in the outline shown"
        numbers = " and ".join([", ".join(having[:-1]), having[-1]] if len(having) > 1 else having)
        named = f"in picture{'s' * (len(having) > 1)} {numbers}" if having else "in none of the four"
        among = f", {named}" if wrong else ""
        words = f"place {number + 1}: {edit.words()}, {where}{among}"
        crops = [
            (name, _enlarged(pictures[image], edit, lines if "points" not in name else [])) for name, image in shown
        ]
        rows.append(_zoomed_row(words, crops))
    return rows


def _enlarged(pixels: npt.NDArray[np.uint8], edit: Edit, lines: Sequence[Line]) -> Image.Image:
    """Return the enlarged surroundings of an edit, with the lines ``lines`` in red."""
    height, width = pixels.shape[:2]
    half = round(min(max(_LEAST_WINDOW, _WINDOW * edit.depth), min(height, width) / 2))
    x, y = (round(float(value)) for value in edit.point_xy)
    left, top = (int(np.clip(at - half, 0, max(0, side - 2 * half))) for at, side in ((x, width), (y, height)))
    part = np.ascontiguousarray(pixels[top : top + 2 * half, left : left + 2 * half])
    scale = ZOOM / part.shape[1]
    large = cv2.resize(part, (ZOOM, ZOOM), interpolation=cv2.INTER_CUBIC)
    for line in lines:
        placed = np.round((line + 0.5 - (left, top)) * scale * (1 << _SHIFT)).astype(np.int32)
        cv2.polylines(large, [placed], True, _LESION_RGB, 2, cv2.LINE_AA, _SHIFT)
    return Image.fromarray(np.asarray(large, np.uint8))


def _zoomed_row(words: str, crops: list[tuple[str, Image.Image]]) -> Image.Image:
    """Return a row with the line ``words`` above several enlarged pictures; each picture's name is below it."""
    row = Image.new("RGB", (WIDTH, ZOOM + 2 * LINE + 3 * GAP), "white")
    pen = ImageDraw.Draw(row)
    pen.line([(0, 0), (WIDTH, 0)], fill=(200, 200, 200))
    pen.text((GAP, GAP), words, fill=_INK, font=_font(True))
    for number, (name, crop) in enumerate(crops[: WIDTH // (ZOOM + GAP)]):
        left = GAP + number * (ZOOM + GAP)
        row.paste(crop, (left, GAP + LINE))
        pen.text((left, 2 * GAP + LINE + ZOOM), name, fill=_PALE, font=_font())
    return row


def _columns(thumbs: list[Image.Image]) -> int:
    """Return the number of characters that fit on a line beside the thumbnails."""
    left = sum(thumb.width + GAP for thumb in thumbs)
    return int((WIDTH - left - 2 * GAP) / (0.58 * TEXT_SIZE))


def _read(benchmark: Benchmark, image: str) -> npt.NDArray[np.uint8]:
    pixels = decode_png(benchmark.image_bytes(image), f"{benchmark.folder / image}:")
    return to_rgb(pixels) if pixels.ndim == 2 else pixels


def _thumb(pixels: npt.NDArray[np.uint8], side: int = THUMB) -> Image.Image:
    picture = Image.fromarray(pixels)
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    return picture


def _text_row(
    thumbs: list[Image.Image], lines: list[tuple[str, RGB, bool]], patches: Mapping[int, RGB] | None = None
) -> Image.Image:
    """Return a row with pictures on the left and lines of text (words, colour, bold) on the right.

    ``patches`` has the colour of a small square at the start of a line, keyed by the line's number from 0.
    """
    height = max([thumb.height for thumb in thumbs] + [LINE * len(lines)]) + 2 * GAP
    row = Image.new("RGB", (WIDTH, height), "white")
    pen = ImageDraw.Draw(row)
    pen.line([(0, 0), (WIDTH, 0)], fill=(200, 200, 200))
    left = GAP
    for thumb in thumbs:
        row.paste(thumb, (left, GAP))
        left += thumb.width + GAP
    for number, (text, ink, bold) in enumerate(lines):
        # Pillow cannot draw text of mixed direction, nor line feeds within a line.
        pen.text((left, GAP + number * LINE), " ".join(shown(text).split("\n")), fill=ink, font=_font(bold))
    for number, rgb in (patches or {}).items():
        top = GAP + number * LINE + 3
        pen.rectangle((left, top, left + TEXT_SIZE - 3, top + TEXT_SIZE - 3), fill=rgb, outline=_INK)
    return row


def write_sheet(bench: Given, name: str, out: str | Path, runs: Sequence[Given] = ()) -> None:
    """Write the contact sheet of a case as a PNG; the arguments are those of :func:`contact_sheet`."""
    sheet = contact_sheet(bench, name, runs)
    with new_file(Path(out)) as hidden:
        sheet.save(hidden, format="PNG")
