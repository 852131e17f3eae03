"""What can go wrong in a way the user can mend, and the exit code that says so."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable

EXIT_OK = 0
EXIT_BUG = 1
EXIT_INPUT = 2
EXIT_UNFINISHED = 3


class InputError(Exception):
    """The user's input is wrong: one sentence that names the place, the value and what to do. Exit code 2."""


class UnfinishedError(Exception):
    """Work stopped early and can be taken up again: one sentence that says how. Exit code 3."""


def is_disk_full(error: OSError) -> bool:
    """Whether a disk, a quota or a limit on a file's size left no room."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def unwritable(path: object, error: OSError) -> InputError | UnfinishedError:
    """Return the error that says why ``path`` cannot be written; a full disk leaves what can be taken up again."""
    reason = f"{path}: cannot be written ({error.strerror or error})"
    if is_disk_full(error):
        return UnfinishedError(f"{reason}; make room there and give the same command again.")
    return InputError(f"{reason}; mend that, or name another place.")


def suggest(name: str, known: Iterable[str]) -> str:
    """``" (did you mean 'edema'?)"`` for the nearest known name, else the whole list; begins with a space."""
    choices = sorted(known)
    lowered = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    if near:
        return f" (did you mean '{lowered[near[0]]}'?)"
    return f" (known: {', '.join(choices)})"
