"""Tries of the fuzzer: each damages one file in a folder of its own, and runs a command there in a child process.

A try depends only on the seed and its number. The child gets 20 s and 1 GB; what it prints is kept.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import random
import re
import select
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import mutations
import servers
from targets import TARGETS, Target

import chexqa
from chexqa.cli import main

LIMIT_S, LIMIT_MB, KILL_MB = 20.0, 1024, 3000
SECRET = "sk-fuzz-5ec2e7-d0-n0t-pr1nt"
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
CODE = Path(chexqa.__file__).resolve().parents[1]
PROGRAM = Path(sys.executable).with_name("chexqa")


class Done(NamedTuple):
    """The result of one command: exit code (negative: a signal), seconds, peak memory in MB, and the failure."""

    code: int
    seconds: float
    megabytes: int
    wrong: str
    output: str


class Tried(NamedTuple):
    """A try: its number, the kind of file, the change to the file, the command lines, and the worst of their results."""

    number: int
    kind: str
    change: str
    lines: tuple[str, ...]
    codes: tuple[int, ...]
    seconds: float
    megabytes: int
    wrong: str
    where: str


def warm() -> None:
    """Import everything once for all children; start no computation, because threads do not survive a fork."""
    for module in pkgutil.walk_packages(chexqa.__path__, "chexqa."):
        importlib.import_module(module.name)
    from chexqa.eval.models.client import load_litellm

    load_litellm()
    for name in ("pydicom", "pydicom.pixels", "sklearn.linear_model", "sklearn.ensemble", "matplotlib.pyplot",
                 "openpyxl",
                 "scipy.ndimage", "scipy.stats", "polars", "PIL.Image", "xlsxwriter", "aiohttp"):  # fmt: skip
        importlib.import_module(name)
    gc.freeze()


def environment(folder: Path) -> None:
    """Set a try's environment: an API key that must never be printed, no proxy, and a folder for temporary files."""
    for name in list(os.environ):
        if name.endswith(("_KEY", "_TOKEN", "_PROXY", "_proxy", "_API_BASE")):
            del os.environ[name]
    os.environ.update(CHEXQA_API_KEY=SECRET, TMPDIR=str(folder), COLUMNS="120", NO_PROXY="127.0.0.1",
                      MPLCONFIGDIR=str(folder), HF_HOME=str(folder))  # fmt: skip


# --- running ----------------------------------------------------------------------------------------------------------


def run(args: list[str], folder: Path, printed: Path, real: bool = False) -> Done:
    """Run a command line in ``folder``, in a fork or (``real``) a new interpreter; write its output to ``printed``."""
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        child(lambda: main.run(args), folder, printed, [str(PROGRAM), *args] if real else None)
    killed, seconds = watch(pid, begun)
    _, status, used = os.wait4(pid, 0)
    megabytes = used.ru_maxrss // 1024
    code = os.waitstatus_to_exitcode(status)
    output = printed.read_bytes().decode("utf-8", "replace")
    return Done(code, seconds, megabytes, killed or judge(code, megabytes, output), output)


def judge(code: int, megabytes: int, output: str) -> str:
    """Return the failure of a command that ended by itself; return an empty text if the command's end is correct."""
    if code not in (0, 2, 3) or "Traceback (most recent call last)" in output or "internal error" in output:
        return "exit 1"
    if megabytes > LIMIT_MB:
        return "memory"
    if CONTROL.search(output):
        return "escapes"
    return "key" if SECRET in output else ""


