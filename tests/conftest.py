"""What tests share: a handmade benchmark that needs no generator, the real test data and programs where they are.

``CHEXQA_NO_SKIP=1`` turns a skipped test into a failure, so that a machine that should have everything proves it; only
tests on real radiographs, which no public machine holds, may still be skipped.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from chexqa import benchmark, question_banks
from chexqa.items import KINDS, PATH_STAGES, Answer, CaseKey, Item, Option, Picture

COLORS = ("red", "orange", "yellow", "green")
CELLS = [f"{column}{row}" for row in range(1, 9) for column in "ABCDEFGH"]


NO_REAL_DATA = "real test data is not at"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail what was skipped where ``CHEXQA_NO_SKIP`` is set."""
    report = yield
    is_skip = report.skipped and not hasattr(report, "wasxfail") and NO_REAL_DATA not in str(report.longrepr)
    if is_skip and os.environ.get("CHEXQA_NO_SKIP"):
        report.outcome, report.longrepr = "failed", f"skipped, which CHEXQA_NO_SKIP forbids: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real radiographs for tests; the test is skipped where it is absent."""
    folder = Path(os.environ.get("CHEXQA_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"{NO_REAL_DATA} {folder}; set CHEXQA_TEST_DATA to its folder")
    return folder


def _program(*names: str) -> str:
    """Where the first of these programs is; the test is skipped where none is."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"the program {names[0]} is not installed")
    return found


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser for tests of pages."""
    return _program("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def soffice() -> str:
    """LibreOffice, for tests of spreadsheets."""
    return _program("soffice", "libreoffice")


@pytest.fixture(scope="session")
def qemu() -> str:
    """An emulator of other x86-64 processors, for tests that the same bytes come from all of them."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("qemu-x86_64 runs this Python only on Linux on an x86-64 processor")
    return _program("qemu-x86_64")


class Handmade:
    """Builds a small benchmark by hand: known answers, one plain 64 px picture for each use of a picture."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.items: list[Item] = []
        self.answers: list[Answer] = []
        self.cases: list[CaseKey] = []

    def picture(self, role: str, *key: object) -> Picture:
        """A picture whose bytes depend on its role and key, written where a benchmark keeps it."""
        shade = hashlib.sha256(repr((role, *key)).encode()).digest()
        image = np.frombuffer(shade * 128, np.uint8).reshape(64, 64)
        data = cv2.imencode(".png", image)[1].tobytes()
        path = benchmark.image_path(hashlib.sha256(data).hexdigest())
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(data)
        return Picture(role, path)

    def case(
        self,
        name: str,
        finding: str,
        path: Any,
        *,
        patient: str | None = None,
        grid: tuple[int, ...] | None = None,
        access: str = "open",
        measures: dict[str, Any] | None = None,
        **answers: tuple[int, ...],
    ) -> str:
        """Add a case with every item of its path (``grid``: hit cells of a grid item too); returns its id."""
        case_id = "c" + hashlib.sha256(name.encode()).hexdigest()[:12]
        stages = PATH_STAGES[path] if path else ()
        kinds = [kind for kind, about in KINDS.items() if about.stage in stages and about.stage]
        if finding == "cardiomegaly":
            kinds = [kind for kind in kinds if KINDS[kind].stage != 4]
        for kind in kinds:
            self._item(case_id, kind, finding, path, answers.get(kind, (1,)))
        if grid is not None:
            self._item(case_id, "grid_cell", finding, path, grid)
        person = patient or f"patient-{name}"
        self.cases.append(CaseKey(case_id, name, person, None, path, "F", 60, "PA", access, measures or {}))
        return case_id

    def _item(self, case_id: str, kind: str, finding: str, path: Any, answer: tuple[int, ...]) -> None:
        about = KINDS[kind]
        radiograph = self.picture("radiograph", case_id)
        contour, points = self.picture("contour", case_id), self.picture("points", case_id)
        fits = [self.picture("option", case_id, n) for n in range(4)]
        turn, alone = {
            "detection": ([radiograph], [radiograph]),
            "contour_evaluation": ([contour], [radiograph, contour]),
            "revision_expansion": ([points], [radiograph, points]),
            "revision_contraction": ([], [radiograph, points]),
            "revision_result": (fits, [radiograph, contour, *fits]),
            "grid_cell": ([self.picture("grid", case_id)],) * 2,
        }.get(kind, ([], [radiograph]))
        if kind == "revision_result":
            options = [Option(n, image=picture.image) for n, picture in enumerate(fits, start=1)]
        elif kind in ("revision_expansion", "revision_contraction"):
            options = [Option(n, f"the {color} point", color=color) for n, color in enumerate(COLORS, start=1)]
            options.append(Option(len(options) + 1, "at none of the points"))
        else:
            texts = CELLS if kind == "grid_cell" else ["Yes", "No"] if about.stage in (1, 2) else ["a", "b", "c", "d"]
            options = [Option(n, text) for n, text in enumerate(texts, start=1)]
        chance = len(answer) / 64 if kind == "grid_cell" else 1 / len(options)
        if about.multi:
            chance = 2.0 ** -(len(options) - 1)
        item_id = f"{case_id}/{kind}"
        self.items.append(
            Item(
                item_id,
                case_id,
                about.seq,
                kind,
                about.level,
                about.stage,
                finding,
                f"The {kind} of {finding}?",
                tuple(options),
                about.multi,
                tuple(turn),
                tuple(alone),
            )
        )
        self.answers.append(Answer(item_id, answer, chance, chance, path, {}))

    def write(self, data: str = "phantom") -> Path:
        """Write the benchmark's files and return its folder."""
        origin = benchmark.Origin("handmade", "1", 0, ({"name": "handmade"},), question_banks.load("en"), data)
        contents = benchmark.Contents(tuple(self.items), tuple(self.answers), tuple(self.cases))
        benchmark.write_files(self.folder, origin, contents)
        return self.folder


@pytest.fixture
def handmade(tmp_path: Path) -> Handmade:
    """A builder of small benchmarks in the test's own folder."""
    folder = tmp_path / "bench"
    folder.mkdir()
    return Handmade(folder)


@pytest.fixture
def tiny_benchmark(handmade: Handmade) -> Path:
    """Six cases over the three paths: two with a grid item, one cardiomegaly; all ten kinds."""
    handmade.case("a", "effusion", "lesion_free", detection=(2,))
    handmade.case("b", "effusion", "revision_free", contour_evaluation=(2,), location=(1, 3), grid=(10, 11))
    handmade.case("c", "effusion", "revision_required", revision_expansion=(1, 3), revision_contraction=(5,),
                  revision_result=(3,), distribution=(2,), grid=())  # fmt: skip
    handmade.case("d", "cardiomegaly", "revision_required", revision_expansion=(2,), revision_contraction=(1, 4))
    handmade.case("e", "edema", "revision_free", contour_evaluation=(2,), location=(4,), comparison=(4,))
    handmade.case("f", "edema", "lesion_free", detection=(2,))
    return handmade.write()


@pytest.fixture
def det(tmp_path: Path) -> Path:
    """ChestX-Det's layout with two radiographs."""
    from source_files import make_det

    return make_det(tmp_path)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run one command line in this process: ``(exit code, standard output, standard error)``."""
    from chexqa.cli import run

    def call(*args: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run([str(arg) for arg in args])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
