"""Finder of the positions where a reply announces an answer, and of words that take the answer back or doubt it."""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from itertools import chain
from typing import NamedTuple

from chexqa.eval.prompts.parser_clean_up import BEGIN

# Normalized in the same way as the text.
_WORDS = unicodedata.normalize(
    "NFKC",
    r"(?:answers?|(?:final|my)\s(?:response|choice|verdict|selection|option|result|conclusion|cell|decision)s?|"
    r"antwort(?:en)?|réponses?|reponses?|respuestas?|respostas?|risposta|antwoord|odpowiedź|svar|cevap|jawaban|"
    r"đáp án|ответ|"
    r"الإجابة|उत्तर|คำตอบ|答案|回答|正解|答え|答|정답|답변|답|故选|(?:正确|最佳|最终|所选)的?(?:选项|选择|格子))",
)
_PICK = r"(?:(?:correct|right|best|final|chosen|selected)\s(?:option|choice|cell|contour|outline|point|place)s?)"
_START = r"(?<![a-z0-9])"
_AFTER = (
    r"(?:\s(?:finale?|correct[ae]?|correcta|corretta|correta|definitiv[ae]|définitive))?[\"']?(?P<remark>\s?[(\[][^()\[\]\n]{0,40}[)\]])?"
    r"(?:\s(?:to|for)\s(?:the|this|your|my|question|q|item|task|number|image|picture|part)\b[^:\n.]{0,60})?"
)
# A colon (or a similar mark) after an answer word always opens an answer, whatever follows.
COLON = re.compile(
    rf"{_START}(?:{_WORDS}|{_PICK}){_AFTER}[ ]?(?:(?:is|are|ist|est|es|是|为|は|은|는)[ ]?)?"
    r"(?::|=>|=|→|->|(?<=[ ])[-–—](?=[ ]))[ ]?"
    rf"|^[ >#]*[\[【〔「<]\s?(?:the\s|my\s|final\s|correct\s|最终|正确)*{_WORDS}\s?[\]】〕」>]\s?:?[ ]?"
    rf"|^[ ]?\|[ ]?(?:the\s|my\s|final\s|correct\s)*{_WORDS}[ ]?\|[ ]?"
    r"(?=[^|\n]{1,80}\|[ ]?$)(?![^\n]*\n[ ]?\|[ ]?[-:])",
    re.M,
)
# "is" after an answer word opens an answer only if a readable answer or a "not" follows; otherwise it is prose.
IS = re.compile(
    rf"{_START}(?:{_WORDS}|{_PICK})(?:\sfinale?)?(?:\sto\s[^.:\n]{{0,80}}?)?"
    r"(?:\s(?:(?:is|are)(?:n't)?|would\sbe|must\sbe|should\sbe|ist|lautet|est|es|é|è)\s|\s?[是为は은는][ ]?)"
    r"|\b(?:i\s(?:would\s|will\s)?|i'[ld]+\s|but\s(?:i\s)?will\s)(?:go\swith|pick)\s(?=[^\n]{0,12}\d|the\s)"
    r"|\bi\s(?:consider|choose|chose|select|selected|picked|opt\sfor|settle\son|stay\swith)\s(?=[^\n]{0,12}\d|the\s)"
    r"|(?:因此|所以|故|我|应该?|综上)[,]?\s?选(?:择|取)?\s?(?=选项|第|\d)"
)
# "Answer 3 is right": the answer stands between the answer word and "is right".
_RIGHT = re.compile(
    rf"{_START}(?:answer|option|choice|contour|outline|cell)s?\s(?=[^.\n]{{1,40}}?\s(?:is|are)\s(?:the\s)?(?:right|correct|best)\b)"
)
# A line that holds only the answer word (the answer follows), or only the answer word and an answer.
_HEADING = re.compile(rf"^[ >#]*(?:the\s)?(?:(?:final|correct)\s)?{_WORDS}(?:[ ]?$|[ ](?=[^:\n]{{1,80}}$))", re.M)
# Words at the beginning of a line that announce an answer only if the line holds nothing else.
LABEL = re.compile(
    r"^[ >#•–-]*(?:(?:my|the|selected|chosen|predicted|best)\s)*(?:choices?|selections?|options?|"
    r"predictions?|(?:best\s)?guess|conclusion|result|response|verdict|decision|output|cells?|grid\scell|points?|places?|contour|outline|选择|选项|结论|auswahl|"
    r"choix|elección|scelta|escolha)\s?[:=][ ]?",
    re.M,
)

