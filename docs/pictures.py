"""Script that makes every picture of the documentation: ``python docs/pictures.py FOLDER [NAME…]``.

``make pictures`` runs this script. FOLDER holds what ``chexqa demo`` writes: phantoms, their benchmark and a report.
The script makes the folder if it is missing. With a NAME, it makes only the picture of this name and those that are
made together with it. The pictures are small files: at most 1,200 px wide, with few colours.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import screens
from PIL import Image

from chexqa.cli import contact_sheet
from chexqa.contract import benchmark

OUT = Path(__file__).parent / "pictures"
WIDTH, TILE, GAP = 1200, 392, 12
CASE = "p000059"  # the case whose items are shown
PLOTS = {"levels": "levels-end-to-end", "kinds": "kinds-end-to-end", "stages": "stages-end-to-end",
         "grid": "grid-end-to-end"}  # fmt: skip


def palette(picture: Image.Image) -> Image.Image:
    """Return a palette of 48 greys and 64 colours, so that thin coloured lines on a grey picture keep their colours."""
    pixels = np.asarray(picture).reshape(-1, 3)
    colored = pixels[np.ptp(pixels, axis=1) > 24]
    if not len(colored):
        colored = np.zeros((1, 3), np.uint8)
    few = Image.fromarray(colored[None]).quantize(64, method=Image.Quantize.MAXCOVERAGE).getpalette() or []
    greys = [int(grey) for grey in (*np.linspace(0, 235, 47), 255) for _ in range(3)]
    out = Image.new("P", (1, 1))
    out.putpalette(greys + few[: 3 * 64])
    return out


def write(picture: Image.Image, name: str) -> None:
    """Write the picture ``name.png`` in reduced size and with few colours."""
    small = picture.convert("RGB")
    width = WIDTHS.get(name, WIDTH)
    small.thumbnail((width, 10 * width))
    small.quantize(palette=palette(small), dither=Image.Dither.NONE).save(OUT / f"{name}.png", optimize=True)


def tiles(demo: Path, _: Path) -> dict[str, Image.Image]:
    """Return one picture for each role (radiograph, outline, …), with the case's pictures of this role side by side."""
    bench = benchmark.load(demo / "bench")
    case_id = contact_sheet.find_case(bench, CASE)
    parts: dict[str, list[Image.Image]] = {}
    for item in bench.items:
        if item.case_id != case_id:
            continue
        for picture in item.turn_images:
            tile = Image.open(io.BytesIO(bench.image_bytes(picture.image))).convert("RGB")
            tile.thumbnail((TILE, TILE))
            name = "options" if picture.role == "option" else picture.role
            parts.setdefault(name, []).append(tile)
    return {name: in_a_row(pictures) for name, pictures in parts.items()}


def in_a_row(pictures: Sequence[Image.Image]) -> Image.Image:
    """Return pictures side by side on white."""
    width = sum(tile.width for tile in pictures) + GAP * (len(pictures) - 1)
    sheet, x = Image.new("RGB", (width, max(tile.height for tile in pictures)), "white"), 0
    for tile in pictures:
        sheet.paste(tile, (x, 0))
        x += tile.width + GAP
    return sheet


def case_sheet(demo: Path, scratch: Path) -> dict[str, Image.Image]:
    """Return the contact sheet of the case."""
    contact_sheet.write_sheet(benchmark.load(demo / "bench"), CASE, scratch / "case.png")
    return {"case": Image.open(scratch / "case.png")}


def plots(demo: Path, _: Path) -> dict[str, Image.Image]:
    """Return plots of the demo's report."""
    folder = demo / "report" / "plots"
    return {f"report-{name}": Image.open(folder / f"{plot}.png") for name, plot in PLOTS.items()}


Maker = Callable[[Path, Path], Mapping[str, Image.Image]]
# Each maker with the names of the pictures that it returns.
MAKERS: dict[Maker, set[str]] = {
    tiles: {"radiograph", "contour", "points", "options", "grid"},
    case_sheet: {"case"},
    plots: {f"report-{name}" for name in PLOTS},
    screens.report: {"report-page"},
    screens.review: {"review-page", "review-sheet"},
    screens.redrawn: {"review-edit"},
}
WIDTHS = {"case": 760}


def main(demo: Path, names: Sequence[str]) -> None:
    """Write every picture, or the pictures ``names`` and those made together with them.

    ``demo`` is the demo's folder.
    """
    every = set().union(*MAKERS.values())
    if unknown := set(names) - every:
        sys.exit(f"There is no picture {', '.join(sorted(unknown))}; there are {', '.join(sorted(every))}.")
    OUT.mkdir(exist_ok=True)
    if not (demo / "report" / "index.html").exists():
        screens.chexqa("demo", demo)
    for maker, its_names in MAKERS.items():
        if names and not its_names & set(names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            made = maker(demo, Path(folder))
            assert set(made) == its_names, f"{maker.__name__} made {sorted(made)}"
            for name, picture in made.items():
                write(picture, name)
                print(OUT / f"{name}.png", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
