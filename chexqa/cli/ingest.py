"""The command ``chexqa ingest``, with one subcommand for each data set or layout of files."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from chexqa.cli.main import SuggestingGroup
from chexqa.contract.cases import MANIFEST
from chexqa.contract.findings import CHEXPERCEPT_FINDINGS
from chexqa.files.errors import InputError
from chexqa.files.jsonio import exists, is_folder
from chexqa.files.say import argument, say
from chexqa.files.terminal import messages, plural
from chexqa.sources import boxes as boxes_source
from chexqa.sources import chestx_det as chestx_det_source
from chexqa.sources import chexlocalize as chexlocalize_source
from chexqa.sources import coco as coco_source
from chexqa.sources import masks as masks_source
from chexqa.sources import mimic_ils as mimic_ils_source
from chexqa.sources import siim as siim_source
from chexqa.sources.anatomy import Options
from chexqa.sources.annotations import Absent, Labels, read_label_names
from chexqa.sources.case_records import Outcome, Terms

_PATH = click.Path(path_type=Path)
_ANATOMY = (
    "Masks of lungs and heart: a folder of <picture>/<structure>.png, or a CheXmask .csv. A structure is named "
    "right_lung or, as CXAS writes it, 'right lung'. A mask can differ from the picture in size, but not in aspect "
    "ratio. If the option is given twice, and both sources have a mask of a structure, only the pixels in both masks "
    "are used."
)
_KEY_MAP = (
    "A CSV with the columns 'image', a picture's name in the data set, and 'key', the name of the same picture in "
    "--anatomy. Needed only if these names differ."
)
_UNKNOWN = "Give open if the data's terms allow sending pictures to others."


@click.group(cls=SuggestingGroup, epilog="Example: chexqa ingest masks --images images --masks masks -o cases.jsonl")
def ingest() -> None:
    """Write a case manifest from a data set in its own layout.

    No picture is copied: the manifest contains paths. If the data lies inside the manifest's folder, the paths are
    relative to that folder. If the data lies elsewhere, the paths are relative to the data's folder, which the command
    prints. Give the printed folder as --image-root to every command that reads the manifest.
    """


def _common(access: str, why: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of every source; ``why`` is the help text's advice on ``--access``."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--anatomy", type=_PATH, multiple=True, help=_ANATOMY)
        @click.option(
            "--anatomy-key-column", metavar="NAME", help="Column with the pictures' names in the .csv of --anatomy."
        )
        @click.option("--key-map", type=_PATH, help=_KEY_MAP)
        @click.option(
            "--access",
            type=click.Choice(["open", "credentialed"]),
            default=access,
            show_default=True,
            help=f"Who may see the pictures. 'eval' does not send credentialed pictures to remote endpoints. {why}",
        )
        @click.option("--license", "license_", help="The data's licence, kept with every case.")
        @click.option(
            "-o", "--out", required=True, type=_PATH, help=f"The manifest to write, or a folder for {MANIFEST}."
        )
        @wraps(function)
        def command(
            anatomy: tuple[Path, ...], anatomy_key_column: str | None, key_map: Path | None, out: Path, **others: Any
        ) -> None:
            manifest = out / MANIFEST if is_folder(out) else out
            if exists(manifest):
                raise InputError(f"{manifest}: exists already; remove it or name another file.")
            first = anatomy[0] if anatomy else None
            _tell(manifest, function(manifest, Options(first, anatomy_key_column, key_map, anatomy[1:]), **others))

        return command

    return decorate


def _absents(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name pictures without a finding; the command receives their values as ``absent``."""

    @click.option(
        "--absent",
        "absent_file",
        type=_PATH,
        metavar="FILE",
        help="A CSV of absent findings. Column 'image': the picture's name. Column 'finding': the finding that is "
        "absent in the picture; an empty cell means that all findings are absent.",
    )
    @click.option(
        "--absent-unmasked",
        is_flag=True,
        help="In every picture that has no mask of any finding, count all findings of the data set as absent.",
    )
    @wraps(function)
    def command(absent_file: Path | None, absent_unmasked: bool, **others: Any) -> Any:
        return function(absent=Absent(absent_file, absent_unmasked), **others)

    return command


