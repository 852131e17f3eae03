"""Log-probability of a reply's answer, from the tokens' log-probabilities that a server gives with ``--logprobs``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from chexqa.contract.items import Item
from chexqa.eval.prompts import answer_parser, parser_confidence

# Lines from the end of a reply, and words from the end of a line, in which an answer is looked for.
_LINES, _WORDS = 20, 40
_LINE, _WORD = re.compile(r"[^\n]*\S[^\n]*"), re.compile(r"\S+")
_MARKS = " \t\r.,;:!*_`\"'()[]{}"
Tokens = Sequence[tuple[str, float]]


def answer_logprob(item: Item, parsed: tuple[int, ...] | None, tokens: Tokens | None) -> float | None:
    """Return the log-probability (natural logarithm) of the answer's tokens; None if the answer is not found.

    - ``parsed``: the answer that the parser read from the reply.
    - ``tokens``: the tokens of the reply, with their log-probabilities.

    Questions on places give None.
    """
    if not parsed or not tokens or item.form.is_place:
        return None
    found = _span(item, parsed, "".join(text for text, _ in tokens))
    if found is None:
        return None
    total, at = 0.0, 0
    for text, value in tokens:
        if at < found[1] and at + len(text) > found[0]:
            total += value
        at += len(text)
    return min(total, 0.0)


def _span(item: Item, parsed: tuple[int, ...], reply: str) -> tuple[int, int] | None:
    """Return the start and end of the answer's text in the reply; None if no line is read as this answer."""
    # The shortest part of a line from which the parser reads the answer. Lines are tried from the last one upwards;
    # lines that state a confidence are skipped. The words after the answer are cut off first, then those before it.
    for line in reversed([*_LINE.finditer(reply)][-_LINES:]):
        if parser_confidence.read(line[0]).state != "missing":
            continue
        words = [*_WORD.finditer(reply, line.start(), line.end())][-_WORDS:]
        first = words[0].start()
        end = next((word.end() for word in words if _reads(item, reply[first : word.end()], parsed)), None)
        if end is not None:
            starts = [word.start() for word in words if word.start() < end]
            alone = (start for start in reversed(starts) if _reads(item, reply[start:end].strip(_MARKS), parsed))
            start = next(alone, first)
            held = reply[start:end]
            return start + len(held) - len(held.lstrip(_MARKS)), start + len(held.rstrip(_MARKS))
    return None


def _reads(item: Item, text: str, parsed: tuple[int, ...]) -> bool:
    return answer_parser.read(item, text).parsed == parsed
