"""The confidence that a reply states: how it is read, and that the answer beside it is read as without it."""

from __future__ import annotations

import pytest
from rest_long import rest_long
from stored_replies import FILES, replies

from chexqa.eval.prompts import answer_parser, parser_confidence

STATED = {
    0.8: (
        "Confidence: 80 %", "Confidence: 80%", "Confidence: 80", "confidence: 80 percent", "CONFIDENCE: 80 PERCENT",
        "**Confidence:** 80 %", "**Confidence: 80 %**", "*Confidence*: 80 %", "`Confidence: 80 %`", "## Confidence: 80",
        "- Confidence: 80 %", "Confidence = 80 %", "Confidence - 80 %", "Confidence → 80 %", "Confidence is 80 %",
        "Confidence | 80 |", "Confidence: 80/100", "Confidence: 80 out of 100", "Confidence: 8/10",
        "Confidence: 8 out of 10", "Confidence: 80 pct", "Confidence: 80.0 %", "Confidence: 80,0 %",
        "Confidence: about 80 %", "Confidence: ~80 %", "Confidence: ≈ 80 %", "Confidence: approximately 80 %",
        "Confidence: roughly 80 %", "Confidence: around 80 percent", "Confidence level: 80 %", "Confidence score: 80 %",
        "Confidence rating: 80", "Confidence estimate: 80 %", "Overall confidence: 80 %", "My confidence: 80 %",
        "My confidence is 80 %.", "The confidence is 80 %.", "Final confidence: 80 %", "Certainty: 80 %",
        "Likelihood: 80 %", "Probability: 80 %", "Probability that the answer is right: 80 %",
        "Confidence in my answer: 80 %", "Confidence of the answer: 80 %", "Confidence (0-100): 80",
        "Confidence (0 to 100): 80", "Confidence (%): 80", "Confidence (in %): 80", "Confidence (percent): 80",
        "Confidence:\n80 %", "Confidence： 80％", "Confidence: 80 % (fairly sure)", "Confidence: 80 %, as it is faint",
        "I am 80 % confident.", "I'm about 80% sure.", "(80 % confident)", "(confidence: 80 %)", "80 % certain",
        "<confidence>80</confidence>", "<confidence>80 %</confidence>", 'Confidence: "80"', '"confidence": 80',
        "Confidence — 80 %", "Confidence – 80%", "My confidence in this answer is 80 %", "confidence_level: 80",
        "My confidence that my whole answer is right: 80 %", "The likelihood that my whole answer is right is 80 %.",
        "I estimate an 80 % chance that my answer is right.", "There is an 80 % chance that I am right.",
        "My answer is right with a probability of 80 %.", "80 % likely to be right", "I'm fairly sure (80 %).",
        "Confidence: [80 %]", "Confidence: (80 %)", "Confidence: {80}", "Confidence: \\boxed{80}",
        "Confidence: $80\\%$", "Confidence [0-100]: 80", "Confidence: ca. 80 %", "Confidence: exactly 80 %",
        "Confidence: I'd say 80 %", "Confidence: high (80 %)", "Confidence: Very high: 80 %",
        "<confidence_score>80</confidence_score>",
        "I'd bet 80 % on it.", "I’d bet 80 % on it", "I would bet about 80 percent on my answer, as it is faint.",
        "I'd wager 80/100 on this!", "I'd bet 80 % that my answer is right.", "I would say 80% sure",
        "about 80 percent certain", "80/100 confident", "I am 8 out of 10 sure", "I’m 80 % confident",
    ),
    0.01: ("Confidence: 1", "Confidence: 1 %"),
    0.0: ("Confidence: 0", "Confidence: 0 %"),
    1.0: ("Confidence: 100", "Confidence: 100 %", "Confidence: 10/10"),
    0.009: ("Confidence: 0.9 %",),
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), [(text, value) for value, texts in STATED.items() for text in texts])
def test_a_confidence_is_read_in_many_words(text: str, value: float) -> None:
    found = parser_confidence.read(f"Answer: 2\n{text}")
    assert (found.value, found.state) == (pytest.approx(value), "stated")
    assert found.reply.startswith("Answer: 2")


@pytest.mark.parametrize(
    ("reply", "state"),
    [
        ("Confidence: 0.9", "no unit"),
        ("Confidence: 1.0", "no unit"),
        ("Confidence: ,5", "unclear"),
        ("Confidence: high", "unclear"),
        ("Confidence: N %", "unclear"),
        ("Confidence: at least 80 %", "unclear"),
        ("Confidence: eighty percent", "unclear"),
        ("Confidence in the finding", "missing"),
        ("Confidence: 80-90 %", "unclear"),
        ("Confidence: 80 to 90 %", "unclear"),
        ("Confidence: 80 ± 5 %", "unclear"),
        ("I'd bet 80 % of the left lung is white.", "missing"),
        ("I'd put 80 % of it on that side.", "missing"),
        ("I'd bet 80 % on this being an effusion.", "missing"),
        ("I would not bet 80 % on it.", "missing"),
        ("I'd bet 80-90 % on it.", "missing"),
        ("I'm 80-90 % sure.", "missing"),
        ("I'm not 100 % sure.", "missing"),
        ("I can't be 100% certain.", "missing"),
        ("Image quality: 8/10, for certain.", "missing"),
        ("I'd bet 120 % on it.", "outside"),
        ("Confidence: 120 %", "outside"),
        ("Confidence: 11/10", "outside"),
        ("Confidence: -5 %", "outside"),
        ("Answer: 2", "missing"),
        ("", "missing"),
        ("<think>Confidence: 20 %</think>Answer: 2", "missing"),
    ],
)
def test_what_is_no_percentage_is_a_state_of_its_own(reply: str, state: str) -> None:
    found = parser_confidence.read(reply)
    assert (found.value, found.state) == (None, state)
    assert state in parser_confidence.STATES


def test_the_last_statement_counts() -> None:
    assert parser_confidence.read("Confidence: 20 %\nOn reflection: Answer: 1\nConfidence: 70 %").value == 0.7


@pytest.mark.parametrize(
    "suffix",
    rest_long(
        [
            "\nConfidence: 2 %",
            " (80 % confident)",
            "\nI'd bet 80 % on it.",
            "\nConfidence — 80 %",
            "\nConfidence: high (80 %)",
            "\n\n**Confidence:** 0.9",
        ]
    ),
)
def test_no_answer_is_read_otherwise_because_a_confidence_follows(suffix: str) -> None:
    for name in FILES:
        for item, row, _ in replies(name):
            raw, ended = row["raw"], row["finish_reason"]
            if raw.strip() and ended != "length" and parser_confidence.read(raw).state == "missing":
                without = answer_parser.read(item, raw, ended)
                beside = answer_parser.read(item, parser_confidence.read(raw + suffix).reply, ended)
                assert beside == without, (raw, suffix)


def test_hostile_text_states_no_confidence() -> None:
    for piece in ("confidence ", "confidence in ", "80 % ", "(((", "my my my confidence", "9" * 50):
        assert parser_confidence.read(piece * (200_000 // len(piece))).value is None
