"""The command that serves an open-weights model with vLLM, made from the registry's fields."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from chexqa.eval.models.registry import Model, Thinking
from chexqa.files.errors import InputError

PARALLEL = "--tensor-parallel-size"


def command(model: Model, port: int, gpus: int | None, thinking: Thinking | None) -> list[str]:
    """Return the words of the command that starts vLLM; ``gpus`` and ``thinking`` replace the registry's values.

    Raise ``InputError`` for a model without open weights. Raise it too if ``thinking`` is given, but the model's
    thinking cannot be switched on and off.
    """
    if model.repository is None:
        raise InputError(
            f"model '{model.name}': its entry names no 'repository' of weights, so there is nothing to serve; choose a "
            "model with open weights."
        )
    words = ["vllm", "serve", model.repository, *_with_gpus(model.vllm, gpus)]
    if thinking is not None:
        kwargs = model.thinking_switch.get(thinking, {}).get("chat_template_kwargs")
        if kwargs is None:
            raise InputError(
                f"model '{model.name}': its chat template has no switch for thinking; leave --thinking out."
            )
        words += ["--default-chat-template-kwargs", json.dumps(kwargs)]
    return [*words, "--port", str(port)]


def _with_gpus(words: Sequence[str], gpus: int | None) -> list[str]:
    if gpus is None:
        return list(words)
    kept = list(words)
    if PARALLEL in kept:
        place = kept.index(PARALLEL)
        del kept[place : place + 2]
    return kept if gpus == 1 else [*kept, PARALLEL, str(gpus)]


def for_shell(words: Sequence[str]) -> str:
    """Return the command as text for a shell, one option per line."""
    lines: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--"):
            lines.append([])
        lines[-1].append(shlex.quote(word))
    return " \\\n  ".join(" ".join(line) for line in lines)
