"""The subject of a review: a benchmark's items, or the masks of a manifest or benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from chexqa.contract import benchmark, read_run
from chexqa.contract.cases import MANIFEST, Case, read_manifest
from chexqa.contract.read_run import Turn
from chexqa.eval.places.drawn_places import Answerer, first_turns
from chexqa.files.errors import InputError
from chexqa.files.opening import real, sha256_of
from chexqa.review.columns import check_authors
from chexqa.review.sheets.masks_sheet import Subject, from_benchmark, from_manifest
from chexqa.review.sheets.questions import Questions, made_from


class Source(NamedTuple):
    """The benchmark or manifest under review, as in ``review.json``; ``version`` is ``None`` for a manifest."""

    name: str
    version: str | None
    hash: str
    path: Path
    phantom: bool
    canary: str


def questions(
    path: Path, manifest: Path | None, image_root: Path | None, runs: Sequence[Path] = ()
) -> tuple[Source, Questions]:
    """Read the benchmark at ``path``; return its entry for ``review.json``, and its questions with their key.

    - ``manifest``: the manifest that the benchmark was made from; None if the user names none.
    - ``runs``: the folders of runs whose points and boxes are drawn beside the proposals (:func:`answers_in`).
    """
    if (path / MANIFEST).is_file() or path.suffix == ".jsonl":
        raise InputError(f"{path}: contains cases, not questions; give --what masks, or name a benchmark's folder.")
    bench = benchmark.load(path)
    bench.key("'chexqa review export'")
    told = answers_in(bench, runs)
    return bench_source(bench), Questions(bench, sources=_sources(bench, manifest, image_root), told=told)


def answers_in(bench: benchmark.Benchmark, runs: Sequence[Path]) -> dict[str, list[tuple[Answerer, Turn]]]:
    """Return the answers that ``runs`` gave to items asking for a place, keyed by item id.

    Raises ``InputError`` for a run of another benchmark, and if no item of the benchmark asks for a place.
    """
    if runs and not any(item.form.is_place for item in bench.items):
        raise InputError(f"--run {runs[0]}: no question of {bench.folder} asks for a place; leave out this option.")
    loaded = [read_run.load(folder) for folder in runs]
    for run in loaded:
        if run.about["benchmark"]["hash"] != bench.hash:
            raise InputError(
                f"--run {run.folder}: is a run of another benchmark than {bench.folder}; name another run."
            )
    return {name: told for name, told in first_turns(loaded).items() if bench.item[name].form.is_place}


def _sources(bench: benchmark.Benchmark, manifest: Path | None, image_root: Path | None) -> dict[str, Case]:
    """Return the lines of the manifest that a benchmark was made from; empty if no manifest is given."""
    if manifest is not None:
        lines = read_manifest(manifest, image_root)
        check_authors(lines)
        return made_from(bench, lines)
    if image_root is not None:
        raise InputError("--image-root: a benchmark holds its own pictures; leave out this option, or give --manifest.")
    return {}


def bench_source(bench: benchmark.Benchmark) -> Source:
    """Return the entry for a benchmark in the batch file ``review.json``."""
    about = bench.about
    return Source(bench.name, about["version"], bench.hash, bench.folder, bench.is_phantom, about["canary"])


def mask_source(path: Path, image_root: Path | None, manifest: Path | None = None) -> tuple[Source, list[Subject]]:
    """Read the manifest or benchmark at ``path``; return its entry for ``review.json``, and its masks.

    - ``image_root``: the folder that the manifest's paths are relative to.
    - ``manifest``: the manifest that the benchmark was made from, if given.
    """
    if (path / benchmark.ABOUT).is_file():
        bench = benchmark.load(path)
        source, subjects = bench_source(bench), from_benchmark(bench, _sources(bench, manifest, image_root))
    else:
        if manifest is not None:
            raise InputError(
                f"--manifest: is only used with a benchmark, but {path} is a manifest itself; leave out --manifest."
            )
        cases = read_manifest(path, image_root)
        check_authors(cases)
        file = path / MANIFEST if path.is_dir() else path
        phantom = any(case.source == "phantom" for case in cases)
        source = Source(real(file.parent).name + "/" + file.name, None, sha256_of(file), path, phantom, "")
        subjects = from_manifest(cases)
    return source, subjects
