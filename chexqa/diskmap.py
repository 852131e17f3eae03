"""A mapping kept on disk, for what must be remembered of every row of a data set of any size."""

from __future__ import annotations

import sqlite3
import weakref
from typing import Generic, TypeVar

V = TypeVar("V", int, str)


class DiskMap(Generic[V]):
    """Text to whole numbers or text, in a private temporary file that vanishes with the process.

    SQLite keeps the first two megabytes in memory, so that a small mapping never touches the disk and one of millions
    of keys needs no more memory than a small one.
    """

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._db.close)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("CREATE TABLE entry (key BLOB PRIMARY KEY, value) WITHOUT ROWID")
        self._db.execute("BEGIN")  # one transaction that is never ended: nothing is to outlive the process

    def setdefault(self, key: str, value: V) -> V:
        """Keep ``value`` under ``key`` unless the key is known; returns what is kept."""
        if self._db.execute("INSERT OR IGNORE INTO entry VALUES (?, ?)", (_code(key), value)).rowcount:
            return value
        known = self.get(key)
        assert known is not None, "a key that cannot be inserted is there"
        return known

    def get(self, key: str) -> V | None:
        """What is kept under ``key``, ``None`` for an unknown one."""
        row = self._db.execute("SELECT value FROM entry WHERE key = ?", (_code(key),)).fetchone()
        return None if row is None else row[0]

    def __len__(self) -> int:
        count: int = self._db.execute("SELECT count(*) FROM entry").fetchone()[0]
        return count


def _code(key: str) -> bytes:
    """The key's bytes; JSON can hold half of a character pair, which is no valid text for SQLite."""
    return key.encode("utf-8", "surrogatepass")