_NOT = (
    r"incorrect|wrong|false|not|never|isn't|n't|falsch\w*|fausses?|mauvaises?|incorrectas?|errad[ao]s?|sbagliat[ao]|неверн\w+|"
    r"неправильн\w+|错误|不正确|非"
)
_ASIDE = (
    r"second[\s-](?:best|choice|most|likely|place)|2nd|third[\s-]best|next[\s-](?:best|likely)|runner|alternat\w+|other|another|"
    r"previous\w*|prior|initial\w*|original\w*|old|earlier|former|first|preliminary|tentative|provisional|draft|possible|potential|"
    r"plausible|candidate|less|weaker|secondary|opposite|minority|rejected|discarded|excluded|dismissed|ruled|example|sample|dummy|e\.g|format|template|form|form\sof|"
    r"placeholder|hypothetical|naive|least|worst|unlikely|distractor|backup|fallback|outdated|competing|close|"
    r"alternative[ns]?|vorherige|frühere|alte|précédente?s?|anterior(?:es)?|precedente|备选|之前|先前|初步|最初|次|可能|其他|另|干扰|原"
)
_CONDITION = (
    r"\b(?:if|unless|whether|suppos\w+|assum\w+|had|were|would\ssay|could|might|may|perhaps|possibly|(?:i|we)\sthought|like|when|"
    r"someone|said|says|claims?|argues?|according|"
    r"tempt\w+|looks|provided)\b|如果|若|假如|wenn|falls|\bsi\b"
)
# "confidence in the answer: 3" is a statement about an answer.
_ABOUT = re.compile(
    r"\b(?:number|quality|confidence|certainty|score|rating|length|time|type|kind|probability)\s(?:of|in|for|to)\s"
    r"(?:(?:the|my|this|each|all|possible|final)\s)*$"
)
_SUPPOSED = re.compile(r"\b(?:if|unless|whether)\s(?:the\s|my\s)?(?:(?:final|correct|right|best)\s)?$")
_FORCED = re.compile(r"\bif\s(?:i\s(?:must|had\sto|have\sto)|forced|pressed|asked|one\smust)|\blike\sto\b|looks\slike")
_DENIED = re.compile(rf"(?<![a-z])(?:{_NOT})(?![a-z])|错误|不正确|n't")
_SET_ASIDE = re.compile(rf"(?<![a-z])(?:{_ASIDE})(?![a-z])|备选|之前|先前|初步|最初|次佳|可能的|其他|干扰")
_DOUBTED = re.compile(_CONDITION)
_MOST = 40  # largest number of matches that are read; a hostile text with thousands of matches would take much time
# Number of words before an answer word that may qualify it: "my second-best answer".
_NEAR = 6
_QUOTED_BEFORE = re.compile(r"[a-z一-鿿]")
# Second thoughts at the beginning of a sentence or clause.
AGAIN = re.compile(
    r"(?:^|[.!?;:,()\n–—…]\s?|\s-\s|\b(?:but|oh|and|or)\s)(?:sorry[,:]?\s(?=it|i\s|the|that|option|[a-h]?\d)|no[,.]?\s(?=wait|i\s|that|sorry|it'?s|(?:option\s)?[a-h]?\d)|(?:edit|update|amended|changed|better|now)\s?:|oh[,.]?\s|hmm+|ah[,.]?\s|wait\b(?!\sfor)|hold\son|"
    r"actually\b|oops|correction\b|corrected\b|scratch\sthat|strike\sthat|on\s(?:second|further)\s(?:thoughts?|look|reflection)|"
    r"on\sreflection|upon\sreflection|on\scloser\s(?:inspection|look)|looking\s(?:again|closer|more\sclosely)|"
    r"(?:count|check|measur|compar|read|view)ing\s(?:[^.,!?\n]{1,40}\s)?(?:again|once\smore|anew)\b|i\s(?:now\s)?(?:count|check|look|measure|compare)(?:ed)?\s(?:[^.,!?\n]{1,40}\s)?(?:again|once\smore)\b|after\sre|re-?(?:examin|check|consider|evaluat|think)\w*|thinking\s(?:again|about\sit)|let\sme\s(?:re|correct|double|look|check|think|count)|i\s(?:change|changed|take\s(?:[^.!?\n]{1,30}\s)?back\b|(?:want|wish|have|need|would\slike)\sto\s(?:take\s(?:[^.!?\n]{1,30}\s)?back\b|correct|change|revise|retract|withdraw|amend)|"
    r"was\swrong|made\s(?:a|an)\s(?:mistake|error)|meant|mean\b|misread|stand\scorrected|retract|withdraw|revise|must\scorrect|correct\smy)|"
    r"my\smistake|typo\b|(?:please\s)?disregard|ignore\s(?:that|this|the\sabove|my)|on\sreconsideration|revis(?:ed|ion)\s?:|"
    r"chang(?:ed|ing)\s(?:it\s|this\s|that\s)?to\b|i(?:\sam|'m)\schanging|i\s(?:forgot|missed|overlooked)\b|"
    r"(?:this|that|the|my)\s(?:above\s|previous\s|first\s)?answer\s(?:above\s)?(?:is|was)\s(?:wrong|incorrect|not\s(?:right|correct))\b|or\srather|rather,|instead[,:]|(?:this|that|it)\s(?:is|was)\s(?:wrong|incorrect|not\s(?:right|correct))|"
    r"(?:this|that|it)\s(?:isn't|wasn't)\s(?:right|correct)|make\sthat|"
    r"(?:it|that|this|the\sanswer)\sshould\s(?:be|have\sbeen)|should\s(?:be|have\sbeen)\s(?:option\s)?\d|changed?\s(?:my|the)\s(?:answer|mind)|"
    r"等等|等一下|不对|更正|修正|纠正|应该是|应为|改为|moment\b|korrektur|nein,|doch\snicht|eigentlich\b|attendez|en\sfait|espera|corrección|"
    r"en\srealidad|aspetta|anzi)"
)


