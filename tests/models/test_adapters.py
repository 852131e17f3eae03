"""What models cannot take, done otherwise; and a whole conversation as each of the fourteen is really sent it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from fake_server import FakeServer, Reply
from hypothesis import given
from hypothesis import strategies as st
from small_server import recorder

from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark, image_digest
from chexqa.contract.items import Picture
from chexqa.eval.models import adapters, client, openai_http, registry
from chexqa.eval.models.client import Client
from chexqa.eval.models.rate_limit import RetryPolicy
from chexqa.eval.models.registry import Model
from chexqa.eval.prompts import protocols
from chexqa.eval.prompts.protocols import Message, PriorReply

PLAIN = Model("plain", "openai/plain", "general", "open")
A, B, C = (Picture("radiograph", f"images/{name}.png") for name in "abc")
TALK = (
    Message("system", ("You are a radiologist.",)),
    Message("user", ("Picture 1: the radiograph.", A, "Is it there?")),
    Message("assistant", ("Answer: 1",)),
    Message("user", ("The truth was yes.\nPicture 2: the contour.", B, "Picture 3: another.", C, "Is it right?")),
    Message("assistant", ("Answer: 2",)),
    Message("user", ("Where is it?",)),
)


def parts(messages: tuple[Message, ...]) -> list[tuple[str, tuple[str | Picture, ...]]]:
    return [(message.role, message.parts) for message in messages]


def test_a_model_without_quirks_is_sent_the_messages_as_they_are() -> None:
    assert adapters.adapt(PLAIN, TALK) == TALK


def test_without_a_system_role_the_system_prompt_begins_the_first_question() -> None:
    sent = parts(adapters.adapt(replace(PLAIN, system_prompt=False), TALK))
    first = ("You are a radiologist.\n\nPicture 1: the radiograph.", A, "Is it there?")
    assert sent == [("user", first), *parts(TALK)[2:]]


def test_pictures_first_keeps_their_order_and_makes_one_text() -> None:
    sent = parts(adapters.adapt(replace(PLAIN, images_first=True), TALK))
    assert sent[1] == ("user", (A, "Picture 1: the radiograph.\nIs it there?"))
    text = "The truth was yes.\nPicture 2: the contour.\nPicture 3: another.\nIs it right?"
    assert sent[3] == ("user", (B, C, text))
    assert sent[5] == ("user", ("Where is it?",))


def test_pictures_in_the_last_message_alone_come_with_the_lines_that_announce_them() -> None:
    sent = parts(adapters.adapt(replace(PLAIN, multi_turn_images=False), TALK))
    assert sent[1] == ("user", ("Is it there?",))
    assert sent[3] == ("user", ("The truth was yes.\nIs it right?",))
    moved = ("Picture 1: the radiograph.", A, "Picture 2: the contour.", B, "Picture 3: another.", C)
    assert sent[5] == ("user", (*moved, "Where is it?"))


def test_all_quirks_together_leave_one_text_after_the_pictures() -> None:
    odd = replace(PLAIN, system_prompt=False, multi_turn_images=False, images_first=True)
    sent = parts(adapters.adapt(odd, TALK))
    assert [role for role, _ in sent] == ["user", "assistant", "user", "assistant", "user"]
    assert sent[0] == ("user", ("You are a radiologist.\n\nIs it there?",))
    lines = "Picture 1: the radiograph.\nPicture 2: the contour.\nPicture 3: another.\nWhere is it?"
    assert sent[4] == ("user", (A, B, C, lines))


@given(
    shown=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    system=st.booleans(), first=st.booleans(), several=st.booleans(),
)  # fmt: skip
def test_no_quirk_loses_or_reorders_a_picture_or_a_line(
    shown: list[int], system: bool, first: bool, several: bool
) -> None:
    talk, number = [Message("system", ("S",))], 0
    for turn, count in enumerate(shown):
        asked: list[str | Picture] = []
        for _ in range(count):
            number += 1
            asked += [f"P{number}", Picture("radiograph", f"{number}.png")]
        talk += [Message("user", (*asked, f"Q{turn}")), Message("assistant", (f"A{turn}",))]
    messages = tuple(talk[:-1])
    odd = replace(PLAIN, system_prompt=system, images_first=first, multi_turn_images=several)
    sent = adapters.adapt(odd, messages)
    assert adapters.adapt(odd, sent) == sent, "done twice is done once"
    images = [part.image for message in sent for part in message.parts if isinstance(part, Picture)]
    assert images == [f"{n}.png" for n in range(1, number + 1)]
    lines = [line for message in sent for part in message.parts if isinstance(part, str) for line in part.split("\n")]
    plain = [part for message in messages for part in message.parts if isinstance(part, str)]
    assert sorted(line for line in lines if line) == sorted(plain)
    for message in sent:
        kinds = [type(part) for part in message.parts]
        assert all(not (one is two is str) for one, two in itertools.pairwise(kinds))
        assert kinds


def test_special_tokens_are_taken_out_of_a_reply() -> None:
    glm = registry.load()["glm-4.6v"]
    assert adapters.strip_tokens(glm, "I see.\nAnswer: <|begin_of_box|>2<|end_of_box|>") == "I see.\nAnswer: 2"
    assert adapters.strip_tokens(glm, None) is None


# The wire.


@pytest.fixture
def bench(tiny_benchmark: Path) -> Benchmark:
    return benchmark.load(tiny_benchmark)


def last_question(bench: Benchmark) -> tuple[Message, ...]:
    """The last question of the longest conversation: nine turns and seven pictures."""
    longest = max(protocols.conversations(bench, "end_to_end"), key=len)
    return protocols.render(bench, "end_to_end", longest, [PriorReply("Answer: 1", (1,))] * (len(longest) - 1))


def ask(bench: Benchmark, model: Model) -> client.Reply:
    async def work() -> client.Reply:
        try:
            sent = adapters.adapt(model, last_question(bench))
            return await Client(bench, RetryPolicy(attempts=1, timeout_s=60)).ask(model, sent)
        finally:
            await client.close()

    return asyncio.run(work())


OPENAI_REPLY = {"choices": [{"message": {"role": "assistant", "content": "Answer: 1"}, "finish_reason": "stop"}]}
GEMINI_REPLY = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Answer: 1"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 5, "totalTokenCount": 17},
}
BY_OPENAIS_INTERFACE = [
    model for model in registry.load().values() if model.domain != "baseline" and "gemini/" not in model.litellm
]
GEMINIS = [model for model in registry.load().values() if "gemini/" in model.litellm]


def test_the_fourteen_are_all_here_and_the_group() -> None:
    assert len(BY_OPENAIS_INTERFACE) + len(GEMINIS) == 14 + 3


@pytest.mark.parametrize("model", BY_OPENAIS_INTERFACE, ids=lambda model: model.name)
def test_a_conversation_as_a_model_gets_it_is_within_its_limits(
    bench: Benchmark, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeServer(bench, "end_to_end", lambda request: Reply("Answer: 1")) as server:
        if model.endpoint_variable:
            monkeypatch.setenv(model.endpoint_variable, server.url)
        else:
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key")
        assert ask(bench, model).text == "Answer: 1"
    assert server.problems == []
    (request,) = server.requests
    body = request.body
    assert body["model"] == model.litellm.partition("/")[2]
    sent = {"max_tokens" if name == "max_completion_tokens" else name: value for name, value in body.items()}
    assert {name: sent[name] for name in model.decoding} == model.decoding
    assert set(sent) == {"model", "messages", *model.decoding}
    pictures = [part for message in body["messages"] for part in message["content"] if isinstance(part, dict)
                and part["type"] == "image_url"]  # fmt: skip
    assert len(pictures) == 7 <= (model.max_images or 7)


@pytest.mark.parametrize("model", GEMINIS, ids=lambda model: model.name)
def test_a_conversation_as_gemini_gets_it_holds_every_turn_and_picture(bench: Benchmark, model: Model) -> None:
    with recorder(GEMINI_REPLY) as (address, bodies):
        reply = ask(bench, replace(model, api_base=f"{address}/v1beta"))
    assert reply.text == "Answer: 1"
    assert reply.usage is not None
    assert reply.usage["reasoning_tokens"] == 5
    (body,) = bodies
    assert body["system_instruction"]["parts"] == [{"text": bench.conversation_texts["system"]}]
    assert [turn["role"] for turn in body["contents"]] == ["user", "model"] * 8 + ["user"]
    data = [part["inline_data"] for turn in body["contents"] for part in turn["parts"] if "inline_data" in part]
    sent = [hashlib.sha256(base64.b64decode(one["data"])).hexdigest() for one in data]
    asked = [part for message in last_question(bench) for part in message.parts if isinstance(part, Picture)]
    assert sent == [image_digest(picture.image) for picture in asked]
    settings = body["generationConfig"]
    assert (settings["temperature"], settings["max_output_tokens"]) == (1, 8192)
    assert settings["thinkingConfig"]["thinkingLevel"] == "medium"


def test_a_model_of_every_quirk_gets_a_body_it_can_take(bench: Benchmark) -> None:
    odd = replace(PLAIN, system_prompt=False, multi_turn_images=False, images_first=True, max_images=7)
    with recorder(OPENAI_REPLY) as (address, bodies):
        assert ask(bench, replace(odd, api_base=f"{address}/v1")).text == "Answer: 1"
    messages = bodies[0]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 8 + ["user"]
    assert all(part["type"] == "text" for message in messages[:-1] if message["role"] == "user"
               for part in message["content"])  # fmt: skip
    assert [part["type"] for part in messages[-1]["content"]] == ["image_url"] * 7 + ["text"]


def test_more_pictures_than_a_model_takes_are_not_sent_in_part(bench: Benchmark) -> None:
    with recorder(OPENAI_REPLY) as (address, bodies):
        reply = ask(bench, replace(PLAIN, max_images=6, api_base=f"{address}/v1"))
    assert bodies == []
    assert (reply.outcome, reply.attempts) == ("overflow", 0)
    assert reply.error == "the prompt has 7 pictures, but the model takes at most 6, so the question was not sent"


@pytest.mark.parametrize("mode", ["on", "off"])
def test_the_thinking_switch_is_part_of_the_decoding_and_of_the_body(
    bench: Benchmark, tmp_path: Path, mode: str
) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(f"models:\n  - {{name: mine, like: qwen3.6-27b, thinking: {mode}}}\n")
    mine = registry.load(path)["mine"]
    assert mine.decoding["chat_template_kwargs"] == {"enable_thinking": mode == "on"}
    with recorder(OPENAI_REPLY) as (address, bodies):
        ask(bench, replace(mine, endpoint_variable=None, api_base=f"{address}/v1"))
    assert bodies[0]["chat_template_kwargs"] == {"enable_thinking": mode == "on"}


def test_only_servers_of_ones_own_are_asked_the_lean_way() -> None:
    models = registry.load()
    assert not any(openai_http.suits(models[name]) for name in ("gpt-5.4", "gemini-3.1-pro", "baseline/first"))
    assert openai_http.suits(registry.adhoc("Org/Model", "http://127.0.0.1:9/v1"))
    assert openai_http.suits(registry.adhoc("anthropic/claude", "http://127.0.0.1:9/v1"))
    assert not openai_http.suits(registry.adhoc("anthropic/claude", "http://127.0.0.1:9/v1", provider_protocol=True))
