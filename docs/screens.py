"""Pictures of the documentation that show a screen: pages in Chromium, and a spreadsheet in LibreOffice.

``docs/pictures.py`` calls the functions of this module. Each function returns pictures keyed by name, made from the
cases and the benchmark in a demo's folder.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openpyxl
from openpyxl.worksheet.header_footer import HeaderFooter
from openpyxl.worksheet.properties import PageSetupProperties
from PIL import Image, ImageOps

from chexqa.cli.contact_sheet import find_case
from chexqa.contract import benchmark
from chexqa.review.columns import COMMENT, CORRECTED, FIX, ID, REASON, VERDICT, item_row_id

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[1]
# Models and questions of the report, and the cases of the two reviews.
MODELS, ITEMS = 14, 4_880
JUDGED = ("p000031", "p000022", "p000005", "p000028", "p000044")
REDRAWN = ("p000059", "p000005", "p000022", "p000028", "p000044")
ON_PAGE, ON_SHEET, ON_EDITOR = "p000031", "p000022", "p000059"
REPORT_WINDOW, REVIEW_WINDOW = (1400, 900), (1366, 660)
# The reviewer's entries in the yellow cells of the sheet.
FILLED = {VERDICT: FIX, CORRECTED: "1", REASON: "wrong answer", COMMENT: "too little in the upper zone"}
PRINTED_DPI = 200


def program(package: str, *names: str) -> str:
    """Return the path of the first of the programs ``names`` that is installed.

    If none is installed, end the script with a message that names ``package``.
    """
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        sys.exit(f"The program {names[0]} is not installed, and some pictures need it; install {package}.")
    return found


def run(*words: object) -> None:
    """Run a program with its arguments; the script ends if the program fails."""
    subprocess.run([str(word) for word in words], check=True)


def chexqa(*words: object) -> None:
    """Run a ``chexqa`` command."""
    run(sys.executable, "-c", "from chexqa.cli.main import main; main()", *words)


@contextmanager
def window(page: Path, size: tuple[int, int]) -> Iterator[Page]:
    """Yield a page that is open in a window of Chromium; ``size`` is the window's (width, height) in pixels."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("Playwright is not installed, and some pictures need it; install the extra 'dev'.")
    chromium = program("Chromium", "chromium", "chromium-browser", "google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": size[0], "height": size[1]})
        shown.set_default_timeout(120_000)
        shown.goto(page.resolve().as_uri())
        yield shown
        browser.close()


def screenshot(page: Page) -> Image.Image:
    """Return what the window shows, once its pictures are decoded."""
    page.wait_for_timeout(1000)
    return Image.open(io.BytesIO(page.screenshot()))


def report(demo: Path, scratch: Path) -> dict[str, Image.Image]:
    """Return the first screen of a report on simulated models, which ``benchmarks/report/folder.py`` writes."""
    script = ROOT / "benchmarks" / "report" / "folder.py"
    run(sys.executable, script, demo / "bench", "-o", scratch / "report", "--items", ITEMS, "--models", MODELS)
    with window(scratch / "report" / "index.html", REPORT_WINDOW) as page:
        return {"report-page": screenshot(page)}


def review(demo: Path, scratch: Path) -> dict[str, Image.Image]:
    """Return a row of a review page, and a row of the review sheet with the same items."""
    bench = benchmark.load(demo / "bench")
    rows = {name: item_row_id(f"{find_case(bench, name)}/location") for name in (ON_PAGE, ON_SHEET)}
    chosen = scratch / "judged.txt"
    chosen.write_text("".join(f"{find_case(bench, name)}\n" for name in JUDGED), encoding="utf-8")
    out = scratch / "sheets"
    chexqa("review", "export", bench.folder, "-o", out, "--reviewers", "anna", "--overlap", 0, "--cases", chosen,
           "--planted", 0, "--page", "--source-pixels", "--manifest", demo / "cases")  # fmt: skip
    with window(out / "pages" / "anna" / "review.html", REVIEW_WINDOW) as page:
        _show(page, rows[ON_PAGE])
        for layer, key in (("outline", "o"), ("zones", "z")):
            if page.get_attribute(f"#{layer}", "aria-pressed") != "true":
                page.keyboard.press(key)
        page.keyboard.press("a")
        taken = screenshot(page)
    return {"review-page": taken, "review-sheet": printed_row(out / "anna" / "anna.xlsx", rows[ON_SHEET], scratch)}


