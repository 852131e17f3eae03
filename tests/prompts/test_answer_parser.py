"""The answer parser: written styles and what must be read in them, and that prose is never read."""

import hashlib
import json
import os
import re
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rest_long import rest_long
from stored_replies import FILES, READINGS, replies

from chexqa import question_banks
from chexqa.contract.items import Item, Option
from chexqa.contract.kinds import KINDS
from chexqa.eval.prompts import answer_parser
from chexqa.eval.prompts.answer_parser import parse

CELLS = [f"{column}{row}" for row in range(1, 9) for column in "ABCDEFGH"]
COLORS = ["red", "orange", "yellow", "green"]
REGIONS = ["medial part of the right upper zone", "right costophrenic angle", "lateral part of the left mid zone"]
TEXTS: dict[str, list[str | None]] = {
    "detection": ["Yes", "No"],
    "contour_evaluation": ["Yes, it needs a major revision", "No, it fits"],
    "distribution": ["one zone", "two zones", "three zones", "four or more zones"],
    "location": [*REGIONS, "none of the above"],
    "revision_expansion": [*[f"the {color} point" for color in COLORS], "at none of the points"],
    "revision_result": [None] * 4,
    "grid_cell": [*CELLS],
}


def item(kind: str) -> Item:
    """An item of this kind with the English bank's options."""
    about = KINDS[kind]
    colors = COLORS if kind == "revision_expansion" else []
    options = tuple(
        Option(n, text, None if text else "x.png", colors[n - 1] if n <= len(colors) else None)
        for n, text in enumerate(TEXTS[kind], start=1)
    )
    return Item(f"c/{kind}", "c", about.seq, kind, about.level, about.stage, "edema", "?", options, about.multi, (), ())


YES_NO, FIT, ZONES, PLACES = item("detection"), item("contour_evaluation"), item("distribution"), item("location")
POINTS, PICTURES, GRID = item("revision_expansion"), item("revision_result"), item("grid_cell")

LETTERED = replace(
    POINTS,
    options=(
        *(
            Option(n, f"the {color} point ({letter})", color=color, letter=letter, side="inside")
            for n, (color, letter) in enumerate(zip(COLORS[:4], "CADB", strict=True), start=1)
        ),
        Option(5, "at none of the points"),
    ),
)
# Red is C, orange A, yellow D, green B.
LETTERS: list[tuple[str, tuple[int, ...] | None]] = [
    ("Answer: C", (1,)),
    ("Answer: A, D", (2, 3)),
    ("Answer: A and B.", (2, 4)),
    ("Answer: (A), (C)", (1, 2)),
    ("Answer: points A and C", (1, 2)),
    ("Answer: the red point (C)", (1,)),
    ("Answer: red (C), green (B)", (1, 4)),
    ("Answer: C (red), B (green)", (1, 4)),
    ("Answer: 1 (C), 4 (B)", (1, 4)),
    ("Answer: 1, 4", (1, 4)),
    ("Answer: none", (5,)),
    ("Answer: at none of the points", (5,)),
    ("Answer: E", None),
]


@pytest.mark.parametrize(("reply", "expected"), LETTERS)
def test_points_are_read_by_their_letters(reply: str, expected: tuple[int, ...] | None) -> None:
    assert answer_parser.parse(LETTERED, reply) == expected
    rotated = replace(LETTERED, options=(*LETTERED.options[2:4], *LETTERED.options[:2], LETTERED.options[4]))
    if not re.search(r"\d", reply):
        assert answer_parser.parse(rotated, reply) == expected, "whatever the order shown"


