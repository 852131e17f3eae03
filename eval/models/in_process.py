"""Models that are called from Python without a server.

- ``python/NAME``: a user's callable.
- ``transformers/FOLDER_OR_ID``: open weights, run by transformers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from chexqa.eval.local import callable_address as targets
from chexqa.eval.local.callable_address import Target
from chexqa.eval.models import registry
from chexqa.eval.models.registry import Model, Price
from chexqa.files.errors import InputError
from chexqa.files.jsonio import check as check_record

CALLABLE, WEIGHTS = "python/", "transformers/"
OPEN_WEIGHTS = "chexqa.eval.local.open_weights:OpenWeights"
# Decoding of weights that no registered model describes; it equals that of registered open weights.
DECODING: dict[str, Any] = {"temperature": 0, "max_tokens": 8192}
_DEVICE = re.compile(r"cpu|\d+(?:\+\d+)*")


def is_weights(name: str) -> bool:
    """Return True if the name stands for open weights run by transformers."""
    return name.startswith(WEIGHTS)


def of_callable(given: Any, name: str | None = None, devices: Iterable[str] = ()) -> Model:
    """Return a callable as a model; raise ``InputError`` if it does not exist or cannot be used as a model.

    ``given`` is a function, class or object, or the address of one (``FILE.py:NAME``). Its attributes, such as
    ``max_images`` and ``context_tokens``, become fields of the model.
    """
    if isinstance(given, str):
        target = Target(given, f"--python {given}", devices=tuple(devices))
    else:
        shown = getattr(given, "__qualname__", None) or type(given).__qualname__
        target = Target(f":{shown.rpartition('.')[2]}", shown, found=given, devices=tuple(devices))
    traits = targets.traits(targets.resolve(target), target)
    called = name or traits.name
    own: dict[str, Any] = {
        field: list(value) if isinstance(value, tuple) else value for field, value in traits.own.items()
    }
    record = {"name": called, "litellm": f"{CALLABLE}{called}", "domain": "general", "access": "open", **own}
    check_record({"models": [record]}, "models", f"{target.who}, its attributes")
    if not called.strip() or "," in called or not called.isprintable():
        raise InputError(
            f"{target.who}: {called!r} is not a valid name for a model; choose one without commas and line breaks."
        )
    return Model(
        name=called, litellm=f"{CALLABLE}{called}", domain=None, access="open", price=Price(0, 0), python=target,
        **{**own, "strip_tokens": tuple(own.get("strip_tokens", ()))},
    )  # fmt: skip


def of_weights(model_id: str, registered: Mapping[str, Model], devices: Iterable[str] = ()) -> Model:
    """Return a model that runs the weights of a folder, or of an id on the hub, with transformers.

    - ``model_id``: ``transformers/FOLDER_OR_ID``.
    - ``registered``: the known models; if one of them has the same weights, its settings are used.
    - ``devices``: the devices to run on, one for each worker process.

    Raises ``InputError`` if ``model_id`` names no folder or id.
    """
    place = model_id.removeprefix(WEIGHTS)
    if not place:
        raise InputError(
            f"--model-id {model_id}: names no weights; write transformers/FOLDER or transformers/OWNER/NAME."
        )
    known = next((one for one in registered.values() if one.repository == place), None)
    base = known or Model(model_id, model_id, None, "open", decoding=DECODING)
    own = replace(base, name=_shown(place), key_variable=None, endpoint_variable=None, api_base=None)
    return _with_weights(own, place, devices)


def unregistered(model_id: str, api_base: str | None, registered: Mapping[str, Model]) -> Model:
    """Return the model that ``--model-id`` names: open weights in this process, or a model on a server."""
    if not is_weights(model_id):
        return registry.adhoc(model_id, api_base)
    if api_base is not None:
        raise InputError(
            f"--model-id {model_id}: this model runs in this process and has no server; leave out --api-base."
        )
    return of_weights(model_id, registered)


def placed(model: Model, devices: Iterable[str] = ()) -> Model:
    """Return ``model`` with ``devices`` set if it is a Python callable or open weights, otherwise unchanged."""
    # Open weights also get the callable that runs them.
    if model.python is not None:
        return replace(model, python=replace(model.python, devices=tuple(devices)))
    if not is_weights(model.litellm):
        return model
    return _with_weights(model, model.litellm.removeprefix(WEIGHTS), devices)


def _with_weights(model: Model, place: str, devices: Iterable[str]) -> Model:
    """Return the model with the callable that runs the weights of a folder or an id of the hub."""
    arguments = {
        "place": place,
        "trust_code": "--trust-remote-code" in model.vllm,
        "context_tokens": model.context_tokens,
    }
    target = Target(OPEN_WEIGHTS, _shown(place), arguments=arguments, devices=tuple(devices))
    return replace(model, litellm=_shown(place), python=target, price=model.price or Price(0, 0))


def _shown(place: str) -> str:
    """Return the name of weights for the model's id; for a folder, only its last name."""
    # A run can then continue after the folder was moved.
    return f"{WEIGHTS}{Path(place).resolve().name if Path(place).is_dir() else place}"


def device_names(given: str | None) -> tuple[str, ...]:
    """Return the devices that ``--devices`` lists, one for each worker process.

    >>> device_names("0,1"), device_names("0+1,2+3"), device_names("cpu,cpu")
    (('0', '1'), ('0+1', '2+3'), ('cpu', 'cpu'))
    """
    names = tuple(part.strip() for part in given.split(",")) if given else ()
    for name in names:
        if not _DEVICE.fullmatch(name):
            raise InputError(
                f"--devices {given}: '{name}' is not a device; write 0,1 for one process on each of the GPUs 0 and 1, "
                "0+1 for one process on both, or cpu."
            )
    return names


def check(model: Model) -> None:
    """Check a user's Python model (callable) without loading it.

    Raise ``InputError`` if the callable does not exist, does not accept a setting, or needs an argument that is not
    given.
    """
    assert model.python is not None
    found = targets.resolve(model.python)
    traits = targets.traits(found, model.python)
    own = getattr(found, "check", None)
    if is_weights(model.litellm):
        assert own is not None
        own(**model.python.arguments, decoding=model.decoding)
        return
    left = [name for name in model.decoding if traits.takes is not None and name not in traits.takes]
    if left and not traits.decoding_at_load:
        raise InputError(
            f"{model.python.who}: the function has no argument '{left[0]}', so it cannot be called with one; add this "
            f"keyword argument to the function, or leave '{left[0]}' out."
        )
    if missing := [name for name in traits.needs if name not in model.decoding]:
        raise InputError(
            f"{model.python.who}: needs the argument '{missing[0]}', but it gets only the conversation (texts and "
            f"pictures, see docs/own-models.md); give '{missing[0]}' a default value, or set it with --set "
            f"{missing[0]}=VALUE."
        )
