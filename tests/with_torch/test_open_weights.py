"""Open weights in this process: what they say is what transformers says when it is called directly."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_model as made
import torch
from handmade import Handmade, six_cases
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.eval.local.conversation import conversation
from chexqa.eval.models import in_process, registry
from chexqa.eval.models.rate_limit import RetryPolicy
from chexqa.eval.prompts import protocols
from chexqa.eval.prompts.protocols import PriorReply
from chexqa.eval.runs import runner
from chexqa.eval.runs.runner import RunConfig

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    folder = tmp_path_factory.mktemp("asked") / "bench"
    folder.mkdir()
    return benchmark.load(six_cases(Handmade(folder)))


@pytest.fixture(scope="module")
def taught(bench: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that has learned an answer to every question of the benchmark."""
    return made.save(tmp_path_factory.mktemp("taught") / "tiny", made.benchmark_samples(bench), 250, 90)


@pytest.fixture(scope="module")
def direct(taught: Path) -> Callable[[list[dict[str, Any]]], str]:
    """The model called as transformers' own pages do, one conversation at a time."""
    processor = AutoProcessor.from_pretrained(taught, local_files_only=True)
    model = AutoModelForImageTextToText.from_pretrained(taught, local_files_only=True)

    def answer(messages: list[dict[str, Any]]) -> str:
        inputs = processor.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
        )
        with torch.inference_mode():
            new = model.generate(**inputs, max_new_tokens=12, do_sample=False)[0, inputs["input_ids"].shape[1] :]
        return str(processor.decode(new, skip_special_tokens=True)).strip()

    return answer


def test_greedy_replies_are_those_of_transformers_called_directly(
    bench: Benchmark, taught: Path, direct: Callable[[list[dict[str, Any]]], str], tmp_path: Path, cli: Cli
) -> None:
    words = ("--max-tokens", 12, "--set", "dtype=float32", "-o", tmp_path / "run")
    code, _, err = cli("eval", bench.folder, "--model-id", f"transformers/{taught}", *words)
    assert code == 0, err
    turns = {turn.item_id: turn for turn in read_run.load(tmp_path / "run").turns}
    assert len(turns) == len(bench.items)
    for talk in protocols.conversations(bench, "end_to_end"):
        said: list[PriorReply] = []
        for item in talk:
            messages = protocols.render(bench, "end_to_end", talk, said)
            turn = turns[item.item_id]
            pictures = conversation(messages, lambda image: Image.open(io.BytesIO(bench.image_bytes(image))))
            assert turn.raw == direct(pictures)
            said.append(PriorReply(turn.raw, turn.parsed))
    states = Counter(turn.state for turn in turns.values())
    assert states["answered"] >= 0.8 * len(turns)
    answers = Counter(turn.raw for turn in turns.values())
    assert answers.most_common(1)[0][1] <= 0.6 * len(turns)
    (turn, *_) = turns.values()
    assert (turn.model, turn.provider_model) == ("transformers/tiny", "tiny float32")
    assert turn.usage is not None
    assert (turn.usage["input_tokens"] or 0) > 50
    assert turn.usage["output_tokens"] in (4, 5)
    assert turn.finish_reason == "stop"
    about = read_run.load(tmp_path / "run").about["models"]["transformers/tiny"]
    assert about["decoding"] == {"temperature": 0, "max_tokens": 12, "dtype": "float32"}


def test_a_worker_process_says_the_same(bench: Benchmark, taught: Path, tmp_path: Path) -> None:
    said = []
    for number, devices in enumerate(((), ("cpu",))):
        model = in_process.of_weights(f"transformers/{taught}", {}, devices)
        (progress,) = runner.run(RunConfig(bench, (model,), "end_to_end", tmp_path / str(number), limit=2))
        assert progress.unfinished == 0, progress.error
        said.append({turn.key: turn.raw for turn in read_run.load(tmp_path / str(number)).turns})
    assert said[0] == said[1]


