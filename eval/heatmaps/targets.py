"""Targets against which maps are graded: the masks of present findings.

They come from a benchmark, a manifest or CheXlocalize.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chexqa.contract import benchmark as benchmarks
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.cases import MANIFEST, Case, load_case, read_manifest
from chexqa.contract.findings import FINDINGS
from chexqa.contract.items import MARKER
from chexqa.contract.kinds import GRID_CELL
from chexqa.eval.heatmaps.map_files import file_stem
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record
from chexqa.files.opening import real
from chexqa.imaging import grid, masks
from chexqa.sources import chexlocalize

Mask = npt.NDArray[np.bool_]


class Lesion(NamedTuple):
    """The share of the picture that a lesion covers, and the number of its 8-connected components."""

    share: float
    components: int


def lesion_of(mask: Mask) -> Lesion:
    """Return the share of the picture that a lesion ``(H, W)`` covers, and the number of its components."""
    part = np.ascontiguousarray(mask[masks.window(mask)])
    return Lesion(np.count_nonzero(part) / mask.size, masks.components(part, 8)[1])


@dataclass(frozen=True, eq=False)
class Target:
    """One present finding of one radiograph.

    - ``file_stems``: the possible stems of its map's file name, such as ``patient1_study1``; ``_<finding>`` may follow.
    - ``read``: a function that returns the mask, bool ``(H, W)``, not empty. It can be pickled.
    - ``key_cells``: the grid cells that answer the benchmark's grid item, as numbers; None without a grid item.
    - ``picture``: a name that identifies the radiograph.
    - ``source_size``: ``(H, W)`` of the radiograph, if the mask has another size.
    """

    case_id: str
    finding: str
    file_stems: frozenset[str]
    patient_id: str | None
    study_id: str | None
    picture: str
    item_id: str | None
    read: Callable[[], Mask]
    key_cells: tuple[int, ...] | None = None
    source_size: tuple[int, int] | None = None

    def hit_cells(self, mask: Mask) -> tuple[int, ...]:
        """Return the numbers of the grid cells that count as hits.

        These are the cells of the key. Without a key, they are the cells that the mask covers by at least half.
        """
        return grid.hits(grid.coverage(mask), grid.HIT_SHARE) if self.key_cells is None else self.key_cells


@dataclass(frozen=True)
class Truth:
    """All targets of a grading.

    - ``label``: the name of their source in tables.
    - ``is_phantom``: True if the radiographs are phantoms.
    - ``absent``: the targets of cases with an absent finding; their ``read`` must not be called.
    - ``benchmark``: the hash of the benchmark whose key has the masks; None for other masks.
    """

    label: str
    is_phantom: bool
    targets: tuple[Target, ...]
    absent: tuple[Target, ...] = ()
    benchmark: str | None = None


def of_benchmark(folder: Path) -> Truth:
    """Return the masks against which maps are graded, from a benchmark's key.

    The masks have the size of the working image. Raise ``InputError`` if the benchmark's key is withheld.
    """
    benchmark = benchmarks.load(folder)
    answers, cases = benchmark.key("grading maps")
    finding = {item.case_id: item.finding for item in benchmark.items}
    targets: list[Target] = []
    absent: list[Target] = []
    for case in cases.values():
        if finding[case.case_id] == MARKER:
            continue
        rle = case.measures.get("masks", {}).get("lesion")
        answer = answers.get(f"{case.case_id}/{GRID_CELL}")
        size = case.measures.get("source_size")
        (absent if rle is None else targets).append(
            Target(
                case_id=case.case_id,
                finding=finding[case.case_id],
                file_stems=frozenset(
                    _names(case.case_id, finding[case.case_id]) | _names(case.source_case_id, finding[case.case_id])
                ),
                patient_id=case.patient_id,
                study_id=case.study_id,
                picture=str(case.measures.get("image_key") or case.case_id),
                item_id=None if answer is None else answer.item_id,
                read=partial(masks.from_rle, rle, f"{folder / benchmarks.ANSWERS}, case '{case.case_id}'"),
                key_cells=None if answer is None else answer.answer,
                source_size=None if size is None else (size[0], size[1]),
            )
        )
    return Truth(
        _benchmark_label(benchmark), benchmark.is_phantom, _some(targets, folder), tuple(absent), benchmark.hash
    )


def _benchmark_label(benchmark: Benchmark) -> str:
    return f"benchmark {benchmark.name} {benchmark.about['version']} ({benchmark.hash[:8]})"


def of_masks(path: Path, image_root: Path | None = None) -> Truth:
    """Return the masks against which maps are graded, from a manifest or from CheXlocalize's outlines.

    The masks have the size of the original radiograph. ``path`` is a manifest (``cases.jsonl`` or its folder) or a file
    of outlines (``.json``).
    """
    if path.suffix.lower() == ".json":
        return Truth(path.name, False, _some(_of_outlines(path), path))
    cases = list(read_manifest(path, image_root))
    label = path.name if path.name != MANIFEST else f"{real(path).parent.name}/{MANIFEST}"
    return Truth(
        label,
        all(case.source == "phantom" for case in cases),
        _some((_of_case(case, image_root) for case in cases if case.present), path),
        tuple(_of_case(case, image_root) for case in cases if not case.present),
    )


def _of_outlines(path: Path) -> Iterable[Target]:
    for key, outlines in chexlocalize.read_outlines(path).items():
        for finding, rle in outlines.items():
            patient, study, _ = key.split("_", 2)
            yield Target(
                case_id=f"{key}/{finding}",
                finding=finding,
                file_stems=frozenset({key}),
                patient_id=patient,
                study_id=f"{patient}_{study}",
                picture=key,
                item_id=None,
                read=partial(masks.from_rle, rle, f"{path}, {key}, {finding}"),
            )


def _of_case(case: Case, image_root: Path | None) -> Target:
    names = {*_names(case.case_id, case.finding), case.image.stem}
    picture = _picture(case, image_root)
    return Target(
        case.case_id, case.finding, frozenset(names), case.patient_id, case.study_id, picture, None,
        _CaseMask(case),
    )  # fmt: skip


def _picture(case: Case, image_root: Path | None) -> str:
    """Return the radiograph's path in its folder: a name that does not depend on where the data lies."""
    image = real(case.image)
    folders = [real(folder) for folder in (case.manifest.parent, image_root) if folder is not None]
    return next(
        (image.relative_to(folder).as_posix() for folder in folders if image.is_relative_to(folder)), image.name
    )


