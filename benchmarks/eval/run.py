"""Speed and memory of chexqa's runner, compared with a bare httpx client that sends the same request bodies.

    python benchmarks/eval/run.py [--short] [callables] [throughput] [ideal] [cpu] [memory] [resume]

Conversations have five turns with pictures of 0.6 MB. The bare client and the runner are timed alternately, against the
server ``mock.py``. The result is the ratio of the runner's best round to the client's best round. A round of the runner
is a complete call of ``runner.run``.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import inputs

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark, check_images
from chexqa.eval.models import in_process, openai_http, registry
from chexqa.eval.models.client import Client, load_litellm
from chexqa.eval.models.registry import Model
from chexqa.eval.prompts import protocols
from chexqa.eval.runs import runner
from chexqa.eval.runs.runner import RunConfig

HERE = Path(__file__).parent
BODIES = 24
MIB = 2**20


class Measured(NamedTuple):
    """Wall time and processor time in seconds, and the number of turns asked in this time."""

    wall: float
    cpu: float
    turns: int

    @property
    def rate(self) -> float:
        return self.turns / self.wall

    @property
    def cpu_ms(self) -> float:
        return self.cpu / self.turns * 1e3


@contextmanager
def mock(latency_s: float) -> Iterator[Model]:
    """Start the server ``mock.py``, which answers after ``latency_s`` seconds, and yield it as a model."""
    process = subprocess.Popen([sys.executable, HERE / "mock.py", str(latency_s)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield registry.adhoc("mock", f"http://127.0.0.1:{int(process.stdout.readline())}/v1")
    finally:
        process.kill()
        process.wait()


def measure(work: Callable[[], int]) -> Measured:
    """Return the wall and processor time of one call of ``work``; ``work`` returns the number of turns it asked."""
    wall, cpu = time.perf_counter(), time.process_time()
    turns = work()
    return Measured(time.perf_counter() - wall, time.process_time() - cpu, turns)


def prepared(loaded: Benchmark, model: Model) -> list[bytes]:
    """Return the request bodies of the first turns of up to 24 conversations, as the runner would send them."""
    client, bodies = Client(loaded), []
    for conversation in protocols.conversations(loaded, "end_to_end")[:BODIES]:
        messages = protocols.render(loaded, "end_to_end", conversation, [])
        given = client._call(model, messages, 8).keywords
        pieces = openai_http.encode(given["model"], given["messages"], given["optional_params"], given["encoded"])
        bodies.append(b"".join(pieces))
    return bodies


def bare(model: Model, bodies: Sequence[bytes], turns: int, concurrency: int) -> int:
    """Post ``turns`` prepared bodies with the bare httpx client and decode the replies; return ``turns``."""
    waiting = iter(itertools.islice(itertools.cycle(bodies), turns))

    async def work(client: httpx.AsyncClient) -> None:
        for body in waiting:
            reply = await client.post("/chat/completions", content=body, headers={"Content-Type": "application/json"})
            assert reply.json()["choices"]

    async def all_of_it() -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx.AsyncClient(base_url=str(model.api_base), timeout=600, limits=limits) as client:
            await asyncio.gather(*(work(client) for _ in range(concurrency)))

    asyncio.run(all_of_it())
    return turns


def ours(loaded: Benchmark, model: Model, run: Path, concurrency: int) -> int:
    """Ask the complete benchmark with chexqa's runner, remove the run, and return the number of items asked."""
    progress = runner.run(RunConfig(loaded, (model,), "end_to_end", run, concurrency=concurrency))[0]
    assert not progress.unfinished, progress.error
    inputs.remove(run)
    return len(loaded.items)


