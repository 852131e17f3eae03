"""Random number streams: an independent generator for every purpose, in place of one global generator."""

from __future__ import annotations

import hashlib

import numpy as np


def digest(*parts: object) -> bytes:
    """Return the SHA-256 of a list of values as text; lists with different texts give different digests."""
    text = "\x1f".join(str(part).replace("\\", "\\\\").replace("\x1f", "\\x1f") for part in parts)
    return hashlib.sha256(text.encode()).digest()


def stream(seed: int, *purpose: object) -> np.random.Generator:
    """Return a generator that depends only on ``seed`` and ``purpose``.

    The same arguments give the same numbers in any process and any order of work. Different purposes give independent
    streams, so drawing more numbers for one purpose changes no number of another purpose.
    """
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest(seed, *purpose)[:16], "big")))
