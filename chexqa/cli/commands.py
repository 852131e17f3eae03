"""The commands ``synth``, ``anatomy``, ``validate``, ``demo``, ``show`` and ``completion``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chexqa.files.errors import EXIT_INPUT, EXIT_OK, InputError
from chexqa.files.say import argument, say
from chexqa.files.terminal import PHANTOM_NOTICE, messages, plural, progress

if TYPE_CHECKING:
    from chexqa.segmentation.fill_in import Filled


@click.command(epilog="Example: chexqa synth phantoms --cases 63 --seed 7")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--cases", type=int, required=True, help="Number of cases; two thirds of them show their finding.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of every random choice.")
@click.option("--size", type=int, default=1024, show_default=True, help="Longer side of the pictures in pixels.")
@click.option(
    "--findings",
    metavar="A,B|all",
    help="Findings to draw; 'all' draws all ten  [default: CheXpercept's seven].",
)
@click.option(
    "--twins", is_flag=True, help="For each case that shows its finding, also draw a twin without the lesion."
)
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Number of processes.")
def synth(out: Path, cases: int, seed: int, size: int, findings: str | None, twins: bool, workers: int) -> None:
    """Draw phantom cases into the new folder OUT: radiographs, anatomy, lesion masks and cases.jsonl."""
    from chexqa.contract.findings import CHEXPERCEPT_FINDINGS, PHANTOM_FINDINGS
    from chexqa.phantoms import write_cases

    drawn = CHEXPERCEPT_FINDINGS if findings is None else tuple(part.strip() for part in findings.split(","))
    if findings == "all":
        drawn = PHANTOM_FINDINGS
    with progress("drawing phantoms", cases) as advance:
        manifest = write_cases(out, cases, seed, size, advance, workers, drawn, twins)
    say(f"{plural(cases, 'case')}: {manifest} ({PHANTOM_NOTICE})")
    say(f"Next: chexqa generate {argument(out)} -o BENCH")


@click.command(epilog="Example: chexqa anatomy cases.jsonl --onnx lungs.onnx -o with-lungs.jsonl")
@click.argument("cases", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="The manifest to write.")
@click.option("--with", "function", metavar="MODULE:FUNCTION",
              help="A Python function that returns a mask or probabilities for each structure.")  # fmt: skip
@click.option("--onnx", type=click.Path(path_type=Path), metavar="FILE", help="A model as an ONNX file.")
@click.option("--channel", multiple=True, metavar="STRUCTURE=N",
              help="Output channel N of the ONNX model is the mask of STRUCTURE: right_lung, left_lung, heart or lungs "
              "(both). May be repeated.")  # fmt: skip
@click.option("--activation", type=click.Choice(["sigmoid", "softmax", "none"]), default="sigmoid", show_default=True,
              help="The function that turns the ONNX model's output into probabilities.")  # fmt: skip
@click.option("--values", type=float, nargs=2, default=(0.0, 1.0), show_default=True, metavar="BLACK WHITE",
              help="The ONNX model's input values for black and for white.")  # fmt: skip
@click.option("--fit", type=click.Choice(["stretch", "pad"]), default="stretch", show_default=True,
              help="How a picture is fitted to the size of the ONNX model's input.")  # fmt: skip
@click.option(
    "--size",
    type=click.IntRange(32, 4096),
    help="Side of the ONNX model's input in pixels, if the model accepts any size  [default: 512].",
)
@click.option(
    "--image-root",
    type=click.Path(path_type=Path),
    help="Folder that the manifest's paths are relative to, if it is not the manifest's own folder.",
)
def anatomy(
    cases: Path, out: Path, function: str | None, onnx: Path | None, channel: tuple[str, ...], activation: Any,
    values: tuple[float, float], fit: Any, size: int | None, image_root: Path | None,
) -> None:  # fmt: skip
    """Add missing lung and heart masks to CASES (a manifest) with a segmentation model of your own.

    Existing masks are never replaced. New masks are marked as predicted. Items on attributes (stage 4) of cases with
    predicted lungs carry the flag predicted_lungs, so that reviewers get these items. Look at the new masks before you
    use them.
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
            raise InputError(
                "--channel is only for an ONNX model, since a Python function names the structures itself; leave "
                "--channel out."
            )
        model = PythonModel(str(function))
    with progress("asking the model", fill_in.count(cases, image_root)) as advance:
        filled = fill_in.fill_in(cases, out, model, image_root, advance)
    _tell_filled(filled, out)


