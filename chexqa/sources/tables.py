"""Reader of CSV tables of any length: all rows one by one, or a single row at its byte offset."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from chexqa.files.errors import InputError, unreadable
from chexqa.files.opening import open_binary
from chexqa.files.terminal import progress

# The run lengths of the largest radiographs exceed the csv module's default limit of 128 kB a cell.
_LONGEST_CELL = 16_000_000
_STEP = 1 << 20
# First bytes of files that Excel writes and that are not CSV in UTF-8.
_FOREIGN = {b"\xff\xfe": "UTF-16 text", b"\xfe\xff": "UTF-16 text", b"PK\x03\x04": "an Excel workbook"}


class TableRow(NamedTuple):
    """Row of a table: its line number from 1, its byte offset, and its cells (without outer spaces), keyed by
    column.
    """

    line: int
    offset: int
    cells: dict[str, str]


class Table:
    """CSV file in UTF-8 that begins with a line of column names; cells are separated by comma, semicolon or tab.

    A line ``sep=;`` before the names, which some programs write for Excel, is passed over.
    """

    def __init__(self, path: Path, needed: Sequence[str] = ()) -> None:
        """Read the column names; raise ``InputError`` if a column of ``needed`` is missing or a name occurs twice."""
        self.path = path
        csv.field_size_limit(_LONGEST_CELL)
        with _named_errors(path), open_binary(path) as file:
            first = file.readline(_LONGEST_CELL)
            foreign = next((words for mark, words in _FOREIGN.items() if first.startswith(mark)), None)
            if foreign is not None:
                raise InputError(f"{path}: is {foreign}, not a CSV file in UTF-8; in Excel, save it as 'CSV UTF-8'.")
            header = first.decode("utf-8-sig")
            self._skipped = int(header.lower().startswith("sep="))
            if self._skipped:
                header = file.readline(_LONGEST_CELL).decode("utf-8")
            if header.lstrip().startswith(("{", "[")):
                raise InputError(
                    f"{path}: is JSON, but a CSV table with a line of column names is needed here; for COCO JSON use "
                    "'chexqa ingest coco'."
                )
            self._body = file.tell()
            self._delimiter = max(",;\t", key=header.count)
            self.columns = [name.strip() for name in next(csv.reader([header], delimiter=self._delimiter), [])]
        twice = [name for name, count in Counter(self.columns).items() if name and count > 1]
        if twice:
            raise InputError(
                f"{path}: the first line has the column '{twice[0]}' twice; remove or rename one of the two."
            )
        missing = [name for name in needed if name not in self.columns]
        if missing:
            raise InputError(f"{path}: the column '{missing[0]}' is missing; the first line has {self.listed}.")

    @property
    def listed(self) -> str:
        """The column names, joined as text for error messages."""
        return ", ".join(self.columns) or "nothing"

    def rows(self, report: Callable[[InputError], None] | None = None) -> Iterator[TableRow]:
        """Yield every row that is not blank, one at a time, and show a progress bar.

        A row with too many or too few cells is an ``InputError``. If ``report`` is given, it is called with the error
        and the row is skipped; otherwise the error is raised.
        """
        with _named_errors(self.path), open_binary(self.path) as file:
            size = file.seek(0, 2)
            file.seek(self._body)
            lines = _Lines(file)
            reader = csv.reader(lines, delimiter=self._delimiter, strict=True)
            with progress(f"reading {self.path.name} (MB)", size // _STEP) as step:
                steps, offset = 0, self._body
                for cells in reader:
                    line = reader.line_num + 1 + self._skipped
                    if any(cell.strip() for cell in cells):
                        try:
                            yield TableRow(line, offset, self._named(cells, f"{self.path}, line {line}"))
                        except InputError as error:
                            if report is None:
                                raise
                            report(error)
                    offset = lines.offset
                    while (steps + 1) * _STEP <= offset:
                        steps += 1
                        step()

    def row_at(self, offset: int) -> dict[str, str]:
        """Return the cells of the row at the byte ``offset``, which is the offset of a row that :meth:`rows`
        yielded.
        """
        with _named_errors(self.path), open_binary(self.path) as file:
            file.seek(offset)
            reader = csv.reader(_Lines(file), delimiter=self._delimiter, strict=True)
            return self._named(next(reader), str(self.path))

    def _named(self, cells: list[str], where: str) -> dict[str, str]:
        if len(cells) != len(self.columns):
            raise InputError(f"{where}: has {len(cells)} cells under {len(self.columns)} columns; correct the row.")
        return {name: cell.strip() for name, cell in zip(self.columns, cells, strict=True)}


class _Lines:
    """Iterator over the lines of a binary file, as text; ``offset`` is the byte after the line returned last."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.offset = file, file.tell()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._file.readline(_LONGEST_CELL)
        if not line:
            raise StopIteration
        if len(line) == _LONGEST_CELL and not line.endswith(b"\n"):
            raise csv.Error(f"a line is longer than {_LONGEST_CELL:,} bytes")
        self.offset += len(line)
        return line.decode("utf-8")


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Turn the errors of reading a table into an ``InputError`` that names the file."""
    try:
        yield
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; save it as CSV in UTF-8.") from None
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV file ({error}); save it as CSV in UTF-8.") from None
    except OSError as error:
        raise unreadable(path, error) from None
