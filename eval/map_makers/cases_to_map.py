"""Pairs of a radiograph and a finding (present or absent) to make maps of, read from a benchmark or a manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from chexqa.contract import benchmark as benchmarks
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.cases import IMAGE_ROOT_HINT, MANIFEST, Case, read_manifest
from chexqa.contract.items import MARKER, Item
from chexqa.eval.heatmaps.map_files import map_name
from chexqa.files.errors import InputError
from chexqa.files.jsonio import is_file
from chexqa.files.opening import MissingError, real
from chexqa.imaging.read import Gray, decode_png, read_radiograph

RADIOGRAPH = "radiograph"


class CaseToMap(NamedTuple):
    """A radiograph and a finding.

    - ``present``: True or False; None if the benchmark's key is withheld.
    - ``picture``: a name of the radiograph; cases with the same name show the same radiograph.
    - ``read``: a function that returns the radiograph, uint8 ``(H, W)``.
    """

    case_id: str
    finding: str
    present: bool | None
    picture: str
    read: Callable[[], Gray]

    @property
    def file(self) -> str:
        """Return the name of the file that holds the case's map."""
        return map_name(self.case_id, self.finding)


class Cases(NamedTuple):
    """All cases of one source; ``label`` is the source's name."""

    label: str
    cases: tuple[CaseToMap, ...]


def read_cases(path: Path, image_root: Path | None = None) -> Cases:
    """Return the cases of a benchmark's folder, or of a manifest (a file, or its folder).

    Raise ``InputError`` if two cases would have maps of the same name.
    """
    if is_file(path / benchmarks.ABOUT):
        if image_root is not None:
            raise InputError(
                f"--image-root: {path} is a benchmark, which has its own pictures; leave --image-root out."
            )
        found = _of_benchmark(benchmarks.load(path))
    else:
        found = _of_manifest(path, image_root)
    by_file: dict[str, str] = {}
    for case in found.cases:
        first = by_file.setdefault(case.file, case.case_id)
        if first != case.case_id:
            raise InputError(
                f"{path}: the cases '{first}' and '{case.case_id}' would have maps of the same name, {case.file}; "
                "give one of the two cases another id."
            )
    return found


def _of_manifest(path: Path, image_root: Path | None) -> Cases:
    cases = read_manifest(path, image_root)
    label = path.name if path.name != MANIFEST else f"{real(path).parent.name}/{MANIFEST}"

    def made() -> Iterable[CaseToMap]:
        for case in cases:
            read = partial(_read, case)
            yield CaseToMap(case.case_id, case.finding, case.present, str(case.image), read)

    return Cases(label, tuple(made()))


def _read(case: Case) -> Gray:
    try:
        return read_radiograph(case.image)
    except MissingError:
        raise MissingError(
            f"{case.manifest}, line {case.line}: {case.image.name}: no such file; {IMAGE_ROOT_HINT}."
        ) from None


def _of_benchmark(bench: Benchmark) -> Cases:
    """Return each case of a benchmark once, with the radiograph that its questions show.

    Pictures of test markers are left out.
    """
    pictures: dict[str, str | None] = {}
    findings: dict[str, str] = {}
    for item in (item for item in bench.items if item.finding != MARKER):
        findings.setdefault(item.case_id, item.finding)
        pictures[item.case_id] = pictures.get(item.case_id) or _radiograph(item)
    plain = {case: image for case, image in pictures.items() if image is not None}
    if not plain:
        raise InputError(
            f"{bench.folder}: maps need radiographs without drawings, but every question here has lines or marks on "
            f"its radiograph; give the cases ({MANIFEST}) that the benchmark was made from."
        )

    def reader(image: str) -> Callable[[], Gray]:
        return lambda: _grey(bench.image_bytes(image), f"{bench.folder / image}")

    def present(case_id: str) -> bool | None:
        if bench.cases is None:
            return None
        return bench.cases[case_id].measures.get("masks", {}).get("lesion") is not None

    made = (CaseToMap(case, findings[case], present(case), image, reader(image)) for case, image in plain.items())
    return Cases(f"benchmark {bench.name} {bench.about['version']} ({bench.hash[:8]})", tuple(made))


def _radiograph(item: Item) -> str | None:
    shown = (picture.image for picture in item.turn_images + item.alone_images if picture.role == RADIOGRAPH)
    return next(shown, None)


def _grey(data: bytes, where: str) -> Gray:
    array = decode_png(data, where)
    if array.ndim == 3:
        array = np.asarray(cv2.cvtColor(array[..., :3], cv2.COLOR_BGR2GRAY), np.uint8)
    return array