def in_turns(latency_s: float, pictures: int, turns: int, concurrency: int, rounds: int) -> tuple[float, float]:
    """Time the bare client and the runner alternately.

    Returns two ratios of runner to bare client: turns per second, and processor time per turn.
    """
    floors, owns = [], []
    with tempfile.TemporaryDirectory() as name, mock(latency_s) as model:
        folder = Path(name)
        loaded = inputs.make_benchmark(folder, inputs.make_pool(folder), turns // 5, pictures, 5)
        bodies = prepared(loaded, model)
        for _ in range(rounds):
            floors.append(measure(lambda: bare(model, bodies, turns, concurrency)))
            owns.append(measure(lambda: ours(loaded, model, folder / "run", concurrency)))
            print(
                f"  HTTP client alone: {floors[-1].rate:6.1f} turns/s, {floors[-1].cpu_ms:5.2f} ms of processor time "
                f"per turn; chexqa: {owns[-1].rate:6.1f} turns/s, {owns[-1].cpu_ms:5.2f} ms",
                flush=True,
            )
    rate = max(own.rate for own in owns) / max(floor.rate for floor in floors)
    return rate, min(own.cpu_ms for own in owns) / min(floor.cpu_ms for floor in floors)


def throughput(short: bool) -> None:
    print("server latency 200 ms, 32 conversations at once, one picture per turn:")
    rate, cpu = in_turns(0.2, 1, 640 if short else 1600, 32, 3)
    print(f"throughput: {rate:.0%} of what the HTTP client reaches alone (target: at least 90 %)")
    print(f"processor time: {cpu:.2f} times that of the HTTP client alone (target: at most 2)\n")


def cpu(short: bool) -> None:
    print("server latency 200 ms, 32 conversations at once, seven pictures per turn:")
    rate, cpu = in_turns(0.2, 7, 160 if short else 800, 32, 3)
    print(f"processor time: {cpu:.2f} times that of the HTTP client alone (target: at most 2.2)")
    print(f"throughput: {rate:.0%} of what the HTTP client reaches alone\n")


def ideal(short: bool) -> None:
    print("server latency 2 s, 64 conversations at once, one picture per turn:")
    turns, concurrency, latency_s = 320 if short else 1280, 64, 2.0
    with tempfile.TemporaryDirectory() as name, mock(latency_s) as model:
        images = inputs.make_pool(Path(name))
        # The first question of a process is not measured, because it includes the imports.
        ours(inputs.make_benchmark(Path(name), images, 2, 1, 1), model, Path(name) / "run", concurrency)
        loaded = inputs.make_benchmark(Path(name), images, turns // 5, 1, 5)
        bodies, best, floors, owns = prepared(loaded, model), turns * latency_s / concurrency, [], []
        for _ in range(2):
            floors.append(measure(lambda: bare(model, bodies, turns, concurrency)))
            owns.append(measure(lambda: ours(loaded, model, Path(name) / "run", concurrency)))
            print(
                f"  share of the ideal speed: HTTP client alone {best / floors[-1].wall:.1%}, chexqa "
                f"{best / owns[-1].wall:.1%}",
                flush=True,
            )
    own, floor = min(owns), min(floors)
    print(
        f"chexqa {own.wall:.2f} s, ideal {best:.2f} s: {best / own.wall:.1%} of the ideal speed (target: at least "
        f"97 %); the HTTP client alone reaches {best / floor.wall:.1%}. chexqa used {own.cpu:.2f} s of processor time\n"
    )


def memory(short: bool) -> None:
    counts = (40, 400) if short else (200, 2000)
    print(f"benchmarks of {counts[0]} and {counts[1]:,} conversations, 32 at once, three pictures per turn:")
    with tempfile.TemporaryDirectory() as name:
        images = inputs.make_pool(Path(name))
        peaks = []
        for count in counts:
            inputs.make_benchmark(Path(name), images, count, 3, 2)
            command = [sys.executable, __file__, "--peak", name]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            peaks.append(json.loads(done.stdout))
            print(f"  {count:5,} conversations: peak memory {peaks[-1]:.0f} MiB", flush=True)
    print(
        f"peak memory of the larger benchmark: {peaks[1] / peaks[0]:.2f} times that of the smaller (target: near 1), "
        f"{peaks[1]:.0f} MiB (target: under 600 MB, which is 572 MiB)\n"
    )


def peak(folder: Path) -> None:
    """Ask a simulated model a benchmark's questions in this process, and print the process's peak memory in MiB."""
    with mock(0.05) as model:
        ours(benchmark.load(folder), model, folder / "run", 32)
    # getrusage is not used: its peak includes that of the process that started this one.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    print(json.dumps(int(status.split("VmHWM:")[1].split()[0]) * 1024 / MIB))


def resume(short: bool) -> None:
    count = 1000 if short else 10000
    with tempfile.TemporaryDirectory() as name, mock(0.0) as model:
        loaded = inputs.make_benchmark(Path(name), inputs.make_pool(Path(name), 1), count // 5, 1, 5)
        models = tuple(registry.adhoc(f"mock-{number}", model.api_base) for number in range(5))
        run = Path(name) / "run"
        turns = inputs.make_log(loaded, run, models)
        own = measure(lambda: len(runner.run(RunConfig(loaded, models, "end_to_end", run))))
        decoding = measure(
            lambda: len([json.loads(line) for path in run.glob("turns/*.jsonl") for line in path.open()])
        )
    assert decoding.turns == turns
    print(
        f"starting a finished run again, with a log of {turns:,} turns: {own.wall:.2f} s elapsed (target: under 3 s "
        f"for 50,000 turns), {own.cpu:.2f} s of processor time, {own.cpu / decoding.cpu:.1f} times that of decoding "
        "the log's JSON\n"
    )


def callables(short: bool) -> None:
    """Time a run of a Python callable that answers immediately; each conversation has one picture."""
    turns = 200 if short else 1000

    def answer(messages: list[dict[str, object]]) -> str:
        return "Answer: 1"

    model = in_process.of_callable(answer)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loaded = inputs.make_benchmark(folder, inputs.make_pool(folder), turns, 1, 1)
        # The first run of a process and the check of all pictures of a new run are not measured.
        ours(loaded, model, folder / "run", 8)
        check = measure(lambda: check_images(loaded))
        done = min((measure(lambda: ours(loaded, model, folder / "run", 8)) for _ in range(3)), key=lambda one: one.cpu)
    own = (done.cpu - check.cpu) / turns * 1e3
    print(
        f"asking a callable that answers immediately ({turns:,} turns, one picture each): {own:.2f} ms of processor "
        f"time per turn (target: at most 1 ms), {done.rate:.0f} turns/s; before a run, the check of all "
        f"pictures took {check.cpu:.2f} s of processor time\n"
    )


MEASUREMENTS = {
    "callables": callables,
    "throughput": throughput,
    "cpu": cpu,
    "ideal": ideal,
    "memory": memory,
    "resume": resume,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help=f"measurements to make: {', '.join(MEASUREMENTS)} (default: all)")
    parser.add_argument("--short", action="store_true", help="few turns, for a first look or a busy machine")
    parser.add_argument("--peak", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        peak(given.peak)
        return
    load_litellm()
    for name in given.what or MEASUREMENTS:
        MEASUREMENTS[name](given.short)


if __name__ == "__main__":
    main()