@ingest.command(epilog="Example: chexqa ingest masks --images images --masks masks --access open -o cases.jsonl")
@click.option("--images", type=_PATH, help="The folder of pictures (PNG, JPEG, DICOM).")
@click.option("--masks", type=_PATH, help="The folder of masks: <image stem>/<structure>.png.")
@click.option(
    "--table", type=_PATH, help="A CSV with the columns image, mask and finding, used instead of the folders' layout."
)
@click.option(
    "--mask-frame",
    type=click.Choice(["image", "stretched"]),
    default="image",
    show_default=True,
    help="image: the masks have the pictures' proportions. stretched: the masks were drawn on pictures stretched to a "
    "square.",
)
@click.option(
    "--flat", is_flag=True, help="All masks are in one folder; a_effusion.png is the effusion's mask in picture a.png."
)
@click.option(
    "--label",
    "label",
    multiple=True,
    metavar="VALUE=NAME",
    help="What the masks call a finding or structure. VALUE is a number or a colour (such as #ff0000) in label "
    "maps, a segment's name in DICOM files, and otherwise the name of the mask's file or folder. May be repeated.",
)
@click.option(
    "--label-file",
    type=_PATH,
    metavar="FILE",
    help="The masks are label maps, and FILE names their values: nnU-Net's or MONAI's dataset.json, or a CSV with the "
    "columns label (a value or a colour) and name.",
)
@_absents
@click.option("--source", help="The data set's name, kept with every case.")
@_common("credentialed", _UNKNOWN)
def masks(
    manifest: Path,
    anatomy: Options,
    mask_frame: str,
    flat: bool,
    label: tuple[str, ...],
    label_file: Path | None,
    absent: Absent,
    images: Path | None,
    masks: Path | None,
    table: Path | None,
    source: str | None,
    access: str,
    license_: str | None,
) -> Outcome:
    """Read pictures and black-and-white PNG masks; each mask must have the proportions of its picture.

    By default, the folder of masks contains files <image stem>/<structure>.png or <structure>/<image stem>.png.
    <structure> is right_lung, left_lung, heart or a finding. Right is the patient's right, which is on the left of the
    picture. Each mask of a finding becomes a case. A mask can also be a TIFF, or a NIfTI file with one slice (.nii,
    .nii.gz). Subfolders of --images and --masks are searched, too.

    With --table, each row becomes a case; in a row without a mask the finding is absent. The table can also have the
    columns right_lung, left_lung, heart, patient_id, study_id, view, sex, age, source, license, access, present,
    reference, device, site. Paths in the table are relative to --images and --masks, or to the table's folder.

    With --flat, the masks of a.png are named a_effusion.png, a_right_lung.png and so on, and lie beside their picture
    or in --masks.

    With --label, --masks contains one label map per picture; --label 3=effusion says that pixels of the value 3 are an
    effusion, and --label '#ff0000=effusion' that red pixels are. In a TIFF with several pages, the values are the
    numbers of the pages.

    With --flat or --label, --masks can also contain DICOM SEG files, whose segments are read by their names.

    If --anatomy has masks of a picture, only these are used for its lungs and heart.
    """
    terms = Terms(access, license_, source, mask_frame)
    if table is not None:
        return masks_source.from_table(table, images, masks, manifest, terms, anatomy)
    labels = Labels(label, "--label", read_label_names(label_file) if label_file else None)
    if images is not None and (flat or labels.of_values):
        return masks_source.from_flat(images, masks or images, manifest, terms, anatomy, labels, absent)
    if images is not None and masks is not None:
        return masks_source.from_folders(images, masks, manifest, terms, anatomy, labels, absent)
    what = "masks of findings are not named (--anatomy has lungs and heart alone)" if anatomy.path and images else ""
    raise InputError(f"{what or 'pictures or masks are not named'}; give --images and --masks, or --table.")


