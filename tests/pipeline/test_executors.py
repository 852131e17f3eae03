"""Worker processes and clusters: the same results as one process, and a worker that dies takes only its own task."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import pytest
import worker_tasks
from threadpoolctl import threadpool_limits
from worker_tasks import die_at_three, die_once, done_by, refuse, square, tasks, threads, who

from chexqa import question_banks
from chexqa.files.errors import InputError, UnfinishedError
from chexqa.generators.pipeline import executors, generate_benchmark, recipe
from chexqa.generators.pipeline.executors import WorkerConfig, WorkerDied
from chexqa.generators.pipeline.job import make_job
from chexqa.phantoms import write_cases


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler has a second to answer."""
    monkeypatch.setattr(executors, "SCHEDULER_S", 1)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_keeps_to_one_core_and_this_process_to_what_it_had(workers: int) -> None:
    with threadpool_limits(2, user_api="blas"):
        had = threads(0)
        assert done_by(WorkerConfig(workers), threads, tasks(2)) == {"0": {"threads": 1}, "1": {"threads": 1}}
        assert threads(0) == had == {"threads": 2}


def test_two_workers_do_what_one_does() -> None:
    alone = done_by(WorkerConfig(), square, tasks(9))
    assert done_by(WorkerConfig(workers=2), square, tasks(9)) == alone
    assert alone["8"] == {"square": 64}


@pytest.mark.long
def test_a_task_that_kills_its_worker_twice_is_reported_and_all_others_are_done() -> None:
    done = done_by(WorkerConfig(workers=2), die_at_three, tasks(9))
    assert isinstance(done.pop("3"), WorkerDied)
    assert done == {str(value): {"square": value * value} for value in range(9) if value != 3}


def test_a_task_whose_worker_dies_once_is_done_at_the_second_try(tmp_path: Path) -> None:
    done = done_by(WorkerConfig(workers=2), die_once, tasks(6, str(tmp_path / "mark")))
    assert done == {str(value): {"square": value * value} for value in range(6)}


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    code = (
        "import sys, worker_tasks as t; from chexqa.generators.pipeline.executors import WorkerConfig\n"
        "if __name__ == '__main__': t.done_by(WorkerConfig(workers=2), t.note_and_wait, t.tasks(2, sys.argv[1]))"
    )
    script = tmp_path / "parent.py"
    script.write_text(code, encoding="utf-8")
    folder = tmp_path / "pids"
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(worker_tasks.__file__).parent)}
    parent = subprocess.Popen([sys.executable, script, folder], env=environment)
    assert in_a_minute(lambda: len(list(folder.iterdir())) == 2), "two workers at work"
    parent.kill()
    parent.wait()
    workers = [Path("/proc") / entry.name for entry in folder.iterdir()]
    assert in_a_minute(lambda: not any(worker.exists() for worker in workers)), "no worker is left"


def in_a_minute(done: Callable[[], bool]) -> bool:
    """Whether it comes true within a minute."""
    for _ in range(600):
        if done():
            return True
        time.sleep(0.1)
    return False


def test_the_same_workers_do_one_piece_of_work_after_the_other() -> None:
    with WorkerConfig(workers=2).gathered() as runner:
        first, second = ({record["worker"] for _, record in runner.run(who, tasks(20))} for _ in range(2))
    assert len(first | second) <= 2
    assert os.getpid() not in first | second


@pytest.mark.long
def test_after_a_worker_died_there_are_new_ones() -> None:
    with WorkerConfig(workers=2).gathered() as runner:
        assert isinstance(dict(runner.run(die_at_three, tasks(5)))["3"], WorkerDied)
        assert len(dict(runner.run(square, tasks(5)))) == 5


@pytest.mark.long
def test_a_worker_that_dies_while_nobody_waits_costs_its_task_alone() -> None:
    done = {}
    with WorkerConfig(workers=2).gathered() as runner:
        for key, result in runner.run(die_at_three, tasks(12)):
            time.sleep(0.3 if len(done) < 6 else 0)  # what is done with a result takes its time
            done[key] = result
    assert isinstance(done.pop("3"), WorkerDied)
    assert done == {str(value): {"square": value * value} for value in range(12) if value != 3}


def test_what_a_task_raises_is_raised_here() -> None:
    with pytest.raises(InputError, match="0 is not wanted"):
        done_by(WorkerConfig(workers=2), refuse, tasks(1))


@pytest.mark.usefixtures("impatient")
def test_a_scheduler_that_does_not_answer_is_one_sentence() -> None:
    pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    with pytest.raises(InputError, match=r"--dask tcp://127\.0\.0\.1:9: no scheduler answers"):
        done_by(WorkerConfig(dask="tcp://127.0.0.1:9"), square, tasks(1))


@pytest.mark.parametrize("address", ["", "foo://bar"])
def test_what_is_no_address_of_a_scheduler_is_one_sentence(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    with pytest.raises(InputError, match=f"--dask {address}: no scheduler answers there"):
        done_by(WorkerConfig(dask=address), square, tasks(1))
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("impatient")
def test_a_scheduler_that_is_gone_half_way_leaves_work_to_go_on_with() -> None:
    distributed = pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)
    with WorkerConfig(dask=cluster.scheduler_address).gathered() as runner:
        done = runner.run(square, tasks(40))
        next(done)
        cluster.close()
        with pytest.raises(UnfinishedError, match="to continue"):
            list(done)


@pytest.mark.long
def test_one_worker_two_workers_and_a_dask_cluster_make_the_same_bytes(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    cases = write_cases(tmp_path / "cases", 5, seed=2, size=256)
    job = make_job([recipe.load(name) for name in recipe.DEFAULT], question_banks.load("en"), seed=2)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        configs = {
            "one": WorkerConfig(),
            "two": WorkerConfig(workers=2),
            "dask": WorkerConfig(dask=cluster.scheduler_address),
        }
        made = {}
        for name, workers in configs.items():
            generate_benchmark.generate(cases, tmp_path / name, job, workers=workers)
            files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
            made[name] = {path.relative_to(tmp_path / name).as_posix(): path.read_bytes() for path in files}
    assert made["one"] == made["two"] == made["dask"]


def test_opencv_s_code_for_one_kind_of_processor_changes_no_byte(tmp_path: Path) -> None:
    """Intel's IPP rounds otherwise on other processors: with and without it, all is the same."""
    job = make_job([recipe.load("grid")], question_banks.load("en"), seed=1)
    had = cv2.ipp.useIPP()
    made = []
    try:
        for use in (True, False):
            cv2.ipp.setUseIPP(use)
            home = tmp_path / str(use)
            write_cases(home / "cases", 2, 5, 256)
            generate_benchmark.generate(tmp_path / "True" / "cases", home / "bench", job)
            made.append({path.relative_to(home): path.read_bytes() for path in home.rglob("*") if path.is_file()})
            assert cv2.ipp.useIPP() == use
    finally:
        cv2.ipp.setUseIPP(had)
    assert made[0] == made[1]