def child(action: Callable[[], int], folder: Path, printed: Path, program: list[str] | None) -> None:
    """Run ``program``, or ``action`` if ``program`` is None, in the forked child process, and then end the process."""
    os.setsid()
    os.chdir(folder)
    environment(folder.parent)
    out = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    if program:
        os.environ["PYTHONFAULTHANDLER"] = "1"
        os.execv(program[0], program)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    faulthandler.enable(2)
    faulthandler.register(signal.SIGUSR1, 2, all_threads=True)
    code = 1
    try:
        code = action() or 0
    except BaseException as error:
        os.write(2, f"Traceback (most recent call last)\n{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def watch(pid: int, begun: float) -> tuple[str, float]:
    """Wait for a child process; end it if it takes too long or far too much memory.

    Returns the reason of an early end (``hang``, ``memory`` or empty), and the child's seconds of work.
    """
    handle = os.pidfd_open(pid)
    waiter = select.poll()
    waiter.register(handle, select.POLLIN)
    killed, ended = "", False
    while not killed and not ended:
        ended = bool(waiter.poll(30))
        seconds = time.monotonic() - begun - queued(pid)
        if not ended:
            killed = "hang" if seconds > LIMIT_S else "memory" if resident(pid) > KILL_MB else ""
    os.close(handle)
    if killed:
        os.killpg(pid, signal.SIGUSR1)
        time.sleep(0.2)
        os.killpg(pid, signal.SIGKILL)
    return killed, seconds


def queued(pid: int) -> float:
    """Return the seconds in which a process was ready but waited for a processor."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def resident(pid: int) -> int:
    """Return the resident memory of a process in megabytes."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 2**20
    except (OSError, IndexError):
        return 0


def where(output: str) -> str:
    """Return the error of a traceback and the last line of chexqa's code in it; together they identify a defect."""
    traces = re.findall(r'File "([^"]+)", line (\d+),? in (\S+)', output)
    own = [(Path(file).relative_to(CODE), line, name) for file, line, name in traces
           if Path(file).is_relative_to(CODE) and "site-packages" not in file and "benchmarks" not in file]  # fmt: skip
    if "Current thread" in output or "most recent call first" in output:
        own = own[::-1][-1:]
        error = ""
    else:
        errors = re.findall(
            r"^([A-Za-z_.]+(?:Error|Exception|Interrupt|Overflow|Exit|Warning|Group)?): (.*)$", output, re.M
        )
        error = f"{errors[-1][0]}: {errors[-1][1][:100]}" if errors else output.strip()[-100:]
    place = "{}:{} {}".format(*own[-1]) if own else "?"
    return CONTROL.sub("?", f"{place}  {error}".strip())


# --- preparing --------------------------------------------------------------------------------------------------------


class Try(NamedTuple):
    """A try that is ready to run: a folder with one changed file, and the command lines that read the file."""

    target: Target
    change: str
    lines: tuple[str, ...]


class Maker:
    """Maker of random tries: commands that read a damaged file, or that ask a faulty server (:class:`Try`)."""

    def __init__(self, corpus: Path, seed: int, port: int, only: tuple[str, ...], words: dict[str, str]) -> None:
        """Select the kinds of file whose names contain one of the words ``only``; if it is empty, select all kinds."""
        self._corpus, self._seed, self._port, self._words = corpus, seed, port, words
        self.targets = [one for one in TARGETS if not only or any(word in one.kind for word in only)]

    def prepare(self, number: int, folder: Path) -> Try:
        """Copy the input files into the new folder and change one file; the same number gives the same try."""
        rng = random.Random(f"{self._seed} {number}")
        target = rng.choices(self.targets, [one.weight for one in self.targets])[0]
        line = rng.choices(target.commands, [frequency(line) for line in target.commands])[0]
        self.lay_out(target, folder)
        if target.files:
            return Try(target, self._change(target, folder, rng), self.filled(line))
        scenario = servers.draw(rng)
        return Try(target, scenario, self.filled(line, f"{scenario}/{number}"))

    def lay_out(self, target: Target, folder: Path) -> None:
        """Copy the corpus folders that the target uses (its ``folders``), unchanged, into the new folder."""
        folder.mkdir(parents=True)
        for name in target.folders.split():
            copy(self._corpus / name, folder / name)

    def filled(self, line: str, scenario: str = "good/1") -> tuple[str, ...]:
        """Return the commands of a line (separated by ``;``) in order, with the placeholders filled in."""
        words = {
            **self._words,
            **self._case(line),
            "corpus": str(self._corpus),
            "url": f"http://127.0.0.1:{self._port}/{scenario}/v1",
        }
        for name, word in words.items():
            line = line.replace("{" + name + "}", word)
        return tuple(part.strip() for part in line.split(";"))

    def _case(self, line: str) -> dict[str, str]:
        name = "small" if "small" in line else "bench"
        return {"case": self._words[f"{name}-case"], "item": self._words[f"{name}-item"]}

    def _change(self, target: Target, folder: Path, rng: random.Random) -> str:
        if target.files == ("out",):
            path = folder / "out"
            path.write_bytes(b"something of somebody's")
            what = rng.choice([one for one in mutations.STANDS if one not in ("missing", "huge")])
            mutations.stand_in(path, what, outside(path, folder))
            return f"out: {what}"
        found = sorted(path for pattern in target.files for path in folder.glob(pattern))
        path = rng.choice(found)
        name = path.relative_to(folder)
        if rng.random() < 0.08:
            what = rng.choice(mutations.STANDS)
            mutations.stand_in(path, what, outside(path, folder))
            return f"{name}: {what}"
        made, data = mutations.mutate(path.read_bytes(), path.suffix, rng)
        path.unlink()
        path.write_bytes(data)
        corrected = rng.random() < 0.85 and mend(folder, path)
        return f"{name}: {made}{', hashes corrected' if corrected else ''}"


def outside(path: Path, folder: Path) -> Path:
    """Copy a file to a place outside its folder, so that a link can point to the copy; return the copy's path."""
    # A command that changes the copy has written through the link, which is a failure.
    place = folder.with_name(f"{folder.name}.outside")
    place.write_bytes(path.read_bytes())
    os.utime(place, (1, 1))
    return place


def frequency(line: str) -> float:
    """Return how often a command line is run, relative to others: 1 for most commands, less for slow ones."""
    return {"report": 0.1, "audit": 0.1, "generate": 0.3, "grade": 0.4, "compare": 0.4}.get(line.split()[0], 1.0)


def copy(source: Path, target: Path) -> None:
    """Copy the files of a folder of the corpus; large files that no command changes become hard links."""

    def place(start: str, end: str) -> None:
        if not start.endswith((".png", ".jpg", ".dcm", ".npy", ".npz", ".pkl")):
            shutil.copyfile(start, end)
            return
        try:
            os.link(start, end)
        except OSError:
            shutil.copyfile(start, end)

    shutil.copytree(source, target, copy_function=place)


def mend(folder: Path, changed: Path) -> bool:
    """Write the new hash of the file ``changed`` into its benchmark; return False for a file without a hash."""
    from chexqa.files.jsonio import sha256

    bench = folder / changed.relative_to(folder).parts[0]
    about = bench / "benchmark.json"
    if not about.is_file() or changed == about:
        return False
    texts = [path for path in bench.glob("*.json*") if path.is_file()]
    if changed.suffix == ".png":
        name = sha256(changed.read_bytes())
        place = changed.parent.parent / name[:2] / f"{name}.png"
        if changed.parent.parent.name != "images":
            return False
        place.parent.mkdir(exist_ok=True)
        changed.rename(place)
        swap(texts, f"{changed.parent.name}/{changed.stem}", f"{name[:2]}/{name}")
    record = json.loads(about.read_text())
    before = dict(hashes(record))
    for name, file in (("items", "items.jsonl"), ("answers", "answers.jsonl")):
        for key, value in before.items():
            if name in key and (bench / file).is_file():
                swap([about], value, sha256((bench / file).read_bytes()))
    after = dict(hashes(json.loads(about.read_text())))
    others = [path for path in folder.glob("**/*.json*") if path.is_file() and path.stat().st_size < 2**24]
    for key, value in before.items():
        if after.get(key, value) != value:
            swap(others, value, after[key])
    return True


def hashes(record: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield ``(path, hash)`` for each hash in a record; the path joins its keys, as in ``/files/items.jsonl``."""
    if isinstance(record, dict):
        for key, value in record.items():
            yield from hashes(value, f"{path}/{key}")
    elif isinstance(record, str) and re.fullmatch("[0-9a-f]{64}", record):
        yield path, record


def swap(paths: list[Path], old: str, new: str) -> None:
    for path in paths:
        data = path.read_bytes()
        if old.encode() in data:
            path.write_bytes(data.replace(old.encode(), new.encode()))


# --- trying -----------------------------------------------------------------------------------------------------------


def attempt(maker: Maker, number: int, folder: Path, real: bool = False) -> tuple[Tried, str]:
    """Make and run one try in ``folder``, which is then removed; return the try and its commands' output."""
    place = folder / "try"
    shutil.rmtree(place, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    made = maker.prepare(number, place)
    codes, seconds, megabytes, wrong, said, printed = [], 0.0, 0, "", "", ""
    for line in made.lines:
        done = run(["--debug", *shlex.split(line)], place, folder / "printed", real)
        codes.append(done.code)
        seconds, megabytes = seconds + done.seconds, max(megabytes, done.megabytes)
        printed += f"$ chexqa {line}\n{done.output}\n"
        if done.wrong and not wrong:
            wrong, said = done.wrong, where(done.output) if done.wrong in ("exit 1", "hang", "memory") else odd(done)
    other = place.with_name(f"{place.name}.outside")
    if other.exists() and other.stat().st_mtime != 1 and not wrong:
        wrong, said = "outside", "written through a link that leads out of the try's folder"
    other.unlink(missing_ok=True)
    shutil.rmtree(place, ignore_errors=True)
    kind = made.target.kind
    return Tried(number, kind, made.change, made.lines, tuple(codes), seconds, megabytes, wrong, said), printed


def run_unchanged(maker: Maker, target: Target, line: str, folder: Path) -> Done:
    """Run a target's commands on unchanged files; return the first failure, or the last result if none fails."""
    place = folder / "try"
    shutil.rmtree(place, ignore_errors=True)
    maker.lay_out(target, place)
    for part in maker.filled(line):
        done = run(["--debug", *shlex.split(part)], place, folder / "printed")
        if done.code:
            break
    return done


def odd(done: Done) -> str:
    """Return the control character or API key that made an output wrong, with some text around it."""
    found = CONTROL.search(done.output) if done.wrong == "escapes" else re.search(re.escape(SECRET), done.output)
    assert found is not None, "the judge found it"
    start = max(found.start() - 60, 0)
    return repr(done.output[start : found.start() + 20])


def keep(maker: Maker, tried: Tried, printed: str, folder: Path) -> Path:
    """Recreate the files of a failed try in a folder below ``folder``, with its output and a script to run it."""
    place = folder / f"{tried.number:06d}-{re.sub('[^a-zA-Z0-9]+', '-', tried.kind)}"
    shutil.rmtree(place, ignore_errors=True)
    maker.prepare(tried.number, place)
    script = "\n".join(f"chexqa --debug {line}" for line in tried.lines)
    (place / "HOW.txt").write_text(
        f"{tried.change}\n{tried.wrong}: {tried.where}\n\n{script}\n\n{printed}", errors="replace"
    )
    return place
