"""Two models that choose stored replies by the prompt: Inspect's mock model, and a Python model that chexqa asks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inspect_ai import eval as inspect_eval
from inspect_ai.log import EvalLog
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from stored_replies import FILES, replies

TEXTS = [row["raw"] for name in FILES for _, row, _ in replies(name)]


def reply_to(texts: Sequence[tuple[str, str]]) -> str:
    """Return a stored reply, chosen by all roles and texts of the prompt, so that it depends on the history."""
    mark = hashlib.sha256(json.dumps(list(texts)).encode()).digest()
    return TEXTS[int.from_bytes(mark[:8], "big") % len(TEXTS)]


def answer(conversation: list[dict[str, Any]]) -> str:
    """Return the reply of the Python model to a conversation."""
    return reply_to([(one["role"], part["text"]) for one in conversation for part in one["content"] if "text" in part])


class Mock:
    """Answers of Inspect's mock model, with the number of pictures of each prompt."""

    def __init__(self) -> None:
        self.pictures: list[int] = []

    def __call__(self, prompt: list[Any], *_: Any) -> ModelOutput:
        texts = []
        self.pictures.append(0)
        for message in prompt:
            parts = [message.content] if isinstance(message.content, str) else message.content
            for part in parts:
                if isinstance(part, str) or part.type == "text":
                    texts.append((message.role, part if isinstance(part, str) else part.text))
                else:
                    assert part.image.startswith("data:image/png;base64,iVBOR")
                    self.pictures[-1] += 1
        made = ModelOutput.from_content(model="mock", content=reply_to(texts))
        made.usage = ModelUsage(input_tokens=3, output_tokens=2, total_tokens=5)
        return made


def run(
    folder: Path, bench: Path, mock: Any, task: str = "chexqa/benchmark", epochs: int = 1, **arguments: Any
) -> EvalLog:
    """Run the registered task with the mock model, and return its log, which is in ``folder``."""
    model = get_model("mockllm/model", custom_outputs=mock)
    given = {"folder": str(bench), **arguments} if "/" in task and not task.endswith(".py") else arguments
    (log,) = inspect_eval(
        task, model=model, task_args=given, log_dir=str(folder), display="none", epochs=epochs, log_images=False
    )
    return log
