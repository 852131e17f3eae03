"""A real LibreOffice that fills cells in: a macro in a profile of its own types texts into sheets and saves them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import openpyxl
from review_sheets import soffice, titles_of, work_tabs

from chexqa.review import columns

# Fills the cells of a list of jobs: OPEN address, then TYPE tab, column, row and text, then SAVE address.
_MACRO = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE script:module PUBLIC "-//OpenOffice.org//DTD OfficeDocument 1.0//EN" "module.dtd">
<script:module xmlns:script="http://openoffice.org/2000/script" script:name="Filling" script:language="StarBasic">
Sub Work(jobs As String)
  Dim access, stream, document, line, parts
  Dim hidden(0) As New com.sun.star.beans.PropertyValue
  Dim as_xlsx(0) As New com.sun.star.beans.PropertyValue
  hidden(0).Name = "Hidden"
  hidden(0).Value = True
  as_xlsx(0).Name = "FilterName"
  as_xlsx(0).Value = "Calc MS Excel 2007 XML"
  access = createUnoService("com.sun.star.ucb.SimpleFileAccess")
  stream = createUnoService("com.sun.star.io.TextInputStream")
  stream.setInputStream(access.openFileRead(jobs))
  stream.setEncoding("UTF-8")
  Do While Not stream.isEOF()
    line = stream.readLine()
    If line &lt;&gt; "" Then
      parts = Split(line, Chr(9))
      If parts(0) = "OPEN" Then
        document = StarDesktop.loadComponentFromURL(parts(1), "_blank", 0, hidden())
      ElseIf parts(0) = "TYPE" Then
        document.Sheets.getByName(parts(1)).getCellByPosition(CLng(parts(2)), CLng(parts(3))).setString(parts(4))
      ElseIf parts(0) = "SAVE" Then
        document.storeToURL(parts(1), as_xlsx())
        document.close(True)
      End If
    End If
  Loop
  stream.closeInput()
  StarDesktop.terminate()
End Sub
</script:module>
"""
_LIBRARY = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE library:library PUBLIC "-//OpenOffice.org//DTD OfficeDocument 1.0//EN" "library.dtd">
<library:library xmlns:library="http://openoffice.org/2000/library" library:name="Standard" library:readonly="false"
 library:passwordprotected="false"><library:element library:name="Filling"/></library:library>
"""
Said = Callable[[str], Mapping[str, str]]


def fill_in_libreoffice(sheets: Iterable[tuple[Path, Said]], folder: Path) -> None:
    """Let one LibreOffice type into each row of these sheets what ``said`` gives for its id, and save them in place.

    ``folder``: a folder for the program's profile and the list of jobs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    jobs, moved = [], []
    for number, (path, words) in enumerate(sheets):
        saved = folder / f"{number}.xlsx"
        jobs += [f"OPEN\t{path.resolve().as_uri()}", *_typed(path, words), f"SAVE\t{saved.resolve().as_uri()}"]
        moved.append((saved, path))
    (folder / "jobs.txt").write_text("\n".join(jobs) + "\n", encoding="utf-8")
    home = (folder / "profile").resolve()
    program = [soffice(), f"-env:UserInstallation={home.as_uri()}", "--headless", "--norestore"]
    # The first start writes a profile with an empty library, to which the macro is added.
    _run([*program, "--terminate_after_init"])
    standard = home / "user" / "basic" / "Standard"
    (standard / "script.xlb").write_text(_LIBRARY)
    (standard / "Filling.xba").write_text(_MACRO)
    said = _run([*program, f'macro:///Standard.Filling.Work("{(folder / "jobs.txt").resolve().as_uri()}")'])
    for saved, path in moved:
        assert saved.exists(), said
        saved.replace(path)


def _run(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False).stderr


def _typed(path: Path, said: Said) -> list[str]:
    lines = []
    for tab in work_tabs(openpyxl.load_workbook(path, read_only=False)):
        titles = titles_of(tab)
        for row in range(2, tab.max_row + 1):
            for title, text in said(str(tab.cell(row, titles[columns.ID]).value)).items():
                lines.append(f"TYPE\t{tab.title}\t{titles[title] - 1}\t{row - 1}\t{text}")
    return lines