SINGLE = [
    ("Answer: 2", 2),
    ("answer: 2", 2),
    ("ANSWER : 2", 2),
    ("Answer:2", 2),
    ("Answer:\t2", 2),
    ("Answer: 2.", 2),
    ("Answer: (2)", 2),
    ("Answer: [2]", 2),
    ("Answer: {2}", 2),
    ("Answer: '2'", 2),
    ('Answer: "2"', 2),
    ("Answer: #2", 2),
    ("Answer: 2)", 2),
    ("Answer: <2>", 2),
    ("**Answer:** 2", 2),
    ("**Answer**: 2", 2),
    ("**Answer: 2**", 2),
    ("Answer: **2**", 2),
    ("__Answer__: __2__", 2),
    ("`Answer: 2`", 2),
    ("```\nAnswer: 2\n```", 2),
    ("> Answer: 2", 2),
    ("- Answer: 2", 2),
    ("### Answer: 2", 2),
    ("### Answer\n\n2", 2),
    ("## Final answer\n**2**", 2),
    ("Answer:\n2", 2),
    ("Answer:\n\n  2\n", 2),
    ("Answer:\r\n2\r\n", 2),
    ("Final Answer: 2", 2),
    ("Final answer - 2", 2),
    ("Answer – 2", 2),
    ("Answer = 2", 2),
    ("Answer -> 2", 2),
    ("Answer 2", 2),
    ("The final answer is 2.", 2),
    ("The answer is (2)", 2),
    ("The answer is option 2", 2),
    ("The correct answer is: 2", 2),
    ("the correct option is 2, because both lower zones are involved", 2),
    ("Correct option: 2", 2),
    ("My answer would be 2.", 2),
    ("The answer to question 4 is 2.", 2),
    ("Answer (option number): 2", 2),
    ("Answer: option 2", 2),
    ("Answer: Option #2", 2),
    ("Answer: The option 2", 2),
    ("Answer: No. 2", 2),
    ("Answer: 2. two zones", 2),
    ("Answer: 2) two zones", 2),
    ("Answer: 2 - two zones", 2),
    ("Answer: 2 – two zones.", 2),
    ("Answer: 2 two zones", 2),
    ("Answer: 2: two zones", 2),
    ("Answer: 2 (two zones)", 2),
    ("Answer: two zones", 2),
    ("Answer: Two zones.", 2),
    ("Answer: 'two zones'", 2),
    ("Answer: four or more zones", 4),
    ("Answer: 4 or more zones", 4),
    ("Answer: 2 zones", 2),
    ("2 zones", 2),
    ("Answer: 2, since 3 of the lower parts look clear", 2),
    ("Answer: 2. There are 3 opacities.", 2),
    ("Answer: 2 because the right lower and left lower zones are dense", 2),
    ("Answer: 2 Explanation: both bases", 2),
    ("Answer: 2 (confidence: 85 %)", 2),
    ("Answer: 2\n\nConfidence: 4", 2),
    ("Answer: 2\nThe two lower zones are involved.", 2),
    ("Answer: 1\nOn reflection:\nAnswer: 3", 3),
    ("Answer: 1. No, wait. Answer: 3", 3),
    ("First I thought the answer is 1.\n\nAnswer: 3", 3),
    ("Answer: 1\n\nSo the answer is 3.", 3),
    ("If the answer is 1, one base is clear; it is not.\nAnswer: 2", 2),
    ("Answer: 2\nIf the answer is 3, the upper zone would be dense.", 2),
    (r"\boxed{2}", 2),
    (r"$\boxed{2}$", 2),
    (r"\[ \boxed{2} \]", 2),
    (r"\boxed{\text{2}}", 2),
    (r"\boxed{(2)}", 2),
    (r"\boxed{\textbf{2}}", 2),
    (r"The answer is $\boxed{2}$.", 2),
    (r"Answer: \boxed{2}", 2),
    (r"Thus we get \boxed{2} in 3 steps.", 2),
    (r"\fbox{2}", 2),
    (r"Answer: $2$", 2),
    (r"Answer: \(2\)", 2),
    ('{"answer": 2}', 2),
    ('{"answer": "2"}', 2),
    ('{"answer": 2, "confidence": 0.9}', 2),
    ('{"reasoning": "3 zones look dense", "answer": "2"}', 2),
    ('```json\n{\n  "answer": 2\n}\n```', 2),
    ("{'final_answer': '2'}", 2),
    ("<answer>2</answer>", 2),
    ("<final_answer>2</final_answer>", 2),
    ("<answer> 2. two zones </answer> Thank you.", 2),
    ("<|begin_of_box|>2<|end_of_box|>", 2),
    ("<b>Answer:</b> 2<br>", 2),
    ("<think>The answer is 3. Answer: 3</think>Answer: 2", 2),
    ("<think>3 or 4?</think>\n\n2", 2),
    ("The opening mark stood in the prompt. Answer: 3</think>Answer: 2", 2),
    ("<thinking>Answer: 1</thinking><think>Answer: 3</think>Answer: 2", 2),
    ("<unused94>thought\nAnswer: 3<unused95>Answer: 2", 2),
    ("<|channel>thought\nAnswer: 3<channel|>Answer: 2", 2),
    ("◁think▷Answer: 3◁/think▷Answer: 2", 2),
    ("Answer: 2 <think>was that right?", 2),
    ("2", 2),
    (" 2\n", 2),
    ("2.", 2),
    ("(2)", 2),
    ("**2**", 2),
    ("Option 2", 2),
    ("2. two zones", 2),
    ("two zones", 2),
    ("Answer: ２", 2),
    ("Answer：2", 2),
    ("Answer: ②", 2),
    ("答案：2", 2),
    ("正确答案是：2", 2),
    ("答案是2。", 2),
    ("答え：2", 2),
    ("정답: 2", 2),
    ("Antwort: 2", 2),
    ("Die Antwort ist 2.", 2),
    ("Réponse : 2", 2),
    ("La respuesta es 2", 2),
    ("Respuesta: 2", 2),
    ("Resposta: 2", 2),
    ("Risposta: 2", 2),
    ("Ответ: 2", 2),
    ("Answer: ~~3~~ 2", 2),
    ("Answer: 2 ✅", 2),
    ("Answer: 2 → two zones", 2),
    ("Answer: 2<|im_end|>", 2),
    ("Answer: 2</s>", 2),
    ("Answer:\u200b 2", 2),
    ("My final answer: 2", 2),
    ("So the answer is \\(\\boxed{2}\\).", 2),
    ("$$\\boxed{\\text{Answer: }2}$$", 2),
    ("\\boxed{\\text{2. two zones}}", 2),
    ("\\boxed{Option~2}", 2),
    ("Answer: $\\mathbf{2}$", 2),
    ("Answer:**2**", 2),
    ("Answer:\n```\n2\n```", 2),
    ("1. one zone – no\n2. two zones – yes\n3. three zones – no\n\nAnswer: 2", 2),
    ("| option | verdict |\n|---|---|\n| 1 | no |\n| 2 | yes |\n\nAnswer: 2", 2),
    ("Answer: 2 (two zones: right mid, right lower)", 2),
    ("The correct choice is 2.", 2),
    ("Answer: 2\n\nNote: 3 of 4 readers agree.", 2),
    ("<reasoning>Answer: 3</reasoning>\n<answer>2</answer>", 2),
    ("[THINK]Answer: 3[/THINK]Answer: 2", 2),
    ("<seed:think>Answer: 3</seed:think>Answer: 2", 2),
    ("<|channel|>analysis<|message|>Answer: 3<|end|><|start|>assistant<|channel|>final<|message|>Answer: 2", 2),
    ("La réponse est 2.", 2),
    ("La bonne réponse est la 2.", 2),
    ("A resposta é 2.", 2),
    ("La risposta è 2.", 2),
    ("Die richtige Antwort lautet 2.", 2),
    ("Antwoord: 2", 2),
    ("Odpowiedź: 2", 2),
    ("Svar: 2", 2),
    ("Cevap: 2", 2),
    ("Jawaban: 2", 2),
    ("Đáp án: 2", 2),
    ("**Ответ:** 2", 2),
    ("الإجابة: 2", 2),
    ("الإجابة: ٢", 2),
    ("उत्तर: २", 2),
    ("คำตอบ: ๒", 2),
    ("最终答案：2", 2),
    ("答案：选项2", 2),
    ("正解は2です。", 2),
    ("答えは2番です。", 2),
    ("정답은 2입니다.", 2),
    ("정답: 2번", 2),
]

