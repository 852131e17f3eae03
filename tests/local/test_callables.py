"""A model that is a Python object: every form of it, what it is given and returns, and what goes wrong in it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.read_run import Turn
from chexqa.eval.local.pool import Pool
from chexqa.eval.local.replies import ModelReply, PromptTooLongError
from chexqa.eval.models import in_process
from chexqa.eval.models.rate_limit import RetryPolicy
from chexqa.eval.models.registry import Model
from chexqa.eval.prompts import protocols
from chexqa.eval.runs import runner
from chexqa.eval.runs.budget import Budget
from chexqa.eval.runs.model_progress import ModelProgress
from chexqa.eval.runs.runner import RunConfig
from chexqa.files.errors import InputError

Cli = Callable[..., tuple[int, str, str]]
QUICK = RetryPolicy(attempts=3, timeout_s=20, backoff_s=0.01, backoff_limit_s=0.02)
MODULE = """
import asyncio, os
from pathlib import Path

def last(messages):
    return messages[-1]["content"][-1]["text"]

def answer(messages):
    assert [message["role"] for message in messages][:2] == ["system", "user"]
    return "Answer: A1" if "cell" in last(messages) else "Answer: 1"

async def later(messages):
    await asyncio.sleep(0)
    return answer(messages)

class Model:
    def load(self, device):
        self.device = device

    def answer(self, messages):
        assert self.device in (None, "cpu")
        return answer(messages)

class Batches(Model):
    batch_size = 3
    largest = 0

    def answer_batch(self, conversations):
        assert len(conversations) <= 3
        Batches.largest = max(Batches.largest, len(conversations))
        return [self.answer(one) for one in conversations]

class AsyncBatches(Model):
    async def answer_batch(self, conversations):
        return [await later(one) for one in conversations]

class Died:
    # The first question kills its process; its process then is another one.
    def answer(self, messages):
        mark = Path(os.environ["MARK"])
        try:
            mark.touch(exist_ok=False)  # of two processes, only one makes the file
            os.kill(os.getpid(), 9)
        except FileExistsError:
            pass
        with mark.open("a") as file:
            file.write(f"{os.getpid()} {os.environ['CUDA_VISIBLE_DEVICES']!r}\\n")
        return answer(messages)

def stop(raised=iter([KeyboardInterrupt, GeneratorExit, asyncio.CancelledError] * 30)):
    raise next(raised)

class Stops:
    def answer(self, messages):
        stop()

class StopsLater:
    async def answer(self, messages):
        stop()

class StopsBatch:
    def answer_batch(self, conversations):
        stop()

class StopsLaterBatch:
    async def answer_batch(self, conversations):
        stop()

class StopsTask:
    async def answer(self, messages):
        asyncio.current_task().cancel()
        await asyncio.sleep(9)

class Hangs:
    def answer(self, messages):
        import time
        time.sleep(60)
