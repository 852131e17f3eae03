"""Whole or not at all: full disks end in one sentence and exit code 3, and what a kill left is cleaned up."""

from __future__ import annotations

import errno
import filecmp
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from rest_long import rest_long

from chexqa.files import atomic
from chexqa.files.errors import InputError, UnfinishedError, unwritable
from chexqa.files.jsonio import write_bytes, write_lines
from chexqa.generators.pipeline.checkpoint import RecordStore

pytestmark = pytest.mark.xdist_group("atomic")

Cli = Callable[..., tuple[int, str, str]]

# A process at work on a file and a folder in the folder it is given.
AT_WORK = """
import sys, time
from pathlib import Path
from chexqa.files import atomic
home = Path(sys.argv[1])
with atomic.new_folder(home / "out") as folder, atomic.new_file(home / "file") as hidden:
    (folder / "picture").write_text("half")
    hidden.write_text("half")
    print("ready", flush=True)
    time.sleep(600)
"""
COMMANDS = {
    "synth": ["synth", "OUT/out", "--cases", "1", "--size", "256"],
    "ingest": ["ingest", "masks", "--images", "IN/ph/images", "--masks", "IN/ph/masks", "-o", "OUT/cases.jsonl"],
    "generate": ["generate", "IN/ph", "-o", "OUT/out", "--recipe", "grid"],
    "show": ["show", "IN/bench", "a", "-o", "OUT/case.png"],
    "review export": ["review", "export", "IN/bench", "-o", "OUT/out", "--reviewers", "anna"],
    "eval": ["eval", "IN/bench", "--models", "baseline/first", "-o", "OUT/out"],
    "dry run": ["eval", "IN/bench", "--models", "baseline/first", "--dry-run", "OUT/out"],
    "grade": ["grade", "IN/run", "-o", "OUT/out"],
    "huggingface": ["export", "IN/bench", "--format", "huggingface", "-o", "OUT/out"],
    "vlmevalkit": ["export", "IN/bench", "--format", "vlmevalkit", "-o", "OUT/out.tsv"],
    "vlmevalkit folder": ["export", "IN/bench", "--format", "vlmevalkit", "-o", "OUT/vlmevalkit"],
}


@contextmanager
def no_file_over(size: int) -> Iterator[None]:
    """Let the system refuse every byte of a file beyond ``size``, which a program meets as it meets a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two phantoms, a handmade benchmark and a run of it."""
    from handmade import Handmade

    from chexqa.cli.main import run

    home = tmp_path_factory.mktemp("in")
    (home / "bench").mkdir()
    made = Handmade(home / "bench")
    made.case("a", "effusion", "revision_free", contour_evaluation=(2,), location=(1, 3), grid=(10, 11))
    made.case("b", "effusion", "lesion_free", detection=(2,))
    made.write()
    assert run(["synth", str(home / "ph"), "--cases", "2", "--size", "256"]) == 0
    assert run(["eval", str(home / "bench"), "--models", "baseline/first", "-o", str(home / "run")]) == 0
    return home


def same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same files; those of a run's log hold times."""
    found = filecmp.dircmp(one, other)
    differing = {name for name in found.diff_files if name != "baseline--first.jsonl"}
    below = all(same(one / name, other / name) for name in found.common_dirs)
    return below and not (differing or found.left_only or found.right_only)


@pytest.mark.parametrize("name", rest_long(["generate", "eval", *sorted(COMMANDS.keys() - {"generate", "eval"})]))
def test_on_a_full_disk_a_command_says_so_and_can_be_given_again(
    cli: Cli, inputs: Path, tmp_path: Path, name: str
) -> None:
    def call(out: Path) -> tuple[int, str, str]:
        out.mkdir(exist_ok=True)
        return cli(*(word.replace("IN", str(inputs)).replace("OUT", str(out)) for word in COMMANDS[name]))

    for size in (0, 300):
        with no_file_over(size):
            code, _, err = call(tmp_path / "full")
        sentence = err.strip().splitlines()[-1]
        assert code == 3, err
        assert sentence.startswith("stopped: ")
        assert "cannot be written (File too large)" in sentence
        assert ".tmp" not in sentence
        assert not list((tmp_path / "full").rglob(".*"))
    assert call(tmp_path / "full")[0] == 0
    assert call(tmp_path / "free")[0] == 0
    if name not in ("review export", "grade"):  # a spreadsheet and an index hold the time and the place
        assert same(tmp_path / "full", tmp_path / "free")