SINGLE_UNREAD = [
    "",
    " \n",
    "Answer:",
    "Answer: N",
    "Answer: ?",
    "Answer: I cannot tell; the left lung has 3 zones",
    "I cannot tell; the left lung has 3 zones",
    "There are 2 zones.",
    "Two of the six zones are involved, so 2.",
    "The lesion is 3 cm wide.\n2",
    "1. Upper zone clear\n2. Lower zone dense",
    "I answer your question 2 now.",
    "Answer: 2 or 3",
    "Answer: 2, or maybe 3",
    "Answer: 2 (or 3)",
    "Answer: either 2 or 3",
    "Answer: 2/3",
    "Answer: 2-3",
    "Answer: 2 – 3",
    "Answer: 2 to 3",
    "Answer: 2 and 3",
    "Answer: 2, 3",
    "Answer: [2, 3]",
    "Answer:\n2\n3",
    "Answer: 2 3",
    r"\boxed{2}, \boxed{3}",
    r"$\boxed{2}$ or $\boxed{3}$",
    r"Final Answer: $\boxed{2}$ or $\boxed{3}$",
    r"\boxed{2}, or maybe \boxed{3}",
    r"\boxed{2} / \boxed{3}",
    "Answer: 2 (two), 3 (three)",
    "Answer: 2 (two) or 3",
    "Answer: 0",
    "Answer: 5",
    "Answer: -2",
    "Answer: 2.5",
    "Answer: 22",
    "Answer: 3 opacities are seen",
    "Answer: 2 of 6",
    "Answer: 50%",
    "Answer: 2nd",
    "Answer: 2a",
    "Answer: not 2",
    "The answer is not 2.",
    "Answer: 2. On second thought the answer is not 2.",
    "The answer is unclear.",
    "Answer: B",
    "Answer: two",
    "Answer: Picture 3",
    "Answer: 2. three zones",
    "Answer: 2 (three zones)",
    "Answer: two zones or three zones",
    "Answer: two zones of the right lung",
    "Answer: none",
    "Answer: 1\nAnswer: I do not know",
    "I'm sorry, but I can't help with medical images.",
    "<think>Answer: 2",
    "<think>Answer: 2</think>",
    "Answer: 2</think>",
    "<think>Answer: 2</think>I would need more views.",
    "<unused94>Answer: 2",
    '{"answer": null}',
    '{"answer_count": 2}',
    "The answer depends on 2 things.",
    "If the answer is 2, the base is clear.",
    "Answer: 99999999999999999999",
    "I would choose option 2.",
    "I'm not able to interpret medical images. Please consult a radiologist at 1-800-555-0100.",
    "As an AI, I can't provide a diagnosis. However, 2 zones seem dense.",
    "Answer: N/A",
    "Answer: unknown (2?)",
    "Answer: 1, 2, 3 or 4",
    "Possible answers: 1, 2, 3, 4.",
    "Answer options:\n1. one zone\n2. two zones",
    "Answer: 2 ± 1",
    "Answer: 2:1",
    "Answer: ~2",
    "Answer: ≥2",
    "Answer: 2+",
    "Answer: II",
    "Answer: 2 cm",
    "Answer: 2x",
    "[THINK]Answer: 2",
    "<seed:think>Answer: 2",
    "<|channel|>analysis<|message|>Answer: 2",
    "答案是两个肺区。",
    "正解は2つの領域です。",
]