def _tell_filled(filled: Filled, out: Path) -> None:
    for fault in filled.faults:
        messages().print(f"left out: {fault}.", soft_wrap=True)
    if filled.more_faults:
        more = plural(filled.more_faults, "more entry", "more entries")
        messages().print(f"left out as well, but not listed here: {more}.", soft_wrap=True)
    if filled.laterals:
        messages().print(
            f"note: no lung masks were made for {plural(filled.laterals, 'lateral view')}.", soft_wrap=True
        )
    for name, number in filled.missed.items():
        messages().print(f"note: the model found no {name} in {plural(number, 'case')}.", soft_wrap=True)
    if filled.doubtful:
        many = plural(len(filled.doubtful), "pair of lungs looks", "pairs of lungs look")
        messages().print(
            f"note: {many} wrong, the first in {filled.doubtful[0]}; look at the masks.", soft_wrap=True, style="yellow"
        )
    added = ", ".join(f"{number} {name}" for name, number in filled.structures.items()) or "nothing"
    say(f"masks added to {filled.changed:,} of {plural(filled.cases, 'case')} ({added}): {out}")
    root = f" --image-root {argument(filled.image_root)}" if filled.image_root is not None else ""
    say(f"Look at the masks: chexqa review export {argument(out)}{root} --what masks -o SHEETS --reviewers NAME")
    say(f"Next: chexqa generate {argument(out)}{root} -o BENCH")


@click.command(epilog="Example: chexqa validate bench")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--image-root",
    type=click.Path(path_type=Path),
    help="Folder that the manifest's paths are relative to, if it is not the manifest's own folder.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "github"]),
    default="text",
    show_default=True,
    help="text: print one line for each problem. github: print problems as annotations of a GitHub workflow.",
)
@click.option(
    "--benchmark", "bench", metavar="DIR", type=click.Path(path_type=Path),
    help="For a file of predictions: check its items and options against this benchmark; the key is not needed.",
)  # fmt: skip
def validate(path: Path, image_root: Path | None, form: str, bench: Path | None) -> int:
    """Check PATH, and list every problem that is found.

    PATH is a folder (a benchmark, a run, a review, a report, cases) or a file in one of chexqa's formats, such as a
    recipe, a question bank, a file of models or a file of predictions.
    """
    from chexqa.cli.validate import annotation, validate_predictions
    from chexqa.cli.validate import validate as check

    try:
        verdict = check(path, image_root) if bench is None else validate_predictions(path, bench)
    except InputError as error:
        if form == "github":
            for part in error.parts or (str(error),):
                say(annotation(part, path))
        raise
    for problem in verdict.problems:
        if form == "github":
            say(annotation(problem, path))
        else:
            say(f"problem: {problem}", err=True)
    for remark in verdict.remarks:
        say(remark, err=True)
    say(f"{path}: {verdict.summary}")
    if verdict.problems:
        say(f"{plural(len(verdict.problems), 'problem')}{verdict.meaning}.", err=True)
        return EXIT_INPUT
    return EXIT_OK


@click.command(epilog="Example: chexqa demo")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("chexqa-demo"))
def demo(folder: Path) -> None:
    """Run all steps, from cases to a report, with drawn phantoms as cases and the offline baselines as models.

    All results are written to FOLDER (default: chexqa-demo).
    """
    from chexqa.cli.demo import demo as run_demo

    run_demo(folder)


@click.command(epilog="Example: chexqa show bench p000007 -o case.png")
@click.argument("bench", type=click.Path(path_type=Path))
@click.argument("name", metavar="ITEM|CASE", required=False)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The PNG to write  [default: CASE.png].")
@click.option("--run", "runs", type=click.Path(path_type=Path), multiple=True,
              help="Also draw the points and boxes that the models of this run gave. May be repeated.")  # fmt: skip
def show(bench: Path, name: str | None, out: Path | None, runs: tuple[Path, ...]) -> None:
    """Draw a contact sheet of one case of BENCH: its pictures, questions, right answers and measured anatomy.

    Name the case by its id, by its id in the manifest (such as x1/effusion), or by the id of one of its items. Without
    a name, or for an unknown one, the error lists known ones.
    """
    from chexqa.cli.contact_sheet import find_case, no_case_given, write_sheet
    from chexqa.contract import benchmark
    from chexqa.eval.scoring.grade import load_runs

    if out is not None and out.suffix.lower() != ".png":
        raise InputError(f"{out}: a contact sheet is a PNG; give a name that ends in .png.")
    loaded, asked = load_runs(runs, bench) if runs else (benchmark.load(bench), ())
    if name is None:
        raise no_case_given(loaded)
    out = out or Path(f"{find_case(loaded, name)}.png")
    write_sheet(loaded, name, out, asked)
    say(f"Contact sheet: {out}")


@click.command(epilog="Example: chexqa completion bash")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that lets SHELL complete commands, options, models and recipes.

    \b
    bash: eval "$(chexqa completion bash)"    in ~/.bashrc
    zsh:  eval "$(chexqa completion zsh)"     in ~/.zshrc, after compinit
    fish: chexqa completion fish | source     in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None, "click knows the three shells"
    say(made(ctx.find_root().command, {}, "chexqa", "_CHEXQA_COMPLETE").source())
