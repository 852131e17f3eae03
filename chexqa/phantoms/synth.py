"""Phantom cases as files: pictures, masks and the manifest ``cases.jsonl``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chexqa.contract.findings import CHEXPERCEPT_FINDINGS, PHANTOM_FINDINGS
from chexqa.files.atomic import new_folder
from chexqa.files.errors import InputError, suggest, unwritable
from chexqa.files.seeds import stream
from chexqa.files.workers import pool, same_everywhere
from chexqa.imaging import png
from chexqa.phantoms.draw import Phantom, check_size, draw

_ROUNDS = 3  # rounds over the findings in a block; each finding is absent in one round


def _order(cases: int, seed: int, findings: Sequence[str]) -> list[tuple[str, bool]]:
    """Return ``(finding, True if it is present)`` for every case.

    The cases come in blocks, in which each finding is present twice and absent once. A block is three rounds of all
    ``findings``, and a third of them are absent in each round. The order is therefore nearly balanced wherever it ends.
    """
    order: list[tuple[str, bool]] = []
    while len(order) < cases:
        rng = stream(seed, "phantom-order", len(order))
        absent_in = rng.permutation(np.arange(len(findings)) % _ROUNDS)
        for number in rng.permutation(_ROUNDS):
            order += [(findings[place], bool(absent_in[place] != number)) for place in rng.permutation(len(findings))]
    return order[:cases]


def _write_png(path: Path, picture: NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png.encode(picture))


def _write_mask(folder: Path, place: str, mask: NDArray[np.bool_]) -> str:
    _write_png(folder / place, mask.view(np.uint8) * np.uint8(255))
    return place


def _write_case(folder: Path, name: str, phantom: Phantom, patient: str) -> dict[str, object]:
    """Write one case's pictures below ``folder`` and return its line of the manifest."""
    image = f"images/{name}.png"
    _write_png(folder / image, phantom.image)
    anatomy = {part: _write_mask(folder, f"masks/{name}/{part}.png", mask) for part, mask in phantom.anatomy.items()}
    mask = None
    if phantom.lesion is not None:
        mask = _write_mask(folder, f"masks/{name}/{phantom.finding}.png", phantom.lesion)
    return {
        "case_id": name,
        "image": image,
        "finding": phantom.finding,
        "present": phantom.present,
        "mask": mask,
        "anatomy": anatomy,
        "patient_id": patient,
        "study_id": name,
        "view": phantom.view,
        "sex": phantom.sex,
        "age": phantom.age,
        "source": "phantom",
        "license": "CC0-1.0",
        "access": "open",
    }


@same_everywhere()
def _draw_case(folder: Path, number: int, what: tuple[str, bool], seed: int, size: int, twins: bool) -> str:
    """Draw phantom ``number`` into ``folder``, and return its line of the manifest.

    ``what`` is the finding, and True if it is present. With ``twins``, a case with its finding present has a second
    line: the twin without the lesion.
    """
    finding, present = what
    patient = f"p{number + 1:06d}"
    names = {patient: present, **({f"{patient}-twin": False} if twins and present else {})}
    lines = [_write_case(folder, name, draw(seed, number, finding, shown, size), patient)
             for name, shown in names.items()]  # fmt: skip
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)


def _draw_cases(
    folder: Path, order: list[tuple[str, bool]], seed: int, size: int, workers: int, twins: bool
) -> Iterator[str]:
    """Draw all cases in ``workers`` processes (1: in this process), and yield their lines of the manifest in order."""
    rows = range(len(order))
    if workers == 1:
        yield from (_draw_case(folder, number, order[number], seed, size, twins) for number in rows)
        return
    with pool(workers) as executor:
        try:
            yield from executor.map(partial(_draw_case, folder, seed=seed, size=size, twins=twins), rows, order)
        except BrokenProcessPool:
            raise InputError(
                "a worker process died while drawing; give fewer --workers, or free some memory."
            ) from None
        finally:
            executor.shutdown(cancel_futures=True)


def write_cases(
    out: str | Path,
    cases: int,
    seed: int,
    size: int = 1024,
    on_case: Callable[[], None] | None = None,
    workers: int = 1,
    findings: str | Sequence[str] = CHEXPERCEPT_FINDINGS,
    twins: bool = False,
) -> Path:
    """Draw ``cases`` phantom cases into the new folder ``out`` and return the path of its ``cases.jsonl``.

    Every case has a different patient. The same arguments give the same bytes. The folder appears only when it is
    complete.

    - ``size``: the longer side of the radiographs in pixels.
    - ``on_case``: a function that is called after every case.
    - ``workers``: the number of processes.
    - ``findings``: one or several of ``PHANTOM_FINDINGS``. The cases are spread evenly over them, and each finding is
      present in two thirds of its cases.
    - ``twins``: True to add, for each case with the finding, the same radiograph without the lesion, as a further case
      of the patient.
    """
    out, findings = Path(out), [findings] if isinstance(findings, str) else findings
    if cases < 1:
        raise InputError(f"the number of phantom cases must be at least 1, not {cases}.")
    check_size(size)
    for finding in findings:
        if finding not in PHANTOM_FINDINGS:
            raise InputError(f"there are no phantoms of '{finding}'{suggest(finding, PHANTOM_FINDINGS)}.")
    if not findings:
        raise InputError("findings: none is named; name at least one.")
    twice = next((finding for finding in findings if findings.count(finding) > 1), None)
    if twice is not None:
        raise InputError(f"findings: '{twice}' is named twice; name each finding once.")
    if os.path.lexists(out):
        raise InputError(f"{out} exists already; remove it, or name another folder for the phantom cases.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(out, error) from None
    with new_folder(out) as folder:
        lines: list[str] = []
        for line in _draw_cases(folder, _order(cases, seed, findings), seed, size, workers, twins):
            lines.append(line)
            if on_case is not None:
                on_case()
        (folder / "cases.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")
    return out / "cases.jsonl"