OTHERS = [
    (YES_NO, "Answer: Yes", (1,)),
    (YES_NO, "Answer: no.", (2,)),
    (YES_NO, "Answer: Yes, there is fluid at 1 base", (1,)),
    (YES_NO, "The answer is no", (2,)),
    (YES_NO, "Answer: 1 (Yes)", (1,)),
    (YES_NO, "Yes", (1,)),
    (YES_NO, "Answer: 1 (No)", None),
    (YES_NO, "Answer: No (1)", None),
    (YES_NO, "Answer: Yes (1)", (1,)),
    (YES_NO, "Answer: yes and no", None),
    (YES_NO, "Answer: Yes/No", None),
    (YES_NO, "Answer: No effusion is seen", None),
    (YES_NO, "The answer is no longer clear", None),
    (YES_NO, "Yes, there is an effusion.", None),
    (YES_NO, "Answer: 3", None),
    (FIT, "Answer: Yes", (1,)),
    (FIT, "Answer: No, it fits", (2,)),
    (FIT, "Answer: 2. No, it fits", (2,)),
    (FIT, "Answer: 2, it fits", (2,)),
    (PICTURES, "Answer: 3", (3,)),
    (PICTURES, "Answer: 3 (Picture 6)", (3,)),
    (PICTURES, "Answer: the outline in Picture 3", None),
    (PLACES, "Answer: 1, 3", (1, 3)),
    (PLACES, "Answer: 3, 1", (1, 3)),
    (PLACES, "Answer: 1,3", (1, 3)),
    (PLACES, "Answer: 1 and 3", (1, 3)),
    (PLACES, "Answer: 1 & 3", (1, 3)),
    (PLACES, "Answer: 1; 3", (1, 3)),
    (PLACES, "Answer: 1 3", (1, 3)),
    (PLACES, "Answer: 1, 2, and 3", (1, 2, 3)),
    (PLACES, "Answer: 1, 1, 3", (1, 3)),
    (PLACES, "Answer: [1, 3]", (1, 3)),
    (PLACES, "Answer: (1), (3)", (1, 3)),
    (PLACES, "Answers: {1, 3}", (1, 3)),
    (PLACES, "Answer: Options 1 and 3", (1, 3)),
    (PLACES, "Answer: option 1, option 3.", (1, 3)),
    (PLACES, '{"answer": [1, 3]}', (1, 3)),
    (PLACES, '{"answer": ["1", "3"]}', (1, 3)),
    (PLACES, '{"answer": [\n  1,\n  3\n]}', (1, 3)),
    (PLACES, r"\boxed{1, 3}", (1, 3)),
    (PLACES, r"\boxed{1}, \boxed{3}", (1, 3)),
    (PLACES, r"$\boxed{1}$ and $\boxed{3}$", (1, 3)),
    (PLACES, "The answers are 1 and 3.", (1, 3)),
    (PLACES, "Answer:\n- 1\n- 3", (1, 3)),
    (PLACES, f"Answer:\n1. {REGIONS[0]}\n3. {REGIONS[2]}\n\nThat is 2 places.", (1, 3)),
    (PLACES, f"Answer: 1 ({REGIONS[0]}) and 3 ({REGIONS[2]})", (1, 3)),
    (PLACES, f"Answer: {REGIONS[1]}", (2,)),
    (PLACES, f"Answer: {REGIONS[0]}, {REGIONS[1]}", (1, 2)),
    (PLACES, "Answer: 1,\n3", (1, 3)),
    (PLACES, "Answer: 4", (4,)),
    (PLACES, "Answer: none", (4,)),
    (PLACES, "Answer: None.", (4,)),
    (PLACES, "Answer: None of the above", (4,)),
    (PLACES, "Answer: []", None),
    (PLACES, "None", (4,)),
    (PLACES, "1, 3", (1, 3)),
    (PLACES, "1 and 3", (1, 3)),
    (PLACES, "Answer: 1, 4", (1, 4)),
    (PLACES, "Answer: 1, none", (1, 4)),
    (PLACES, "答案：1、3", (1, 3)),
    (PLACES, "答案：1和3", (1, 3)),
    (PLACES, "Antwort: 1 und 3", (1, 3)),
    (PLACES, "Réponse : 1 et 3", (1, 3)),
    (PLACES, "Answer: 1, 3.\n\nThe other places (2) are clear.", (1, 3)),
    (PLACES, "Answer: 1, 3 (not 2)", (1, 3)),
    (PLACES, "\\boxed{\\{1, 3\\}}", (1, 3)),
    (PLACES, "Answer: 1 (right upper medial), 3 (left mid lateral)", (1, 3)),
    (PLACES, "Answer: 1 (right upper zone, medial) and 3 (left mid zone, lateral)", (1, 3)),
    (PLACES, "Answer: 1 (right upper medial),\n3 (left mid lateral)", (1, 3)),
    (PLACES, "Answer: 1. right upper medial, 3. left mid lateral", (1, 3)),
    (PLACES, "Answer: 1 - right upper medial; 3 - left mid lateral", (1, 3)),
    (PLACES, "Answer: 1: right upper medial; 3: left mid lateral", (1, 3)),
    (PLACES, "Answer: 1 (medial), 3", (1, 3)),
    (PLACES, "Answer: 1 (medial), none", (1, 4)),
    (PLACES, '{"answer": ["1 (medial)", "3 (lateral)"]}', (1, 3)),
    (PLACES, "Answer: 1 as well as 3", (1, 3)),
    (PLACES, "Answer: 1 plus 3", (1, 3)),
    (PLACES, "Answer: 1 and also 3", (1, 3)),
    (PLACES, r"$\boxed{1}$ (right upper), $\boxed{3}$ (left mid)", (1, 3)),
    (PLACES, r"\boxed{1} as well as \boxed{3}", (1, 3)),
    (PLACES, "Answer: 1, 3 ✅", (1, 3)),
    (PLACES, "Answer: 1, 3 (confidence: high)", (1, 3)),
    (PLACES, "Answer: 1, 3, all others (2, 4) are clear", (1, 3)),
    (PLACES, "Answer: 1, since 2 and 3 are clear", (1,)),
    (PLACES, "Answer: 1 (since 2 and 3 are clear)", (1,)),
    (PLACES, "Answer: 1, but 2 and 3 are clear", (1,)),
    (PLACES, "Answer: 1. I excluded 2 and 3.", (1,)),
    (PLACES, "Answer: none (no places)", (4,)),
    (PLACES, "Answer: 1 (yes), 2 (no), 3 (yes)", None),
    (PLACES, "Answer: 1 (involved), 3 (involved)", None),
    (PLACES, "Answer: 1 (left lower), 3 (left mid lateral)", None),
    (PLACES, "Answer: 1 (not 2), 3", None),
    (PLACES, "Answer: 1 (and 3)", None),
    (PLACES, "Answer: 1 (right upper medial) or 3", None),
    (PLACES, "Answer: 1. right upper medial or 3. left mid", None),
    (PLACES, "Answer: 1 – the base; 2 – clear; 3 – left mid", None),
    (PLACES, "Answer: 1: yes, 2: no, 3: yes", None),
    (PLACES, "Answer: 1: yes\n2: no\n3: yes", None),
    (PLACES, "Answer:\n1: yes\n2: no\n3: yes", None),
    (PLACES, "Answer: 1 ✓, 2 ✗, 3 ✓", None),
    (PLACES, "Answer: 1, 3 are involved, and 2", None),
    (PLACES, r"$\boxed{1}$ or $\boxed{3}$", None),
    (PLACES, "Answer: all of the above", None),
    (PLACES, "Answer: 1 / 3", None),
    (PLACES, "Answer: 1 or 3", None),
    (PLACES, "Answer: 1-3", None),
    (PLACES, "Answer: 1, 7", None),
    (PLACES, "Answer: 2 places", None),
    (PLACES, f"Answer: 1, {REGIONS[0]} or {REGIONS[1]}", None),
    (PLACES, "None of this is clear to me.", None),
    (PLACES, "Answer: none that I can see in 2 minutes", None),
    (POINTS, "Answer: the red point", (1,)),
    (POINTS, "Answer: red", (1,)),
    (POINTS, "Answer: red and yellow", (1, 3)),
    (POINTS, "Answer: the red point, the green point", (1, 4)),
    (POINTS, "Answer: 1 (red), 4 (green)", (1, 4)),
    (POINTS, "Answer: 1. the red point, 4. the green point", (1, 4)),
    (POINTS, "Answer: points 1 and 4", (1, 4)),
    (POINTS, "Answer: at none of the points", (5,)),
    (POINTS, "Answer: none of the points", (5,)),
    (POINTS, "Answer: 1 (green)", None),
    (POINTS, "Answer: 1 (red, upper left) and 3 (yellow, lower)", (1, 3)),
    (POINTS, "Answer: 1 (top), 3 (bottom)", (1, 3)),
    (POINTS, "Answer: red (upper), yellow (lower)", (1, 3)),
    (POINTS, "Answer: 1 (red, upper left), 2 (yellow, lower)", None),
    (POINTS, "Answer: 1 (red, clear), 3 (yellow)", None),
    (POINTS, "Answer: purple", None),
    (POINTS, "The red point and the green point lie inside.", None),
    (GRID, "Answer: C5", (35,)),
    (GRID, "Answer: c5", (35,)),
    (GRID, "Answer: C-5", (35,)),
    (GRID, "Answer: C 5", (35,)),
    (GRID, "Answer: (C, 5)", (35,)),
    (GRID, "Answer: [C5]", (35,)),
    (GRID, "Answer: 5C", (35,)),
    (GRID, "Answer: cell C5", (35,)),
    (GRID, "Answer: grid cell C5.", (35,)),
    (GRID, "Answer: cell (C, 5)", (35,)),
    (GRID, "Answer: column C, row 5", (35,)),
    (GRID, "Answer: Column C and Row 5", (35,)),
    (GRID, "Answer: row 5, column C", (35,)),
    (GRID, "**Answer:** **C5** (left base)", (35,)),
    (GRID, r"\boxed{C5}", (35,)),
    (GRID, r"\boxed{\text{C5}}", (35,)),
    (GRID, "The answer is C5.", (35,)),
    (GRID, '{"answer": "C5"}', (35,)),
    (GRID, "C5", (35,)),
    (GRID, "Answer: A1", (1,)),
    (GRID, "Answer: H8", (64,)),
    (GRID, "答案：C5", (35,)),
    (GRID, "Answer: C9", None),
    (GRID, "Answer: I5", None),
    (GRID, "Answer: C", None),
    (GRID, "Answer: 35", None),
    (GRID, "Answer: C5 or D5", None),
    (GRID, "Answer: C5, D5", None),
    (GRID, "Answer: C5-C6", None),
    (GRID, "Answer: C5/D5", None),
    (GRID, "Answer: C5 D5", None),
    (GRID, "Answer: C5 (left base) and D5", None),
    (GRID, "Answer: C5 to D6", None),
    (GRID, "Answer: a 5 cm mass", None),
    (GRID, "The lesion is near C5 and D5.", None),
]


