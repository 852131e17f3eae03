"""Foreign servers as processes: a start on a free port, a wait for the first answer, and a complete end."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

STARTS_WITHIN_S = 180


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports of 127.0.0.1 on which nothing listens."""
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in held]


@contextmanager
def serving(
    command: Sequence[object], answers_at: str, log: Path, variables: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends; the block begins when the address ``answers_at`` answers.

    The server's output is written into ``log``. Its environment has only the given variables and PATH and HOME of this
    process. The server also ends when the process group of this process ends.
    """
    own = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    words = [str(word) for word in command]
    with (
        log.open("w") as out,
        subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=own | dict(variables or {})
        ) as process,
    ):  # fmt: skip
        try:
            _wait(answers_at, process, log)
            yield process
        finally:
            process.kill()


def _wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.3)
    pytest.fail(f"{Path(str(process.args[0])).name} did not start: {log.read_text()[-2000:]}")  # type: ignore[index]
