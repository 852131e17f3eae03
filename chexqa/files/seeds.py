"""Random streams: one independent generator for every purpose, none of them global."""

from __future__ import annotations

import hashlib

import numpy as np


def digest(*parts: object) -> bytes:
    """SHA-256 of the parts' text, joined so that no two lists of parts give the same bytes."""
    text = "\x1f".join(str(part).replace("\\", "\\\\").replace("\x1f", "\\x1f") for part in parts)
    return hashlib.sha256(text.encode()).digest()


def stream(seed: int, *purpose: object) -> np.random.Generator:
    """A generator that depends on ``seed`` and ``purpose`` alone.

    The same arguments give the same numbers in any process and in any order of work;
    different purposes give independent streams, so that drawing more in one place
    changes nothing in another.
    """
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest(seed, *purpose)[:16], "big")))