class _CaseMask:
    """Function that returns the mask of a case; the radiograph is decoded and checked only once."""

    def __init__(self, case: Case) -> None:
        self._case = case

    def __call__(self) -> Mask:
        return masks.from_rle(self._runs, f"{self._case.manifest}, line {self._case.line}")

    @cached_property
    def _runs(self) -> Record:
        mask = load_case(self._case).source_mask
        assert mask is not None, "a present case has a mask"
        return masks.to_rle(mask)


def _names(case_id: str, finding: str) -> set[str]:
    """Return the id of a case, and the radiograph's name if the id has the form ``<radiograph>/<finding>``."""
    radiograph = case_id.removesuffix(f"/{finding}")
    return {case_id, radiograph, PurePosixPath(radiograph).name, file_stem(case_id, finding)}


def _some(targets: Iterable[Target], path: Path) -> tuple[Target, ...]:
    found = tuple(targets)
    if not found:
        raise InputError(f"{path}: no case with a finding has a mask, so maps cannot be graded; give a benchmark, "
                         "manifest or file of outlines that has masks.")  # fmt: skip
    return found


class Directory:
    """An index that finds the target of a map file by the stem of the file's name."""

    def __init__(self, targets: Iterable[Target]) -> None:
        """Enter every target under each of its file stems."""
        self._by_name: dict[str, list[Target]] = {}
        self._spellings = dict(_SPELLINGS)
        for target in targets:
            self._spellings.setdefault(target.finding.lower(), target.finding)
            for name in target.file_stems:
                self._by_name.setdefault(name, []).append(target)

    def find(self, stem: str, where: str) -> Target | None:
        """Return the target for a file's name ``<case id or radiograph>[_<finding>]``; None if there is none.

        The finding can have chexqa's name or CheXlocalize's. Raise ``InputError`` for a name that fits several targets;
        its message begins with ``where``.
        """
        whole = self._by_name.get(stem, [])
        if whole:
            return _only(whole, where)
        for spelling, finding in self._spellings.items():
            if stem.lower().endswith(f"_{spelling}"):
                named = self._by_name.get(stem[: -len(spelling) - 1])
                if named is not None:
                    fitting = [target for target in named if target.finding == finding]
                    return _only(fitting, where) if fitting else None
        return None

    def at(self, radiograph: str, finding: str, where: str) -> Target | None:
        """Return the target of a radiograph's finding; None if there is no target."""
        fitting = [target for target in self._by_name.get(radiograph, []) if target.finding == finding]
        return _only(fitting, where) if fitting else None


def _only(targets: list[Target], where: str) -> Target:
    if len(targets) > 1:
        listed = ", ".join(f"{target.case_id} ({target.finding})" for target in targets[:3])
        raise InputError(
            f"{where}: its name fits {len(targets)} cases ({listed}{', …' if len(targets) > 3 else ''}); rename it to "
            "<case id> or <case id>_<finding>."
        )
    return targets[0]


# Endings of file names in lower case, the longest first, so that lung_opacity is not read as opacity.
_SPELLINGS = {
    spelling: finding
    for name, finding in sorted(
        [*((name, name) for name in FINDINGS), *chexlocalize.FINDINGS.items()], key=lambda pair: -len(pair[0])
    )
    for spelling in (name.lower(), name.lower().replace(" ", "_"))
}
