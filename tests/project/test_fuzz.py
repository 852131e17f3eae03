"""What ``benchmarks/fuzz`` tries: every command that reads a file, with changes that depend on their seed alone."""

from __future__ import annotations

import importlib
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from chexqa.cli.main import app

FOLDER = Path(__file__).parents[2] / "benchmarks" / "fuzz"
SAMPLES = {
    ".json": b'{"a": [1, 2.5, "x"], "b": {"c": null}}',
    ".jsonl": b'{"a": 1}\n{"a": 2, "b": "x"}\n',
    ".yaml": b"models:\n  - {name: own, like: other}\n",
    ".csv": b"image,mask\n1.png,m.png\n2.png,n.png\n",
}


@pytest.fixture(autouse=True)
def _beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


def _commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, (*words, name))
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield " ".join((*words, name))


def test_every_command_is_tried_or_exempt_with_a_reason() -> None:
    targets = importlib.import_module("targets")
    tried = {part.strip() for target in targets.TARGETS for line in target.commands for part in line.split(";")}
    missing = {name for name in _commands(app) if not any(f"{one} ".startswith(f"{name} ") for one in tried)}
    assert missing == targets.EXEMPT.keys()
    assert all(len(reason) > 10 for reason in targets.EXEMPT.values())


def test_every_target_changes_files_of_the_folders_it_copies() -> None:
    targets = importlib.import_module("targets")
    for target in targets.TARGETS:
        folders = {*target.folders.split(), "out"}
        assert {pattern.split("/")[0] for pattern in target.files} <= folders, target.kind
        assert target.files or "{url}" in target.commands[0], target.kind
    assert len({target.kind for target in targets.TARGETS}) == len(targets.TARGETS)


@pytest.mark.parametrize("suffix", SAMPLES)
def test_the_same_seed_changes_a_file_in_the_same_way(suffix: str) -> None:
    mutations = importlib.import_module("mutations")

    def changed(seed: int) -> bytes:
        data: bytes = mutations.mutate(SAMPLES[suffix], suffix, random.Random(seed))[1]
        return data

    made = [changed(seed) for seed in range(30)]
    assert made == [changed(seed) for seed in range(30)]
    assert len(set(made)) > 20
    assert sum(data == SAMPLES[suffix] for data in made) < 5


def test_a_failure_is_told_by_its_last_line_in_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = importlib.import_module("workers")
    code = workers.CODE
    trace = (
        f'Traceback (most recent call last):\n  File "{code}/chexqa/cli/main.py", line 99, in run\n    x\n'
        f'  File "{code}/eval/runs/status.py", line 98, in _end\n    y\n'
        '  File "/usr/lib/json.py", line 3, in loads\n    z\n'
        "ValueError: not \x1b[31m a date\n"
    )
    assert workers.where(trace) == "eval/runs/status.py:98 _end  ValueError: not ?[31m a date"
    assert (workers.judge(0, 10, trace), workers.judge(1, 10, ""), workers.judge(-9, 10, "")) == ("exit 1",) * 3
    assert (workers.judge(2, 2000, ""), workers.judge(2, 10, "a\x1b[2J"), workers.judge(3, 10, "a\n\tb\u00e9")) == (
        "memory", "escapes", "",
    )  # fmt: skip
    assert workers.judge(2, 10, f"Bearer {workers.SECRET}") == "key"


def test_a_child_that_hangs_is_ended_and_one_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = importlib.import_module("workers")
    monkeypatch.setattr(workers.main, "run", lambda args: sys.exit(1) if args else __import__("time").sleep(60))
    with monkeypatch.context() as patch:
        patch.setattr(workers, "LIMIT_S", 0.3)
        hung = workers.run([], tmp_path, tmp_path / "printed")
    assert (hung.wrong, hung.code) == ("hang", -9)
    assert re.search(r'File ".*test_fuzz.py", line \d+ in <lambda>', hung.output)
    assert workers.run(["x"], tmp_path, tmp_path / "printed").wrong == "exit 1"
