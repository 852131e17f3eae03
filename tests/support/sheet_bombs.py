"""Small workbooks that would take much time or memory to read; no real program would write them."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
KINDS = "application/vnd.openxmlformats-officedocument.spreadsheetml."

Bomb = Callable[[Path], None]


def sheet(rows: str, more: str = "") -> str:
    return f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData>{more}</worksheet>'


def write(
    path: Path,
    tab: str | bytes,
    *,
    part: str = "xl/worksheets/sheet1.xml",
    texts: str = "",
    styles: str = "",
    tabs: Iterable[str] = ("",),
    compression: int = zipfile.ZIP_DEFLATED,
) -> None:
    """Write a workbook whose tabs are all in one ``part``; with ``tabs``, each ending names one part."""
    endings = list(tabs)
    parts = {ending: part.replace(".", f"{ending}.") for ending in endings}
    about = [(f"/{name}", "worksheet", f"rId{n}") for n, name in enumerate(parts.values(), start=1)]
    extra = {"sharedStrings": texts, "styles": styles}
    about += [(f"/xl/{kind}.xml", kind, f"rId{kind}") for kind, text in extra.items() if text]
    kinds = "".join(f'<Override PartName="{name}" ContentType="{KINDS}{kind}+xml"/>' for name, kind, _ in about)
    links = "".join(f'<Relationship Id="{key}" Type="{OFFICE}/{kind}" Target="{name}"/>' for name, kind, key in about)
    named = "".join(
        f'<sheet name="t{n}" sheetId="{n}" r:id="rId{list(parts).index(ending) + 1}"/>'
        for n, ending in enumerate(endings, start=1)
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType="x"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{KINDS}sheet.main+xml"/>{kinds}</Types>',
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="a" Type="{OFFICE}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
        )
        archive.writestr(
            "xl/workbook.xml", f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{named}</sheets></workbook>'
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{PACKAGE}/relationships">{links}</Relationships>'
        )
        for name in parts.values():
            archive.writestr(name, tab, compression)
        for kind, text in extra.items():
            if text:
                archive.writestr(f"xl/{kind}.xml", text)


def noise(count: int) -> str:
    """Return words that zip cannot compress to a two-hundredth of their size."""
    return "".join(f"{n * 2654435761 % 2**32:08x}" for n in range(count))


def renamed(path: Path) -> None:
    """Write very many cells in a part whose name does not end in .xml."""
    write(path, sheet("<row>" + "<c/>" * 1_100_000 + "</row>"), part="xl/worksheets/sheet1.dat")


def renamed_texts(path: Path) -> None:
    """Write very much text in a part with an unusual name."""
    write(path, sheet("<row><c t='inlineStr'><is><t>" + "0" * 30_000_000 + "</t></is></c></row>"), part="xl/a.png")


def entities_in_utf16(path: Path) -> None:
    """Write entities in an encoding in which their declaration has other bytes."""
    declared = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "ha" * 50}">' for n in range(4))
    text = f'<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE worksheet [{declared}]>' + sheet(
        "<row><c t='inlineStr'><is><t>&e3;</t></is></c></row>"
    )
    write(path, text.encode("utf-16"))


def one_part_for_many_tabs(path: Path) -> None:
    """Write a few cells in a part that many tabs share, so that the cells are read many times."""
    write(path, sheet("<row><c><v>1</v></c></row>" * 50), tabs=[""] * 400)


def wide_rows(path: Path) -> None:
    """Write a cell far to the right in each of very many rows."""
    rows = "".join(f'<row r="{n}"><c r="KN{n}"><v>{n * 7919 % 997}</v></c></row>' for n in range(1, 6_800))
    write(path, sheet(rows))


def one_text_everywhere(path: Path) -> None:
    """Write one long text that very many cells refer to."""
    texts = f'<sst xmlns="{MAIN}"><si><t>{"x" * 32_000}</t></si></sst>'
    write(path, sheet(("<row>" + '<c t="s"><v>0</v></c>' * 20 + "</row>") * 150), texts=texts)


def deep(path: Path) -> None:
    """Write elements nested very deeply."""
    write(path, sheet("<row>" * 10_000 + "</row>" * 10_000))


def long_tag(path: Path) -> None:
    """Write one attribute of many megabytes."""
    write(path, sheet(f'<row x="{noise(140_000)}"/>'))


def squeezed(path: Path) -> None:
    """Write a part with a compression that is unpacked without a limit on memory."""
    write(path, sheet("<row/>"), compression=zipfile.ZIP_BZIP2)


def huge_directory(path: Path) -> None:
    """Write a directory of parts that would take gigabytes of objects."""
    write(path, sheet("<row/>"))
    data = path.read_bytes()
    end = data.rindex(b"PK\5\6")
    start = int.from_bytes(data[end + 16 : end + 20], "little")
    entry = data[start : data.index(b"PK\1\2", start + 4)]
    directory = data[start:end] + entry * (20_000_000 // len(entry))
    tail = data[end : end + 12] + len(directory).to_bytes(4, "little") + data[end + 16 :]
    path.write_bytes(data[:start] + directory + tail)


def twins(path: Path) -> None:
    """Write two parts with the same name; some programs read the first one, others the second."""
    write(path, sheet("<row/>"))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("xl/Worksheets/sheet1.xml", sheet("<row><c><v>1</v></c></row>"))


# Each bomb, and words of the message that refuses it.
BOMBS: dict[str, tuple[Bomb, str]] = {
    bomb.__name__: (bomb, words)
    for bomb, words in (
        (renamed, "compressed far more than a sheet"),
        (renamed_texts, "compressed far more than a sheet"),
        (entities_in_utf16, "declares entities"),
        (one_part_for_many_tabs, "two tabs"),
        (wide_rows, "more cells or text"),
        (one_text_everywhere, "more cells or text"),
        (deep, "nests more than"),
        (long_tag, "has a tag or text"),
        (squeezed, "damaged"),
        (huge_directory, "damaged"),
        (twins, "two parts"),
    )
}


# Workbooks that are slow in a general reader, but must be read quickly here.
def styles(count: int) -> str:
    formats = "".join(f'<xf numFmtId="{n}"/>' for n in range(count))
    return f'<styleSheet xmlns="{MAIN}"><cellXfs>{formats}</cellXfs></styleSheet>'


def many_styles(path: Path) -> None:
    write(path, sheet("<row><c s='1'><v>1</v></c></row>"), styles=styles(30_000))


def many_areas(path: Path) -> None:
    """Write a rule for very many areas, which a general reader compares area by area."""
    areas = " ".join(f"A{n}" for n in range(1, 100_000))
    rules = f'<conditionalFormatting sqref="{areas}"/>'
    write(path, sheet("<row><c><v>1</v></c></row>", rules))


HARMLESS: dict[str, Bomb] = {"many_styles": many_styles, "many_areas": many_areas}