def _annotated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of sources that are a file of labels with a folder of pictures."""
    for option in (
        click.argument("file", type=_PATH),
        click.option("--images", type=_PATH, required=True, help="The folder of pictures."),
        click.option("--category", multiple=True, metavar="NAME=FINDING",
                     help="Treat the data set's label NAME as chexqa's finding (or structure) FINDING. May be "
                     "repeated."),
        click.option("--source", help="The data set's name, kept with every case."),
        click.option("--drawn-on", metavar="WIDTHxHEIGHT",
                     help="Size of the pictures on which the polygons and boxes were drawn, if FILE does not state it; "
                     "polygons and boxes are then scaled to the pictures in --images. Give 'pictures' if they were "
                     "drawn on the pictures in --images."),
    ):  # fmt: skip
        function = option(function)
    return _absents(function)


@ingest.command(epilog="Example: chexqa ingest coco coco.json --images images --category Fluid=effusion -o cases.jsonl")
@_annotated
@_common("credentialed", _UNKNOWN)
def coco(manifest: Path, anatomy: Options, file: Path, images: Path, category: tuple[str, ...], absent: Absent,
         source: str | None, drawn_on: str | None, access: str, license_: str | None) -> Outcome:  # fmt: skip
    """Read COCO JSON of object detection, as CVAT, Label Studio, MD.ai and FiftyOne export it.

    FILE has polygons, run lengths or boxes. All shapes of one finding on one picture become one case. A box gives a
    finding's place but not its outline, so a case with boxes is used only by tasks that ask for a place. This command
    also reads MS-CXR.
    """
    terms = Terms(access, license_, source)
    return coco_source.ingest(file, images, manifest, terms, anatomy, Labels(category), absent, drawn_on)


@ingest.command(epilog="Example: chexqa ingest boxes train.csv --images train --absent-unmasked -o cases.jsonl")
@_annotated
@_common("credentialed", _UNKNOWN)
def boxes(manifest: Path, anatomy: Options, file: Path, images: Path, category: tuple[str, ...], absent: Absent,
          source: str | None, drawn_on: str | None, access: str, license_: str | None) -> Outcome:  # fmt: skip
    """Read the boxes of VinDr-CXR (csv), NIH (BBox_List_2017.csv) or PadChest-GR (JSON).

    All boxes of one finding on one picture become one case. A case with boxes is used only for questions that ask
    for a place.
    """
    terms = Terms(access, license_, source)
    return boxes_source.ingest(file, images, manifest, terms, anatomy, Labels(category), absent, drawn_on)


@ingest.command(epilog="Example: chexqa ingest siim train-rle.csv --images dicom-images-train -o cases.jsonl")
@click.argument("file", type=_PATH)
@click.option("--images", type=_PATH, required=True, help="The folder of pictures; subfolders are searched too.")
@click.option("--source", default="SIIM-ACR", show_default=True, help="The data set's name, kept with every case.")
@_common("credentialed", _UNKNOWN)
def siim(manifest: Path, anatomy: Options, file: Path, images: Path, source: str, access: str,
         license_: str | None) -> Outcome:  # fmt: skip
    """Read SIIM-ACR's run lengths of pneumothorax: FILE is a CSV with the columns ImageId, EncodedPixels."""
    return siim_source.ingest(file, images, manifest, Terms(access, license_, source), anatomy)


@ingest.command(epilog="Example: chexqa ingest chexlocalize CheXlocalize --anatomy lungs -o cases.jsonl")
@click.argument("root", type=_PATH)
@click.option(
    "--labels",
    type=_PATH,
    help="A CSV of CheXpert labels, with a column Path or Study. A label 0 becomes a case without the finding.",
)
@click.option("--source", default="CheXlocalize", show_default=True, help="The data set's name, kept with every case.")
@_common("credentialed", _UNKNOWN)
def chexlocalize(
    manifest: Path, anatomy: Options, root: Path, labels: Path | None, source: str, access: str, license_: str | None
) -> Outcome:
    """Read CheXlocalize: ROOT contains gt_segmentations_*.json or gt_annotations_*.json, and CheXpert/<split>/….

    Each outlined finding of each radiograph becomes a case, and its mask is written into the manifest. The lung masks
    that --anatomy gives must name their radiographs as patientX_studyY_viewZ_side; for other names, give --key-map.
    """
    return chexlocalize_source.ingest(root, manifest, Terms(access, license_, source), anatomy, labels)