"""


@pytest.fixture
def bench(tiny_benchmark: Path) -> Benchmark:
    return benchmark.load(tiny_benchmark)


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "my_model.py"
    path.write_text(MODULE, encoding="utf-8")
    yield path
    sys.modules.pop("_chexqa_python_my_model", None)
    sys.path.remove(str(tmp_path)) if str(tmp_path) in sys.path else None


def ask(bench: Benchmark, folder: Path, model: Model, **settings: Any) -> tuple[ModelProgress, dict[str, Turn]]:
    order = RunConfig(bench, (model,), "end_to_end", folder, **{"policy": QUICK, **settings})
    (progress,) = runner.run(order)
    return progress, {turn.item_id: turn for turn in read_run.load(folder).turns}


def told(messages: list[dict[str, Any]]) -> str:
    return str(messages[-1]["content"][-1]["text"])


# Forms


@pytest.mark.parametrize("name", ["answer", "later", "Model", "Batches", "AsyncBatches"])
def test_every_form_of_a_callable_is_asked_everything_once(
    name: str, bench: Benchmark, module: Path, tmp_path: Path
) -> None:
    model = in_process.of_callable(f"{module}:{name}")
    progress, turns = ask(bench, tmp_path / "run", model)
    assert progress.counts == Counter(answered=len(bench.items), not_asked=0)
    assert progress.asked == len(bench.items) == len(turns)
    assert {turn.raw for turn in turns.values()} == {"Answer: 1", "Answer: A1"}
    assert {turn.model for turn in turns.values()} == {f"my_model:{name}"}
    assert all((turn.provider_model or "").startswith("my_model.py ") for turn in turns.values())
    assert progress.spent.usd.whole == 0
    again, _ = ask(bench, tmp_path / "run", model)
    assert again.asked == 0


def test_what_waits_is_asked_together(bench: Benchmark, module: Path, tmp_path: Path) -> None:
    ask(bench, tmp_path / "run", in_process.of_callable(f"{module}:Batches"))
    assert sys.modules["_chexqa_python_my_model"].Batches.largest == 3


def test_a_batch_holds_conversations_of_like_length(bench: Benchmark) -> None:
    from chexqa.eval.local import callable_address as targets
    from chexqa.eval.local.callable_address import Target
    from chexqa.eval.local.load_and_call import Served

    seen: list[list[str]] = []

    class Model:
        batch_size = 2

        def answer_batch(self, conversations: list[Any]) -> list[str]:
            seen.append([told(one) for one in conversations])
            return ["Answer: 1"] * len(conversations)

    target = Target(":m", "m", found=Model)

    async def all_four() -> None:
        pool = Pool(Served(target, targets.traits(Model, target), {}), 4, 5)
        try:
            texts = ["short", "a long one" * 90, "little", "another long one" * 60]
            said = [[{"role": "user", "content": [{"type": "text", "text": text}]}] for text in texts]
            await asyncio.gather(*(pool.ask(one, len(told(one))) for one in said))
        finally:
            pool.close()

    asyncio.run(all_four())
    assert sorted(sorted(len(text) > 100 for text in group) for group in seen) == [[False, False], [True, True]]


def test_an_object_that_is_called_and_a_method_are_callables_too(bench: Benchmark, tmp_path: Path) -> None:
    class Called:
        name = "mine"
        max_images = 1

        def __call__(self, messages: list[Any]) -> str:
            return "Answer: 1"

        def method(self, messages: list[Any]) -> str:
            return "Answer: 1"

    progress, _ = ask(bench, tmp_path / "run", in_process.of_callable(Called()))
    assert progress.model == "mine"
    assert progress.counts["overflow"] > 5  # more pictures than it takes: it was not asked
    assert progress.counts["answered"] > 5
    progress, _ = ask(bench, tmp_path / "other", in_process.of_callable(Called().method, "other"))
    assert progress.counts["answered"] > 20


# What it is given


def test_it_gets_the_whole_conversation_with_pictures_in_the_form_it_asks_for(bench: Benchmark, tmp_path: Path) -> None:
    seen: dict[str, list[Any]] = {"pil": [], "path": [], "bytes": []}
    roles: list[list[str]] = []

    def made(form: str) -> Any:
        def answer(messages: list[dict[str, Any]]) -> str:
            parts = [part for message in messages for part in message["content"]]
            seen[form] += [part["image"] for part in parts if part["type"] == "image"]
            roles.append([message["role"] for message in messages])
            return "Answer: 1"

        answer.pictures = form  # type: ignore[attr-defined]
        return answer

    for form in seen:
        ask(bench, tmp_path / form, in_process.of_callable(made(form), form), concurrency=1)
    assert len(seen["pil"]) == len(seen["path"]) == len(seen["bytes"]) > 30
    for image, path, data in zip(seen["pil"], seen["path"], seen["bytes"], strict=True):
        assert path.is_file()
        assert path.read_bytes() == data
        assert image.size == Image.open(path).size
    assert max(map(len, roles)) > 10
    assert roles[-1][0] == "system"


def test_decoding_reaches_it_as_keywords_and_is_the_runs_identity(
    bench: Benchmark, module: Path, tmp_path: Path, cli: Cli
) -> None:
    path = tmp_path / "counted.py"
    path.write_text("def answer(messages, *, max_tokens=3):\n    return f'Answer: {max_tokens}'\n", encoding="utf-8")
    args = ("eval", bench.folder, "--python", path, "-o", tmp_path / "run", "--limit", 1)
    assert cli(*args, "--max-tokens", 2)[0] == 0
    run = read_run.load(tmp_path / "run")
    assert {turn.raw for turn in run.turns} == {"Answer: 2"}
    assert run.about["models"]["counted:answer"]["decoding"] == {"max_tokens": 2}
    code, _, err = cli(*args)
    assert code == 2
    assert "the decoding of 'counted:answer' was" in err
    code, _, err = cli("eval", bench.folder, "--python", module, "--max-tokens", 2, "-o", tmp_path / "other")
    assert (code, (tmp_path / "other").exists()) == (2, False)
    assert "has no argument 'max_tokens'" in err


# What it returns


def test_a_reply_with_tokens_reasoning_and_confidence_is_in_the_log(bench: Benchmark, tmp_path: Path) -> None:
    reply = ModelReply("Answer: 1", 900, 7, 3, "it is white", 0.75, "stop", "mine-2")
    as_mapping = {"text": "Answer: 1", "input_tokens": 900, "confidence": 1}
    for number, returned in enumerate((reply, as_mapping)):
        model = in_process.of_callable(lambda messages, said=returned: said, "mine")
        progress, turns = ask(bench, tmp_path / str(number), model, limit=1)
        turn = next(iter(turns.values()))
        assert (turn.state, turn.usage and turn.usage["input_tokens"]) == ("answered", 900)
        assert turn.confidence == (0.75, 1)[number]
    assert progress.unfinished == 0
    (turn, *_) = read_run.load(tmp_path / "0").turns
    assert (turn.reasoning, turn.provider_model, turn.latency_s is not None) == ("it is white", "mine-2", True)
    assert turn.usage == {"input_tokens": 900, "output_tokens": 7, "reasoning_tokens": 3, "cached_tokens": None}


@pytest.mark.parametrize(
    ("returned", "state", "error"),
    [
        (None, "error", "returned None; return text, or chexqa.ModelReply('') for an empty reply"),
        (ModelReply(""), "empty", "the reply has no text"),
        ("I think so", "unparsed", None),
        (ModelReply("Answer:", finish_reason="length"), "truncated", None),
        (ModelReply("I cannot help with that", refused=True), "refused", None),
        (PromptTooLongError("9000 tokens"), "overflow", "PromptTooLongError: 9000 tokens"),
        (7, "error", "returned int; return text or"),
        ({"answer": "1"}, "error", "a mapping with 'answer'; its fields are text"),
        (ModelReply("Answer: 1", confidence=7), "error", "the confidence 7; give a number from 0 to 1"),
        (ModelReply("Answer: 1", input_tokens="7"), "error", "input_tokens is str, not a whole number"),  # type: ignore[arg-type]
        (KeyError("x"), "error", "KeyError: 'x' (test_callables.py, line"),
        (SystemExit(3), "error", "SystemExit: 3"),
        (KeyboardInterrupt(), "error", "KeyboardInterrupt (test_callables.py, line"),
        (GeneratorExit(), "error", "GeneratorExit (test_callables.py, line"),
        (asyncio.CancelledError("pool"), "error", "CancelledError: pool (test_callables.py, line"),
    ],
)
def test_every_return_and_error_is_a_state(
    returned: Any, state: str, error: str | None, bench: Benchmark, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def answer(messages: list[Any]) -> Any:
        asked.append(messages)
        if len(asked) > 1:  # a model that calls every question too long has not answered any: its turns are errors
            return "Answer: 1"
        if isinstance(returned, BaseException):
            raise returned
        return returned

    _, turns = ask(bench, tmp_path / "run", in_process.of_callable(answer), limit=3)
    turn = next(turn for turn in turns.values() if turn.state == state)
    assert (turn.error is None) == (error is None)
    assert error is None or error in (turn.error or "")
    assert turn.error is None or ("\n" not in turn.error and "Traceback" not in turn.error)


@pytest.mark.parametrize(
    ("name", "devices"),
    [
        ("Stops", ()),
        ("StopsLater", ()),
        ("StopsBatch", ()),
        ("StopsLaterBatch", ()),
        ("StopsTask", ()),
        ("StopsLaterBatch", ("cpu",)),
    ],
)
def test_exceptions_that_end_programs_are_errors_of_calls(
    name: str, devices: tuple[str, ...], bench: Benchmark, module: Path, tmp_path: Path
) -> None:
    model = in_process.of_callable(f"{module}:{name}", devices=devices)
    _, turns = ask(bench, tmp_path / "run", model, limit=3, concurrency=1)
    errors = " ".join(turn.error or "" for turn in turns.values())
    expected = ["CancelledError"] if name == "StopsTask" else ["KeyboardInterrupt", "GeneratorExit", "CancelledError"]
    assert [word for word in expected if word not in errors] == []
    assert name == "StopsTask" or errors.count("(my_model.py, line") == len(turns)


def test_a_batch_of_the_wrong_size_is_an_error_and_one_of_its_errors_is_of_its_item(
    bench: Benchmark, tmp_path: Path
) -> None:
    class Short:
        def answer_batch(self, conversations: list[Any]) -> list[str]:
            return []

    class Some:
        def answer_batch(self, conversations: list[Any]) -> list[Any]:
            return [ValueError("not this") if "edema" in told(one) else "Answer: 1" for one in conversations]

    progress, _ = ask(bench, tmp_path / "short", in_process.of_callable(Short()))
    assert "a list of 0 for" in str(progress.error)
    progress, turns = ask(bench, tmp_path / "some", in_process.of_callable(Some()))
    wrong = {turn.item_id for turn in turns.values() if turn.state == "error"}
    assert wrong
    assert {bench.item[item_id].finding for item_id in wrong} == {"edema"}


# Errors, budgets, resuming


def test_what_failed_is_asked_again_and_nothing_else(bench: Benchmark, tmp_path: Path) -> None:
    asked: list[str] = []
    broken = [True]

    def answer(messages: list[Any]) -> str:
        asked.append(told(messages))
        if broken[0] and "detection" in asked[-1]:
            raise ValueError("not yet")
        return "Answer: 1"

    progress, turns = ask(bench, tmp_path / "run", in_process.of_callable(answer))
    failed = [turn for turn in turns.values() if turn.state == "error"]
    assert len(failed) == 6
    assert progress.unfinished > 6  # what follows a failed question waits
    before, broken[0] = len(asked), False
    progress, _ = ask(bench, tmp_path / "run", in_process.of_callable(answer))
    assert progress.unfinished == 0
    assert len(asked) - before == progress.asked == len(bench.items) - (before - 6)


def test_a_budget_of_tokens_holds(bench: Benchmark, tmp_path: Path) -> None:
    model = in_process.of_callable(lambda messages: ModelReply("Answer: 1", 90, 10), "m")
    progress, turns = ask(bench, tmp_path / "run", model, budget=Budget(tokens=500), concurrency=1)
    assert len(turns) == 5
    assert "--budget-tokens 500" in str(progress.stopped)


@pytest.mark.parametrize("protocol", protocols.PROTOCOLS)
def test_every_protocol_asks_a_callable(protocol: str, bench: Benchmark, module: Path, tmp_path: Path) -> None:
    model = in_process.of_callable(f"{module}:Model")
    (progress,) = runner.run(RunConfig(bench, (model,), protocols.named(protocol), tmp_path / "run"))
    assert progress.counts["answered"] == len(bench.items)


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        (None, "", "there is no file"),
        ("def answer(messages)\n    pass\n", "", "SyntaxError: expected ':' (my_model.py, line 1)"),
        ("import no_such_module_anywhere\n", "", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("x = 1 / 0\n", "", "ZeroDivisionError: division by zero (my_model.py, line 1)"),
        ("def answr(messages): pass\n", "", "has no 'answer' (did you mean 'answr'?)"),
        ("class Model: pass\n", ":Model", "is the class Model without 'answer' or 'answer_batch'"),
        ("answer = 3\n", "", "is an object of type int without"),
        ("def answer(): pass\n", "", "takes no argument; add one for the conversation"),
        ("def answer(prompt, image): pass\n", "", "needs the argument 'image', but it gets only the conversation"),
        ("class M:\n  def answer(s, m, *, top): pass\n", ":M", "needs the argument 'top'"),
        (
            "def answer(m): pass\nanswer.pictures = 'png'\n",
            "",
            "its attribute 'pictures' is 'png'; write one of 'pil', 'path', 'bytes'",
        ),
        ("class M:\n  batch_size = 0\n  def answer_batch(s, m): pass\n", ":M", "its batch_size is 0"),
        ("import sys\nsys.exit(4)\n", "", "SystemExit: 4"),
        (
            "class M:\n  def __init__(s, folder): pass\n  def answer(s, m): pass\n",
            ":M",
            "needs the argument 'folder' (__init__ in my_model.py, line 2); give 'folder' a default value",
        ),
        ("class M:\n  name = 'a\\nb'\n  def answer(s, m): pass\n", ":M", "'a\\nb' is not a valid name for a model"),
        (
            "@__import__('dataclasses').dataclass\nclass M:\n  folder: str\n  def answer(s, m): pass\n",
            ":M",
            "needs the argument 'folder'; give 'folder' a default value",
        ),
        (None, ":f,other.py", "give --python again for each of several models"),
        ("def answer(m): pass\nanswer.max_images = 0\n", "", "0 must be at least 1"),
        (
            "class M:\n  def load(s): open('/no/such')\n  def answer(s, m): pass\n",
            ":M",
            "cannot be loaded: FileNotFound",
        ),
    ],
)
def test_what_cannot_be_asked_is_one_sentence_and_exit_code_2(
    text: str | None, name: str, sentence: str, bench: Benchmark, tmp_path: Path, cli: Cli
) -> None:
    path = tmp_path / "my_model.py"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    code, out, err = cli("eval", bench.folder, "--python", f"{path}{name}", "-o", tmp_path / "run")
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert not list(tmp_path.glob("run/turns/*.jsonl")) or "loaded" in sentence


def test_an_address_given_as_a_models_name_is_told_the_right_option(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    code, _, err = cli("eval", bench.folder, "--models", "my_model.py:answer", "-o", tmp_path / "run")
    assert (code, "if it is a Python function or class, name it with --python my_model.py:answer" in err) == (2, True)


def test_what_it_prints_is_no_part_of_the_result(bench: Benchmark, tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "loud.py"
    path.write_text("def answer(messages):\n    print('hello')\n    return 'Answer: 1'\n", encoding="utf-8")
    code, out, err = cli("eval", bench.folder, "--python", path, "-o", tmp_path / "run", "--json")
    assert code == 0
    assert json.loads(out)["models"][0]["unfinished"] == 0
    assert "hello" in err


def test_devices_without_a_model_that_runs_here_and_odd_ones_are_refused(bench: Benchmark, cli: Cli) -> None:
    code, _, err = cli("eval", bench.folder, "--models", "baseline/chance", "--devices", "0", "-o", "run")
    assert (code, "--devices applies only to models that run on this machine" in err) == (2, True)
    code, _, err = cli("eval", bench.folder, "--python", "os.path:join", "--devices", "gpu", "-o", "run")
    assert (code, "'gpu' is not a device" in err) == (2, True)


# Processes


def test_worker_processes_answer_and_one_that_dies_is_started_again(
    bench: Benchmark, module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    model = in_process.of_callable(f"{module}:Died", devices=("cpu", "1"))
    progress, turns = ask(bench, tmp_path / "run", model)
    assert progress.counts == Counter(answered=len(bench.items), not_asked=0, error=0)
    assert max(turn.attempts for turn in turns.values()) == 2
    assert progress.limiter.failures == Counter(connection=1)
    lines = (tmp_path / "mark").read_text().splitlines()
    assert len(lines) == len(bench.items)  # nothing that was answered is asked again
    assert len({line.split()[0] for line in lines}) == 2
    assert {line.split()[1] for line in lines} == {"''", "'1'"}
    assert str(os.getpid()) not in {line.split()[0] for line in lines}


def test_a_call_that_hangs_is_stopped_in_a_process_and_ends_the_run_in_this_one(
    bench: Benchmark, module: Path, tmp_path: Path
) -> None:
    policy = RetryPolicy(attempts=1, timeout_s=0.3)
    model = in_process.of_callable(f"{module}:Hangs", devices=("cpu",))
    progress, turns = ask(bench, tmp_path / "process", model, policy=policy, limit=1, concurrency=1)
    assert "no reply within 0.3 s; its process was stopped" in str(progress.error)
    model = in_process.of_callable(f"{module}:Hangs")
    progress, turns = ask(bench, tmp_path / "thread", model, policy=policy)
    assert "a call in this process cannot be stopped; raise --timeout, or name --devices" in str(progress.error)
    assert len(turns) <= 8


def test_what_cannot_be_sent_to_a_process_says_so(bench: Benchmark, tmp_path: Path) -> None:
    model = in_process.of_callable(lambda messages: "Answer: 1", "m", devices=("cpu",))
    with pytest.raises(InputError, match=r"cannot be sent to a worker process .*define it in a file"):
        ask(bench, tmp_path / "run", model)


@pytest.mark.long
def test_after_a_kill_nothing_answered_is_asked_again(bench: Benchmark, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    path = tmp_path / "noted.py"
    path.write_text(
        "import time\n"
        "def answer(messages):\n"
        "    time.sleep(0.02)\n"
        f"    with open({str(asked)!r}, 'a') as file:\n"
        "        file.write(repr(messages[-1]['content'][-1]['text']) + chr(10))\n"
        "    return 'Answer: 1'\n",
        encoding="utf-8",
    )
    words = ["eval", str(bench.folder), "--python", str(path), "-o", str(tmp_path / "run"), "--repeats", "3"]
    words += ["--devices", "cpu,cpu"]
    script = f"import sys\nfrom chexqa.cli.main import run\nif __name__ == '__main__':\n    sys.exit(run({words!r}))\n"
    (tmp_path / "start.py").write_text(script, encoding="utf-8")

    def logged() -> int:
        files = list((tmp_path / "run" / "turns").glob("*.jsonl")) if (tmp_path / "run" / "turns").is_dir() else []
        return sum(path.read_bytes().count(b"\n") for path in files)

    first = subprocess.Popen([sys.executable, str(tmp_path / "start.py")], stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while logged() < 20 and time.monotonic() < end:
        time.sleep(0.005)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = logged()
    assert 20 <= kept < 3 * len(bench.items)
    time.sleep(0.2)  # a worker process may still write its last call
    before = len(asked.read_text().splitlines())
    assert before - kept <= 8  # calls in flight
    done = subprocess.run([sys.executable, str(tmp_path / "start.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(asked.read_text().splitlines()) - before == 3 * len(bench.items) - kept
