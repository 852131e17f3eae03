"""The chain in Python: its steps refuse, resume and report as the commands do."""

from __future__ import annotations

import asyncio
import os
import pydoc
import signal
import time
from inspect import signature
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from logs import log
from small_server import recorder

import chexqa
from chexqa import api
from chexqa.chain import RunOptions
from chexqa.cli.generate import freshen, generate
from chexqa.cli.main import run as run_command
from chexqa.eval.cli.eval import evaluate as command
from chexqa.eval.cli.grade import grade
from chexqa.eval.cli.params import named_options
from chexqa.files.errors import InputError, PendingError, UnfinishedError


def answer(messages: list[dict[str, Any]]) -> chexqa.ModelReply:
    return chexqa.ModelReply("Answer: 1", confidence=0.5, reasoning="a guess")


def test_a_run_goes_on_and_what_is_left_is_an_error_that_says_why(tiny_benchmark: Path, tmp_path: Path) -> None:
    works = [False]

    def sometimes(messages: list[dict[str, Any]]) -> str:
        if not works[0]:
            raise OSError("no disk")
        return "Answer: 1"

    with pytest.raises(UnfinishedError, match=r"\(OSError: no disk .*; its code failed at .*call the function again"):
        chexqa.evaluate(tiny_benchmark, sometimes, tmp_path / "run", name="mine", protocol="independent")
    run = chexqa.evaluate(
        tiny_benchmark, sometimes, tmp_path / "run", name="mine", protocol="independent", allow_unfinished=True
    )
    assert set(run.frame()["state"]) == {"error"}
    works[0] = True
    run = chexqa.evaluate(
        chexqa.load_benchmark(tiny_benchmark), sometimes, tmp_path / "run", name="mine", protocol="independent"
    )
    assert "error" not in set(run.frame()["state"])
    assert set(run.frame()["model"]) == {"mine"}


def test_models_of_every_sort_are_asked_and_graded_in_a_notebook_too(tiny_benchmark: Path, tmp_path: Path) -> None:
    async def cell() -> Any:
        return chexqa.evaluate(tiny_benchmark, [answer, "baseline/oracle,baseline/first"], tmp_path / "run", limit=3)

    run = asyncio.run(cell())
    frame = run.frame()
    assert set(frame["model"]) == {"answer", "baseline/oracle", "baseline/first"}
    assert set(frame.filter(frame["model"] == "answer")["confidence"]) == {0.5}
    grades = chexqa.grade(run)
    assert grades.grades.height == frame.height
    assert set(grades.tables["levels"]["model"]) == set(frame["model"])


def test_an_interrupt_in_a_notebook_stops_the_run_and_the_same_call_goes_on(
    tiny_benchmark: Path, tmp_path: Path
) -> None:
    asked: list[int] = []

    def answer(messages: list[Any]) -> str:
        asked.append(len(asked))
        if len(asked) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
        return "Answer: 1"

    async def cell() -> Any:
        return chexqa.evaluate(str(tiny_benchmark), answer, tmp_path / "run", concurrency=1)

    loop = asyncio.new_event_loop()
    with pytest.raises(UnfinishedError, match=r"interrupted.*call the function again"):
        loop.run_until_complete(cell())
    assert len(asked) == 3
    assert len(loop.run_until_complete(cell()).turns) == len(asked)
    loop.close()


def test_an_error_in_ipython_is_the_users_line_and_the_sentence() -> None:
    with pytest.raises(InputError) as found:
        chexqa.load("no such folder")
    rendered = found.value._render_traceback_()
    assert rendered[0].endswith(': chexqa.load("no such folder")')
    assert rendered[1:] == [f"InputError: {found.value}"]


def test_a_mistyped_name_says_which_one_is_meant(tiny_benchmark: Path, tmp_path: Path) -> None:
    tables = chexqa.grade(log(tmp_path / "run", tiny_benchmark)).tables
    with pytest.raises(KeyError) as found:
        tables["level"]
    assert str(found.value) == "there is no table 'level' (did you mean 'levels'?)."
    assert tables.get("level") is None
    with pytest.raises(AttributeError, match=r"'grad' \(did you mean 'grade'\?\)"):
        chexqa.grad  # noqa: B018


def test_a_folder_that_is_not_there_is_called_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: no such folder"):
        chexqa.load(tmp_path / "nowhere")


def test_every_result_shows_itself_in_one_short_line(tiny_benchmark: Path, tmp_path: Path) -> None:
    """The last line of a notebook's cell is shown; a benchmark of a thousand cases must not fill the page."""
    bench = chexqa.load(tiny_benchmark)
    run = chexqa.evaluate(tiny_benchmark, [answer, *(f"baseline/{name}" for name in ("oracle", "first", "chance"))],
                          tmp_path / "run", limit=3)  # fmt: skip
    grades = chexqa.grade(run)
    lines = [repr(shown) for shown in (bench, run, grades, grades.groups[0])]
    assert all(len(line) < 300 and "\n" not in line for line in lines)
    assert "items, " in lines[0]
    assert "with its key" in lines[0]
    assert lines[1].endswith(" and 1 more>")
    assert f"{grades.grades.height} answers of " in lines[2]


