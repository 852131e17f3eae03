"""Worker process of a callable: it sees one device, loads the callable, and answers the conversations sent to it."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection

from chexqa.eval.local.load_and_call import Served
from chexqa.files.errors import InputError

CARDS = "CUDA_VISIBLE_DEVICES"


def device_of(name: str) -> str:
    """Return the device name that a callable gets: ``cpu``, ``cuda`` (one GPU) or ``auto`` (several GPUs).

    >>> device_of("cpu"), device_of("1"), device_of("0+1")
    ('cpu', 'cuda', 'auto')
    """
    return "cpu" if name == "cpu" else "auto" if "+" in name else "cuda"


def serve(pipe: Connection, device: str) -> None:
    """Receive a callable and then lists of conversations from a pipe, and send back the answers to each list.

    The first message sent back is None, or a sentence that says why the callable cannot be loaded. The function returns
    when the pipe's other end is closed.
    """
    # Ctrl-C reaches every process of the terminal; the runner lets the calls in flight finish.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ[CARDS] = "" if device == "cpu" else device.replace("+", ",")
    # Standard output belongs to the command's results.
    sys.stdout.flush()
    os.dup2(2, 1)
    try:
        served: Served = pipe.recv()
        try:
            served.run_load(device_of(device))
        except InputError as error:
            pipe.send(str(error))
            return
        pipe.send(None)
        while True:
            pipe.send(served.run(pipe.recv()))
    except (EOFError, OSError):  # the run has ended, or was killed
        return
