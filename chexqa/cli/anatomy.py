"""``chexqa anatomy``: missing lungs and hearts from a segmentation model that the user has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chexqa.files.errors import InputError
from chexqa.files.say import say
from chexqa.files.terminal import messages, plural, progress

if TYPE_CHECKING:
    from chexqa.segmentation.fill_in import Filled

_PATH = click.Path(path_type=Path)


@click.command(epilog="Example: chexqa anatomy cases.jsonl --onnx lungs.onnx -o with-lungs.jsonl")
@click.argument("cases", type=_PATH)
@click.option("-o", "--out", type=_PATH, required=True, help="The manifest to write.")
@click.option("--with", "function", metavar="MODULE:FUNCTION",
              help="A function from a radiograph (H, W) to masks or probabilities by structure.")  # fmt: skip
@click.option("--onnx", type=_PATH, metavar="FILE", help="A model as an ONNX file.")
@click.option("--channel", multiple=True, metavar="STRUCTURE=N",
              help="The channel of right_lung, left_lung, heart or lungs (both). May be repeated.")  # fmt: skip
@click.option("--activation", type=click.Choice(["sigmoid", "softmax", "none"]), default="sigmoid", show_default=True,
              help="What makes probabilities of the ONNX model's numbers.")  # fmt: skip
@click.option("--values", type=float, nargs=2, default=(0.0, 1.0), show_default=True, metavar="BLACK WHITE",
              help="The ONNX model's input for black and for white.")  # fmt: skip
@click.option("--fit", type=click.Choice(["stretch", "pad"]), default="stretch", show_default=True,
              help="How a picture is brought to the ONNX model's size.")  # fmt: skip
@click.option("--size", type=click.IntRange(32, 4096), help="The ONNX model's side, if it takes any  [default: 512].")
@click.option("--image-root", type=_PATH, help="Folder of the manifest's paths, if not its own.")
def anatomy(
    cases: Path, out: Path, function: str | None, onnx: Path | None, channel: tuple[str, ...], activation: Any,
    values: tuple[float, float], fit: Any, size: int | None, image_root: Path | None,
) -> None:  # fmt: skip
    """Fill in the lungs and hearts that CASES (a manifest) lacks, from a segmentation model of your own.

    A mask that is there is never replaced. New ones are marked as predicted: items on such lungs carry the flag
    predicted_lungs, so that reviewers get them. Look at them before you use them.
    """
    from chexqa.segmentation import fill_in
    from chexqa.segmentation.onnx_model import OnnxModel, OnnxOptions, channels_of
    from chexqa.segmentation.python_model import PythonModel

    if (function is None) == (onnx is None):
        raise InputError("give a model: either --with MODULE:FUNCTION or --onnx FILE.")
    model: fill_in.Model
    if onnx is not None:
        options = OnnxOptions(channels_of(channel), activation, values, fit, size)
        model = OnnxModel(onnx, options)
    else:
        if channel:
            raise InputError("--channel is for --onnx; the function names the structures itself.")
        model = PythonModel(str(function))
    with progress("asking the model", fill_in.count(cases, image_root)) as advance:
        filled = fill_in.fill_in(cases, out, model, image_root, advance)
    _tell(filled, out)


def _tell(filled: Filled, out: Path) -> None:
    for fault in filled.faults:
        messages().print(f"left out: {fault}.", soft_wrap=True)
    if filled.more_faults:
        messages().print(f"left out: {plural(filled.more_faults, 'more entry', 'more entries')}.", soft_wrap=True)
    if filled.laterals:
        messages().print(f"note: {plural(filled.laterals, 'lateral view')} got no lungs.", soft_wrap=True)
    for name, number in filled.missed.items():
        messages().print(f"note: the model found no {name} in {plural(number, 'case')}.", soft_wrap=True)
    if filled.doubtful:
        many = plural(len(filled.doubtful), "pair of lungs looks", "pairs of lungs look")
        messages().print(f"note: {many} wrong, such as {filled.doubtful[0]}.", soft_wrap=True, style="yellow")
    added = ", ".join(f"{number} {name}" for name, number in filled.structures.items()) or "nothing"
    say(f"{plural(filled.changed, 'case')} of {filled.cases} filled in ({added}): {out}")
    root = f" --image-root {filled.image_root}" if filled.image_root is not None else ""
    say(f"Look at them: chexqa review export {out}{root} --what masks -o SHEETS --reviewers NAME")
    say(f"Next: chexqa generate {out}{root} -o BENCH")