def test_a_full_disk_under_the_output_itself(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115 - closing it fails, as it should
    monkeypatch.setattr(sys, "stdout", full)
    code, _, err = cli("completion", "bash")
    monkeypatch.undo()
    with suppress(OSError):
        full.close()
    assert (code, "stopped: the output: cannot be written (No space left on device)" in err) == (3, True), err


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_room_is_resumable_and_nothing_else_is(number: int) -> None:
    assert isinstance(unwritable("x", OSError(number, "why")), UnfinishedError)
    assert isinstance(unwritable("x", OSError(errno.EACCES, "why")), InputError)


def test_a_full_disk_leaves_the_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"earlier")
    with no_file_over(5):
        for write in (lambda: write_bytes(path, b"later and longer"), lambda: write_lines(path, [{"a": 1}] * 9)):
            with pytest.raises(UnfinishedError, match=rf"^{path}: cannot be written \(File too large\); free some"):
                write()
    assert path.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_cuts_no_kept_record(tmp_path: Path) -> None:
    kept = RecordStore(tmp_path / "survey.jsonl")
    kept.add("a", {"x": 1})
    with no_file_over(40), pytest.raises(UnfinishedError, match=r"survey\.jsonl: cannot be written"):
        kept.add("b", {"x": "long" * 20})
    assert dict(kept) == {"a": {"x": 1}}
    kept.add("c", {"x": 3})
    kept.close()
    again = RecordStore(tmp_path / "survey.jsonl")
    assert dict(again) == {"a": {"x": 1}, "c": {"x": 3}}
    again.close()


def test_several_files_are_all_replaced_or_none(tmp_path: Path) -> None:
    atomic.write_all(tmp_path / "out", [("a", b"1"), ("sub/b", b"1")])
    with no_file_over(4), pytest.raises(UnfinishedError, match=r"/out: cannot be written"):
        atomic.write_all(tmp_path / "out", [("a", b"2"), ("sub/b", b"22222")])
    assert (tmp_path / "out" / "a").read_bytes() == b"1"
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == ["a", "b", "sub"]


def test_what_a_kill_left_goes_at_the_next_start_and_what_is_at_work_stays(
    cli: Cli, inputs: Path, tmp_path: Path
) -> None:
    mine = tmp_path / ".out.mine"
    mine.mkdir()
    with subprocess.Popen([sys.executable, "-c", AT_WORK, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        hidden = {path for path in tmp_path.iterdir() if path != mine}
        assert len(hidden) == 2
        assert cli("review", "export", inputs / "bench", "-o", tmp_path / "sheets", "--reviewers", "anna")[0] == 0
        assert hidden < set(tmp_path.iterdir())
        process.send_signal(signal.SIGKILL)
    assert hidden < set(tmp_path.iterdir())
    assert cli("synth", tmp_path / "out", "--cases", "1", "--size", "256")[0] == 0
    assert set(tmp_path.iterdir()) == {mine, tmp_path / "sheets", tmp_path / "out"}


def test_a_link_under_a_hidden_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    link = tmp_path / f".out.{'0' * 16}.chexqa.tmp"
    link.symlink_to(tmp_path / "theirs")
    atomic.sweep(tmp_path)
    assert link.is_symlink()
    assert (tmp_path / "theirs").is_dir()


def test_a_record_is_read_whole_though_another_was_added_after_its_beginning_was_read(tmp_path: Path) -> None:
    kept = RecordStore(tmp_path / "survey.jsonl")
    first, second = {"text": "a" * 5000}, {"text": "b" * 5000}
    kept.add("first", first)
    kept.add("second", second)
    assert kept["first"] == first  # the reader's buffer now ends within the second
    kept.add("third", {})
    assert kept["second"] == second
    kept.close()
