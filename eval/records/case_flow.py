"""The flow of cases from manifest to answers: cases used and left out, as counts and as a figure (STARD, CLAIM)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from chexqa.contract.benchmark import SKIPPED
from chexqa.contract.items import PATHS
from chexqa.eval.scoring.grade import Graded
from chexqa.eval.scoring.outcomes import ANSWERED
from chexqa.files.jsonio import read_jsonl
from chexqa.files.opening import MissingError
from chexqa.files.terminal import PHANTOM_NOTICE, plural
from chexqa.files.text import shown

FILE = "case-flow.svg"
_WIDTH, _BOX, _GAP, _LINE, _LEFT, _RIGHT = 900, 420, 28, 17, 20, 480


class Step(NamedTuple):
    """A step of the flow, in lines of text.

    - ``lines``: the cases that remain at this step.
    - ``left_out``: the cases of the previous step that were left out, with the reasons.
    """

    lines: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def steps(graded: Graded) -> list[Step]:
    """Return the steps: cases of the manifest, cases of the benchmark, cases asked, and each model's answers."""
    bench = graded.benchmark
    counts = bench.about["counts"]
    _, cases = bench.key("the flow of cases")
    skipped = _skipped(graded)
    whole = {case.source_case_id for case in cases.values()}
    left_out = {name: why for name, why in skipped.items() if name not in whole}
    reasons = Counter(left_out.values())
    told = tuple(f"{reason}: {count:,}" for reason, count in reasons.most_common())
    if not skipped and counts["skipped"]:
        told = (f"{plural(counts['skipped'], 'entry', 'entries')} left out for reasons that are withheld",)
    paths: Counter[str] = Counter(case.path or "no path" for case in cases.values())
    patients = {case.patient_id for case in cases.values() if case.patient_id}
    people = f"{plural(len(patients), 'patient')}" if patients else "patients unknown"
    named = [f"{path.replace('_', ' ')}: {paths[path]:,}" for path in (*PATHS, "no path") if paths[path]]
    made = [
        Step((f"Cases in the manifest, used or left out: {len(whole) + len(left_out):,}",)),
        Step((f"Cases in the benchmark: {counts['cases']:,} ({people})", *named, f"items: {counts['items']:,}"), told),
    ]
    asked = set(graded.grades["case_id"].unique().to_list())
    others = counts["cases"] - len(asked)
    why = (f"not asked in these runs: {others:,}",) if others else ()
    items = graded.grades["item_id"].n_unique()
    made.append(Step((f"Cases asked: {len(asked):,} (items: {items:,})",), why))
    rows = []
    answers = graded.grades.select("model", "protocol", "state")
    for (model, protocol), part in answers.group_by("model", "protocol", maintain_order=True):
        states = Counter(part["state"].to_list())
        rest = ", ".join(f"{state.replace('_', ' ')} {count:,}" for state, count in sorted(states.items())
                         if state not in ANSWERED)  # fmt: skip
        answered = sum(states[state] for state in ANSWERED)
        rows.append(f"{model}, {protocol}: {answered:,} of {part.height:,}{f' ({rest})' if rest else ''}")
    made.append(Step(("Answers that could be read:", *rows)))
    return made


def _skipped(graded: Graded) -> dict[str, str]:
    """Return the reason for which each case was left out, keyed by its id in the source; may be empty."""
    path = graded.benchmark.folder / SKIPPED
    try:
        rows = [record for _, record in read_jsonl(path, "skipped", graded.benchmark.folder)]
    except MissingError:
        return {}
    return {row["source_case_id"]: str(row["reason"]) for row in rows}


def figure(graded: Graded) -> bytes:
    """Return the flow as an SVG picture: a column of steps, with the cases left out beside each arrow."""
    found = steps(graded)
    notice = PHANTOM_NOTICE if graded.benchmark.is_phantom else None
    parts: list[str] = []
    y = 36 if notice else 12
    if notice:
        parts.append(_text(_LEFT, 22, notice, "italic"))
    middle = _LEFT + _BOX // 2
    for number, step in enumerate(found):
        if number:
            top, y = y, y + _GAP
            if step.left_out:
                y = top + _GAP // 2 + _height(step.left_out) + _GAP // 2
                parts.append(_box(_RIGHT, top + _GAP // 2, step.left_out, "4 3"))
                parts.append(f'<path d="M{middle} {(top + y) // 2}H{_RIGHT}" {_STROKE} marker-end="url(#end)"/>')
            parts.append(f'<path d="M{middle} {top}V{y}" {_STROKE} marker-end="url(#end)"/>')
        parts.append(_box(_LEFT, y, step.lines, ""))
        y += _height(step.lines)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y + 12}" viewBox="0 0 {_WIDTH} {y + 12}" '
        'font-family="sans-serif" font-size="13"><title>Flow of cases</title>'
        '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#333"/></marker></defs>'
        f'<rect width="{_WIDTH}" height="{y + 12}" fill="#fff"/>'
    )
    return (head + "".join(parts) + "</svg>\n").encode()


_STROKE = 'stroke="#333" fill="none"'


def _height(lines: Sequence[str]) -> int:
    return 14 + _LINE * len(_wrapped(lines))


def _wrapped(lines: Sequence[str], width: int = 60) -> list[str]:
    """Return the lines, broken so that each fits its box."""
    made: list[str] = []
    for line in lines:
        made.append("")
        for word in line.split(" "):
            part = word[:width]
            if made[-1] and len(made[-1]) + 1 + len(part) > width:
                made.append("   ")
            made[-1] = f"{made[-1]} {part}" if made[-1].strip() else f"{made[-1]}{part}"
    return made


def _box(x: int, y: int, lines: Sequence[str], dashes: str) -> str:
    rows = [_text(x + 10, y + 6 + _LINE * number, line, "normal")
            for number, line in enumerate(_wrapped(lines), start=1)]  # fmt: skip
    frame = (
        f'<rect x="{x}" y="{y}" width="{_BOX - (0 if x == _LEFT else 20)}" height="{_height(lines)}" fill="#fff" '
        f'stroke="#333" stroke-dasharray="{dashes}"/>'
    )
    return frame + "".join(rows)


def _text(x: int, y: int, words: str, style: str) -> str:
    return f'<text x="{x}" y="{y}" font-style="{style}" fill="#111" xml:space="preserve">{escape(shown(words))}</text>'
