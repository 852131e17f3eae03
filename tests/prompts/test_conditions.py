"""Conditions: other words around the questions, a system text, and examples; what a run and its tables say of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from handmade import Handmade
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_server import recorder

from chexqa import question_banks
from chexqa.contract import benchmark, read_run
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Picture, clusters, is_right, radiographs
from chexqa.eval.models import adapters, registry
from chexqa.eval.prompts import answer_parser, conditions, protocols, shots
from chexqa.eval.prompts.conditions import Condition, Prompter
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.scoring import grade
from chexqa.eval.tables.all_tables import all_tables
from chexqa.files.errors import InputError

Cli = Callable[..., tuple[int, str, str]]
REPLY = {"choices": [{"message": {"role": "assistant", "content": "Answer: 1"}, "finish_reason": "stop"}],
         "usage": {"prompt_tokens": 1, "completion_tokens": 1}}  # fmt: skip


@pytest.fixture
def bench(tiny_benchmark: Path) -> Benchmark:
    return benchmark.load(tiny_benchmark)


@pytest.fixture
def twice(handmade: Handmade) -> Path:
    """The folder of a benchmark in which each question is asked of two patients."""
    for name in ("a", "b"):
        handmade.case(f"{name}1", "effusion", "lesion_free", detection=(2,))
        handmade.case(f"{name}2", "edema", "revision_required", revision_expansion=(1, 3), grid=(10, 11))
    return handmade.write()


def cohort(made: Handmade, people: list[tuple[int, int, bool]]) -> Benchmark:
    """Cases of patients (0: unknown), each of a radiograph by its number, with and without a lesion."""
    for number, (patient, radiograph, ill) in enumerate(people):
        path = "revision_free" if ill else "lesion_free"
        case_id = made.case(str(number), "effusion" if number % 3 else "edema", path, detection=(1 if ill else 2,))
        key = made.cases.pop()
        assert key.case_id == case_id
        measures = {**key.measures, "image_key": f"{radiograph:064d}"}
        made.cases.append(replace(key, patient_id=str(patient) if patient else None, measures=measures))
    return benchmark.load(made.write())


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9), st.booleans()), min_size=4, max_size=14),
    st.integers(1, 5),
    st.integers(0, 9),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_example_is_never_of_the_items_patient_or_radiograph_and_answers_are_balanced(
    tmp_path_factory: pytest.TempPathFactory, people: list[tuple[int, int, bool]], count: int, seed: int
) -> None:
    bench = cohort(Handmade(tmp_path_factory.mktemp("cohort") / "bench"), people)
    answers, cases = bench.key("a test")
    who, seen = clusters(bench.items, cases), radiographs(bench.items, cases)
    examples = shots.Examples(bench, count, seed)
    for item in bench.items:
        others = [
            one
            for one in bench.items
            if one.kind == item.kind
            and who[one.case_id] != who[item.case_id]
            and seen[one.case_id] != seen[item.case_id]
            and answers[one.item_id].answer
        ]
        if len({one.item_id for one in others}) < count:
            with pytest.raises(InputError, match="give a smaller number"):
                examples.check([item])
            continue
        examples.check([item])
        drawn = examples.drawn(item)
        assert drawn == shots.Examples(bench, count, seed).drawn(item)
        ids = [one.item.item_id for one in drawn]
        assert len(set(ids)) == count
        assert {*ids} <= {one.item_id for one in others}
        if item.kind == "detection":
            there = Counter(answers[one.item_id].answer for one in others)
            shown = Counter(one.answer for one in drawn)
            # Each answer as often as the others, unless no example is left for it.
            assert all(shown[answer] >= min(there[answer], max(shown.values()) - 1) for answer in there)


def test_another_seed_draws_other_examples(tmp_path: Path) -> None:
    bench = cohort(Handmade(tmp_path / "bench"), [(n + 1, n, bool(n % 2)) for n in range(12)])
    item = bench.items[0]
    drawn = {tuple(one.item.item_id for one in shots.Examples(bench, 3, seed).drawn(item)) for seed in range(6)}
    assert len(drawn) > 3


@pytest.mark.parametrize("modifiers", [Modifiers(), Modifiers(rotations=3)])
def test_examples_come_with_every_picture_and_an_answer_that_is_right_as_shown(
    tmp_path: Path, modifiers: Modifiers
) -> None:
    made = Handmade(tmp_path / "bench")
    for number in range(5):
        made.case(str(number), "effusion", "revision_required", revision_expansion=(1, 3),
                  revision_result=(number % 4 + 1,), location=(1, 2), grid=(number + 1, 40))  # fmt: skip
    bench = benchmark.load(made.write())
    answers = bench.key("a test")[0]
    prompter = Prompter(bench, "independent", modifiers, Condition(shots=3))
    for (item,) in protocols.conversations(bench, "independent"):
        assert prompter.examples is not None
        drawn = prompter.examples.drawn(item)
        for rotation in range(modifiers.rotations):
            shown = conditions.shots.option_order.shown(item, modifiers, rotation)
            messages = prompter.messages((shown,), [], rotation)
            assert [message.role for message in messages] == ["system", *["user", "assistant"] * 3, "user"]
            assert messages[-1] == protocols.render(bench, "independent", (shown,), [])[-1]
            for number, one in enumerate(drawn):
                question, reply = messages[1 + 2 * number : 3 + 2 * number]
                pictures = {part.image for part in question.parts if isinstance(part, Picture)}
                assert pictures == {picture.image for picture in one.item.alone_images}
                assert str(question.parts[0]).startswith(f"Example {number + 1}, from another patient")
                assert f"Picture E{number + 1}.1:" in str(question.parts[0])
                seen = conditions.shots.option_order.shown(one.item, modifiers, rotation)
                parsed = answer_parser.parse(seen, str(reply.parts[0]))
                assert parsed is not None
                assert is_right(one.item, answers[one.item.item_id], parsed)


def test_examples_stand_after_the_system_text_of_every_turn_and_move_no_number_of_a_picture(bench: Benchmark) -> None:
    plain = Prompter(bench, "end_to_end", Modifiers(), Condition())
    two = Prompter(bench, "end_to_end", Modifiers(), Condition(shots=1))
    longest = max(protocols.conversations(bench, "end_to_end"), key=len)
    for place in range(len(longest)):
        said = [protocols.PriorReply("Answer: 1", (1,))] * place
        before, after = plain.messages(longest, said), two.messages(longest, said)
        assert (after[0], after[3:]) == (before[0], before[1:])
        # A model without system texts or with pictures in the last message alone takes them too.
        model = replace(registry.adhoc("m", None), system_prompt=False, multi_turn_images=False)
        adapted = adapters.adapt(model, after)
        assert [message.role for message in adapted] == ["user", "assistant"] * (place + 1) + ["user"]
        pictures = [part for message in after for part in message.parts if isinstance(part, Picture)]
        assert [part for part in adapted[-1].parts if isinstance(part, Picture)] == pictures


def test_blind_examples_have_no_pictures(bench: Benchmark) -> None:
    prompter = Prompter(bench, "independent", Modifiers(blind=True), Condition(shots=1))
    messages = prompter.messages(bench.items[:1], [])
    assert len(messages) == 4
    assert not any(isinstance(part, Picture) for message in messages for part in message.parts)


# Words


@pytest.mark.parametrize("prompt", ["plain", "reason"])
def test_a_wording_changes_how_to_answer_and_nothing_that_is_asked(bench: Benchmark, prompt: str) -> None:
    for protocol in ("end_to_end", "independent"):
        own = Prompter(bench, protocol, Modifiers(), Condition())  # type: ignore[arg-type]
        other = Prompter(bench, protocol, Modifiers(), Condition(prompt))  # type: ignore[arg-type]
        for conversation in protocols.conversations(bench, protocols.named(protocol)):
            first, second = own.messages(conversation, []), other.messages(conversation, [])
            assert first[0] != second[0]
            before, after = str(first[-1].parts[-1]), str(second[-1].parts[-1])
            assert before.rpartition("\n\n")[0] == after.rpartition("\n\n")[0]
            assert before != after
            assert first[-1].parts[:-1] == second[-1].parts[:-1]


def bank_file(folder: Path, **more: Any) -> Path:
    bank = question_banks.load("en") | {"name": "mine"} | more
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(bank, allow_unicode=True))
    return path


def own_bank(made: Handmade, **more: Any) -> Benchmark:
    """A handmade benchmark whose question bank has these fields."""
    folder = made.write()
    about = json.loads((folder / "benchmark.json").read_text())
    about["question_bank"] |= more
    (folder / "benchmark.json").write_text(json.dumps(about))
    return benchmark.load(folder)


def test_a_benchmark_carries_the_wordings_of_its_own_bank(handmade: Handmade, tmp_path: Path) -> None:
    handmade.case("a", "effusion", "lesion_free", detection=(2,))
    bank = question_banks.load(str(bank_file(tmp_path, prompts={"terse": {"system": "Be terse."}})))
    origin = benchmark.Origin("handmade", "1", 0, ({"name": "handmade"},), bank, "phantom")
    contents = benchmark.Contents(tuple(handmade.items), tuple(handmade.answers), tuple(handmade.cases))
    benchmark.write_files(handmade.folder, origin, contents)
    bench = benchmark.load(handmade.folder)
    assert conditions.texts(bench, Condition("bank:terse"))["system"] == "Be terse."


def test_the_banks_own_wording_comes_before_the_one_that_comes_with_chexqa(handmade: Handmade) -> None:
    handmade.case("a", "effusion", "lesion_free", detection=(2,))
    bench = own_bank(handmade, prompts={"terse": {"system": "Be terse."}, "plain": {"system": "Be plain."}})
    assert conditions.texts(bench, Condition("bank:terse"))["system"] == "Be terse."
    assert conditions.texts(bench, Condition("plain"))["system"] == "Be plain."
    assert "step by step" in conditions.texts(bench, Condition("reason"))["system"]
    assert conditions.texts(bench, Condition("reason", system="Mine."))["system"] == "Mine."
    for missing in ("bank:reason", "bank:ters"):
        with pytest.raises(InputError, match="has no wording of this name"):
            conditions.texts(bench, Condition(missing))


def test_a_bank_in_another_language_says_what_it_lacks(handmade: Handmade) -> None:
    handmade.case("a", "effusion", "lesion_free", detection=(2,))
    bench = own_bank(handmade, language="de", name="deutsch")
    with pytest.raises(
        InputError, match="question bank 'deutsch' has no wording of this name, and no other named wording"
    ):
        conditions.texts(bench, Condition("plain"))
    with pytest.raises(InputError, match="has no wording for an example"):
        conditions.texts(bench, Condition(shots=1))
    said = own_bank(handmade, language="de", conversation=bench.conversation_texts | {"example": "Beispiel {n}."})
    assert conditions.texts(said, Condition(shots=1))["example"] == "Beispiel {n}."


@pytest.mark.parametrize(
    ("prompts", "says"),
    [
        ({"a": {"sytem": "x"}}, "did you mean 'system'"),
        ({"a": {"pictures": "x"}}, "no such text"),
        ({"a": {"option": "{n}"}}, "{text} is missing"),
        ({"a b": {"system": "x"}}, "prompts"),
    ],
)
def test_a_wording_that_cannot_be_used_is_refused_with_its_field(tmp_path: Path, prompts: Any, says: str) -> None:
    with pytest.raises(InputError) as caught:
        question_banks.load(str(bank_file(tmp_path, prompts=prompts)))
    assert says in str(caught.value)


# Runs


@pytest.mark.usefixtures("quick")
def test_conditions_are_sent_recorded_told_apart_and_a_column_of_the_tables(
    cli: Cli, twice: Path, tmp_path: Path
) -> None:
    (tmp_path / "system.txt").write_text("  You read films.\r\nSay so.\n")
    given_options = {
        "bank": (),
        "reason": ("--prompt", "reason"),
        "system": ("--system", tmp_path / "system.txt", "--shots", 1),
    }
    with recorder(REPLY) as (url, bodies):
        sent = {}
        for name, options in given_options.items():
            bodies.clear()
            command = ("eval", twice, "--model-id", "m", "--api-base", url, "-o", tmp_path / name)
            code, _, err = cli(*command, *options)
            assert code == 0, err
            sent[name] = [body["messages"] for body in bodies]
        code, _, err = cli("eval", twice, "--model-id", "m", "--api-base", url, "-o", tmp_path / "reason")
        assert (code, "the wording was reason and is now the bank's own" in err) == (2, True)
    assert "step by step" in sent["reason"][0][0]["content"]
    assert sent["system"][0][0]["content"] == "You read films.\nSay so."
    assert [message["role"] for message in sent["system"][0]] == ["system", "user", "assistant", "user"]
    about = {name: read_run.load(tmp_path / name).about.get("condition") for name in given_options}
    assert about["bank"] is None
    assert about["system"]["system"] == "You read films.\nSay so."
    turn = {name: read_run.load(tmp_path / name).turns[0] for name in given_options}
    mark = Condition(system="You read films.\nSay so.").system_mark
    assert {name: (one.prompt, one.condition) for name, one in turn.items()} == {
        "bank": (None, None),
        "reason": ("reason", None),
        "system": (f"system {mark}", "1 shot"),
    }
    graded = grade.grade_folders([tmp_path / name for name in given_options])
    table = all_tables(graded)["states"]
    assert table.select("protocol", "prompt", "system", "shots").rows() == [
        ("end_to_end", "bank", "bank", 0),
        ("end_to_end (reason)", "reason", "bank", 0),
        (f"end_to_end (system {mark}, 1 shot)", "bank", mark, 1),
    ]
    assert "prompt" not in all_tables(grade.grade_folders([tmp_path / "bank"]))["states"].columns


@pytest.mark.long
@pytest.mark.usefixtures("quick")
def test_a_report_says_under_which_condition_its_runs_were_made(cli: Cli, twice: Path, tmp_path: Path) -> None:
    run = ("eval", twice, "--models", "baseline/first", "-o")
    assert cli(*run, tmp_path / "a", "--prompt", "plain", "--shots", 1)[0] == 0
    assert cli(*run, tmp_path / "b", "--prompt", "plain", "--shots", 1, "--blind")[0] == 0
    assert cli("report", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "report")[0] == 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert "The words around the questions were those of &#39;plain&#39;." in page or "those of 'plain'" in page
    assert "1 example of its kind" in page
    summary = json.loads((tmp_path / "report" / "report.json").read_text())
    assert summary["runs"][0]["condition"]["shots"] == 1
    # A blind run is held against the one with pictures under the same condition.
    assert summary["tables"]["without_radiograph"]


def test_a_command_refuses_what_is_no_condition(cli: Cli, tiny_benchmark: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    command = ("eval", tiny_benchmark, "--models", "baseline/first", "-o", tmp_path / "run")
    for options, says in (
        (("--prompt", "reson"), "is not a wording; give plain, reason, or bank:NAME"),
        (("--prompt", "bank:none"), "has no wording of this name"),
        (("--system", tmp_path / "empty.txt"), "is empty"),
        (("--shots", 50), "give a smaller number"),
    ):
        code, _, err = cli(*command, *options)
        assert (code, says in err.replace("\n", " ")) == (2, True), err
    assert not (tmp_path / "run").exists()


def test_an_estimate_counts_examples(cli: Cli, twice: Path) -> None:
    command = ("estimate", twice, "--models", "gpt-5.4", "--protocol", "independent", "--json")
    plain, more = (json.loads(cli(*command, *options)[1])[0] for options in ((), ("--shots", "1")))
    assert more["images"] > plain["images"]
    assert more["input_tokens"] > plain["input_tokens"]
