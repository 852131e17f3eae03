"""``chexqa ingest``: one subcommand for each layout of a data set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from chexqa.cases import MANIFEST
from chexqa.errors import InputError
from chexqa.sources import chexlocalize as chexlocalize_source
from chexqa.sources import masks as masks_source
from chexqa.sources.common import Outcome, Terms
from chexqa.terminal import messages, plural

_PATH = click.Path(path_type=Path)


@click.group()
def ingest() -> None:
    """Write a case manifest from a data set in its own layout.

    Nothing is copied: the manifest holds paths. They start at the manifest's own folder where the data lies inside
    it. Where it does not (a data set that is read-only or on another disk) they start at the data's folder, and the
    command ends by naming that folder, to be given with --image-root to the commands that read the manifest.
    """


def _common(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every source."""
    out = click.option(
        "-o", "--out", required=True, type=_PATH, help=f"The manifest to write; in a folder: its {MANIFEST}."
    )
    access = click.option(
        "--access",
        type=click.Choice(["open", "credentialed"]),
        default="credentialed",
        show_default=True,
        help="credentialed: 'eval' sends the pictures to no remote endpoint. Say open where the data's terms allow it.",
    )
    terms = click.option("--license", "license_", help="The data's licence, kept with every case.")
    return out(access(terms(function)))


@ingest.command()
@click.option("--images", type=_PATH, help="The folder of pictures (PNG, JPEG).")
@click.option("--masks", type=_PATH, help="The folder of masks: <image stem>/<structure>.png.")
@click.option("--table", type=_PATH, help="A CSV with the columns image, mask, finding instead of the folders' layout.")
@click.option("--source", help="The data set's name, kept with every case.")
@_common
def masks(
    images: Path | None,
    masks: Path | None,
    table: Path | None,
    source: str | None,
    out: Path,
    access: str,
    license_: str | None,
) -> None:
    """Pictures and two-valued PNG masks of the same size.

    In folders, <structure> is right_lung, left_lung, heart or a finding; right is the patient's right, the left of
    the picture. Each finding mask becomes a case.

    With --table, each row becomes a case; a row without a mask is an absent finding. More columns: right_lung,
    left_lung, heart, patient_id, study_id, view, sex, age, source, license, access, present. Its paths start at
    --images and --masks, or at the table's folder.
    """
    manifest, terms = _target(out), Terms(access, license_, source)
    if table is not None:
        _tell(manifest, masks_source.from_table(table, images, masks, manifest, terms))
    elif images is not None and masks is not None:
        _tell(manifest, masks_source.from_folders(images, masks, manifest, terms))
    else:
        raise InputError("give --images and --masks, or --table.")


@ingest.command()
@click.argument("root", type=_PATH)
@click.option("--anatomy", type=_PATH, help="A folder of <patientX_studyY_viewZ_side>/<structure>.png.")
@click.option("--labels", type=_PATH, help="A CSV of CheXpert labels (Path or Study, 0 and 1): its 0 are absent cases.")
@click.option("--source", default="CheXlocalize", show_default=True, help="The data set's name, kept with every case.")
@_common
def chexlocalize(
    root: Path, anatomy: Path | None, labels: Path | None, source: str, out: Path, access: str, license_: str | None
) -> None:
    """CheXlocalize: ROOT holds gt_segmentations_*.json or gt_annotations_*.json, and CheXpert/<split>/….

    Each outlined finding of each radiograph becomes a case, its mask is embedded in the manifest.
    """
    manifest, terms = _target(out), Terms(access, license_, source)
    _tell(manifest, chexlocalize_source.ingest(root, manifest, terms, anatomy, labels))


def _target(out: Path) -> Path:
    manifest = out / MANIFEST if out.is_dir() else out
    if manifest.exists():
        raise InputError(f"{manifest}: is there already; remove it or name another file.")
    return manifest


def _tell(manifest: Path, outcome: Outcome) -> None:
    for remark in outcome.remarks:
        messages().print(f"note: {remark}.", soft_wrap=True)
    absent = outcome.cases - outcome.present
    click.echo(
        f"wrote {plural(outcome.cases, 'case')} ({outcome.present:,} present, {absent:,} absent) of "
        f"{plural(len(outcome.images), 'radiograph')} to {manifest}"
    )
    root = f" --image-root {outcome.image_root}" if outcome.image_root is not None else ""
    click.echo(f"next: chexqa generate {manifest}{root} -o BENCH")
