"""Fuzzer of all commands: it runs them on damaged files and against hostile servers.

    python benchmarks/fuzz/run.py [--minutes N | --tries N] [--workers N] [--only KIND]… [--real N] [--keep DIR]
    python benchmarks/fuzz/run.py --try NUMBER

chexqa makes valid files of every kind. A try changes one of these files at random and runs a command on it. A try
passes if it ends with exit code 0, 2 or 3 within 20 s and 1 GB, and prints no control character and no API key.

- ``--keep DIR``: store the files of each failed try, with a script that runs the try again.
- ``--real N``: add N tries that each start a new Python interpreter; the other tries run in forked processes.
- ``--try NUMBER``: run only the try of this number.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TextIO

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import corpus  # noqa: E402
import servers  # noqa: E402
import table  # noqa: E402
import workers  # noqa: E402
from workers import Maker, Tried  # noqa: E402

from chexqa.contract import benchmark  # noqa: E402
from chexqa.contract.kinds import GRID_CELL  # noqa: E402


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=60, help="minutes to run (60)")
    parser.add_argument("--tries", type=int, default=0, help="number of tries, in place of a time limit")
    parser.add_argument("--workers", type=int, default=2, help="number of tries run at the same time (2)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the tries (0)")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="KIND",
        help="only file kinds whose name contains this word; may be given several times",
    )
    parser.add_argument("--real", type=int, default=0, metavar="N", help="run N further tries in separate processes")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="store the files of failed tries in this folder")
    parser.add_argument(
        "--clean", action="store_true", help="run each command once, on unchanged files, and check that it succeeds"
    )
    parser.add_argument(
        "--try", dest="number", type=int, metavar="NUMBER", help="run only the try of this number, and print its output"
    )
    return parser.parse_args()


def main(asked: argparse.Namespace) -> int:
    begun = time.monotonic()
    workers.warm()
    server, port = servers.start()
    with tempfile.TemporaryDirectory(prefix="chexqa-fuzz-") as name:
        place = Path(name)
        try:
            make_corpus(place / "corpus", f"http://127.0.0.1:{port}/good/1/v1")
            before = snapshot(place / "corpus")
            maker = Maker(place / "corpus", asked.seed, port, tuple(asked.only), names(place / "corpus"))
            print(
                f"ready after {time.monotonic() - begun:.0f} s: {len(maker.targets)} file kinds, {workers.PROGRAM}",
                flush=True,
            )
            if asked.clean:
                return clean(maker, place / "clean")
            if asked.number is not None:
                return one_alone(maker, asked, place)
            tries, seconds, kept = everything(maker, asked, place)
            table.show(tries, seconds, kept)
            touched = sorted(before.items() ^ snapshot(place / "corpus").items())
            for path in sorted({path for path, _ in touched})[:10]:
                print(f"error: a command changed {path}, which lies outside the try's folder")
            return 1 if touched or any(one.wrong for one in tries) or not tries else 0
        finally:
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)


def make_corpus(folder: Path, url: str) -> None:
    """Make the valid input files (the corpus) in two parallel processes."""
    folder.mkdir()
    pids = [forked(half, folder, Builder(folder, folder.parent / half.__name__), url) for half in corpus.HALVES]
    if max([os.waitpid(pid, 0)[1] for pid in pids]):
        sys.exit("the corpus could not be made.")


class Builder(NamedTuple):
    """Runner of the commands and functions that make the valid input files; their output goes to the file
    ``printed``.
    """

    folder: Path
    printed: Path

    def __call__(self, *given: Any) -> None:
        """Run a command line or function in a separate process; raise ``RuntimeError`` if it fails."""
        first, *others = given
        if callable(first):
            action = functools.partial(first, *others)
            os.waitpid(forked(workers.child, action, self.folder, self.printed, None), 0)
            return
        done = workers.run([str(one) for one in given], self.folder, self.printed)
        if done.code:
            raise RuntimeError(f"chexqa {' '.join(map(str, given))}: exit code {done.code}\n{done.output}")


def names(folder: Path) -> dict[str, str]:
    """Return the ids of a case and an item for each benchmark in ``folder``, for use in command lines.

    The keys are ``bench-case``, ``bench-item``, ``small-case`` and ``small-item``.
    """
    found: dict[str, str] = {}
    for name in ("bench", "small"):
        item = next(item for item in benchmark.load(folder / name).items if item.kind != GRID_CELL)
        found |= {f"{name}-case": item.case_id, f"{name}-item": item.item_id}
    return found


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def clean(maker: Maker, folder: Path) -> int:
    """Run every command on unchanged files, print its result, and return the exit code."""
    folder.mkdir()
    failed = 0
    for target in maker.targets:
        for line in dict.fromkeys(target.commands if target.files != ("out",) else ()):
            done = workers.run_unchanged(maker, target, line, folder)
            failed += done.code != 0  # a command that fails on unchanged files would test nothing
            print(f"{done.code} {done.seconds:5.2f} s {done.megabytes:5d} MB  {target.kind}: {line}", flush=True)
            if done.code:
                print("\n".join(done.output.strip().splitlines()[-3:]), flush=True)
    return 1 if failed else 0


class Share(NamedTuple):
    """One worker's share of the tries.

    - ``worker``: the worker's number, from 0.
    - ``tries``: the number of tries of all workers.
    - ``real``: True to start a new Python interpreter for each command; False to fork.
    - ``stop``: the time to stop, by ``time.monotonic``; 0 for never.
    """

    worker: int
    tries: int
    real: bool
    stop: float


def one_alone(maker: Maker, asked: argparse.Namespace, place: Path) -> int:
    tried, printed = workers.attempt(maker, asked.number, place / "alone")
    if asked.keep:
        print(f"kept: {workers.keep(maker, tried, printed, asked.keep.resolve())}")
    print(printed, tried, sep="\n")
    return 1 if tried.wrong else 0


def everything(maker: Maker, asked: argparse.Namespace, place: Path) -> tuple[list[Tried], float, dict[int, str]]:
    """Run all tries in several processes, in folders below ``place``.

    Returns the tries, the elapsed seconds, and the kept folder of each failed try by its number.
    """
    begun = time.monotonic()
    stop = begun + asked.minutes * 60
    kept: dict[int, str] = {}
    tries: list[Tried] = []
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for real, most in ((False, asked.tries or sys.maxsize - 10**7), (True, asked.real)):
        readers: list[TextIO] = []
        pids = []
        for worker in range(asked.workers if most else 0):
            source, sink = os.pipe()
            folder = place / f"{'real' if real else 'forked'}-{worker}"
            share = Share(worker, most, real, 0 if real or asked.tries else stop)
            pids.append(forked(work, maker, asked, folder, share, sink))
            os.close(sink)
            readers.append(os.fdopen(source))
        collect(readers, tries, kept)
        if any(os.waitpid(pid, 0)[1] for pid in pids):
            sys.exit("a worker stopped because of an error in the fuzzer itself; its traceback is printed above.")
    return tries, time.monotonic() - begun, kept


def forked(action: Callable[..., object], *given: object) -> int:
    """Fork a process that calls ``action``; return the process's id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action(*given)
            code = 0
        except Exception:  # the parent reports the code of a worker that failed
            traceback.print_exc()
        finally:
            os._exit(code)  # whatever happens, the child must not go on with the parent's work
    return pid


