"""The commands ``synth``, ``validate`` and ``demo``."""

from __future__ import annotations

from pathlib import Path

import click

from chexqa.terminal import PHANTOM_NOTICE, plural, progress


@click.command(epilog="Example: chexqa synth phantoms --cases 63 --seed 7")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--cases", type=int, required=True, help="How many cases: two with the finding for one without.")
@click.option("--seed", type=int, default=0, show_default=True, help="Everything drawn at random depends on it.")
@click.option("--size", type=int, default=1024, show_default=True, help="The pictures' longer side in pixels.")
def synth(out: Path, cases: int, seed: int, size: int) -> None:
    """Draw phantom cases into the new folder OUT: radiographs, anatomy, lesion masks and cases.jsonl."""
    from chexqa.phantoms import write_cases

    with progress("drawing phantoms", cases) as advance:
        manifest = write_cases(out, cases, seed, size, advance)
    click.echo(f"{plural(cases, 'case')}: {manifest} ({PHANTOM_NOTICE})")
    click.echo(f"Next: chexqa generate {out} -o BENCH")
