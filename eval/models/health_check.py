"""Health check of models before a run: one tiny question about a tiny picture."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from chexqa.contract.items import Picture
from chexqa.eval.models import adapters
from chexqa.eval.models.client import Client
from chexqa.eval.models.rate_limit import RetryPolicy
from chexqa.eval.models.registry import Model
from chexqa.eval.prompts.protocols import Message
from chexqa.files.jsonio import Record

SIDE = 64
SAID_CHARACTERS = 2000
SYSTEM = "You answer questions about pictures."
QUESTION = "Which half of the picture is white? 1. the left half 2. the right half\nEnd with 'Answer: N'."
ANSWER = re.compile(r"answer\W*([12])\b", re.IGNORECASE)
RIGHT = "2"
PICTURE = Picture("radiograph", "check.png")


@dataclass(frozen=True)
class Check:
    """Result of a check, in which a model is asked which half of a picture is white.

    - ``works``: True if the reply has text.
    - ``right``: True if the reply names the white half.
    - ``said``: the reply, or the error.
    - ``readable``: True if the reply names a half.
    """

    model: str
    works: bool
    right: bool
    latency_s: float | None
    cost_usd: float | None
    said: str
    readable: bool = False

    def to_record(self) -> Record:
        """Return the JSON form."""
        return asdict(self)


class _Tiny:
    """Source of the only picture: black on the left, white on the right."""

    def image_bytes(self, image: str) -> bytes:
        from PIL import Image

        picture = Image.new("L", (SIDE, SIDE), 0)
        picture.paste(255, (SIDE // 2, 0, SIDE, SIDE))
        data = io.BytesIO()
        picture.save(data, "PNG")
        return data.getvalue()


def check(models: Sequence[Model], timeout_s: float) -> list[Check]:
    """Ask all models at the same time and return the results; a model that fails raises no error."""
    return asyncio.run(_check(models, timeout_s))


async def _check(models: Sequence[Model], timeout_s: float) -> list[Check]:
    asker = Client(_Tiny(), RetryPolicy(attempts=1, timeout_s=timeout_s))
    messages = (Message("system", (SYSTEM,)), Message("user", ("The picture:", PICTURE, QUESTION)))
    try:
        return await asyncio.gather(*(_one(asker, model, messages) for model in models))
    finally:
        await asker.close()


async def _one(asker: Client, model: Model, messages: Sequence[Message]) -> Check:
    reply = await asker.ask(model, adapters.adapt(model, messages))
    words = " ".join((reply.text or "").split())
    works = reply.outcome == "reply" and bool(words)
    empty = "an empty reply" + (
        " (cut off, perhaps because the model thought too long)" if reply.finish_reason == "length" else ""
    )
    said = words if works else reply.error or words or empty
    named = {match[1] for match in ANSWER.finditer(words)} if works else set()
    # The end of an answer is the most informative part.
    short = said if len(said) <= SAID_CHARACTERS else f"…{said[1 - SAID_CHARACTERS :]}"
    return Check(model.name, works, RIGHT in named, reply.latency_s, reply.cost_usd, short, bool(named))
