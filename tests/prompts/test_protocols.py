"""The conversation as sent: every protocol on every path, text exactly and pictures by hash.

``CHEXQA_UPDATE_GOLDENS=1 pytest tests/prompts/test_protocols.py`` writes the goldens anew; read the difference first.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chexqa.contract import benchmark
from chexqa.contract.items import Picture, is_right
from chexqa.eval.prompts import option_order, protocols
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.prompts.protocols import Message, PriorReply, plain, render
from chexqa.files.errors import InputError

GOLDENS = Path(__file__).parents[1] / "goldens" / "conversations"
WRONG = {"detection": "The lungs look clear.\nAnswer: 2", "contour_evaluation": "Answer: 2", "revision_expansion": "",
         "revision_contraction": "Answer: 2, 4", "revision_result": "**Answer: 1**", "distribution": "I cannot tell.",
         "location": "Answer: 2", "severity": "Answer: 3", "comparison": "Answer: 4"}  # fmt: skip


def png(shade: bytes) -> bytes:
    """A small grey PNG whose bytes depend on ``shade`` alone, not on an encoder's version."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + shade[8 * row : 8 * row + 8] for row in range(4))
    stored = b"\x78\x01\x01" + struct.pack("<HH", len(rows), len(rows) ^ 0xFFFF) + rows
    stored += struct.pack(">I", zlib.adler32(rows))
    header = struct.pack(">IIBBBBB", 8, 4, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", stored) + chunk(b"IEND", b"")


@pytest.fixture
def bench(handmade: Any) -> benchmark.Benchmark:
    """One case a path and a grid item, with pictures whose hashes never change."""

    def keep(*key: object) -> str:
        data = png(hashlib.sha256(repr(key).encode()).digest())
        path = benchmark.image_path(hashlib.sha256(data).hexdigest())
        (handmade.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (handmade.folder / path).write_bytes(data)
        return path

    def picture(role: str, *key: object) -> Picture:
        return Picture(role, keep(role, *key), None if role == "radiograph" else keep("control", role, *key))

    handmade.picture = picture
    handmade.case("lesion-free", "effusion", "lesion_free", detection=(2,))
    handmade.case("revision-free", "effusion", "revision_free", contour_evaluation=(2,), location=(1, 3))
    handmade.case("revision-required", "effusion", "revision_required", revision_expansion=(1, 3),
                  revision_contraction=(5,), revision_result=(3,), distribution=(2,), grid=(10, 11))  # fmt: skip
    return benchmark.load(handmade.write())


def conversation(bench: benchmark.Benchmark, path: str) -> protocols.Conversation:
    """The one conversation of a path; ``grid`` is the grid item's."""
    assert bench.answers is not None
    for items in protocols.conversations(bench, "end_to_end"):
        if (items[0].kind == "grid_cell") == (path == "grid") and path in (
            "grid",
            bench.answers[items[0].item_id].path,
        ):
            return items
    raise AssertionError(path)


def spoken(bench: benchmark.Benchmark, items: protocols.Conversation, right: tuple[str, ...] = ()) -> list[PriorReply]:
    """A model that is wrong everywhere but at the kinds ``right``."""
    assert bench.answers is not None
    said = []
    for item in items:
        answer = bench.answers[item.item_id].answer
        text = f"Answer: {', '.join(map(str, answer))}" if item.kind in right else WRONG.get(item.kind, "Answer: A1")
        if item.kind not in right and text.endswith("Answer: 2") and answer == (2,):
            text = text.replace("2", "1")
        numbers = tuple(int(word.strip("*,")) for word in text.split() if word.strip("*,").isdigit())
        said.append(PriorReply(text or None, numbers or None))
        assert is_right(item, bench.answers[item.item_id], numbers) == (item.kind in right), item
    return said


def as_text(requests: list[tuple[str, tuple[Message, ...]]]) -> str:
    """Every request of a conversation; messages that the request before began with too are only counted."""
    lines: list[str] = []
    before: list[dict[str, Any]] = []
    for kind, messages in requests:
        now = plain(messages)
        same = next((n for n, (old, new) in enumerate(zip(before, now, strict=False)) if old != new), len(before))
        lines.append(f"##### {kind}" + (f" (after {same} messages as before)" if same else ""))
        for message in now[same:]:
            lines.append(f"[{message['role']}]")
            lines += [part if isinstance(part, str) else f"<picture {part['image']}>" for part in message["parts"]]
        lines.append("")
        before = now
    return "\n".join(lines)


@pytest.mark.parametrize("path", ["lesion_free", "revision_free", "revision_required", "grid"])
@pytest.mark.parametrize("protocol", protocols.PROTOCOLS)
def test_conversation_as_sent_is_the_golden_one(bench: benchmark.Benchmark, protocol: str, path: str) -> None:
    check_golden(bench, protocol, path, Modifiers(), f"{protocol}-{path}")


@pytest.mark.parametrize("path", ["revision_required", "grid"])
@pytest.mark.parametrize("protocol", ["end_to_end", "oracle_passed", "oracle_stated", "independent"])
@pytest.mark.parametrize(
    ("name", "how"),
    [("rotated", Modifiers(rotations=2)), ("blind", Modifiers(blind=True)), ("overlay", Modifiers(overlay_only=True))],
)
def test_conversation_of_a_modified_run_is_the_golden_one(
    bench: benchmark.Benchmark, protocol: str, path: str, name: str, how: Modifiers
) -> None:
    check_golden(bench, protocol, path, how, f"{name}-{protocol}-{path}")


def check_golden(bench: benchmark.Benchmark, protocol: str, path: str, how: Modifiers, name: str) -> None:
    """Compare the last rotation of a conversation with its golden, or write that."""
    asked = protocols.named(protocol)
    items = tuple(option_order.shown(item, how, how.rotations - 1) for item in conversation(bench, path))
    said = spoken(bench, items)
    if asked == "independent":
        requests = [(item.kind, render(bench, asked, (item,), [], how.blind)) for item in items]
    else:
        requests = [
            (item.kind, render(bench, asked, items, said[:index], how.blind)) for index, item in enumerate(items)
        ]
    text = as_text(requests)
    golden = GOLDENS / f"{name}.txt"
    if os.environ.get("CHEXQA_UPDATE_GOLDENS") == "1":
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def replaced(bench: benchmark.Benchmark, path: str, before: str, right: tuple[str, ...] = ()) -> set[str]:
    """The kinds whose answers ``oracle_passed`` has replaced when the kind ``before`` is asked."""
    items = conversation(bench, path)
    said = spoken(bench, items, right)
    index = [item.kind for item in items].index(before)
    history = render(bench, "oracle_passed", items, said[:index])[2::2]
    plain_history = render(bench, "end_to_end", items, said[:index])[2::2]
    return {item.kind for item, new, old in zip(items, history, plain_history, strict=False) if new != old}


@pytest.mark.parametrize(
    ("path", "before", "expected"),
    [
        ("revision_free", "contour_evaluation", {"detection"}),
        ("revision_free", "distribution", {"detection", "contour_evaluation"}),
        ("revision_free", "comparison", {"detection", "contour_evaluation"}),
        ("revision_required", "revision_expansion", {"detection", "contour_evaluation"}),
        ("revision_required", "revision_contraction", {"detection", "contour_evaluation"}),
        ("revision_required", "revision_result",
         {"detection", "contour_evaluation", "revision_expansion", "revision_contraction"}),
        ("revision_required", "location",
         {"detection", "contour_evaluation", "revision_expansion", "revision_contraction", "revision_result"}),
    ],
)  # fmt: skip
def test_oracle_passed_puts_wrong_stages_right_before_the_next_stage_and_nothing_inside_one(
    bench: benchmark.Benchmark, path: str, before: str, expected: set[str]
) -> None:
    assert replaced(bench, path, before) == expected


def test_oracle_passed_keeps_right_answers_as_given(bench: benchmark.Benchmark) -> None:
    right = ("detection", "revision_contraction")
    assert replaced(bench, "revision_required", "location", right) == {
        "contour_evaluation", "revision_expansion", "revision_result"}  # fmt: skip


def test_oracle_stated_states_each_truth_once_in_words_before_the_question(bench: benchmark.Benchmark) -> None:
    items = conversation(bench, "revision_required")
    messages = render(bench, "oracle_stated", items, spoken(bench, items)[:-1])
    texts = [part for message in messages for part in message.parts if isinstance(part, str)]
    truths = [line + "\n" for text in texts for line in text.split("\n") if line.startswith("For your information")]
    assert len(truths) == 5
    stated = messages[1 + 2 * 4]
    assert isinstance(stated.parts[0], str)
    assert stated.parts[0].split("\n")[0] == (
        'For your information, the right answer to the question "The revision_expansion of effusion?" was: '
        "the red point, the yellow point."
    )
    assert "was: the outline in Picture 6.\n" in truths[-1]


def test_an_empty_reply_enters_the_history_as_no_answer(bench: benchmark.Benchmark) -> None:
    items = conversation(bench, "revision_free")
    for text in (None, "", " \n"):
        assert render(bench, "end_to_end", items, [PriorReply(text, None)])[2].parts == ("(no answer)",)


def test_oracle_protocols_need_the_key_and_the_others_do_not(bench: benchmark.Benchmark) -> None:
    items = conversation(bench, "revision_free")
    keyless = replace(bench, answers=None, cases=None)
    assert render(keyless, "end_to_end", items, [])
    with pytest.raises(InputError, match="the protocol oracle_passed needs the key"):
        render(keyless, "oracle_passed", items, [])


def test_an_option_picture_that_is_not_shown_is_refused(bench: benchmark.Benchmark) -> None:
    items = conversation(bench, "revision_required")
    item = replace(items[4], turn_images=items[4].turn_images[:3])
    with pytest.raises(InputError, match="option 4 is a picture, but the item does not have this picture"):
        render(bench, "end_to_end", (item,), [])


def test_an_unknown_protocol_names_the_nearest(bench: benchmark.Benchmark) -> None:
    with pytest.raises(InputError, match="did you mean 'oracle_passed'"):
        protocols.named("oracle-passed")


def test_request_hash_depends_on_messages_pictures_model_and_decoding_and_nothing_else(
    bench: benchmark.Benchmark,
) -> None:
    first, second = (render(bench, "end_to_end", conversation(bench, path), []) for path in ("lesion_free", "grid"))
    base = protocols.request_hash(first, "openai/m", {"temperature": 0, "max_tokens": 5})
    assert base == protocols.request_hash(first, "openai/m", {"max_tokens": 5, "temperature": 0})
    assert base != protocols.request_hash(second, "openai/m", {"temperature": 0, "max_tokens": 5})
    assert base != protocols.request_hash(first, "openai/n", {"temperature": 0, "max_tokens": 5})
    assert base != protocols.request_hash(first, "openai/m", {"temperature": 1, "max_tokens": 5})