@pytest.mark.parametrize(("reply", "expected"), SINGLE)
def test_a_written_style_of_one_option_is_read(reply: str, expected: int) -> None:
    assert parse(ZONES, reply) == (expected,)


@pytest.mark.parametrize("reply", SINGLE_UNREAD)
def test_what_gives_no_one_clear_option_is_not_read(reply: str) -> None:
    assert parse(ZONES, reply) is None


@pytest.mark.parametrize(("question", "reply", "expected"), OTHERS)
def test_a_written_style_is_read_as_its_question_allows(
    question: Item, reply: str, expected: tuple[int, ...] | None
) -> None:
    assert parse(question, reply) == expected


def test_replies_are_read_as_a_careful_person_reads_them() -> None:
    """No file holds a reply that is read wrongly; over all of them at most one in fifty is refused without need."""
    wrong, refused, rows = [], [], [row for name in FILES for row in replies(name)]
    for question, row, expected in rows:
        parsed, state = answer_parser.read(question, row["raw"], row["finish_reason"])
        assert (state == "answered") == (parsed is not None)
        if parsed is None and expected is not None:
            refused.append((row["id"], row["raw"], expected))
        elif parsed != expected:
            wrong.append((row["id"], row["raw"], expected, parsed))
    assert wrong == []
    assert len(refused) <= 0.02 * len(rows), refused


