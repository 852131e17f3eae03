"""Sending of request files through litellm, and fetching of the results of finished batches.

The file ``sent.json`` in a model's folder maps each request file to its batch. The file is written after every step, so
the same command continues with the same batches after a kill. A batch that was created but not yet recorded is found by
the id of its uploaded request file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from chexqa.eval.batches import results, rounds
from chexqa.eval.batches.line_formats import form_of
from chexqa.eval.batches.rounds import Waiting
from chexqa.eval.models import data_policy, registry
from chexqa.eval.models.client import KEYLESS, load_litellm
from chexqa.eval.models.failures import SendError, judge, of_litellm
from chexqa.eval.models.rate_limit import TransientError
from chexqa.eval.models.registry import Model
from chexqa.eval.runs.conversations import Watch
from chexqa.eval.runs.model_progress import ModelProgress
from chexqa.eval.runs.runner import RunConfig
from chexqa.eval.runs.turn_log import log_path, sending_path
from chexqa.files.errors import InputError, UnfinishedError
from chexqa.files.jsonio import Record, read_json, write_bytes, write_json
from chexqa.files.locks import locked
from chexqa.files.opening import open_binary
from chexqa.files.redact import hider

SENT = "sent.json"
# Providers whose batches litellm sends as files in OpenAI's form.
SENDABLE = ("openai", "azure", "hosted_vllm", "litellm_proxy")
ENDED = ("completed", "expired", "cancelled", "failed")
POLL_S = 60.0


def check(order: RunConfig) -> None:
    """Check every model of a run; raise ``InputError`` for a model whose batches litellm cannot send."""
    for model in order.models:
        provider = model.litellm.partition("/")[0]
        if form_of(model).name != "openai" or provider not in SENDABLE:
            raise InputError(
                f"--batch-submit: litellm cannot send batches to '{provider}', the provider of '{model.name}', but "
                f"only to {', '.join(SENDABLE)}; leave out --batch-submit and send the batch files "
                f"yourself; put their results into the folder '{results.FOLDER}' beside the batch files."
            )


def run(
    order: RunConfig, folder: Path, poll_s: float = POLL_S, watch: Watch = lambda progress: None
) -> list[ModelProgress]:
    """Send the requests of a round, wait for their results, and repeat this until no request is open; return each
    model's progress.

    A question that ends in an error is not asked again by the same call. Raises ``UnfinishedError`` for a batch that
    its endpoint rejects, and after several rounds in a row without any result.
    """
    check(order)
    models = {model.name: model for model in order.models}
    failed: frozenset[rounds.Talk] = frozenset()
    fruitless, claimed = 0, False
    with ExitStack() as sending:
        while True:
            ended = frozenset(_ended(order, folder))
            progress, waiting = rounds.step(order, folder, ended, failed, watch, sends=True)
            failed |= {talk for one in waiting for talk in one.failed}
            left = [(Sender(models[one.model], order, one), path) for one in waiting for path in one.parts]
            if not left:
                return progress
            if not claimed:
                _claim(order, sending)
                claimed = True
            for sender, path in left:
                sender.send(path)
            came = [sender.fetch(path) for sender, path in left]
            while all(count is None for count in came):
                time.sleep(poll_s)
                came = [sender.fetch(path) for sender, path in left]
            fruitless = fruitless + 1 if not any(came) else 0
            if fruitless >= order.policy.attempts:
                raise UnfinishedError(
                    f"{fruitless} rounds of batches in a row ended without any result; find the reason at the "
                    "provider, then run the same command again."
                )


def _claim(order: RunConfig, sending: ExitStack) -> None:
    """Lock each model's batches until ``sending`` closes.

    Without the locks, two processes could send and pay for the same batch. 'chexqa run status' uses the locks to show
    which process fetches the results.
    """
    for model in order.models:
        path = sending_path(log_path(order.folder, model.name, order.shard))
        sending.enter_context(locked(path, f"{path}: another process sends the batches of '{model.name}'"))


def _ended(order: RunConfig, folder: Path) -> list[Path]:
    """Return the request files whose batches have ended and will give no more results."""
    found = []
    for model in order.models:
        place = rounds.model_folder(folder, order, model)
        found += [place / name for name, entry in _sent(place).items() if entry["status"] in ENDED]
    return found


def _sent(folder: Path) -> dict[str, Record]:
    path = folder / SENT
    return dict(read_json(path, "batches", folder)["parts"]) if path.exists() else {}


class Sender:
    """Sender of one model's request files; it also fetches their results."""

    def __init__(self, model: Model, order: RunConfig, waiting: Waiting) -> None:
        """Read from ``sent.json`` which request files were sent."""
        self.model, self.folder, self.policy = model, waiting.folder, order.policy
        address, key = registry.endpoint(model), registry.api_key(model)
        self._hide = hider(key)
        self._common: dict[str, Any] = {
            "custom_llm_provider": model.litellm.partition("/")[0],
            "api_base": address,
            "api_key": KEYLESS if address is not None and key is None else key,
            "timeout": order.policy.timeout_s,
            "max_retries": 0,
        }
        data_policy.check_endpoints([model])

    def _note(self, path: Path, **entry: Any) -> Record:
        parts = _sent(self.folder)
        parts[path.name] = parts.get(path.name, {"file_id": None, "batch_id": None, "status": "new"}) | entry
        write_json(self.folder / SENT, {"schema_version": 1, "model": self.model.name, "parts": parts}, "batches")
        return parts[path.name]

    def send(self, path: Path) -> None:
        """Send a request file that has not been sent yet, and record its batch."""
        entry = _sent(self.folder).get(path.name) or self._note(path)
        litellm = load_litellm()
        known = entry["file_id"] is not None
        if not known:

            def upload() -> Any:
                with open_binary(path, inside=self.folder) as file:
                    return litellm.create_file(file=(path.name, file), purpose="batch", **self._common)

            entry = self._note(path, file_id=str(self._call(upload, path, "/files").id))
        if entry["batch_id"] is None:
            batch = self._begun(entry["file_id"], path) if known else None
            if batch is None:
                batch = self._call(
                    lambda: litellm.create_batch(
                        completion_window="24h", endpoint="/v1/chat/completions", input_file_id=entry["file_id"],
                        **self._common,
                    ),
                    path,
                    "/batches",
                )  # fmt: skip
            self._note(path, batch_id=str(batch.id), status="sent")

    def _begun(self, file_id: str, path: Path) -> Any | None:
        """Return the batch that an earlier command created for a file and could not record; None if there is none."""
        listed = self._call(lambda: load_litellm().list_batches(limit=100, **self._common), path)
        found = getattr(listed, "data", None) or []
        return next((one for one in found if getattr(one, "input_file_id", None) == file_id), None)

    def fetch(self, path: Path) -> int | None:
        """Fetch the results of a request file if its batch has ended, and return their size in bytes.

        While the batch is running, return None.
        """
        entry = _sent(self.folder)[path.name]
        batch = self._call(lambda: load_litellm().retrieve_batch(batch_id=entry["batch_id"], **self._common), path)
        status = str(batch.status)
        if status not in ENDED:
            return None
        files = [getattr(batch, f"{kind}_file_id", None) for kind in ("output", "error")]
        data = b"".join(self._content(str(name), path).rstrip(b"\n") + b"\n" for name in files if name)
        size = len(data.strip())
        if size:  # one file for each batch, so that a kill cannot leave a part of its results
            write_bytes(self.folder / results.FOLDER / path.name, data)
        if status == "failed" and not size:
            parts = _sent(self.folder)
            del parts[path.name]
            write_json(self.folder / SENT, {"schema_version": 1, "model": self.model.name, "parts": parts}, "batches")
            raise UnfinishedError(
                f"{path}: the endpoint rejected the batch {entry['batch_id']} ({self._hide(_words(batch))}); remove "
                "this cause and run the same command again, which sends the request file again."
            )
        self._note(path, status=status)
        return size

    def _content(self, file_id: str, path: Path) -> bytes:
        answer = self._call(lambda: load_litellm().file_content(file_id=file_id, **self._common), path)
        return bytes(answer.content)

    def _call(self, call: Callable[[], Any], path: Path, place: str | None = None) -> Any:
        """Return the result of a call of litellm; a call that fails is repeated as often as a question.

        ``place`` is the part of a batch API that the call needs first; raise ``InputError`` if the server lacks it.
        """
        address = self._common["api_base"]
        for attempt in range(1, self.policy.attempts + 1):
            try:
                return call()
            except (InputError, UnfinishedError):
                raise
            except Exception as error:  # a class of litellm's own for each provider
                sent = of_litellm(load_litellm(), error)
                if address is not None and place is not None and _is_missing(sent):
                    raise InputError(
                        f"{address}: this server takes no batches (POST {place} gave "
                        f"{f'HTTP {sent.status}' if sent.status else 'an unknown reply'}); leave out --batch-submit "
                        f"and send {path} yourself, or leave out --batch too, to ask the questions one by one."
                    ) from None
                try:
                    text = judge(sent, self._hide).text
                except TransientError as passing:
                    if attempt < self.policy.attempts:
                        time.sleep(self.policy.wait_s(attempt, passing))
                        continue
                    text = str(passing)
            where = f" (at {address})" if address else ""
            raise UnfinishedError(
                f"{path}: could not be sent, or its results could not be fetched: {text}{where}; remove this cause and "
                "run the same command again."
            )
        raise AssertionError("no attempt was made")


def _is_missing(error: SendError) -> bool:
    """Return True if a server lacks the address that was called, or gave a reply that litellm cannot read."""
    return error.status in (404, 405, 501) or (error.status is None and error.kind is None)


def _words(batch: Any) -> str:
    """Return a provider's reason for rejecting a batch, in one line."""
    listed = getattr(getattr(batch, "errors", None), "data", None) or []
    said = [str(getattr(one, "message", "")) for one in listed]
    return "; ".join(filter(None, said))[:300] or "no reason given"
