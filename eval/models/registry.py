"""Registry of models, from ``models.yaml`` and a user's file; and the environment variables that a model needs.

API keys are read from the environment at each use and never stored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from chexqa.eval.local.callable_address import Target
from chexqa.eval.places import coordinate_systems
from chexqa.files.errors import InputError, suggest
from chexqa.files.jsonio import Record, read_yaml

Domain = Literal["general", "medical", "baseline"]
Access = Literal["proprietary", "open", "baseline"]
Thinking = Literal["on", "off"]
ServedBy = Literal["vllm", "transformers"]
ALL = "all"
# Beginning of a baseline's litellm id.
BASELINE = "baseline/"
# Beginnings of the names of a reader and of several readers together.
READERS = ("reader/", "readers/")
ADHOC_KEY_VARIABLE = "CHEXQA_API_KEY"
# Prefixes that tell litellm the protocol of a user's endpoint; any other text before a slash is an owner's name.
ENDPOINT_PROVIDERS = (
    "azure", "azure_ai", "hosted_vllm", "litellm_proxy", "ollama", "ollama_chat", "openai", "openrouter",
)  # fmt: skip
# Fields that a model without the field ``like`` must have, with their values.
NEEDED = {
    "litellm": "such as openai/MODEL",
    "domain": "general or medical",
    "access": "proprietary or open",
}
# Prefixes of servers of one's own. Without an address, litellm would send their questions to OpenAI.
OWN_SERVERS = ("custom_openai", "hosted_vllm", "litellm_proxy", "lm_studio", "openai_like", "xinference")
# Prefixes that are usual names on a proxy that speaks OpenAI's protocol.
OWN_PROTOCOLS = ("anthropic", "gemini", "vertex_ai")
CHAT = "/chat/completions"

# Request arguments that chexqa sets itself.
_SETTLED = (
    "model", "messages", "timeout", "request_timeout", "num_retries", "max_retries", "no-log", "stream", "api_base",
    "base_url",
)  # fmt: skip
# Names of arguments that carry a key: headers, aws_secret_access_key, azure_ad_token and similar; not prompt_cache_key.
_KEYS = re.compile(
    r"(?:extra_)?headers|(?:.*_)?(?:token|api_?key|access_key(?:_id)?|authorization)|.*(?:secret|password|credential).*"
)


@dataclass(frozen=True)
class Price:
    """A model's list price in dollars per million tokens; cached input tokens have a separate price."""

    input_per_million_usd: float
    output_per_million_usd: float
    cached_input_per_million_usd: float | None = None

    @property
    def is_zero(self) -> bool:
        """Return True if the model costs nothing."""
        return self.input_per_million_usd == self.output_per_million_usd == 0

    def cost_usd(self, input_tokens: float, output_tokens: float, cached_tokens: float = 0) -> float:
        """Return the cost of a reply in dollars; ``input_tokens`` includes the cached tokens."""
        cached_tokens = min(cached_tokens, input_tokens)
        cached_price = self.cached_input_per_million_usd
        if cached_price is None:
            cached_price = self.input_per_million_usd
        paid = (input_tokens - cached_tokens) * self.input_per_million_usd + cached_tokens * cached_price
        return (paid + output_tokens * self.output_per_million_usd) / 1e6


@dataclass(frozen=True)
class Model:
    """One model; the schema ``models`` defines the fields, and None means unknown or not needed.

    ``decoding`` includes the arguments that ``thinking`` selects. ``python`` is in no file: it is set for a model that
    is a Python object (:mod:`chexqa.eval.models.in_process`).
    """

    name: str
    litellm: str
    domain: Domain | None
    access: Access
    repository: str | None = None
    key_variable: str | None = None
    endpoint_variable: str | None = None
    api_base: str | None = None
    decoding: dict[str, Any] = field(default_factory=dict)
    price: Price | None = None
    max_images: int | None = None
    context_tokens: int | None = None
    system_prompt: bool = True
    images_first: bool = False
    multi_turn_images: bool = True
    strip_tokens: tuple[str, ...] = ()
    group: str | None = None
    thinking: Thinking | None = None
    thinking_switch: dict[Thinking, dict[str, Any]] = field(default_factory=dict)
    image_tokens: dict[str, Any] | None = None
    reply_tokens: int | None = None
    vllm: tuple[str, ...] = ()
    served_by: tuple[ServedBy, ...] = ()
    frame: str | None = None
    python: Target | None = None