def redrawn(demo: Path, scratch: Path) -> dict[str, Image.Image]:
    """Return a review page on which an outline is being redrawn with the brush."""
    chosen, out = scratch / "redrawn.txt", scratch / "masks"
    chosen.write_text("\n".join(REDRAWN) + "\n", encoding="utf-8")
    chexqa("review", "export", demo / "cases", "--what", "masks", "-o", out, "--reviewers", "anna", "--cases", chosen,
           "--page-only", "--source-pixels")  # fmt: skip
    with window(out / "pages" / "anna-masks" / "review.html", REVIEW_WINDOW) as page:
        _show(page, f"m-{ON_EDITOR}")
        page.keyboard.press("e")
        points = [point.bounding_box() for point in page.locator("circle.point").all()]
        places = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in points if box]
        x, y = max(places, key=sum)  # the lowest point on the right
        page.keyboard.press("4")
        page.mouse.move(x - 45, y - 25)
        page.mouse.down()
        page.mouse.move(x, y + 15, steps=8)
        page.mouse.up()
        return {"review-edit": screenshot(page)}


def _show(page: Page, row: str) -> None:
    """Let a review page show a row, and wait until its pictures have been on the screen."""
    page.wait_for_selector("body[data-ready]")
    number = page.evaluate("id => DATA.rows.findIndex((one) => one.id === id)", row)
    page.evaluate("number => show(number)", number)
    page.wait_for_selector(f"body[data-shown='{number}']")


def printed_row(sheet: Path, row_id: str, scratch: Path) -> Image.Image:
    """Return a filled-in row of a review sheet with its titles, as LibreOffice prints it."""
    book = openpyxl.load_workbook(sheet)
    for tab in book.worksheets:
        titles = {str(cell.value): cell.column for cell in tab[1] if cell.value}
        ids = (
            [cell.value for column in tab.iter_cols(titles[ID], titles[ID]) for cell in column] if ID in titles else []
        )
        if row_id in ids:
            _keep_row(tab, ids.index(row_id) + 1, titles)
            book.active = tab
        else:
            tab.sheet_state = "hidden"
    book.save(scratch / "row.xlsx")
    soffice, pdftoppm = program("LibreOffice", "soffice", "libreoffice"), program("poppler-utils", "pdftoppm")
    profile = f"-env:UserInstallation={(scratch / 'profile').resolve().as_uri()}"
    quiet = [soffice, profile, "--headless", "--norestore"]
    run(*quiet, "--convert-to", "pdf", "--outdir", scratch, scratch / "row.xlsx")
    run(pdftoppm, "-r", PRINTED_DPI, "-png", "-singlefile", scratch / "row.pdf", scratch / "row")
    printed = Image.open(scratch / "row.png").convert("RGB")
    return printed.crop(ImageOps.invert(printed).getbbox())


def _keep_row(tab: Any, row: int, titles: dict[str, int]) -> None:
    """Fill a row in, and let the tab print this row and the titles alone, up to the column of comments."""
    for title, text in FILLED.items():
        tab.cell(row, titles[title]).value = text
    for number in range(2, tab.max_row + 1):
        tab.row_dimensions[number].hidden = number != row
    tab._images = [picture for picture in tab._images if picture.anchor._from.row == row - 1]
    tab.print_area = f"A1:{tab.cell(row, titles[COMMENT]).coordinate}"
    tab.print_options.headings = True
    tab.page_setup.orientation = "landscape"
    tab.page_setup.fitToHeight = tab.page_setup.fitToWidth = 1
    tab.sheet_properties.pageSetUpPr = PageSetupProperties(fitToPage=True)
    tab.HeaderFooter = HeaderFooter()