def test_what_cannot_be_is_refused_before_anything_is_written(
    tiny_benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHEXQA_LINGSHU_32B_URL", raising=False)
    for models, given, sentence in (
        ("gpt-5.44", {}, "did you mean"),
        ("lingshu-32b", {}, "lingshu-32b: set CHEXQA_LINGSHU_32B_URL"),
        ([answer, "baseline/oracle"], {"name": "x"}, "can only name a single callable"),
        (answer, {"max_tokens": 3}, "has no argument 'max_tokens', so it .* or leave 'max_tokens' out"),
        (answer, {"batch": "files"}, "^batch: 'answer' runs on this machine"),
        (answer, {"protocl": "independent"}, "there is no option 'protocl' .did you mean 'protocol'"),
        ("gpt-5.44", {"shot": 3}, "there is no option 'shot' .did you mean 'shots'"),
        (answer, {"concurrency": 0}, "'concurrency': 0 is not in the range"),
        (answer, {"blind": "no"}, "blind='no': give True or False"),
        (answer, {"prompt": "bank"}, "'bank' is not a wording"),
        (answer, {"api_base": "http://127.0.0.1:9/v1"}, "api_base needs a model"),
        (
            answer,
            {"decoding": {"api_key": "x"}},
            "'api_key' in its decoding, but chexqa sets this argument itself|may contain an API key",
        ),
        (answer, {"decoding": {"stop": object}}, "decoding: .*give values that JSON can express"),
        (answer, {"batch_submit": True}, "batch_submit=True needs batch DIR"),
        ([answer, answer], {}, "two models are called 'answer'"),
        (answer, {"devices": "x"}, "'x' is not a device"),
        (3, {}, "without 'answer' or 'answer_batch'"),
    ):
        with pytest.raises(InputError, match=sentence):
            chexqa.evaluate(tiny_benchmark, models, tmp_path / "run", **given)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match="no run is given"):
        chexqa.grade()


def test_wrong_numbers_and_paths_are_one_sentence_and_leave_nothing_behind(
    tiny_benchmark: Path, tmp_path: Path
) -> None:
    run, out = log(tmp_path / "run", tiny_benchmark), tmp_path / "made"
    before = set(tmp_path.iterdir())
    calls: tuple[tuple[Any, str], ...] = (
        (lambda: chexqa.generate("cases", out, seed="x"), "'seed': 'x' is not a valid integer"),  # type: ignore[arg-type]
        (lambda: chexqa.generate("cases", out, seed=1.5), "'seed': '1.5' is not a valid integer"),  # type: ignore[arg-type]
        (lambda: chexqa.generate("cases", out, workers=0), "'workers': 0 is not in the range"),
        (lambda: chexqa.freshen(tiny_benchmark, "cases", out, seed=1, workers=0), "'workers': 0 is not"),
        (lambda: chexqa.generate("cases", None), "the benchmark's folder is given as NoneType"),  # type: ignore[arg-type]
        (lambda: chexqa.grade("run", margin=-5), "'margin': -5.0 is not in the range"),
        (lambda: chexqa.evaluate(chexqa.load_run(run), "baseline/chance", out), "run: is a run, not a benchmark"),
        (lambda: chexqa.grade(3), "a run is given as int; give a path"),  # type: ignore[arg-type]
        (lambda: chexqa.evaluate(tiny_benchmark, "baseline/chance", None), "the run's folder is given as"),  # type: ignore[arg-type]
        (lambda: chexqa.evaluate(3, "baseline/chance", out), "a benchmark is given as int"),  # type: ignore[arg-type]
        (lambda: chexqa.load_run(tiny_benchmark), "is a benchmark, not a run"),
        (lambda: chexqa.grade(run, protocol="end-to-end"), "^protocol end-to-end: there is no such protocol; give"),
        (lambda: chexqa.grade(run, protocol="end_to_end"), "^protocol end_to_end: is for files of predictions"),
        (lambda: chexqa.grade(run, benchmark="gone"), "give its folder with benchmark DIR"),
    )  # fmt: skip
    for call, sentence in calls:
        with pytest.raises(InputError, match=sentence):
            call()
    assert set(tmp_path.iterdir()) == before