def load(user_file: Path | None = None) -> dict[str, Model]:
    """Return the registered models, keyed by name, in file order; a user's file adds or replaces models."""
    own = _read(Path(str(resources.files("chexqa.eval.models").joinpath("models.yaml"))), {})
    records = own | _read(user_file, own) if user_file else own
    return {name: _from_record(record) for name, record in records.items()}


def _read(path: Path, known: Mapping[str, Record]) -> dict[str, Record]:
    """Return a file's models by name as complete records; ``known`` has models that a field ``like`` may name."""
    models: dict[str, Record] = {}
    for record in read_yaml(path, "models")["models"]:
        name = record["name"]
        if name in models:
            raise InputError(f"{path}: the model '{name}' is given twice; rename or remove one.")
        if name == ALL or "," in name:
            raise InputError(f"{path}: a model cannot be called '{name}'; choose another name, without commas.")
        if record.get("group") in {ALL, *models, *known}:
            raise InputError(f"{path}: the group '{record['group']}' has the name of a model; choose another name.")
        models[name] = _whole(path, record, {**known, **models})
    return models


def _whole(path: Path, record: Record, known: Mapping[str, Record]) -> Record:
    """Return the record with its missing fields from the model in ``like``; raise ``InputError`` if it is invalid."""
    name, like = record["name"], record.get("like")
    if like is not None:
        if like not in known:
            raise InputError(f"{path}: '{name}' has 'like: {like}', but there is no such model{suggest(like, known)}.")
        taken = {key: value for key, value in known[like].items() if key != "group"}
        record = taken | {key: value for key, value in record.items() if key != "like"}
    lacks = [f"'{key}' ({what})" for key, what in NEEDED.items() if key not in record]
    if lacks:
        fields = ("the field " if len(lacks) == 1 else "the fields ") + " and ".join(lacks)
        raise InputError(
            f"{path}: the model '{name}' lacks {fields}; add what is missing, or take it from a known model with "
            "'like: MODEL'."
        )
    if not (record.get("api_base") or record.get("endpoint_variable")):
        _check_own_server(
            f"{path}: the model '{name}'",
            record["litellm"],
            "add 'api_base', such as http://127.0.0.1:8000/v1, or 'endpoint_variable'",
        )
    mode = record.get("thinking")
    if mode and mode not in record.get("thinking_switch", {}):
        raise InputError(
            f"{path}: '{name}' has the thinking mode '{mode}', which is not in its thinking_switch; add this mode to "
            "the switch."
        )
    for field_name in ("decoding", "thinking_switch"):
        _check_arguments(f"{path}: the model '{name}' has", field_name, record.get(field_name, {}))
    return record


def _check_own_server(who: str, litellm: str, remedy: str) -> None:
    """Raise ``InputError`` if a model without an address has the litellm id of a server of one's own."""
    prefix, slash, _ = litellm.partition("/")
    if slash and prefix in OWN_SERVERS:
        raise InputError(f"{who} is on a server of your own ('{litellm}'), but its address is missing; {remedy}.")


def _check_arguments(who: str, field_name: str, given: Mapping[str, Any]) -> None:
    """Raise ``InputError``, without values, for arguments that chexqa sets itself or that may be an API key."""
    for groups in given.values() if field_name == "thinking_switch" else (given,):
        for argument in groups:
            if argument in _SETTLED:
                raise InputError(
                    f"{who} '{argument}' in its {field_name}, but chexqa sets this argument itself; remove it (the "
                    "field api_base has the address; --timeout and --attempts set time limit and retries)."
                )
    for argument in _names(given):
        if _KEYS.fullmatch(argument.lower()):
            raise InputError(
                f"{who} '{argument}' in its {field_name}. This argument may contain an API key and would be "
                "written to run.json; remove it, and set key_variable to the name of the environment variable with the "
                "API key."
            )