_USUAL = re.compile(
    "the|my|our|final|correct|right|best|true|actual|real|likely|chosen|selected|short|overall|predicted|revised|corrected|"
    "updated|new|consensus|definitive|single|direct|suggested|proposed|primary|main|so|thus|hence|therefore|and|is|one|this|"
    "your|a|an|complete|full|with"
)


# A short sentence that ends in an option: "Revised: 3", "So I take 3"; its words decide if that is the answer.
_SHORT = re.compile(
    r"(?:^|[.!?\n])[\s(]*([^\d.!?\n]{0,60}?)(?:[:,]|\b(?:to|take|say|option|outline|contour|point|cell|is))[ ]?"
    r"([a-h]?\d)(?=[ ]?[.!)]*$)",
    re.M,
)
_OTHERWISE = re.compile(
    r"\b(?:if|were|would|confiden\w+|certain\w*|score|version|picture|image|number|step|note|page|figure|second|runner|choice|reject\w*|exclu\w*|"
    r"grade|quality|likert|level|difficulty|words|length|time|count|zones?|row|ref\w*)\b"
)


# "… so it's F7", "so the places are 1 and 2" at a sentence's end.
_SO = re.compile(
    r"\b(?:so|thus|hence|therefore|then)\b,?([^.!?\n]{0,40}?(?:'s|\b(?:is|are|be|becomes?)))\s"
    r"([^.!?\n]{1,60})(?=[.!)]*(?:\s|$))",
    re.M,
)


def replacements(text: str) -> Iterator[str]:
    """Yield each option that a short sentence, such as "so it is 2", puts in place of an earlier answer.

    An option is skipped if the same sentence rejects it.
    """
    for match in chain(_SHORT.finditer(text), _SO.finditer(text)):
        if not any(form.search(match[1]) for form in (_DENIED, _SET_ASIDE, _OTHERWISE)):
            yield match[2]


# "not 2 or 3; it's 1": an answer that replaces a denied one.
_BUT = re.compile(r"not [^.;!?\n]{1,20}?[.;,] (?:so )?(?:it's|it (?:is|must be|has to be)) ")


class Certainty(Enum):
    """Certainty of an answer in a text: given, doubted, denied, or dropped."""

    GIVEN = auto()
    DOUBTED = auto()
    DENIED = auto()
    SET_ASIDE = auto()


class AnswerPlace(NamedTuple):
    """Position of an answer in a text: the offsets of its label ("Answer:") and of its value, and its certainty.

    ``is_plain`` is False if the label may mean another answer, as in "weaker answer:".
    """

    label: int
    value: int
    certainty: Certainty
    is_plain: bool = True


