"""The command ``chexqa heatmaps``, which grades localization maps against masks."""

from __future__ import annotations

from pathlib import Path

import click

from chexqa.cli.main import SuggestingGroup
from chexqa.files.errors import InputError
from chexqa.files.opening import real
from chexqa.files.say import say
from chexqa.files.terminal import console, plural, progress

_PATH = click.Path(path_type=Path)
POINTS, OUTLINES = "radiologist points", "radiologist outlines"


@click.group(cls=SuggestingGroup, epilog="Example: chexqa heatmaps grade maps --masks cases.jsonl -o graded")
def heatmaps() -> None:
    """Grade localization maps (saliency, similarity, cross-attention) against masks."""


@heatmaps.command(epilog="Example: chexqa heatmaps grade gradcam_maps_val --masks gt_segmentations_val.json -o graded")
@click.argument("maps", nargs=-1, type=_PATH)
@click.option(
    "--benchmark",
    "bench",
    metavar="BENCH",
    type=_PATH,
    help="Grade the maps on this benchmark's cases; the folder must hold answers.jsonl.",
)
@click.option("--masks", type=_PATH, help="Grade on cases.jsonl, or on CheXlocalize's gt_segmentations_*.json.")
@click.option(
    "--image-root",
    type=_PATH,
    help="Folder that the paths in --masks are relative to, if it is not the manifest's own folder.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="A model's name; give the option once for each of MAPS, in the same order.",
)
@click.option("--points", type=_PATH, help="A radiologist's points (hb_salient_pt_*.json), graded as one more model.")
@click.option(
    "--outlines", type=_PATH, help="A radiologist's outlines (hb_annotations_*.json), graded as one more model."
)
@click.option("--thresholds", "csv", metavar="CSV", type=_PATH,
              help="A CSV of thresholds that were tuned elsewhere (columns finding, threshold).")  # fmt: skip
@click.option("--allow-partial", is_flag=True, help="Score a model with missing maps on the maps it has.")
@click.option("-o", "--out", "output", required=True, metavar="DIR", type=_PATH, help="Folder for the tables.")
def grade(
    maps: tuple[Path, ...],
    bench: Path | None,
    masks: Path | None,
    image_root: Path | None,
    names: tuple[str, ...],
    points: Path | None,
    outlines: Path | None,
    csv: Path | None,
    allow_partial: bool,
    output: Path,
) -> None:
    """Grade localization maps; each folder MAPS holds the maps of one model.

    A map is called CASE_FINDING.npy (.npz, .png) or, as in CheXlocalize, RADIOGRAPH_FINDING_map.pkl. CASE is a case's
    id or the name of its radiograph. No code in a pickled tensor is run. Maps are stretched to the masks' size.
    """
    import polars as pl

    from chexqa.eval.heatmaps import grading, summary, targets

    if (bench is None) == (masks is None):
        raise InputError("give either --benchmark BENCH or --masks FILE: the maps are graded against its masks.")
    named = _named(maps, names)
    marks = {POINTS: (points, grading.grade_points), OUTLINES: (outlines, grading.grade_outlines)}
    given = {name: (path, grader) for name, (path, grader) in marks.items() if path is not None}
    if not named and not given:
        raise InputError("nothing to grade; give folders of maps, --points or --outlines.")
    if bench is not None:
        truth = targets.of_benchmark(bench)
    else:
        assert masks is not None, "one of the two is given"
        truth = targets.of_masks(masks, image_root)
    thresholds = None if csv is None else grading.read_thresholds(csv)
    graded = {}
    for name, folder in named.items():
        with progress(f"grading {name}", len(truth.targets)) as advance:
            graded[name] = grading.grade_maps(name, folder, truth, thresholds, advance)
    for name, (path, grader) in given.items():
        with progress(f"grading {name}", len(truth.targets)) as advance:
            graded[name] = grader(name, path, truth, advance)
    table = summary.summarise(pl.concat([one.rows for one in graded.values()]), allow_partial)
    files = summary.write(output, truth, graded, table, thresholds)
    summary.show(table, truth, graded, console())
    say(f"wrote {plural(len(files), 'file')} to {output}")


def _named(maps: tuple[Path, ...], names: tuple[str, ...]) -> dict[str, Path]:
    """Return the folders of maps by their models' names; without --name, a model is named after its folder."""
    if names and len(names) != len(maps):
        raise InputError(
            f"--name is given {plural(len(names), 'time')} for {plural(len(maps), 'folder')} of maps; give it once for "
            "each folder, or leave it out."
        )
    named = dict(zip(names or [real(path).name for path in maps], maps, strict=True))
    if len(named) < len(maps) or named.keys() & {POINTS, OUTLINES}:
        raise InputError(
            "two models have the same name; give --name once for each folder of maps, with different names."
        )
    return named