def test_a_prompt_beyond_the_context_is_an_overflow_and_the_others_of_its_batch_are_answered(
    bench: Benchmark, taught: Path, tmp_path: Path
) -> None:
    from dataclasses import replace

    known = replace(registry.load()["medgemma-27b"], repository=str(taught), context_tokens=300)
    model = in_process.of_weights(f"transformers/{taught}", {"x": known})
    assert (model.max_images, model.decoding) == (8, {"temperature": 0, "max_tokens": 8192})
    policy = RetryPolicy(attempts=1)
    (progress,) = runner.run(RunConfig(bench, (model,), "end_to_end", tmp_path / "run", policy=policy))
    turns = read_run.load(tmp_path / "run").turns
    over = [turn for turn in turns if turn.state == "overflow"]
    assert 0 < len(over) < len(turns)
    assert "the model's context holds only 300" in str(over[0].error)
    assert progress.unfinished == 0


def test_a_cut_reply_is_truncated_and_thought_is_kept_apart(bench: Benchmark, taught: Path, tmp_path: Path) -> None:
    from chexqa.eval.local.open_weights import OpenWeights

    whole = OpenWeights(str(taught), False, None, {"max_tokens": 2, "temperature": 0})
    whole.load("cpu")
    sample = made.benchmark_samples(bench)[0][0]
    (reply,) = whole.answer_batch([sample])
    assert (reply.finish_reason, reply.output_tokens) == ("length", 2)  # type: ignore[union-attr]
    tokens = whole._processor.tokenizer("<think>it is white</think>\nAnswer: 2")["input_ids"]
    reply = whole._reply([*tokens, whole._model.generation_config.eos_token_id, 0, 0], 7)
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("Answer: 2", "it is white", "stop")


def test_the_thinking_switch_reaches_the_chat_template(bench: Benchmark, taught: Path) -> None:
    from chexqa.eval.local.open_weights import OpenWeights

    sample = made.benchmark_samples(bench)[0][0]
    texts = []
    for given in ({}, {"chat_template_kwargs": {"enable_thinking": False}}):
        weights = OpenWeights(str(taught), False, None, given)
        weights.load("cpu")
        texts.append(weights._processor.tokenizer.decode(weights._inputs([sample])["input_ids"][0]))
    assert texts[1] == f"{texts[0]} (briefly)"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--model-id", "transformers/no/such/model"), "not in the hub's cache on this machine; name a folder, or get"),
        (("--model-id", "transformers/Owner/Name"), "get them first with 'hf download Owner/Name'"),
        (("--model-id", "transformers/"), "names no weights; write transformers/FOLDER"),
        (
            ("--model-id", "transformers/TINY", "--set", "logprobs=3"),
            "'logprobs' is not a setting that chexqa passes to transformers",
        ),
        (("--model-id", "transformers/TINY", "--set", "dtype=int3"), "there is no dtype 'int3'; write one of auto"),
        (("--model-id", "transformers/TINY", "--set", "load_in_4bit=true"), "need the package bitsandbytes"),
        (("--model-id", "transformers/TINY", "--api-base", "http://127.0.0.1:1/v1"), "runs in this process and has no"),
    ],
)
def test_what_cannot_be_run_is_one_sentence_and_no_run(
    words: tuple[str, ...], sentence: str, bench: Benchmark, taught: Path, tmp_path: Path, cli: Cli
) -> None:
    given = [word.replace("TINY", str(taught)) for word in words]
    code, _, err = cli("eval", bench.folder, *given, "-o", tmp_path / "run")
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_damaged_weights_are_one_sentence(bench: Benchmark, taught: Path, tmp_path: Path, cli: Cli) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in taught.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    (broken / "model.safetensors").write_bytes(b"no weights at all")
    code, _, err = cli("eval", bench.folder, "--model-id", f"transformers/{broken}", "-o", tmp_path / "run")
    assert code == 2
    assert "transformers/broken: cannot be loaded: " in err
    assert err.count("\n") == 1


def test_models_check_asks_it(taught: Path, cli: Cli) -> None:
    code, out, err = cli("models", "check", "--model-id", f"transformers/{taught}", "--json")
    assert code in (0, 3), err
    (record,) = json.loads(out)
    assert record["model"] == "transformers/tiny"
    assert record["said"]