def places(text: str, is_read: Callable[[str, int], bool], is_exact: Callable[[str], bool]) -> list[AnswerPlace]:
    """Return the positions of answers, in the order of the text.

    ``is_read`` tests whether an answer can be read from a given offset. ``is_exact`` tests whether a line consists of
    an answer only.
    """
    found = {place.value: place for place in _places(text, is_read, is_exact)}
    return [found[value] for value in sorted(found)]


def _places(text: str, is_read: Callable[[str, int], bool], is_exact: Callable[[str], bool]) -> Iterator[AnswerPlace]:
    for match in last_matches(_RIGHT, text):
        if is_read(text, match.end()):
            yield AnswerPlace(match.start(), match.end(), _certainty(text, match.start(), ""))
    for match in last_matches(IS, text):
        start = match.end() + (4 if text.startswith("not ", match.end()) else 0)
        denied = start > match.end() or match[0].endswith("n't ")
        if denied:
            yield from _instead(text, match, is_read)
        if denied and is_read(text, start):
            yield AnswerPlace(match.start(), start, Certainty.DENIED)
        elif denied or is_read(text, match.end()):
            certainty = _certainty(text, match.start(), "")
            if certainty is Certainty.DOUBTED and _SUPPOSED.search(text[max(0, match.start() - 40) : match.start()]):
                certainty = Certainty.SET_ASIDE
            yield AnswerPlace(match.start(), match.end(), certainty)
    for match in last_matches(_HEADING, text):
        line = text[match.end() : match.end() + 100].partition("\n")[0]
        if not line or is_exact(line):
            yield AnswerPlace(match.start(), match.end(), Certainty.GIVEN)
    for match in last_matches(COLON, text):
        certainty = _certainty(text, match.start(), match["remark"] or "")
        yield AnswerPlace(match.start(), match.end(), certainty, _is_plain(text, match.start()))


def _instead(text: str, label: re.Match[str], is_read: Callable[[str, int], bool]) -> Iterator[AnswerPlace]:
    """Yield the answer that a sentence gives instead of a denied answer: "the answer isn't 2; it's 1"."""
    start = label.end()
    denied = text[start : start + 150] if text.startswith("not ", start) else f"not {text[start : start + 146]}"
    but = _BUT.match(denied)
    value = start + but.end() + (0 if text.startswith("not ", start) else -4) if but else 0
    if but and is_read(text, value):
        yield AnswerPlace(label.start(), value, _certainty(text, label.start(), ""))


def last_matches(pattern: re.Pattern[str], text: str) -> Iterable[re.Match[str]]:
    """Return the matches of a pattern in a text; if there are more than 40, only the last 40."""
    return deque(pattern.finditer(text), maxlen=_MOST)


def _line_before(text: str, label: int) -> str:
    """Return the text that stands before a label on the label's line.

    For an answer line made from a box, tag or object, return the heading of this line.
    """
    before = text[max(0, label - 200) : label]
    if not before.endswith(BEGIN):
        return before.rpartition("\n")[2]
    line = before[:-1].rstrip(" ").rpartition("\n")[2]
    heading = line or before[:-1].rstrip().rpartition("\n")[2]
    return heading.removesuffix(":") if line or heading.endswith(":") else ""


def _is_plain(text: str, label: int) -> bool:
    """Return False if an unusual word precedes an answer word: "weaker answer" may not be the requested answer."""
    if text[label - 1 : label] == BEGIN:
        return True
    word = re.search(r"([a-z'-]+)[ ]$", text[max(0, label - 30) : label])
    return word is None or _USUAL.fullmatch(word[1]) is not None


def _certainty(text: str, label: int, remark: str) -> Certainty:
    """Return the certainty of an answer, judged by the words before its label and a remark in brackets after it."""
    line = _line_before(text, label)
    if line.count('"') % 2 and _QUOTED_BEFORE.search(line.partition('"')[0]):
        return Certainty.SET_ASIDE
    sentence = re.split(r"[.!?]\s|,\sbut\s", line)[-1]
    clause = re.split(r"[.!?;:,()|–—，；：]", sentence)[-1]
    if _FORCED.search(sentence):
        sentence = clause = ""
    near = " ".join(clause.split(" ")[-_NEAR:])
    for told in (near, remark):
        if _SET_ASIDE.search(told) or _ABOUT.search(told):
            return Certainty.SET_ASIDE
        if _DENIED.search(told):
            return Certainty.DENIED
    return Certainty.DOUBTED if _DOUBTED.search(sentence) else Certainty.GIVEN