def test_another_reading_is_another_version_of_the_parser() -> None:
    """Readings are held beside the version that made them; a new version writes them anew with the goldens."""
    read = [answer_parser.read(question, row["raw"], row["finish_reason"])
            for name in FILES for question, row, _ in replies(name)]  # fmt: skip
    read += [answer_parser.read(ZONES, reply) for reply in SINGLE_UNREAD]
    now = hashlib.sha256(json.dumps(read).encode()).hexdigest()
    held = json.loads(READINGS.read_text())
    if os.environ.get("CHEXQA_UPDATE_GOLDENS") and held["version"] < answer_parser.VERSION:
        held = {"version": answer_parser.VERSION, "sha256": now}
        READINGS.write_text(json.dumps(held) + "\n")
    assert held == {"version": answer_parser.VERSION, "sha256": now}, "replies are read otherwise: raise parser.VERSION"


@pytest.mark.parametrize(
    "reply", ["Option: 1\nOption: 2", "Choice: 2\nReason: the base\nChoice: 1", "Selected option: 1\nBest guess: 2"]
)
def test_two_labelled_lines_that_differ_are_not_read(reply: str) -> None:
    assert parse(ZONES, reply) is None


@pytest.mark.parametrize(
    ("reply", "finish_reason", "state"),
    [("Answer: 1, 3.", "stop", "answered"), ("Answer: 1, ", "length", "truncated"),
     ("Answer: 1, 3", "length", "truncated"), ("Answer: 1, 3\n\nThe other", "length", "answered"),
     ("I see", "length", "truncated"), ("I see", "stop", "unparsed"), (" ", "stop", "empty"), (None, "stop", "empty"),
     ("", "length", "truncated"), ("Answer: 1", None, "answered")],
)  # fmt: skip
def test_the_state_follows_from_what_is_read_and_how_the_reply_ended(
    reply: str | None, finish_reason: str | None, state: str
) -> None:
    assert answer_parser.read(PLACES, reply, finish_reason).state == state


