"""Script that makes the pictures of the documentation: ``python docs/pictures.py BENCH REPORT CASE``.

``BENCH`` is a benchmark of phantoms, and ``REPORT`` the report of a run; ``make demo`` makes both. The pictures are
small files: at most 1,200 px wide, with few colours. Four pictures are not made by this script, only passed through
:func:`write`:

- ``report-page.png``: a screenshot, 1400 x 900 px, of the report on 14 simulated models (`benchmarks/report`);
- ``review-page.png`` and ``review-edit.png``: screenshots of a review page, 1366 px wide;
- ``review-sheet.png``: a row of a spreadsheet in LibreOffice.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from chexqa.cli import contact_sheet
from chexqa.contract import benchmark

OUT = Path(__file__).parent / "pictures"
WIDTH, TILE, GAP = 1200, 392, 12
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


def write(picture: Image.Image, name: str, width: int = WIDTH) -> None:
    """Write the picture ``name.png`` in reduced size and with few colours."""
    small = picture.convert("RGB")
    small.thumbnail((width, 10 * width))
    small.quantize(palette=palette(small), dither=Image.Dither.NONE).save(OUT / f"{name}.png", optimize=True)


def tiles(bench: benchmark.Benchmark, case_id: str) -> None:
    """Write one picture for each role (radiograph, outline, points, options, grid), with a case's pictures in a row."""
    parts: dict[str, list[Image.Image]] = {}
    for item in bench.items:
        if item.case_id != case_id:
            continue
        for picture in item.turn_images:
            tile = Image.open(io.BytesIO(bench.image_bytes(picture.image))).convert("RGB")
            tile.thumbnail((TILE, TILE))
            name = "options" if picture.role == "option" else picture.role
            parts.setdefault(name, []).append(tile)
    for name, pictures in parts.items():
        width = sum(tile.width for tile in pictures) + GAP * (len(pictures) - 1)
        sheet, x = Image.new("RGB", (width, max(tile.height for tile in pictures)), "white"), 0
        for tile in pictures:
            sheet.paste(tile, (x, 0))
            x += tile.width + GAP
        write(sheet, name)


def main(bench_folder: Path, report: Path, case: str) -> None:
    """Write every picture that this script makes."""
    OUT.mkdir(exist_ok=True)
    bench = benchmark.load(bench_folder)
    if not bench.is_phantom:
        sys.exit("BENCH is not a benchmark of phantoms; the pictures of the documentation may show only phantoms.")
    case_id = contact_sheet.find_case(bench, case)
    tiles(bench, case_id)
    with tempfile.TemporaryDirectory() as folder:
        sheet = Path(folder) / "case.png"
        contact_sheet.write_sheet(bench, case, sheet)
        write(Image.open(sheet), "case", 760)
    for name, plot in PLOTS.items():
        write(Image.open(report / "plots" / f"{plot}.png"), f"report-{name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