def test_a_callable_that_was_not_called_again_is_named(
    tiny_benchmark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [answer, "baseline/chance"]
    chexqa.evaluate(tiny_benchmark, asked, tmp_path / "run", limit=1)
    assert capsys.readouterr().err == ""
    chexqa.evaluate(tiny_benchmark, asked, tmp_path / "run", limit=1)
    assert "answer had answered every question before and was not called" in capsys.readouterr().err


def test_the_functions_of_api_take_texts_for_paths(
    tiny_benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = chexqa.evaluate(tiny_benchmark, ["baseline/chance", "baseline/oracle"], "run")
    api.write_sheet(str(tiny_benchmark), run.turns[0].item_id, "sheet.png")
    assert Path("sheet.png").is_file()
    pair = ("baseline/chance", "baseline/oracle")
    (compared,) = api.compare_runs("run", "run", models=pair)
    assert compared.items.height
    assert api.grade_folders("run").grades.height == run.frame().height
    assert api.write(chexqa.grade([run]), "report")
    assert api.export_dataset(tiny_benchmark, "dataset", key="inside")
    assert api.write_cases("phantoms", 1, 1, size=256, findings="effusion").is_file()


def test_the_functions_of_api_take_what_the_step_before_returns(tiny_benchmark: Path, tmp_path: Path) -> None:
    bench = chexqa.load_benchmark(tiny_benchmark)
    run = chexqa.evaluate(bench, ["baseline/chance", "baseline/oracle"], tmp_path / "run", limit=3)
    (compared,) = api.compare_runs(
        run, run, models=("baseline/chance", "baseline/oracle"), benchmark_folders=(bench, None)
    )
    assert compared.items.height
    assert api.grade_folders([run], bench, on=run).grades.height == run.frame().height
    assert chexqa.grade(run, on=run, benchmark=bench).grades.height == run.frame().height
    assert "with its key" in api.validate(bench).summary
    assert "turns" in api.validate(run).summary
    case = run.turns[0].case_id
    assert api.contact_sheet(bench, case, [run]) == api.contact_sheet(bench, case, [tmp_path / "run"])
    assert chexqa.load(run).turns == run.turns  # type: ignore[union-attr]


def test_help_and_completion_name_every_function() -> None:
    for module in (chexqa, api):
        text = pydoc.plain(pydoc.render_doc(module))
        for name in module.MODULES:
            assert f"\n    {name}(" in text or f"class {name}(" in text, name
            assert name in dir(module)


def test_the_function_takes_the_options_of_the_command_and_no_others() -> None:
    """Models, arguments of the request and the folder have parameters of their own; the function returns a run."""
    of_command = set(named_options(command)) - {"models", "model_id", "python", "set", "out", "dry_run", "json"}
    assert set(RunOptions.__annotations__) == of_command
    types = get_type_hints(RunOptions)
    for name, option in named_options(command).items():
        if name in of_command:
            assert (bool in get_args(types[name]) or types[name] is bool) == bool(option.is_flag), name
            assert (type(None) in get_args(types[name])) == (
                not option.is_flag and option.to_info_dict()["default"] is None
            ), name


def test_generate_freshen_and_grade_take_the_options_of_their_commands() -> None:
    """A cluster, files of tables and printed tables are for the command alone."""
    renamed = {"recipe": "recipes", "plugin": "plugins"}
    for function, of_command in ((chexqa.generate, generate), (chexqa.freshen, freshen)):
        options = {renamed.get(name, name) for name in named_options(of_command)} - {"dask", "json"}
        assert {*signature(function).parameters} - {"cases", "bench"} == options - {"cases"}
    printed = {"out", "overwrite", "table", "json"}
    assert {*signature(chexqa.grade).parameters} - {"runs"} == {*named_options(grade)} - printed


def test_a_server_of_ones_own_gets_the_wording_the_system_text_and_the_examples(
    tiny_benchmark: Path, tmp_path: Path
) -> None:
    (tmp_path / "system.txt").write_text("You read radiographs.\n")
    reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Answer: 1"}, "finish_reason": "stop"}]}  # fmt: skip
    with recorder(reply) as (url, bodies):
        run = chexqa.evaluate(tiny_benchmark, "mine", tmp_path / "run", api_base=url, prompt="reason", shots=1, limit=1,
                              system=tmp_path / "system.txt", max_tokens=99, protocol="independent")  # fmt: skip
    assert bodies[0]["messages"][0] == {"role": "system", "content": "You read radiographs."}
    assert (bodies[0]["model"], bodies[0]["max_tokens"]) == ("mine", 99)
    assert sum(message["role"] == "user" for message in bodies[0]["messages"]) == 2
    assert set(run.frame()["state"]) == {"answered"}
    again = run_command(["eval", str(tiny_benchmark), "--model-id", "mine", "--api-base", url, "--prompt", "reason",
                         "--shots", "1", "--limit", "1", "--system", str(tmp_path / "system.txt"), "--max-tokens", "99",
                         "--protocol", "independent", "-o", str(tmp_path / "run")])  # fmt: skip
    assert again == 0


def test_a_batch_writes_its_files_and_says_that_they_wait(tiny_benchmark: Path, tmp_path: Path) -> None:
    def ask(**given: Any) -> Any:
        return chexqa.evaluate(tiny_benchmark, "mine", tmp_path / "run", api_base="http://127.0.0.1:9/v1", limit=1,
                               batch=tmp_path / "files", **given)  # fmt: skip

    with pytest.raises(
        PendingError, match=r"requests? without a result; put the files of results into .*/files/mine/results"
    ):
        ask()
    assert list((tmp_path / "files" / "mine").glob("round-001-*.jsonl"))
    assert ask(allow_unfinished=True).frame().height == 0
