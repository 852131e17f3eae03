"""The command ``chexqa heatmaps``, which makes localization maps and grades them against masks."""

from __future__ import annotations

from collections import Counter
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
    """Make localization maps (saliency, similarity, cross-attention), and grade them against masks."""


@heatmaps.command(
    epilog="Example: chexqa heatmaps make bench --maker biomedclip --weights biomedclip -o biomedclip-maps"
)
@click.argument("cases", metavar="BENCH|CASES", type=_PATH)
@click.option("--maker", "name", required=True, metavar="NAME", help="A model or family that 'heatmaps makers' lists.")
@click.option("--weights", metavar="DIR", type=_PATH, help="Folder with the model's weights; nothing is downloaded.")
@click.option("--plugin", "plugins", multiple=True, metavar="PLUGIN",
              help="A Python file, module or installed plugin that registers map makers.")  # fmt: skip
@click.option("--prompts", "wording", metavar="YAML", type=_PATH, help="Your own wording of the findings.")
@click.option("--domain", type=click.Choice(["cxr", "biomedical", "general"]),
              help="What the model was trained on: chest radiographs (cxr), biomedical pictures or pictures of any "
              "kind; 'heatmaps grade' compares these domains.")  # fmt: skip
@click.option("--device", default="cpu", show_default=True, help="Device of torch, such as cpu or cuda:0.")
@click.option("--batch-size", default=16, show_default=True, type=click.IntRange(1, 4096),
              help="Number of radiographs that the model gets at once.")  # fmt: skip
@click.option(
    "--image-root",
    type=_PATH,
    help="Folder that the paths in CASES are relative to, if it is not the manifest's own folder.",
)
@click.option("-o", "--out", "output", required=True, metavar="MAPS", type=_PATH, help="Folder for the maps.")
def make(
    cases: Path,
    name: str,
    weights: Path | None,
    plugins: tuple[str, ...],
    wording: Path | None,
    domain: str | None,
    device: str,
    batch_size: int,
    image_root: Path | None,
    output: Path,
) -> None:
    """Make a map of every case, also of cases without the finding, and a table of the model's scores.

    A map covers the whole radiograph, even if the model crops its input. Maps that are already in the folder are kept,
    so an interrupted command can be repeated.
    """
    from chexqa.eval.map_makers import registry
    from chexqa.eval.map_makers.cases_to_map import read_cases
    from chexqa.eval.map_makers.make_maps import make_all, origin
    from chexqa.eval.map_makers.prompts import read_prompts
    from chexqa.eval.map_models import model_list

    model_list.register_built_in()
    registry.load_plugins(plugins)
    found = read_cases(cases, image_root)
    chosen = model_list.choose(name, weights)
    prompts = read_prompts(wording)
    about = origin(name, chosen.family, domain or chosen.domain, chosen.weights, prompts, found)
    with progress(f"maps of {name}", len(found.cases)) as advance:
        result = make_all(lambda: chosen.load(device, prompts), about, found, prompts, output, batch_size, advance)
    kept = f"; kept {plural(result.kept, 'existing map')}" if result.kept else ""
    say(f"made {plural(result.made, 'map')} in {output}{kept}")


@heatmaps.command(epilog="Example: chexqa heatmaps makers")
@click.option("--plugin", "plugins", multiple=True, metavar="PLUGIN",
              help="A Python file, module or installed plugin that registers map makers.")  # fmt: skip
def makers(plugins: tuple[str, ...]) -> None:
    """List the map makers: families, and known checkpoints with licence, domain and requirements."""
    from chexqa.eval.map_makers import registry
    from chexqa.eval.map_models import model_list

    model_list.register_built_in()
    registry.load_plugins(plugins)
    model_list.show(console())


@heatmaps.command(epilog="Example: chexqa heatmaps grade gradcam_maps_val --masks gt_segmentations_val.json -o graded")
@click.argument("maps", nargs=-1, type=_PATH)
@click.option(
    "--benchmark",
    "bench",
    metavar="BENCH",
    type=_PATH,
    help="Grade the maps against the masks of this benchmark; it must have its key (answers.jsonl).",
)
@click.option("--masks", type=_PATH,
              help="The masks that the maps are graded against: cases.jsonl, or CheXlocalize's "
              "gt_segmentations_*.json.")  # fmt: skip
@click.option(
    "--image-root",
    type=_PATH,
    help="Folder for relative paths in the manifest given by --masks  [default: the manifest's folder].",
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
@click.option("--allow-partial", is_flag=True, help="Also score a model that lacks some maps, on those that it has.")
@click.option("--workers", type=click.IntRange(1, 256), default=2, show_default=True,
              help="Number of processes; with fewer than 1,000 maps, only one is used.")  # fmt: skip
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
    workers: int,
    output: Path,
) -> None:
    """Grade localization maps; each folder MAPS has the maps of one model.

    A map is called CASE_FINDING.npy (.npz, .png) or, as in CheXlocalize, RADIOGRAPH_FINDING_map.pkl. CASE is a case's
    id or the name of its radiograph. No code in a pickled tensor is run. Maps are stretched to the masks' size.
    """
    import polars as pl

    from chexqa.eval.heatmaps import grading, study, summary, targets

    if (bench is None) == (masks is None):
        raise InputError("give the masks that the maps are graded against: either --benchmark BENCH or --masks FILE.")
    named = _named(maps, names)
    marks = {POINTS: (points, grading.grade_points), OUTLINES: (outlines, grading.grade_outlines)}
    given = {name: (path, grader) for name, (path, grader) in marks.items() if path is not None}
    if not named and not given:
        raise InputError("nothing to grade; name at least one folder of maps, or give --points or --outlines.")
    if bench is not None:
        truth = targets.of_benchmark(bench)
    else:
        assert masks is not None, "one of the two is given"
        truth = targets.of_masks(masks, image_root)
    thresholds = None if csv is None else grading.read_thresholds(csv)
    graded = {}
    if named:
        with progress(f"grading {plural(len(named), 'folder')} of maps", len(truth.targets)) as advance:
            graded = grading.grade_folders(named, truth, thresholds, advance, workers)
    for name, (path, grader) in given.items():
        with progress(f"grading {name}", len(truth.targets)) as advance:
            graded[name] = grader(name, path, truth, advance)
    graded, sweep = study.prepared(graded, named)
    table = summary.summarise(pl.concat([one.rows for one in graded.values()]), allow_partial)
    made = study.study(graded, named, truth, table, sweep)
    files = summary.write(output, truth, graded, table, thresholds) + study.write(output, made, table, truth)
    summary.show(table, truth, graded, console())
    say(f"wrote {plural(len(files), 'file')} to {output}")


def _named(maps: tuple[Path, ...], names: tuple[str, ...]) -> dict[str, Path]:
    """Return the folders of maps, keyed by the names of their models; without ``--name`` a folder's name is the
    model's.
    """
    if names and len(names) != len(maps):
        raise InputError(
            f"--name is given {plural(len(names), 'time')} for {plural(len(maps), 'folder')} of maps; give it once for "
            "each folder, or leave it out."
        )
    models = names or tuple(real(path).name for path in maps)
    taken = Counter([*models, POINTS, OUTLINES])
    if double := next((name for name in models if taken[name] > 1), None):
        raise InputError(
            f"two models have the name '{double}'; give --name once for each folder of maps, with different names."
        )
    return dict(zip(models, maps, strict=True))