def work(maker: Maker, asked: argparse.Namespace, folder: Path, share: Share, sink: int) -> None:
    """Run one worker's share of the tries, until all are done or the time is over.

    ``sink`` is the file descriptor that gets a line for each try.
    """
    # New interpreters run other tries than forked processes.
    start = 10**7 if share.real else 0
    with os.fdopen(sink, "w") as out:
        for number in range(start + share.worker, start + share.tries, asked.workers):
            if share.stop and time.monotonic() > share.stop:
                break
            tried, printed = workers.attempt(maker, number, folder, share.real)
            where = str(workers.keep(maker, tried, printed, asked.keep.resolve())) if tried.wrong and asked.keep else ""
            out.write(json.dumps([tried, where]) + "\n")
            out.flush()


def collect(readers: list[TextIO], tries: list[Tried], kept: dict[int, str]) -> None:
    """Read the workers' results into ``tries`` and ``kept`` until all are done, and print the progress each minute."""

    def take(reader: TextIO) -> None:
        for line in reader:
            fields, where = json.loads(line)
            made = Tried._make(fields)
            tries.append(made._replace(lines=tuple(made.lines), codes=tuple(made.codes)))
            if where:
                kept[made.number] = where

    threads = [threading.Thread(target=take, args=(reader,)) for reader in readers]
    for thread in threads:
        thread.start()
    said = time.monotonic()
    for thread in threads:
        while thread.is_alive():
            thread.join(5)
            if time.monotonic() - said > 60:
                said = time.monotonic()
                print(
                    f"{len(tries):,} tries, {sum(1 for one in tries if one.wrong):,} failed",
                    file=sys.stderr,
                    flush=True,
                )


if __name__ == "__main__":
    sys.exit(main(arguments()))
