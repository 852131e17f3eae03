"""The models registry: the fourteen, a user's own, what each lacks, and the command that lists them."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from small_server import recorder

from chexqa.eval.models import client, registry
from chexqa.eval.models.baselines import MEANINGS
from chexqa.files.errors import InputError

Cli = Callable[..., tuple[int, str, str]]
FOURTEEN = {
    "gemini-3.1-pro", "gemini-3.1-flash", "gpt-5.4", "gpt-5.4-nano", "qwen3.6-27b", "qwen3.5-122b", "glm-4.6v",
    "internvl3.5-38b", "gemma4-31b", "medgemma-27b", "medgemma1.5-4b", "huatuogpt-vision-7b", "lingshu-32b",
    "hulu-med-32b",
}  # fmt: skip
MINE = (
    "models:\n  - {name: mine, litellm: openai/mine, domain: medical, access: open, api_base: "
    "'http://127.0.0.1:9/v1'}\n"
)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for model in registry.load().values():
        for variable in (model.key_variable, model.endpoint_variable):
            if variable:
                monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv(registry.ADHOC_KEY_VARIABLE, raising=False)


def test_every_baseline_has_a_meaning_for_the_report() -> None:
    names = [one.name.removeprefix(registry.BASELINE) for one in registry.load().values() if one.domain == "baseline"]
    assert {*names, "skill"} == set(MEANINGS)


def test_all_are_the_fourteen_and_no_baseline() -> None:
    chosen = registry.choose("all", registry.load())
    assert {model.name for model in chosen} == FOURTEEN
    assert sum(model.domain == "medical" for model in chosen) == 5


@pytest.mark.parametrize("name", sorted(FOURTEEN))
def test_decoding_is_the_published_one(name: str) -> None:
    model = registry.load()[name]
    effort = {"temperature": 1, "reasoning_effort": "medium"} if model.access == "proprietary" else {"temperature": 0}
    assert model.decoding == {**effort, "max_tokens": 8192}


def test_a_group_is_chosen_by_its_name_and_is_not_among_all() -> None:
    models = registry.load()
    chosen = registry.choose("beyond-diagnosis", models)
    assert {model.name for model in chosen} == {"gemma3-27b", "gpt-5", "gpt-4o"}
    assert [model.name for model in registry.choose("gpt-4o,beyond-diagnosis", models)][:1] == ["gpt-4o"]
    assert not FOURTEEN & {model.name for model in chosen}
    with pytest.raises(InputError, match="did you mean 'beyond-diagnosis'"):
        registry.choose("beyond-diagnoses", models)


def test_a_group_of_ones_own_is_chosen_and_a_model_like_another_is_in_no_group(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("models: [{name: a, like: gpt-5, group: us}, {name: b, like: a}]")
    models = registry.load(tmp_path / "m.yaml")
    assert [model.name for model in registry.choose("us", models)] == ["a"]
    assert "b" in [model.name for model in registry.choose("all", models)]
    (tmp_path / "m.yaml").write_text("models: [{name: a, like: gpt-5, group: gpt-5.4}]")
    with pytest.raises(InputError, match="has the name of a model"):
        registry.load(tmp_path / "m.yaml")


def test_open_weights_have_an_endpoint_variable_of_their_own_and_a_way_to_be_served() -> None:
    served = [model for model in registry.load().values() if model.access == "open"]
    assert len({model.endpoint_variable for model in served}) == len(served) == 11
    for model in served:
        assert model.repository is not None
        assert model.litellm == f"hosted_vllm/{model.repository}"
        assert model.vllm[model.vllm.index("--max-model-len") + 1] == str(model.context_tokens)
        assert json.loads(model.vllm[model.vllm.index("--limit-mm-per-prompt") + 1]) == {"image": model.max_images}


def test_each_of_the_ten_says_what_serves_it() -> None:
    models = registry.load()
    by = {name: models[name].served_by for name in FOURTEEN if models[name].access == "open"}
    assert len(by) == 10
    assert {name for name, ways in by.items() if ways != ("vllm", "transformers")} == {
        "internvl3.5-38b",
        "hulu-med-32b",
    }
    assert by["hulu-med-32b"] == ("transformers",)
    assert all(not model.served_by for model in models.values() if model.access != "open")


def test_an_unknown_price_is_none_and_a_baseline_costs_nothing() -> None:
    models = registry.load()
    assert models["lingshu-32b"].price is None
    assert models["gpt-5.4"].price == registry.Price(2.5, 15.0, 0.25)
    assert models["baseline/oracle"].price == registry.Price(0, 0)


def test_models_are_chosen_by_name_once_in_order() -> None:
    chosen = registry.choose("lingshu-32b, gpt-5.4,lingshu-32b", registry.load())
    assert [model.name for model in chosen] == ["lingshu-32b", "gpt-5.4"]


@pytest.mark.parametrize(("names", "message"), [("gpt5.4", "did you mean 'gpt-5.4'"), (" , ", "no model is named")])
def test_a_wrong_choice_says_what_to_do(names: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        registry.choose(names, registry.load())


def test_a_users_file_adds_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(MINE + MINE.split("\n")[1].replace("name: mine", "name: gpt-5.4") + "\n")
    models = registry.load(path)
    assert models["mine"].api_base == "http://127.0.0.1:9/v1"
    assert models["gpt-5.4"].litellm == "openai/mine"
    assert len(models) == len(registry.load()) + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MINE + MINE.split("\n")[1], "the model 'mine' is given twice"),
        (MINE.replace("name: mine", "name: all"), "cannot be called 'all'"),
        (MINE.replace("medical", "dental"), "dental"),
    ],
)
def test_a_wrong_users_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        registry.load(path)


def test_what_is_lacking_is_named_until_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    models = registry.load()
    assert registry.lacking(models["gpt-5.4"]) == "set OPENAI_API_KEY to your key"
    assert "CHEXQA_LINGSHU_32B_URL" in (registry.lacking(models["lingshu-32b"]) or "")
    assert registry.lacking(models["baseline/oracle"]) is None
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("CHEXQA_LINGSHU_32B_URL", "http://127.0.0.1:8000/v1")
    assert registry.lacking(models["gpt-5.4"]) is None
    assert registry.api_key(models["gpt-5.4"]) == "k"
    assert registry.lacking(models["lingshu-32b"]) is None
    assert registry.endpoint(models["lingshu-32b"]) == "http://127.0.0.1:8000/v1"
    assert registry.api_key(models["lingshu-32b"]) is None


@pytest.mark.parametrize(
    ("model_id", "api_base", "litellm"),
    [
        ("Qwen/Qwen3", "http://127.0.0.1:9/v1", "openai/Qwen/Qwen3"),
        ("hosted_vllm/Qwen/Qwen3", "http://127.0.0.1:9/v1", "hosted_vllm/Qwen/Qwen3"),
        ("anthropic/claude", None, "anthropic/claude"),
    ],
)
def test_a_model_of_no_file_is_called_as_its_id_and_endpoint_say(
    model_id: str, api_base: str | None, litellm: str
) -> None:
    model = registry.adhoc(model_id, api_base)
    assert (model.name, model.litellm, registry.endpoint(model)) == (model_id, litellm, api_base)
    assert registry.lacking(model) is None


def test_the_list_shows_what_is_to_be_set_and_no_key(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    code, out, _ = cli("models")
    assert code == 0
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert rows["gpt-5.4"].rstrip().endswith("nothing")
    assert rows["lingshu-32b"].rstrip().endswith("CHEXQA_LINGSHU_32B_URL")
    assert rows.keys() >= FOURTEEN
    assert "sk-very-secret" not in out + cli("models", "--json")[1]


def test_the_list_for_machines_holds_a_users_model(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(MINE)
    code, out, _ = cli("models", "--json", "--models-file", path)
    listed = {model["name"]: model for model in json.loads(out)}
    assert code == 0
    assert listed["mine"]["lacking"] is None
    assert listed["lingshu-32b"]["input_per_million_usd"] is None


def test_no_name_of_a_variable_is_broken_at_eighty_columns(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = cli("models")[1].split()
    for model in registry.load().values():
        if model.domain != "baseline":
            assert registry.missing_variable(model) in out


def test_like_takes_over_what_is_not_said(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(
        "models:\n"
        "  - {name: one, like: lingshu-32b, max_images: 5, decoding: {temperature: 1}}\n"
        "  - {name: two, like: one, system_prompt: false}\n"
        "  - {name: gpt-5.4, like: gpt-5.4, thinking: off}\n"
    )
    models = registry.load(path)
    base, one, two = models["lingshu-32b"], models["one"], models["two"]
    assert (one.litellm, one.vllm, one.max_images, one.decoding) == (base.litellm, base.vllm, 5, {"temperature": 1})
    assert (two.max_images, two.system_prompt, one.system_prompt) == (5, False, True)
    assert models["gpt-5.4"].decoding["reasoning_effort"] == "none"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("like: lingshu-32B", "has 'like: lingshu-32B', but there is no such model.*did you mean 'lingshu-32b'"),
        ("litellm: openai/x, domain: medical", r"lacks the field 'access' \(proprietary or open\)"),
        ("litellm: openai/x", r"lacks the fields 'domain' \(general or medical\) and 'access' .*; add what is missing"),
        ("litellm: hosted_vllm/x, domain: medical, access: open", r"\('hosted_vllm/x'\), but its address is missing"),
        ("like: medgemma-27b, thinking: on", "has the thinking mode 'on', which is not in its thinking_switch"),
        ("like: medgemma-27b, image_tokens: {rule: guess}", "image_tokens"),
        ("like: gpt-5.4, decoding: {timeout: 60}", "'mine' has 'timeout' in its decoding, but chexqa sets this"),
        ("like: gpt-5.4, decoding: {api_base: 'http://x'}", "'api_base' in its decoding, but chexqa sets this"),
        ("like: gpt-5.4, thinking_switch: {on: {stream: true}}", "'stream' in its thinking_switch"),
    ],
)
def test_a_model_that_is_like_nothing_or_lacks_something_is_refused(
    tmp_path: Path, fields: str, message: str, cli: Cli
) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(f"models:\n  - {{name: mine, {fields}}}\n")
    with pytest.raises(InputError, match=message):
        registry.load(path)
    code, _, err = cli("validate", path)
    assert code == 2, "validate finds what eval would refuse"
    assert "mine" in err or "image_tokens" in err


@pytest.mark.parametrize("prefix", registry.OWN_SERVERS)
def test_a_model_on_a_server_of_ones_own_is_refused_without_an_address(prefix: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its address is missing; give it with --api-base"):
        registry.adhoc(f"{prefix}/mine", None)
    assert registry.adhoc(f"{prefix}/mine", "http://127.0.0.1:9/v1").api_base == "http://127.0.0.1:9/v1"
    path = tmp_path / "models.yaml"
    fields = f"name: mine, litellm: {prefix}/mine, domain: medical, access: open"
    path.write_text(f"models:\n  - {{{fields}, endpoint_variable: MINE_BASE}}\n")
    assert registry.load(path)["mine"].endpoint_variable == "MINE_BASE"


def test_a_list_without_the_field_models_is_told_which_field_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text("- {name: mine, litellm: openai/x}\n")
    with pytest.raises(InputError, match=r"must be an object with the field models"):
        registry.load(path)


def test_a_baseline_like_a_served_model_needs_no_variable(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text("models:\n  - {name: mine, like: lingshu-32b, litellm: baseline/first}\n")
    assert registry.missing_variable(registry.load(path)["mine"]) is None


@pytest.mark.parametrize(
    "decoding",
    [
        "{api_key: sk-hush}", "{headers: {x: sk-hush}}", "{extra_headers: {Authorization: sk-hush}}",
        "{aws_secret_access_key: sk-hush}", "{azure_ad_token: sk-hush}", "{extra_body: {api_key: sk-hush}}",
    ],
)  # fmt: skip
def test_a_key_among_what_is_recorded_is_refused_and_not_said(tmp_path: Path, decoding: str) -> None:
    path = tmp_path / "models.yaml"
    path.write_text(f"models:\n  - {{name: mine, like: gpt-5.4, decoding: {decoding}}}\n")
    with pytest.raises(
        InputError, match=r"may contain an API key and would be written to run.json.*key_variable"
    ) as caught:
        registry.load(path)
    assert "sk-hush" not in str(caught.value)


def test_names_of_settings_that_only_sound_like_keys_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    decoding = "{max_tokens: 5, max_completion_tokens: 5, stop_token_ids: [1], prompt_cache_key: a, seed: 1}"
    path.write_text(f"models:\n  - {{name: mine, like: gpt-5.4, decoding: {decoding}}}\n")
    assert len(registry.load(path)["mine"].decoding) == 5


@pytest.mark.parametrize(("cached", "usd"), [(None, 3.0), (0.5, 1.5), (0.0, 1.0)])
def test_cached_input_costs_what_the_provider_asks_for_it(cached: float | None, usd: float) -> None:
    price = registry.Price(2.0, 10.0, cached)
    assert price.cost_usd(1_000_000, 100_000, 1_000_000) == usd


def test_a_price_is_the_registrys_else_of_litellms_table_and_a_provider_elsewhere_has_none() -> None:
    models = registry.load()
    assert client.price(models["gpt-5.4"]) == models["gpt-5.4"].price
    unpriced = replace(models["gpt-5.4"], price=None)
    assert client.price(unpriced) == registry.Price(2.5, 15.0, 0.25)
    assert client.price(replace(unpriced, api_base="http://127.0.0.1:9/v1")) is None
    assert client.price(models["baseline/chance"]) == registry.Price(0, 0)


@pytest.mark.parametrize("name", sorted(FOURTEEN))
def test_a_model_is_served_as_it_is_asked_for_or_is_said_to_be_nobodys_to_serve(cli: Cli, name: str) -> None:
    model = registry.load()[name]
    code, out, err = cli("models", "serve", name, "--port", "8123")
    if model.access == "proprietary":
        assert (code, out) == (2, "")
        assert "nothing to serve" in err
        return
    words = shlex.split(out.replace("\\\n", " "))
    assert code == 0
    assert words[:3] == ["vllm", "serve", model.litellm.partition("/")[2]]
    assert words[words.index("--max-model-len") + 1] == str(model.context_tokens)
    assert words[-2:] == ["--port", "8123"]
    assert f"export {model.endpoint_variable}=http://127.0.0.1:8123/v1" in err


def test_serving_takes_other_numbers_of_gpus_and_the_thinking_switch(cli: Cli) -> None:
    words = shlex.split(cli("models", "serve", "qwen3.5-122b", "--gpus", "8", "--thinking", "off")[1])
    assert words.count("--tensor-parallel-size") == 1
    assert words[words.index("--tensor-parallel-size") + 1] == "8"
    assert json.loads(words[words.index("--default-chat-template-kwargs") + 1]) == {"enable_thinking": False}
    assert "--tensor-parallel-size" not in cli("models", "serve", "qwen3.5-122b", "--gpus", "1")[1]
    code, _, err = cli("models", "serve", "medgemma-27b", "--thinking", "on")
    assert code == 2
    assert "no switch for thinking" in err


@contextmanager
def answering(text: str) -> Iterator[str]:
    """A server that says ``text`` to everything; yields its address."""
    with recorder({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}) as (address, _):
        yield f"{address}/v1"


def test_a_check_tells_what_works_from_what_fails(cli: Cli, tmp_path: Path) -> None:
    with (
        answering("It is the right one.\n\n**Answer: 2**") as good,
        answering("Answer: 1") as wrong,
        answering("White.") as vague,
        answering("") as mute,
    ):
        addresses = {"good": good, "wrong": wrong, "vague": vague, "mute": mute}
        rows = [f"  - {{name: {name}, like: lingshu-32b, api_base: '{url}', endpoint_variable: null}}"
                for name, url in addresses.items()]  # fmt: skip
        rows.append("  - {name: gone, like: lingshu-32b, api_base: 'http://127.0.0.1:9/v1', endpoint_variable: null}")
        path = tmp_path / "models.yaml"
        path.write_text("models:\n" + "\n".join(rows) + "\n")
        code, out, err = cli(
            "models", "check", "--models-file", path, "--models", "good,wrong,vague,mute,gone,medgemma-27b", "--json"
        )
        found = {one["model"]: one for one in json.loads(out)}
        alone = cli("models", "check", "--models-file", path, "--models", "good,wrong,vague")
    assert code == 3
    assert "2 models failed: mute, gone." in err
    assert "Not checked: 1 model" in err
    assert {name: (one["works"], one["right"], one["readable"]) for name, one in found.items()} == {
        "good": (True, True, True), "wrong": (True, False, True), "vague": (True, False, False),
        "mute": (False, False, False), "gone": (False, False, False)}  # fmt: skip
    assert "connection refused" in found["gone"]["said"]
    assert alone[0] == 0
    said = " ".join(alone[1].split())
    assert re.search(r"good works +\d.*wrong works, answers wrong \d.*vague works, no readable answer \d", said), said


@pytest.mark.parametrize("seconds", ["nan", "inf", "0"])
def test_a_check_waits_a_number_of_seconds(cli: Cli, seconds: str) -> None:
    code, _, err = cli("models", "check", "--timeout", seconds)
    assert (code, "--timeout" in err) == (2, True), err


def test_a_check_with_nothing_to_ask_says_where_to_look(cli: Cli) -> None:
    code, _, err = cli("models", "check", "--models", "all")
    assert code == 2
    assert "none of the chosen models can be asked here" in err