@ingest.command("chestx-det", epilog="Example: chexqa ingest chestx-det ChestX-Det --anatomy cxas -o cases.jsonl")
@click.argument("root", type=_PATH)
@click.option(
    "--images",
    type=_PATH,
    help="Folder with the pictures, or with the folders train_data and test_data  [default: ROOT].",
)
@click.option(
    "--findings",
    default=",".join(CHEXPERCEPT_FINDINGS),
    show_default=True,
    help="Findings, separated by commas, that count as absent in a radiograph without any outline. Such a radiograph "
    "becomes one case for each of these findings.",
)
@click.option("--source", default="ChestX-Det", show_default=True, help="The data set's name, kept with every case.")
@_common("open", "Anyone may download the data set.")
def chestx_det(
    manifest: Path,
    anatomy: Options,
    root: Path,
    images: Path | None,
    findings: str,
    source: str,
    access: str,
    license_: str | None,
) -> Outcome:
    """Read ChestX-Det: ROOT contains ChestX_Det_train.json or ChestX_Det_test.json, or both.

    All outlines of one finding in one radiograph become one case, and their mask is written into the manifest. The data
    set's pictures come from NIH but have other names. If --anatomy is CheXmask's NIH file, give a --key-map too.
    """
    absent = [name.strip() for name in findings.split(",") if name.strip()]
    return chestx_det_source.ingest(root, manifest, Terms(access, license_, source), images, anatomy, absent)


@ingest.command(
    "mimic-ils", epilog="Example: chexqa ingest mimic-ils mimic-ils --images mimic-cxr-jpg/files -o cases.jsonl"
)
@click.argument("root", type=_PATH)
@click.option("--images", type=_PATH, required=True, help="The folder 'files' of MIMIC-CXR-JPG (p10, p11, …).")
@click.option("--masks", type=_PATH, help="The folder of masks  [default: ROOT/lesion_mask].")
@click.option("--source", default="MIMIC-ILS", show_default=True, help="The data set's name, kept with every case.")
@_common("credentialed", "PhysioNet's terms demand this.")
def mimic_ils(
    manifest: Path,
    anatomy: Options,
    root: Path,
    images: Path,
    masks: Path | None,
    source: str,
    access: str,
    license_: str | None,
) -> Outcome:
    """Read MIMIC-ILS: ROOT contains mimic_ils_instruction_answer.json and lesion_mask.

    Each finding of each study becomes a case. If the finding is present, the case has the mask of type 'global' or, if
    there is none, the first mask of type 'basic'. A negative question-answer pair of type 'global' becomes a case in
    which the finding is absent. The lung masks that --anatomy gives must name their radiographs by dicom_id. The folder
    --images has MIMIC-CXR's subfolders, or it has all pictures without subfolders, named <dicom_id>.png or
    <dicom_id>.jpg. In the folder --masks, predicted masks are <target>/<pair_id>/pred_mask.png.
    """
    return mimic_ils_source.ingest(root, manifest, Terms(access, license_, source), images, masks, anatomy)


def _tell(manifest: Path, outcome: Outcome) -> None:
    for fault in outcome.faults:
        messages().print(f"left out: {fault}.", soft_wrap=True)
    if outcome.more_faults:
        more = plural(outcome.more_faults, "more entry", "more entries")
        messages().print(f"left out as well, but not listed here: {more}.", soft_wrap=True)
    for remark in outcome.remarks:
        messages().print(f"note: {remark}.", soft_wrap=True)
    absent = outcome.cases - outcome.present
    if not absent:
        messages().print(
            "warning: every case shows its finding, so the right answer to 'is the finding present' is "
            "always yes; add cases without the finding"
            f"{' (--absent or --absent-unmasked)' if outcome.layout else ''}.",
            soft_wrap=True, style="yellow",
        )  # fmt: skip
    say(
        f"wrote {plural(outcome.cases, 'case')} ({outcome.present:,} present, {absent:,} absent) of "
        f"{plural(len(outcome.images), 'radiograph')} to {manifest}"
    )
    root = f" --image-root {argument(outcome.image_root)}" if outcome.image_root is not None else ""
    say(f"Next: chexqa generate {argument(manifest)}{root} -o BENCH")