def test_a_thought_longer_than_what_is_looked_at_is_still_a_thought() -> None:
    thought = "<think>" + "The lung is clear. " * 10_000 + "Answer: 3"
    assert parse(ZONES, thought) is None
    assert parse(ZONES, thought + "</think>Answer: 2") == (2,)


@given(st.sampled_from([row for row in replies("replies.jsonl") if row[2]]), st.data())
@settings(max_examples=150, deadline=None)
def test_what_sets_another_answer_aside_or_takes_one_back_is_never_read_as_it(
    reply: tuple[Item, dict[str, Any], tuple[int, ...]], data: st.DataObject
) -> None:
    question, row, expected = reply
    other = data.draw(st.sampled_from([option for option in question.options if option.n not in expected]))
    said = other.text if question.kind == "grid_cell" else other.n
    aside = data.draw(st.sampled_from(["Incorrect answer", "Second-best answer", "Alternative answer", "Old answer"]))
    raw, finish = row["raw"], row["finish_reason"]
    assert parse(question, f"{raw}\n{aside}: {said}") in (expected, None)
    assert parse(question, f"{aside}: {said}\n{raw}") in (expected, None)
    assert parse(question, f"<think>Answer: {said}</think>{raw}") == expected
    if "USER" not in raw:
        assert answer_parser.read(question, f"{raw}\n\nWait, that is not right.", finish).parsed is None


