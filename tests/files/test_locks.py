"""Locks: one process at a time, none left by a kill, and nothing that keeps the tool from starting on Windows."""

from __future__ import annotations

import ast
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from chexqa.eval.design.subset import Shard
from chexqa.eval.runs import turn_log
from chexqa.files import atomic
from chexqa.files.errors import InputError
from chexqa.files.locks import locked

ROOT = Path(__file__).parents[1]
HOLDER = """
import sys, time
from pathlib import Path
from chexqa.files.locks import locked
with locked(Path(sys.argv[1])):
    print("ready", flush=True)
    time.sleep(600)
"""
# Modules, and names of os, that Python does not have on Windows.
NOT_ON_WINDOWS = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
NOT_OF_WINDOWS_OS = {
    "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "O_CLOEXEC", "fork", "getuid", "geteuid", "getpgid", "killpg", "pread",
    "pwrite", "sched_getaffinity", "fchmod", "mkfifo", "chown", "uname", "statvfs",
}  # fmt: skip


def test_another_process_s_lock_is_refused_with_its_number_and_a_kill_frees_it(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        sentence = rf"^x: somebody is at work \(process {process.pid}\); wait until that process ends, or stop it\.$"
        with pytest.raises(InputError, match=sentence), locked(path, "x: somebody is at work"):
            pass
        process.kill()
    with locked(path, "x: somebody is at work"):
        pass


def test_shares_of_one_division_go_side_by_side_and_those_of_two_do_not(tmp_path: Path) -> None:
    with turn_log.opened(tmp_path, "m"):  # a run of before, whose log the shares read
        pass
    busy = "another process writes the turns of 'm' into this run"
    with ExitStack() as stack:
        for number in (1, 2):
            stack.enter_context(turn_log.opened(tmp_path, "m", Shard(number, 2)))
        for other in (None, Shard(1, 3), Shard(2, 2)):
            with pytest.raises(InputError, match=busy), turn_log.opened(tmp_path, "m", other):
                pass
        stack.enter_context(turn_log.opened(tmp_path, "another"))
    with (
        turn_log.opened(tmp_path, "m"),
        pytest.raises(InputError, match=busy),
        turn_log.opened(tmp_path, "m", Shard(1, 2)),
    ):
        pass


def test_without_locks_on_hidden_names_files_are_written_and_nothing_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / f".x.{'0' * 16}.chexqa.tmp"
    left.touch()
    monkeypatch.setattr(sys, "platform", "win32")
    with atomic.new_folder(tmp_path / "out") as folder, atomic.new_file(tmp_path / "file") as hidden:
        (folder / "x").touch()
        hidden.touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == [left.name, "file", "out"]


def test_no_module_needs_what_windows_does_not_have() -> None:
    found = []
    for folder in ("chexqa", "generators", "eval", "schemas", "question_banks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            # The locks on hidden names are left out on Windows.
            if path.name != "locks.py":
                found += [f"{path}: {name}" for name in missing_on_windows(path.read_text(encoding="utf-8"))]
    assert found == []


def missing_on_windows(text: str) -> set[str]:
    """Return the modules that a module imports, and the names of os that it uses, which Windows lacks."""
    nodes = list(ast.walk(ast.parse(text)))
    imported = {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
    imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "os"}
    return imported & NOT_ON_WINDOWS | used & NOT_OF_WINDOWS_OS


def test_what_windows_lacks_is_found() -> None:
    assert missing_on_windows("import fcntl\nos.pread(1, 2, 3)") == {"fcntl", "pread"}
