"""Conversion of a reply into plain lower-case text for the parser, without reasoning and without markup.

Markup is that of Markdown, HTML and LaTeX. An answer in a special form (a JSON object, a box, a tag, a list with ticks)
becomes an answer line between :data:`BEGIN` and :data:`END`, so the same rules read every form. Before any other step,
a long text is shortened.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections import deque
from typing import Any

# Mark at the end of a complete answer line; no reply has this character. The rest of the reply's own line follows.
END = "\x03"
# Mark at the beginning of a generated answer line; the text before the mark is the reply's own.
BEGIN = "\x02"
# Replies have at most 8,192 tokens. Only the end of a longer text is read, so hostile text takes little time.
TAIL = 50_000
# Number of objects examined in a reply, from its end, and the largest depth of an answer in one.
_OBJECTS, _DEPTH = 40, 3

# Opening and closing marks of reasoning.
_NAMES = r"(?:seed:)?(?:think|thinking|thought|reasoning|scratchpad|reflection)"
_OPENING = (
    rf"<{_NAMES}\b[^<>]{{0,80}}>|\[think\]|<unused94>|◁think▷|<\|channel>|<\|begin_of_thought\|>|"
    r"<\|channel\|>(?:analysis|commentary)\b"
)
_CLOSING = (
    rf"</{_NAMES}\s?>|\[/think\]|<unused95>|◁/think▷|<channel\|>|<\|end_of_thought\|>|"
    r"<\|channel\|>final(?:<\|message\|>)?"
)
THOUGHT_MARKS = re.compile(f"({_OPENING})|({_CLOSING})", re.I)
# Marks of a reply that continues in the user's role.
_ASKER = re.compile(r"\n\s?(?:user|human)\s?:|<\|im_start\|>user|<start_of_turn>user|<\|(?:user|human)\|>|\[inst\]")
_ASKED_ON = re.compile(r"\n\s?(?:next\s)?question\s?\d*\s?:")
_ANSWERED = re.compile(r"\banswer\s?:")
_SPEAKER = re.compile(r"^[ ]?(?:assistant|model|ai|gpt|bot)\s?:|<\|(?:im_start|start)\|>\s?assistant\b", re.M)

_QUOTED = re.compile(r"^(?:[ ]?>)+[ ]", re.M)
_STRUCK = re.compile(r"~~[^~\n]*~~|<(s|del|strike)>[^<>]*</\1>|\\(?:cancel|sout|st)\s?\{[^{}]*\}")
_TICKED = re.compile(r"(?:^[ >*+•-]*(?:\d\.[ ])?(?:\[[ x✓✔✗]?\]|[☐☑☒✅❌⬜])[ ][^\n]*(?:\n+|\Z)){2,}", re.M)
_TICKS = frozenset("x✓✔☑✅")
_TICK = re.compile(r"^[ >*+•-]*(\d\.[ ])?(?:\[([ x✓✔✗]?)\]|([☐☑☒✅❌⬜]))[ ]([^\n]*)", re.M)
_TOKEN_BOX = re.compile(r"<\|begin_of_box\|>([^<>]{0,500})<\|end_of_box\|>")
_TAG = re.compile(r"</?(?:final_?)?(?:answer|choice|conclusion|response)>")
_TAGS = re.compile(r"<answers>\s*((?:<answer>[^<>]{0,200}</answer>\s*){2,20})</answers>")
_BREAK = re.compile(r"<br\s?/?>|</(?:p|div|li)>")
_MARKUP = re.compile(r"</?[a-z][^<>\n]{0,80}>|<\|[a-z_▁]{1,40}\|>")
_MARKDOWN = re.compile("[*`]+|__")
_FRACTION = re.compile(r"\\d?frac\s?\{(\d+)\}\s?\{(\d+)\}")
_LATEX_SPACE = re.compile(r"\\[()\[\]{},;: ]|\$|(?<=[a-z])~(?=\d)")
_BLANKS, _LINES = re.compile(r"[^\S\n]+"), re.compile(r"\s*\n ?")
_OBJECT = re.compile(r"\{|\[(?=\s*\{)")
_JSON = json.JSONDecoder(strict=False)

_BOX = r"\\(?:boxed|fbox|framebox)\s?\{([^{}]*)\}"
# Several boxes that form one answer or one doubt: "1 and 3", "1 (red), 3", "1 or 3".
_BETWEEN = (
    r"\s{0,3}(?:\([^(){}\n]{1,80}\)\s?(?=[,;&]|and|or\b))?[,;&/、]?\s?"
    r"(?:and|plus|as well as|or|und|oder|ou|et|y|o|или|или|和|或)?(?:\s?(?:maybe|possibly|perhaps))?\s{0,3}"
)
_BOXES = re.compile(f"{_BOX}(?:{_BETWEEN}{_BOX})*")
_LATEX_TEXT = re.compile(
    r"\\(?:text|textbf|textrm|textit|textsf|mathrm|mathbf|mathsf|mathit|operatorname)\s?\{([^{}]*)\}"
)
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\ufe0f\u20e3]")
# Pieces that can be normalized separately: an ASCII character never combines with the character before it.
_PIECES = re.compile(r"[\x00-\x7f]*[^\x00-\x7f]{0,499}")
_DISC = re.compile("([🔴🟠🟡🟢🔵🟣🟤⚫⚪])\\s?(\\d)(?![\\d.]*\\d)")
_DISCS = {"🔴": "red", "🟠": "orange", "🟡": "yellow", "🟢": "green", "🔵": "blue", "🟣": "purple", "🟤": "brown",
          "⚫": "black", "⚪": "white"}  # fmt: skip
_NOT_ASCII_DIGIT = re.compile(r"[^\D0-9]")
_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»「」『』＂", '"') | dict.fromkeys("‘’‚‛", "'") | {"⁄": "/", "∕": "/"})
Announced = tuple[re.Pattern[str], ...]


def tidy(raw: str, announced: Announced) -> str:
    """Return the reply as plain lower-case text.

    A LaTeX box is replaced by its content if it directly follows words that announce an answer; otherwise it becomes an
    answer line ("answer: …"). ``announced`` has the patterns of these words.
    """
    return _plain(spoken(raw), announced)


def spoken(raw: str) -> str:
    """Return the end of the reply in lower case, without reasoning and without dialogue that the model made up."""
    text = _folded(raw[-TAIL:])[-TAIL:]
    return _of_one_speaker(_without_thoughts(text, len(raw) > TAIL and _left_open(raw[:-TAIL])))


def _folded(text: str) -> str:
    """Return the text in NFKC and lower case, with ASCII digits, straight quotes and no control characters."""
    if not text.isascii():
        text = composed(text).translate(_QUOTES)
        text = _NOT_ASCII_DIGIT.sub(lambda digit: str(unicodedata.digit(digit[0])), text)
        text = _DISC.sub(lambda disc: f"{disc[2]} ({_DISCS[disc[1]]})", text)
    return _UNSEEN.sub("", (html.unescape(text) if "&" in text else text).casefold())


def composed(text: str) -> str:
    """Return the text in Unicode's normal form NFKC.

    The text is converted in pieces, because a very long run of combining marks would take minutes.
    """
    return "".join(unicodedata.normalize("NFKC", piece) for piece in _PIECES.findall(text))


def _left_open(head: str) -> bool:
    """Return True if a reasoning block begins in ``head``, the part that was cut away, and does not end there."""
    marks = deque(THOUGHT_MARKS.finditer(head), maxlen=1)
    return bool(marks) and marks[0][1] is not None


def _without_thoughts(text: str, inside: bool) -> str:
    """Return the text outside reasoning blocks; a block without an end mark goes to the end of the text."""
    kept: list[str] = []
    start = 0
    for match in THOUGHT_MARKS.finditer(text):
        if match[1]:
            if not inside:
                kept.append(text[start : match.start()])
            inside = True
        else:
            if not inside:  # the opening mark of reasoning was in the prompt
                kept.clear()
            inside, start = False, match.end()
    return "\n".join([*kept, "" if inside else text[start:]])


def _of_one_speaker(text: str) -> str:
    """Return the text without names of speakers, up to the first line that the model invented for the user."""
    asked = next((match for match in _ASKER.finditer(text) if text[: match.start()].strip()), None)
    text = text[: asked.start()] if asked else text
    answered = _ANSWERED.search(text)
    asked = _ASKED_ON.search(text, answered.end()) if answered else None
    return _SPEAKER.sub("\n", text[: asked.start()] if asked else text)


def _plain(text: str, announced: Announced) -> str:
    """Return the text without marks of Markdown, HTML or LaTeX; objects, boxes, tags and ticks become answer lines."""
    text = _TICKED.sub(_ticked, _objects_read(_STRUCK.sub("", _QUOTED.sub("", text))))
    if "<" in text:
        text = _TOKEN_BOX.sub(r"\\boxed{\1}", text)
        text = _TAGS.sub(lambda tags: f"<answer>{', '.join(_TAG.sub(' ', tags[1]).split())}</answer>", text)
        text = _TAG.sub(lambda tag: f"\n{END}" if "/" in tag[0] else f"{BEGIN}answer: ", text)
        text = _MARKUP.sub("", _BREAK.sub("\n", text))
    text = _MARKDOWN.sub("", text)
    if "\\" in text or "$" in text or "~" in text:
        for _ in range(3):  # \textbf{\text{…}} and the like
            text = _LATEX_TEXT.sub(r"\1", text)
        text = _LATEX_SPACE.sub(" ", _FRACTION.sub(r"\1/\2", text))
    text = _BLANKS.sub(" ", text)
    boxed = _BOXES.sub(lambda boxes: _unbox(boxes, announced), text)
    return _LINES.sub(lambda gap: "\n" if gap[0].count("\n") == 1 else "\n\n", boxed).strip()


def _line(said: str) -> str:
    """Return the answer as a complete answer line, between the two marks."""
    return f"{BEGIN}answer: {said.strip()}\n{END}"


def _unbox(boxes: re.Match[str], announced: Announced) -> str:
    """Return the content of a box: unchanged directly after an answer word, elsewhere as an answer line."""
    parts = re.split(_BOX, boxes[0])[1:-1]  # alternately the content of a box and the text between two boxes
    content = " ".join(part.strip() or "," for part in parts)
    line = boxes.string[max(0, boxes.start() - 200) : boxes.start()].rpartition("\n")[2].rstrip() + " "
    behind = any(match.end() == len(line) for form in announced for match in form.finditer(line))
    return f"{content} " if behind else _line(content)


def _ticked(lines: re.Match[str]) -> str:
    """Return the ticked lines of a list as an answer line."""
    found = _TICK.findall(lines[0])
    ticked = [f"{number}{text}" for number, box, sign, text in found if (box or sign) in _TICKS]
    return f"{BEGIN}answer:\n" + "\n".join([*ticked, END, ""]) if ticked else f"\n{END}\n"


def _objects_read(text: str) -> str:
    """Return the text with each JSON object replaced by an answer line, or removed if it gives no answer."""
    parts: list[str] = []
    start = 0
    for match in list(_OBJECT.finditer(text))[-_OBJECTS:]:
        if match.start() < start:
            continue
        try:
            value, end = _JSON.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        if value:
            parts += [text[start : match.start()], _line(said) if (said := _said(value)) is not None else f"\n{END}"]
            start = end
    return "".join([*parts, text[start:]])


# Fields that may hold an answer, the most certain first; letters only, so "final_answer" is "finalanswer".
_FIELDS = (
    ("finalanswer", "finalchoice", "finalresponse"),
    ("answer", "answers", "correctanswer", "correctanswers", "correctoption", "correctoptions", "answernumber",
     "答案", "最终答案", "antwort", "réponse", "respuesta", "resposta", "risposta", "ответ", "정답", "回答"),
    ("choice", "choices", "selection", "selections", "selected", "selectedoption", "selectedoptions", "chosenoption",
     "chosenoptions", "optionnumber", "optionnumbers", "prediction", "result", "response", "output"),
    ("option", "number", "cell", "gridcell", "selectedcell", "point", "points", "place", "places", "location",
     "locations", "region", "regions", "contour", "outline", "options"),
    tuple(f"{how}{what}" for how in ("best", "chosen", "selected", "correct", "predicted")
          for what in ("option", "choice", "cell", "contour", "outline", "point", "points", "place", "places")),
)  # fmt: skip
_TRUE = {True: True, False: False, "yes": True, "no": False, "true": True, "false": False}


def _said(value: Any, depth: int = 0) -> str | None:
    """Return the answer in a JSON value as text; None if the value has no answer."""
    if isinstance(value, list):
        rows = [_said(row, depth) for row in value[:100]]
        return None if None in rows else ", ".join(str(row) for row in rows)
    if not isinstance(value, dict):
        return None
    fields = {re.sub(r"[\W\d_]+", "", key): field for key, field in reversed(value.items())}
    for names in _FIELDS:
        given = [fields[name] for name in names if name in fields]
        if given:
            return _worded(given[0], fields) if all(one == given[0] for one in given) else "?"
    if (cell := _cell(fields)) is not None:
        return cell
    if len(value) > 1 and all(isinstance(one, bool | str) and one in _TRUE for one in value.values()):
        return ", ".join(key for key, one in value.items() if _TRUE[one])
    inner = [
        said for one in value.values() if depth < _DEPTH and isinstance(one, dict) and (said := _said(one, depth + 1))
    ]
    return inner[0] if len(inner) == 1 else None


def _cell(fields: dict[str, Any]) -> str | None:
    """Return the grid cell that an object's fields for column and row name, or None."""
    column, row = fields.get("column", fields.get("col")), fields.get("row")
    return None if column is None or row is None else f"{column}{row}"


def _worded(value: Any, around: dict[str, Any]) -> str:
    """Return the value of an object's field in the words of a reply: a list gets commas, an option gets its text."""
    if isinstance(value, list):
        return ", ".join(_worded(one, {}) for one in value[:100])
    if isinstance(value, dict):
        return _said(value) or "?"
    if value is None:
        return "?"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = around.get("text", around.get("label"))
    return f"{value} ({text})" if type(value) is int and isinstance(text, str) and text else str(value)