def _names(given: Mapping[Any, Any]) -> Iterator[str]:
    """Yield the names in a mapping, and those in the mappings inside it."""
    for name, value in given.items():
        yield str(name)
        if isinstance(value, Mapping):
            yield from _names(value)


def _from_record(record: Record) -> Model:
    price = Price(**record["price"]) if record.get("price") else None
    switch = record.get("thinking_switch", {})
    decoding = {**record.get("decoding", {}), **switch.get(record.get("thinking"), {})}
    lists = {name: tuple(record.get(name, ())) for name in ("strip_tokens", "vllm", "served_by")}
    return Model(**{**record, "price": price, "decoding": decoding, **lists})


def choose(
    names: str | Sequence[str], models: Mapping[str, Model], find: Callable[[str], Model | None] | None = None
) -> list[Model]:
    """Return the models named in ``"A,B"``, or in a list of names, without duplicates.

    - A group's name means its models.
    - ``"all"`` means every model that is neither a baseline nor in a group.
    - ``find`` is called with a name that is not registered; it returns a model or None.

    >>> [model.name for model in choose("baseline/chance,baseline/oracle", load())]
    ['baseline/chance', 'baseline/oracle']
    """
    chosen: dict[str, Model] = {}
    for name in (part.strip() for part in (names.split(",") if isinstance(names, str) else names)):
        if name == ALL:
            chosen |= {one.name: one for one in models.values() if one.domain != "baseline" and not one.group}
        elif name in models:
            chosen[name] = models[name]
        elif group := {one.name: one for one in models.values() if one.group == name and name}:
            chosen |= group
        elif name and find is not None and (found := find(name)) is not None:
            chosen[name] = found
        elif name:
            if ".py" in name:
                raise InputError(
                    f"there is no model '{name}'; if it is a Python function or class, name it with --python {name}."
                )
            known = [*models, *{one.group for one in models.values() if one.group}]
            raise InputError(
                f"there is no model '{name}'{suggest(name, known)}; 'chexqa models' lists the models. For a model "
                "that is not listed, give one of these: its litellm id (provider/model), its server with --api-base, "
                "or your own models file with --models-file."
            )
    if not chosen:
        raise InputError("no model is named; give names such as 'gpt-5.4,lingshu-32b', or 'all'.")
    return list(chosen.values())


def overrides(pairs: Sequence[str], max_tokens: int | None = None, temperature: float | None = None) -> dict[str, Any]:
    """Return the decoding settings in texts such as ``top_p=0.9``, for :func:`overridden`.

    - A value is JSON, or a text if it is not valid JSON.
    - ``a.b=1`` sets ``b`` in the object ``a``.
    - ``a=null`` removes ``a``.

    Raise ``InputError`` for a text without a name, a name given twice, an argument that chexqa sets itself, and an
    argument that may hold an API key.

    >>> overrides(["top_p=0.9", "chat_template_kwargs.enable_thinking=false"], max_tokens=100)
    {'max_tokens': 100, 'top_p': 0.9, 'chat_template_kwargs': {'enable_thinking': False}}
    """
    made: dict[str, Any] = {
        name: value for name, value in (("max_tokens", max_tokens), ("temperature", temperature)) if value is not None
    }
    for pair in pairs:
        name, sign, text = pair.partition("=")
        *outer, last = name.split(".")
        if not sign or not all((*outer, last)):
            raise InputError(f"--set {name}: not a setting; write NAME=VALUE, such as --set top_p=0.9.")
        inner = made
        for part in outer:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise InputError(f"--set {name}: '{part}' already has a value; give each setting once.")
        if last in inner:
            raise InputError(f"--set {name}: it is given twice; give each setting once.")
        inner[last] = _value(text)
    _check_arguments("--set", "decoding", made)
    return made


def _value(text: str) -> Any:
    """Return a setting's value: the parsed JSON, or the text itself if it is not JSON."""
    try:
        return json.loads(text, parse_constant=lambda name: name)
    except (ValueError, RecursionError):
        return text


