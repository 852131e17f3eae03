"""Filling of sheets by a real LibreOffice: a program for its own Python types texts into cells and saves the sheets."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import openpyxl
import pytest
from review_sheets import soffice, titles_of, work_tabs

from chexqa.review import columns

# Runs in a Python that has LibreOffice's module uno; its arguments are a pipe's name and the list of jobs.
_TYPIST = """
import sys, time, uno
from com.sun.star.beans import PropertyValue
from com.sun.star.connection import NoConnectException
from com.sun.star.lang import DisposedException
pipe, jobs = sys.argv[1:]
local = uno.getComponentContext()
resolver = local.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", local)
for _ in range(600):
    try:
        context = resolver.resolve(f"uno:pipe,name={pipe};urp;StarOffice.ComponentContext")
        break
    except NoConnectException:
        time.sleep(0.2)
desktop = context.ServiceManager.createInstanceWithContext("com.sun.star.frame.Desktop", context)
def option(name, value):
    made = PropertyValue()
    made.Name, made.Value = name, value
    return made
for line in open(jobs, encoding="utf-8"):
    what, *rest = line.rstrip("\\n").split("\\t")
    if what == "OPEN":
        document = desktop.loadComponentFromURL(rest[0], "_blank", 0, (option("Hidden", True),))
    elif what == "TYPE":
        tab, column, row, text = rest
        document.Sheets.getByName(tab).getCellByPosition(int(column), int(row)).setString(text)
    elif what == "SORT":
        sheet, window = document.Sheets.getByName(rest[0]), document.CurrentController
        window.setActiveSheet(sheet)
        window.select(sheet.getCellRangeByPosition(*map(int, rest[1:])))
        helper = context.ServiceManager.createInstanceWithContext("com.sun.star.frame.DispatchHelper", context)
        helper.executeDispatch(window.Frame, ".uno:SortDescending", "", 0, ())
    elif what == "SAVE":
        filter = "calc8" if rest[0].endswith(".ods") else "Calc MS Excel 2007 XML"
        document.storeToURL(rest[0], (option("FilterName", filter),))
        document.close(True)
try:
    desktop.terminate()
except DisposedException:
    pass  # it has ended before it could answer
"""
Said = Callable[[str], Mapping[str, str]]


def fill_in_libreoffice(sheets: Iterable[tuple[Path, Said]], folder: Path) -> None:
    """Let LibreOffice type into each row of these sheets the cells that ``said`` returns for its id; save the sheets in
    place.

    ``folder`` holds the profile of LibreOffice and the list of jobs.
    """
    jobs, moved = [], []
    for number, (path, words) in enumerate(sheets):
        saved = folder / f"{number}.xlsx"
        jobs += [f"OPEN\t{path.resolve().as_uri()}", *_typed(path, words), f"SAVE\t{saved.resolve().as_uri()}"]
        moved.append((saved, path))
    _work(jobs, folder, [saved for saved, _ in moved])
    for saved, path in moved:
        saved.replace(path)


def sort_in_libreoffice(path: Path, said: Said, titles: tuple[str, str], saved: Sequence[Path], folder: Path) -> None:
    """Let LibreOffice fill in a sheet as :func:`fill_in_libreoffice` does, and sort, by its button, the cells of the
    columns from one title to another in every work tab; save it as each of the files ``saved``.
    """
    jobs = []
    for out in saved:
        jobs += [f"OPEN\t{path.resolve().as_uri()}", *_typed(path, said)]
        for tab in work_tabs(openpyxl.load_workbook(path)):
            first, last = (titles_of(tab)[title] - 1 for title in titles)
            jobs.append(f"SORT\t{tab.title}\t{first}\t1\t{last}\t{tab.max_row - 1}")
        jobs.append(f"SAVE\t{out.resolve().as_uri()}")
    _work(jobs, folder, saved)


def _work(jobs: Iterable[str], folder: Path, saved: Iterable[Path]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "jobs.txt").write_text("\n".join(jobs) + "\n", encoding="utf-8")
    home, pipe = (folder / "profile").resolve(), f"chexqa-{os.getpid()}"
    command = [soffice(), f"-env:UserInstallation={home.as_uri()}", "--headless", "--norestore",
               f"--accept=pipe,name={pipe};urp;"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        typist = [python_with_uno(), "-c", _TYPIST, pipe, str(folder / "jobs.txt")]
        done = subprocess.run(typist, capture_output=True, text=True, timeout=1800, check=False)
        try:
            program.wait(60)
        except subprocess.TimeoutExpired:
            program.terminate()
    assert all(path.exists() for path in saved), done.stderr  # LibreOffice may end before it tells the program so


def python_with_uno() -> str:
    """Return the path of a Python that can control LibreOffice; skip the test if there is none."""
    for name in ("/usr/bin/python3", shutil.which("python3"), sys.executable):
        if not name or not Path(name).exists():
            continue
        if subprocess.run([name, "-c", "import uno"], capture_output=True, check=False).returncode == 0:
            return name
    pytest.skip("no Python here has LibreOffice's module uno")


def _typed(path: Path, said: Said) -> list[str]:
    lines = []
    for tab in work_tabs(openpyxl.load_workbook(path, read_only=False)):
        titles = titles_of(tab)
        for row in range(2, tab.max_row + 1):
            for title, text in said(str(tab.cell(row, titles[columns.ID]).value)).items():
                lines.append(f"TYPE\t{tab.title}\t{titles[title] - 1}\t{row - 1}\t{text}")
    return lines
