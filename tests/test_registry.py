"""The models registry: the fourteen, a user's own, what each lacks, and the command that lists them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from chexqa.errors import InputError
from chexqa.eval import registry

Cli = Callable[..., tuple[int, str, str]]
FOURTEEN = {
    "gemini-3.1-pro", "gemini-3.1-flash", "gpt-5.4", "gpt-5.4-nano", "qwen3.6-27b", "qwen3.5-122b", "glm-4.6v",
    "internvl3.5-38b", "gemma4-31b", "medgemma-27b", "medgemma1.5-4b", "huatuogpt-vision-7b", "lingshu-32b",
    "hulu-med-32b",
}  # fmt: skip
MINE = "models:\n  - {name: mine, litellm: openai/mine, domain: medical, access: open, api_base: 'http://127.0.0.1:9/v1'}\n"


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for model in registry.load().values():
        for variable in (model.key_variable, model.endpoint_variable):
            if variable:
                monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv(registry.ADHOC_KEY_VARIABLE, raising=False)


def test_all_are_the_fourteen_and_no_baseline() -> None:
    chosen = registry.choose("all", registry.load())
    assert {model.name for model in chosen} == FOURTEEN
    assert sum(model.domain == "medical" for model in chosen) == 5


@pytest.mark.parametrize("name", sorted(FOURTEEN))
def test_decoding_is_the_published_one(name: str) -> None:
    model = registry.load()[name]
    effort = {"temperature": 1, "reasoning_effort": "medium"} if model.access == "proprietary" else {"temperature": 0}
    assert model.decoding == {**effort, "max_tokens": 8192}


def test_open_weights_have_an_endpoint_variable_of_their_own_and_a_way_to_be_served() -> None:
    served = [model for model in registry.load().values() if model.access == "open"]
    assert len({model.endpoint_variable for model in served}) == len(served) == 10
    for model in served:
        assert model.repository is not None
        assert model.litellm == f"hosted_vllm/{model.repository}"
        assert model.vllm[model.vllm.index("--max-model-len") + 1] == str(model.context_tokens)
        assert json.loads(model.vllm[model.vllm.index("--limit-mm-per-prompt") + 1]) == {"image": model.max_images}


def test_an_unknown_price_is_none_and_a_baseline_costs_nothing() -> None:
    models = registry.load()
    assert models["gemini-3.1-flash"].price is None
    assert models["gpt-5.4"].price == registry.Price(2.5, 15.0)
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
    assert listed["gemini-3.1-flash"]["input_per_million_usd"] is None