def overridden(model: Model, settings: Mapping[str, Any]) -> Model:
    """Return the model with its decoding settings changed by ``settings`` (made by :func:`overrides`).

    Baselines are returned unchanged.
    """
    # ``max_tokens`` changes the limit on tokens under whatever name the model's settings have for it.
    if not settings or model.domain == "baseline":
        return model
    limits = [name for name in _LENGTHS if name in model.decoding]
    settings = {(limits[0] if name == "max_tokens" and limits else name): value for name, value in settings.items()}
    return replace(model, decoding=_merged(model.decoding, settings))


def in_frame(model: Model, frame: str | None) -> Model:
    """Return the model with the coordinate system ``frame``; raise ``InputError`` for an unknown one.

    A baseline, or any model if ``frame`` is None, is returned unchanged.
    """
    if frame is None or model.domain == "baseline":
        return model
    return replace(model, frame=coordinate_systems.named(frame, "--frame").name)


# Names that providers use for the limit on a reply's tokens.
_LENGTHS = ("max_tokens", "max_completion_tokens")


def _merged(before: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``before`` updated with ``given``, also inside nested objects; a null value removes its name."""
    made = dict(before)
    for name, value in given.items():
        old = made.get(name)
        made[name] = _merged(old if isinstance(old, dict) else {}, value) if isinstance(value, dict) else value
    return {name: value for name, value in made.items() if value is not None}


def endpoint(model: Model) -> str | None:
    """Return the address at which a model is asked: its endpoint variable's value, else ``api_base``, else None."""
    value = os.environ.get(model.endpoint_variable, "").strip() if model.endpoint_variable else ""
    address = value or model.api_base
    return address and address.strip().rstrip("/").removesuffix(CHAT)


def api_key(model: Model) -> str | None:
    """Return the API key from the environment variable that the model names; None if there is none."""
    # No other variable is read, because the key of another provider must never reach a user's endpoint.
    return os.environ.get(model.key_variable, "").strip() or None if model.key_variable else None


def missing_variable(model: Model) -> str | None:
    """Return an environment variable that must be set before this model can be asked; None if all are set."""
    # A model with an endpoint address needs no API key.
    if endpoint(model) is not None or model.litellm.startswith(BASELINE):
        return None
    if model.endpoint_variable:
        return model.endpoint_variable
    return model.key_variable if api_key(model) is None else None


def lacking(model: Model) -> str | None:
    """Return a clause for the user about variables to set before this model can be asked; None if all are set."""
    variable = missing_variable(model)
    if variable is None:
        return None
    if variable == model.key_variable:
        return f"set {variable} to your key"
    served = f" that serves {model.repository}" if model.repository else ""
    return f"set {variable} to the address of an OpenAI-compatible server{served}"


def adhoc(model_id: str, api_base: str | None, provider_protocol: bool = False) -> Model:
    """Return a model that is in no models file: a litellm id, or a model at an OpenAI-compatible server (``api_base``).

    The environment variable ``CHEXQA_API_KEY`` may have the server's key. With ``provider_protocol``, a name such as
    ``anthropic/…`` is asked at ``api_base`` in the provider's own protocol. The decoding settings are temperature 0 and
    at most 8,192 tokens.
    """
    model_id = model_id.strip()
    if not model_id:
        raise InputError("--model-id is empty; give the model's name on its server, or its litellm id.")
    prefix, slash, _ = model_id.partition("/")
    known = slash and prefix in (*ENDPOINT_PROVIDERS, *(OWN_PROTOCOLS if provider_protocol else ()))
    baseline = slash and prefix == "baseline" and api_base is None
    if api_base is None:
        _check_own_server(f"the model '{model_id}'", model_id, "give it with --api-base http://127.0.0.1:8000/v1")
    return Model(
        name=model_id,
        litellm=model_id if known or api_base is None else f"openai/{model_id}",
        domain="baseline" if baseline else None,
        access="baseline" if baseline else "open" if api_base else "proprietary",
        key_variable=ADHOC_KEY_VARIABLE if api_base else None,
        api_base=api_base,
        decoding={"temperature": 0, "max_tokens": 8192},
    )