PROSE = st.lists(
    st.sampled_from(
        re.split(
            " ",
            "the lesion covers 1 2 3 of zones C5 A1 in left lung (2) 4. yes no none red point option however , . ; and "
            "or about picture 6 most % cm I see \n ** row column",
        )
    ),
    min_size=6,
    max_size=60,
).map(lambda words: "The radiograph shows " + " ".join(words))


def test_an_option_is_read_by_the_number_it_was_shown_under_and_by_its_text() -> None:
    turned = replace(PLACES, options=(*PLACES.options[1:3], PLACES.options[0], PLACES.options[3]))
    for reply, expected in [
        ("Answer: 1", (2,)),
        ("Answer: 1, 3", (1, 2)),
        (f"Answer: {REGIONS[0]}", (1,)),
        (f"Answer: 3. {REGIONS[0]}", (1,)),
        (f"Answer: 1. {REGIONS[0]}", None),
        ("Answer: none of the above", (4,)),
        ("Answer: 4", (4,)),
        ("Answer: 5", None),
    ]:
        assert parse(turned, reply) == expected, reply


@given(PROSE, st.sampled_from([YES_NO, ZONES, PLACES, POINTS, PICTURES, GRID]))
@settings(deadline=None)
def test_prose_without_an_answer_form_is_never_read(prose: str, question: Item) -> None:
    assert parse(question, prose) is None


@given(PROSE, st.data())
@settings(deadline=None)
def test_the_bank_s_own_answer_form_is_read_behind_any_prose(prose: str, data: st.DataObject) -> None:
    form = question_banks.load("en")["conversation"]["answer"]
    question = data.draw(st.sampled_from([YES_NO, ZONES, PLACES, POINTS, PICTURES, GRID]))
    count = len(question.options)
    chosen = data.draw(st.sets(st.integers(1, count), min_size=1, max_size=count if question.multi else 1))
    said = CELLS[min(chosen) - 1] if question is GRID else ", ".join(str(n) for n in sorted(chosen))
    assert parse(question, f"{prose}\n{form.format(answer=said)}") == tuple(sorted(chosen))


@given(st.text(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_as_options_of_the_item_or_not_at_all(reply: str) -> None:
    for question in (ZONES, PLACES, GRID):
        for text in (reply, f"Answer: {reply}"):
            parsed = parse(question, text)
            assert parsed is None or (parsed and set(parsed) <= {option.n for option in question.options})
            assert parsed is None or question.multi or len(parsed) == 1


@pytest.mark.parametrize(
    "piece",
    rest_long([
        "<think>", "</think>", "answer is ", "Answer: ", "final ", " ", "\n", "\\boxed{", "\\boxed{1} ", "~~", "[",
        "1, ", "Answer: 1 (a), ", "Answer: 1. a, ", "1 (medial), ", ", the (", "Answer: 1 ((((and ", '{"a":', '[{"a":',
        "{", '{"answer": 1}', "- [x] 1\n", "Answer: 1\n", "the answer is 1 and 2 are clear ", "answer\n", "cell: 1\n",
        "\\st{", "> ", "if the answer is 1, ", "\ufdfa", "the the ", "&amp;", "<answer>1", "no pleural effusion ",
        "1 is clear, ",
    ], keep=12),
)  # fmt: skip
def test_a_megabyte_of_hostile_text_is_read_in_a_moment(piece: str) -> None:
    started = time.process_time()
    parse(PLACES, piece * (1_000_000 // len(piece)))
    assert time.process_time() - started < 5
