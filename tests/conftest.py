"""What tests share: a handmade benchmark that needs no generator, the real test data and programs where they are.

``CHEXQA_NO_SKIP=1`` turns a skipped test into a failure, so that a machine that should have everything proves it; only
tests on real radiographs, which no public machine holds, may still be skipped.
"""

from __future__ import annotations

import gc
import os
import platform
import shutil
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from handmade import Handmade, six_cases
from hypothesis import settings

# A busy machine makes any example slow; how long things take is measured in benchmarks/.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
NO_REAL_DATA = "real test data is not at"


def pytest_collection_finish() -> None:
    """Leave what collecting made out of all later garbage collections: it lives as long as the process.

    Collections are also rarer than usual, since they would take a twentieth of the time.
    """
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail what was skipped where ``CHEXQA_NO_SKIP`` is set."""
    report = yield
    is_skip = report.skipped and not hasattr(report, "wasxfail") and NO_REAL_DATA not in str(report.longrepr)
    if is_skip and os.environ.get("CHEXQA_NO_SKIP"):
        report.outcome, report.longrepr = "failed", f"skipped, which CHEXQA_NO_SKIP forbids: {report.longrepr}"
    return report


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a long text by its length: ids of megabytes are written and sent to the workers again and again."""
    return f"{argname} of {len(val)}" if isinstance(val, str | bytes) and len(val) > 200 else None


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


@pytest.fixture
def handmade(tmp_path: Path) -> Handmade:
    """A builder of small benchmarks in the test's own folder."""
    folder = tmp_path / "bench"
    folder.mkdir()
    return Handmade(folder)


@pytest.fixture(scope="session")
def six_written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that :func:`tiny_benchmark` copies; no test changes it."""
    return six_cases(Handmade(tmp_path_factory.mktemp("six")))


@pytest.fixture
def tiny_benchmark(six_written: Path, tmp_path: Path) -> Path:
    """Six cases over the three paths: two with a grid item, one cardiomegaly; all ten kinds."""
    return shutil.copytree(six_written, tmp_path / "bench", dirs_exist_ok=True)


@pytest.fixture
def det(tmp_path: Path) -> Path:
    """ChestX-Det's layout with two radiographs."""
    from source_files import make_det

    return make_det(tmp_path)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run one command line in this process: ``(exit code, standard output, standard error)``."""
    from chexqa.cli.main import run

    def call(*args: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run([str(arg) for arg in args])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports and grades in a fraction of the time, for tests that look at neither plots nor intervals."""
    from quick_report import hurry

    hurry(monkeypatch)
