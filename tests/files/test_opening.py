"""One way to open a file: what is no regular file, leads out of its folder or is too large ends in one sentence."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from handmade import Handmade
from modules import FILES

from chexqa import question_banks
from chexqa.contract import benchmark, cases, read_run
from chexqa.eval.heatmaps.map_files import read_map
from chexqa.eval.models import registry
from chexqa.eval.report import build
from chexqa.eval.report import write as report
from chexqa.eval.runs import cost_estimate, turn_log
from chexqa.files import jsonio, limits, locks, opening
from chexqa.files.errors import InputError
from chexqa.generators.audit import card
from chexqa.generators.pipeline import checkpoint, recipe
from chexqa.imaging import dicom, masks, png
from chexqa.imaging import read as imaging
from chexqa.interchange import release
from chexqa.review.collect.read_csv import read_csv
from chexqa.review.collect.read_xlsx import read_workbook
from chexqa.review.collect.title_rows import read_files, sheet_files
from chexqa.review.collect.verdicts import load_batch, read_store
from chexqa.review.sheets.questions import Questions
from chexqa.sources import chexlocalize, mimic_ils, tables

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")

PICTURE, KEY = "images/a.png", "effusion_1"
MASK = {"polygons": [[[9, 9], [40, 9], [40, 40], [9, 40]]]}


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail instead of waiting for ever."""

    def give_up(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def case_line(**fields: Any) -> str:
    case = {"case_id": "c", "image": PICTURE, "finding": "effusion", "present": True, "mask": MASK, "anatomy": {},
            **dict.fromkeys(("patient_id", "study_id", "view", "sex", "age", "license")), "source": "s",
            "access": "open", **fields}  # fmt: skip
    return json.dumps(case) + "\n"


def make_lab(home: Path) -> None:
    """Every kind of file that is read, good or not: none of these is to be reached."""
    (home / "bench").mkdir()
    made = Handmade(home / "bench")
    made.case("a", "effusion", "lesion_free")
    made.write()
    bench = benchmark.load(home / "bench")
    for item in bench.items:
        for image in item.image_paths:
            thumb = home / "bench" / benchmark.thumb_path(image)
            thumb.parent.mkdir(parents=True, exist_ok=True)
            thumb.write_bytes(bench.thumb_bytes(image) if not thumb.exists() else thumb.read_bytes())
    shutil.copytree(home / "bench", home / "release")
    for name in ("run/turns", "images", "maps", "sheets", f"release/chexpercept/{KEY}", "partial", "report"):
        (home / name).mkdir(parents=True)
    pixels = np.arange(64 * 64, dtype=np.uint8).reshape(64, 64)
    for name in (PICTURE, "a.dcm", f"release/chexpercept/{KEY}/a.png", "maps/a_effusion.png"):
        (home / name).write_bytes(png.encode(pixels))
    for name, box in {"m.png": np.s_[20:40, 8:20], "lung.png": np.s_[4:60, 4:28]}.items():
        mask = np.zeros_like(pixels)
        mask[box] = 255
        (home / name).write_bytes(png.encode(mask))
    anatomy = {"right_lung": "lung.png"}
    (home / "cases.jsonl").write_text(case_line(mask="m.png", anatomy=anatomy))
    (home / "sheets/s.csv").write_text("id,verdict\n")
    for name in ("x.json", "x.yaml", "x.jsonl", "x.csv", "x.xlsx", "run/run.json", "run/turns/m.jsonl", "run/run.lock",
                 "sheets/review.json", "sheets/verdicts.jsonl", "sheets/s.xlsx", "release/chexpercept.json",
                 "maps/a.npy", "maps/a.npz", "maps/a.pkl", "partial/job.json", "partial/survey.jsonl",
                 "partial/lock", "report/report.json", "bench/CHANGES.md", "bench/README.md"):  # fmt: skip
        (home / name).write_text("")


def case_of(home: Path) -> cases.Case:
    return cases.read_manifest(home)[0]


def picture_of(home: Path) -> str:
    return benchmark.load(home / "bench").items[0].alone_images[0].image


def locked(path: Path) -> None:
    with locks.locked(path):
        pass


class Place(NamedTuple):
    """A file in the lab (``picture``, ``thumb``: a benchmark's), what reads it, and whether it must lie inside."""

    file: str
    read: Callable[[Path], object]
    inside: bool = True


# The name of what is read, where it is, how it is read, and whether its folder must hold it.
PLACES = {
    "a manifest that is named": Place("cases.jsonl", lambda home: cases.read_manifest(home / "cases.jsonl"), False),
    "a manifest in a folder": Place("cases.jsonl", cases.read_manifest),
    "a case's picture": Place(PICTURE, lambda home: cases.load_case(case_of(home))),
    "a case's mask": Place("m.png", lambda home: cases.load_case(case_of(home))),
    "a case's lung": Place("lung.png", lambda home: cases.load_case(case_of(home))),
    "a radiograph": Place(PICTURE, lambda home: imaging.read_radiograph(home / PICTURE), False),
    "a mask": Place("m.png", lambda home: masks.read_mask_png(home / "m.png"), False),
    "a DICOM file": Place("a.dcm", lambda home: dicom.read(home / "a.dcm", 10**6), False),
    "benchmark.json": Place("bench/benchmark.json", lambda home: benchmark.load(home / "bench")),
    "items.jsonl": Place("bench/items.jsonl", lambda home: benchmark.load(home / "bench")),
    "answers.jsonl": Place("bench/answers.jsonl", lambda home: benchmark.load(home / "bench")),
    "skipped.jsonl": Place("bench/skipped.jsonl", lambda home: benchmark.load(home / "bench")),
    "a benchmark's picture": Place("picture", lambda home: benchmark.check_images(benchmark.load(home / "bench"))),
    "a picture's size": Place("picture", lambda home: benchmark.load(home / "bench").image_size(picture_of(home))),
    "a picture's head": Place("picture", lambda home: cost_estimate.png_size(
        home / "bench" / picture_of(home), home / "bench")),
    "a picture for a sheet": Place("picture", lambda home: Questions(benchmark.load(home / "bench")).place(
        picture_of(home), home)),
    "a thumbnail": Place("thumb", lambda home: benchmark.load(home / "bench").thumb_bytes(picture_of(home))),
    "a review's changes": Place("bench/CHANGES.md", lambda home: card._changes(home / "bench")),
    "run.json": Place("run/run.json", lambda home: read_run.read_about(home / "run")),
    "a turn log": Place("run/turns/m.jsonl", lambda home: read_run.read_log(home / "run/turns/m.jsonl")),
    "a turn log to write on": Place("run/turns/m.jsonl", lambda home: turn_log.Log(home / "run/turns/m.jsonl")),
    "a run's lock": Place("run/run.lock", lambda home: locked(home / "run/run.lock")),
    "a partial folder's records": Place("partial/survey.jsonl",
                                        lambda home: checkpoint.RecordStore(home / "partial/survey.jsonl").close()),
    "a partial folder's job": Place("partial/job.json", lambda home: checkpoint._claim(home / "partial", {})),
    "review.json": Place("sheets/review.json", lambda home: load_batch(home / "sheets")),
    "a verdict store": Place("sheets/verdicts.jsonl", lambda home: read_store(home / "sheets")),
    "a sheet in a folder": Place("sheets/s.xlsx", lambda home: problems(home / "sheets")),
    "a csv sheet in a folder": Place("sheets/s.csv", lambda home: problems(home / "sheets")),
    "a sheet": Place("x.xlsx", lambda home: read_workbook(home / "x.xlsx"), False),
    "a csv sheet": Place("x.csv", lambda home: read_csv(home / "x.csv", ()), False),
    "a table": Place("x.csv", lambda home: list(tables.Table(home / "x.csv").rows()), False),
    "a data set's JSON": Place("x.json", lambda home: chexlocalize.read_outlines(home / "x.json"), False),
    "a data set's JSON, bit by bit": Place("x.json", lambda home: list(mimic_ils.grandchildren(home / "x.json")),
                                           False),
    "a recipe": Place("x.yaml", lambda home: recipe.load(str(home / "x.yaml")), False),
    "a question bank": Place("x.yaml", lambda home: question_banks.load(str(home / "x.yaml")), False),
    "a models file": Place("x.yaml", lambda home: registry.load(home / "x.yaml"), False),
    "predictions": Place("x.jsonl", lambda home: list(jsonio.read_jsonl(home / "x.jsonl", "prediction")), False),
    "a release": Place("release/chexpercept.json", lambda home: release.read_release(home / "release")),
    "a release's picture": Place(f"release/chexpercept/{KEY}/a.png", lambda home: release._Reader(
        home / "release", home / "out", "open").picture(KEY, "a.png")),
    "a report's index": Place("report/report.json", lambda home: report.earlier(home / "report")),
    **{f"a map {ending}": Place(f"maps/a{ending}", lambda home, ending=ending: read_map(home / f"maps/a{ending}"))
       for ending in (".npy", ".npz", ".pkl", "_effusion.png")},
}  # fmt: skip


def problems(folder: Path) -> None:
    """What was wrong with the sheets in a folder, as the error it was."""
    found = [problem for problem in read_files(sheet_files([folder])).problems if "titles" not in problem.text
             and "'id'" not in problem.text and "damaged" not in problem.text]  # fmt: skip
    if found:
        raise InputError(f"{found[0].file}: {found[0].text}.")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("lab")
    make_lab(home)
    return home


def put(kind: str, path: Path, real: Path) -> str:
    """Put something else into a file's place; returns what the error says of it."""
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        here = os.open(path.parent, os.O_RDONLY)
        before = os.open(".", os.O_RDONLY)
        os.fchdir(here)  # a socket's path may have no more than a hundred characters
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
        os.fchdir(before)
        os.close(here)
        os.close(before)
    elif kind == "a link to a device":
        path.symlink_to("/dev/zero")
    elif kind == "a link to a folder":
        path.symlink_to(path.parent)
    elif kind == "a link to itself":
        path.symlink_to(path.name)
    elif kind == "a link that leads out":
        path.symlink_to(real)
    else:
        with path.open("wb") as file:
            file.truncate(2**40)  # a hole: it takes no room on the disk
    return path.name


KINDS = ("a pipe", "a socket", "a link to a device", "a link to a folder", "a link to itself", "a link that leads out",
         "a file without end")  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_what_is_no_plain_file_in_its_folder_is_refused_in_one_sentence(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(limits, "MAX_LINE_CHARACTERS", 2**16)
    monkeypatch.setattr(tables, "_LONGEST_CELL", 2**16)
    monkeypatch.setattr(mimic_ils, "_LONGEST_VALUE", 2**16)
    place = PLACES[name]
    image = picture_of(lab)
    file = {"picture": f"bench/{image}", "thumb": f"bench/{benchmark.thumb_path(image)}"}.get(place.file, place.file)
    path, real = lab / file, tmp_path / "real"
    shutil.move(path, real)
    with ExitStack() as stack:
        stack.callback(shutil.move, real, path)
        for kind in KINDS:
            put(kind, path, real)
            try:
                if not _is_fine(place, path, kind):
                    with at_most(10), pytest.raises(InputError) as caught:
                        place.read(lab)
                    said = str(caught.value)
                    assert path.name in said, kind
                    assert said.endswith((".", "?")), kind
                    assert "\n" not in said, kind
            finally:
                path.unlink()


def _is_fine(place: Place, path: Path, kind: str) -> bool:
    """A user's own path may be a link that leads out, and a lock's content is not read."""
    leads_out = kind == "a link that leads out" and not place.inside
    return leads_out or (kind == "a file without end" and path.suffix == ".lock")


def test_what_the_user_names_may_be_a_link_and_a_link_inside_a_folder_stays_one(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/a").write_text("a")
    (folder / "b").symlink_to("sub/a")
    (folder / "other").symlink_to("sub")
    (tmp_path / "named").symlink_to(folder)
    for path in (folder / "b", folder / "other/a", folder / "sub/../sub/a"):
        assert opening.read_whole(path, 1, folder) == opening.read_whole(path, 1) == b"a"
    assert opening.read_whole(tmp_path / "named/b", 1, tmp_path / "named") == b"a"
    here = Path.cwd()
    os.chdir(folder)
    try:
        assert opening.read_whole(Path("sub/a"), 1, Path()) == opening.read_whole(Path("b"), 1, Path()) == b"a"
    finally:
        os.chdir(here)


def test_a_folder_on_the_way_that_leads_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder2").mkdir()
    (tmp_path / "folder2/secret").write_text("nobody may see this")
    (tmp_path / "folder/sub").symlink_to(tmp_path / "folder2")
    for path in ("sub/secret", "../folder2/secret"):
        with pytest.raises(
            InputError, match=r"secret: is a link that leads out of .*folder; replace the link with the file itself"
        ):
            opening.read_whole(tmp_path / "folder" / path, 99, tmp_path / "folder")


def test_a_file_that_grows_or_says_it_is_empty_is_read_no_further_than_its_bound(tmp_path: Path) -> None:
    path = Path("/proc/self/status")
    if path.is_file():
        assert path.stat().st_size == 0
        assert opening.read_whole(path, 2**20).startswith(b"Name:")
        with pytest.raises(InputError, match="status: is larger than 0 MB"):
            opening.read_whole(path, 99)
    (tmp_path / "x").write_bytes(b"x" * 100)
    assert opening.read_whole(tmp_path / "x", 100) == b"x" * 100
    with pytest.raises(InputError, match="x: is larger than"):
        opening.read_whole(tmp_path / "x", 99)


def test_what_a_shell_hands_over_as_a_pipe_is_refused(tmp_path: Path) -> None:
    ends = os.pipe()
    try:
        with at_most(10), pytest.raises(InputError, match=r"^/dev/fd/\d+: is a pipe or device; give a file\.$"):
            opening.read_whole(Path(f"/dev/fd/{ends[0]}"), 99)
    finally:
        for end in ends:
            os.close(end)
    for name in ("-", "a\0b", "x" * 300):
        with pytest.raises(InputError, match=r"no such file|cannot be read"):
            opening.read_whole(tmp_path / name, 99)


def test_nothing_is_left_open(lab: Path) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    for path in (lab / "cases.jsonl", lab / "nowhere", lab, lab / "bench/items.jsonl/x"):
        for inside in (None, lab):
            try:
                opening.read_whole(path, 2**20, inside)
            except InputError:
                continue
    assert len(list(Path("/dev/fd").iterdir())) <= before  # another test's files may be closed meanwhile


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """A stranger's link in the place of a lock, log, temporary file, picture or folder changes no other file."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "a.txt").write_text("mine")
    (mine / "b").mkdir()
    (mine / "b/c.jpg").write_text("mine")
    out = tmp_path / "out"
    (out / "gallery").mkdir(parents=True)
    link = out / "link"
    link.symlink_to(mine / "a.txt")
    for write in (locked, turn_log.Log, checkpoint.RecordStore):
        with pytest.raises(InputError, match="link: is a link, and chexqa does not write through links; remove it"):
            write(link)
    jsonio.write_bytes(out / "report.json", b"{}")
    jsonio.write_lines(out / "report.json", [{}])
    jsonio.write_bytes(link, b"theirs")
    (out / "plots").symlink_to(mine)
    with pytest.raises(InputError, match=r"plots: a link leads out of .*, and nothing is written outside"):
        report._check_own(out, ["plots/a.svg"])
    (out / "turns").symlink_to(mine)
    with pytest.raises(InputError, match="turns: a link leads out of"), turn_log.opened(out, "m"):
        pass
    (out / card.FIGURES).symlink_to(mine)
    with pytest.raises(InputError, match="a link leads out of"), card.prepared(out):
        pass
    assert sorted(path.name for path in mine.rglob("*")) == ["a.txt", "b", "c.jpg"]
    assert {path.read_text() for path in mine.rglob("*.*")} == {"mine"}


def test_a_report_removes_no_picture_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "mine/2024").mkdir(parents=True)
    (tmp_path / "mine/2024/me.jpg").write_text("mine")
    for place in ("gallery/thumbs", "gallery/thumbs/b"):
        folder = tmp_path / place.replace("/", "-")
        (folder / place).parent.mkdir(parents=True)
        (folder / place).symlink_to(tmp_path / "mine" / ("2024" if place.endswith("b") else ""))
        with pytest.raises(InputError, match="a link leads out of"):
            build._remove_pictures(folder, folder)
    assert (tmp_path / "mine/2024/me.jpg").read_text() == "mine"


def test_a_device_is_replaced_by_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe: cannot be written \(a pipe or device has this name"):
        jsonio.write_bytes(tmp_path / "pipe", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_second_name_is_that_of_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_text("a")
    (tmp_path / "in/b").symlink_to("a")
    opening.link_or_copy(tmp_path / "in/a", tmp_path / "one", 9, tmp_path / "in")
    opening.link_or_copy(tmp_path / "in/b", tmp_path / "two", 9, tmp_path / "in")
    assert (tmp_path / "one").samefile(tmp_path / "in/a")
    assert not (tmp_path / "two").is_symlink()
    assert (tmp_path / "two").read_text() == "a"


# What opens a file, given its path: functions by their name, whatever they belong to, and by their whole name.
OPENERS = {
    "open", "fdopen", "FileIO", "read_text", "read_bytes", "write_text", "write_bytes", "hardlink_to", "symlink_to",
    "imread", "imreadmulti", "imwrite", "fromfile", "tofile", "memmap", "loadtxt", "genfromtxt", "savez", "ZipFile",
    "load_workbook", "Workbook", "dcmread", "read_file_meta_info", "copyfile", "copy2", "copytree",
}  # fmt: skip
WHOLE_NAMES = {"np.load", "np.save", "shutil.copy", "shutil.move", "os.link", "os.symlink", "sqlite3.connect"}
LAST_NAMES = {name.rpartition(".")[2] for name in WHOLE_NAMES}
# Where they are called all the same, and why no stranger's file is opened there.
OWN_DATA, FRESH = "a file of the package itself", "writes into a folder that this command has just made"
IN_MEMORY = "reads an archive that is open already"
OPENED = "reads what opening.open_binary opened"
ALLOWED = {
    ("chexqa.schemas", "resources.files(__name__).joinpath(f'{name}.schema.json').read_text"): OWN_DATA,
    (
        "chexqa.review.sheets.pictures",
        "(resources.files('chexqa.review.sheets') / 'viewer.html.j2').read_text",
    ): OWN_DATA,
    ("chexqa.eval.gallery.files", "(resources.files('chexqa.eval.gallery') / name).read_text"): OWN_DATA,
    ("chexqa.eval.leaderboard.page", "(resources.files('chexqa.eval.leaderboard') / name).read_text"): OWN_DATA,
    ("chexqa.eval.report.page.render", "(resources.files(package) / name).read_text"): OWN_DATA,
    ("chexqa.review.page.board", "(resources.files('chexqa.review.page') / 'board.html.j2').read_text"): OWN_DATA,
    ("chexqa.review.page.write_page", "(resources.files(_FOLDER) / name).read_text"): OWN_DATA,
    ("chexqa.review.sheets.masks_sheet", "(self.folder / image).read_bytes"): "what this command has just written",
    ("chexqa.review.sheets.pictures", "(self._work / name).read_bytes"): "what this command has just written",
    ("chexqa.interchange.tables", "pl.read_parquet"): "reads what opening.read_whole returned",
    ("chexqa.eval.map_makers.make_maps", "np.savez"): "packs a map into memory",
    ("chexqa.eval.runs.runner", "client.open"): "makes a client ready, which opens no file",
    ("chexqa.phantoms.synth", "path.write_bytes"): FRESH,
    ("chexqa.phantoms.synth", "(folder / 'cases.jsonl').write_text"): FRESH,
    ("chexqa.files.atomic", "(hidden / name).write_bytes"): FRESH,
    ("chexqa.files.atomic", "os.open"): "a folder, to bring it to the disk",
    (
        "chexqa.files.locks",
        "os.open",
    ): "holds a hidden file or folder of chexqa.files.atomic's by its lock; nothing is read",
    ("chexqa.eval.batches.request_files", "hidden.open"): FRESH,
    ("chexqa.files.jsonio", "hidden.open"): FRESH,
    ("chexqa.files.jsonio", "hidden.write_bytes"): FRESH,
    ("chexqa.interchange.vlmevalkit", "hidden.open"): FRESH,
    ("chexqa.eval.harnesses.vlmevalkit_folder", "hidden.open"): FRESH,
    ("chexqa.eval.harnesses.vlmevalkit_dataset", "pd.read_csv"): "reads what opening.read_whole returned",
    ("chexqa.eval.harnesses.vlmevalkit_dataset", "pd.read_excel"): "reads what opening.read_whole returned",
    ("chexqa.eval.runs.foreign_lines", "temporary.open"): FRESH,
    ("chexqa.imaging.dicom", "io.FileIO"): OPENED,
    ("chexqa.imaging.dicom", "pydicom.dcmread"): OPENED,
    ("chexqa.review.collect.read_xlsx", "zipfile.ZipFile"): OPENED,
    ("chexqa.review.collect.xlsx_parts", "Workbook"): "a record of chexqa's own, no file",
    ("chexqa.review.collect.xlsx_parts", "self.archive.open"): IN_MEMORY,
    ("chexqa.interchange.release_export", "path.write_bytes"): FRESH,
    ("chexqa.review.sheets.export", "path.write_bytes"): FRESH,
    ("chexqa.review.sheets.masks_sheet", "(self.folder / name).write_bytes"): FRESH,
    ("chexqa.review.sheets.sheet", "xlsxwriter.Workbook"): FRESH,
    ("chexqa.review.collect.read_xlsx", "archive.open"): IN_MEMORY,
    ("chexqa.eval.heatmaps.map_files", "archive.open"): IN_MEMORY,
}


def opened_files(source: str) -> Iterator[str]:
    """The calls in a module's source that open a file by its path; an open file or bytes in memory are none."""
    tree = ast.parse(source)
    opened = [item for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items
              if ast.unparse(item.context_expr).startswith("open_binary(")]  # fmt: skip
    files = {item.optional_vars.id for item in opened if isinstance(item.optional_vars, ast.Name)}
    files |= {argument.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for argument in node.args
              if argument.annotation and ast.unparse(argument.annotation) in ("IO[bytes]", "BinaryIO")}  # fmt: skip
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        is_method = isinstance(node.func, ast.Attribute)
        name = str(getattr(node.func, "attr" if is_method else "id", ""))
        # To write a call out takes long, and most calls open nothing.
        if name not in OPENERS and name not in LAST_NAMES and not name.startswith(("read", "scan")):
            continue
        whole = ast.unparse(node.func)
        reads_table = whole.partition(".")[0] in ("pl", "polars", "pd", "pandas") and name.startswith(("read", "scan"))
        opens = name in OPENERS and (is_method or name not in ("write_bytes", "read_text"))
        first = ast.unparse(node.args[0]) if node.args else ""
        if (opens or reads_table or whole in WHOLE_NAMES) and first not in files and not first.startswith("io.Bytes"):
            yield whole


def test_no_module_opens_a_file_but_the_one_that_is_for_it() -> None:
    found = {(module, call) for module, path in FILES.items() if module != "chexqa.files.opening"
             for call in opened_files(path.read_text())}  # fmt: skip
    assert sorted(found - ALLOWED.keys()) == [], "open files with chexqa.files.opening"
    assert sorted(ALLOWED.keys() - found) == [], "these calls are gone; take them from the list"


@pytest.mark.parametrize(
    "call",
    ["open(path)", "path.open('rb')", "io.open(path)", "path.read_text()", "Path(x).read_bytes()", "os.open(path, 0)",
     "np.load(path)", "cv2.imread(x)", "Image.open(path)", "zipfile.ZipFile(path)", "pl.read_csv(x)",
     "pl.scan_parquet(x)", "pd.read_excel(x)", "pydicom.dcmread(path)", "openpyxl.load_workbook(path)",
     "gzip.open(path)", "shutil.copy(a, b)", "path.write_bytes(data)"],
)  # fmt: skip
def test_an_opening_call_is_seen(call: str) -> None:
    assert list(opened_files(f"def f():\n    x = {call}\n"))


def test_an_open_file_and_bytes_in_memory_are_no_openings() -> None:
    source = (
        "def f(path, stream: BinaryIO):\n    with open_binary(path) as file:\n        a = zipfile.ZipFile(file)\n"
        "    b, c = Image.open(io.BytesIO(data)), pydicom.dcmread(stream)\n    write_bytes(path, read_text(path))\n"
    )
    assert list(opened_files(source)) == []


def test_a_file_is_hashed_once_and_again_after_any_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_SETTLED_S", -1)  # so that the test need not wait until its files are old enough
    hashed: list[bytes] = []
    sha256 = hashlib.sha256

    def count(data: bytes) -> Any:
        hashed.append(data)
        return sha256(data)

    monkeypatch.setattr(opening.hashlib, "sha256", count)
    path, digest = tmp_path / "a", sha256(b"whole").hexdigest()

    def read() -> bytes | None:
        return opening.read_hashed(path, digest, 100, tmp_path)

    path.write_bytes(b"whole")
    assert [read(), read(), read()] == [b"whole"] * 3
    assert len(hashed) == 1
    before = path.stat()
    time.sleep(0.05)  # more than a tick of any file system's clock
    path.write_bytes(b"whale")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read() is None, "the same size and time of writing, and another content"
    other = tmp_path / "b"
    time.sleep(0.05)
    other.write_bytes(b"whole!")
    other.replace(path)
    assert read() is None
    path.write_bytes(b"whole")
    assert read() == b"whole"
    monkeypatch.setattr(opening, "_SETTLED_S", 3600)
    path.write_bytes(b"whole")
    hashed.clear()
    assert [read(), read()] == [b"whole"] * 2
    assert len(hashed) == 2, "a file just written may be written again in the same tick of the clock"
