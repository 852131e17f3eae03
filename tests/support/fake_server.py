"""An OpenAI-compatible server on 127.0.0.1 that checks every request and answers as the test says.

``python fake_server.py BENCH LOG [storm]`` runs a server in a separate process. It answers by :class:`Script`, prints
its address, and writes a line for each request into the file LOG.
"""

from __future__ import annotations

import base64
import email.utils
import hashlib
import io
import json
import random
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from PIL import Image

from chexqa.contract import benchmark as benchmarks
from chexqa.contract.benchmark import Benchmark, image_digest
from chexqa.contract.items import Item
from chexqa.contract.kinds import GRID_CELL
from chexqa.eval.prompts import option_order, protocols
from chexqa.eval.prompts.option_order import Modifiers

# The roles of the pictures that each kind shows in its turn of a conversation, and if it is asked alone.
IN_TURN = {
    "detection": ["radiograph"],
    "contour_evaluation": ["contour"],
    "revision_expansion": ["points"],
    "revision_contraction": [],
    "revision_result": ["option"] * 4,
    "distribution": [],
    "location": [],
    "severity": [],
    "comparison": [],
    "grid_cell": ["grid"],
}
ALONE = {
    "detection": ["radiograph"],
    "contour_evaluation": ["radiograph", "contour"],
    "revision_expansion": ["radiograph", "points"],
    "revision_contraction": ["radiograph", "points"],
    "revision_result": ["radiograph", "contour", *["option"] * 4],
    "distribution": ["radiograph"],
    "location": ["radiograph"],
    "severity": ["radiograph"],
    "comparison": ["radiograph"],
    "grid_cell": ["grid"],
}


@dataclass(frozen=True)
class Reply:
    """Reply of the server: a completion with ``text``, or the bytes ``body``, or nothing.

    With ``cut`` the connection ends in the middle of the body. ``drip_s`` is the number of seconds between two bytes.
    """

    text: str | None = None
    finish_reason: str = "stop"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    drop: bool = False
    cut: bool = False
    drip_s: float = 0.0
    delay_s: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """A checked request: item, JSON body, number of earlier requests, and headers by lower-case name."""

    item: Item
    body: dict[str, Any]
    number: int
    headers: dict[str, str]


Behaviour = Callable[[Request], Reply]


class FakeServer:
    """Server that knows a benchmark and a protocol; ``problems`` lists the errors in the requests that it got."""

    def __init__(
        self, benchmark: Benchmark, protocol: str, behaviour: Behaviour, modifiers: Modifiers | None = None
    ) -> None:
        self.behaviour = behaviour
        self._decoded: set[str] = set()
        self.problems: list[str] = []
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        self._expected: dict[tuple[tuple[str, ...], str], list[tuple[Item, list[int]]]] = {}
        how = modifiers or Modifiers()
        for conversation in protocols.conversations(benchmark, protocols.named(protocol)):
            for rotation in range(how.rotations):
                shown = tuple(option_order.shown(item, how, rotation) for item in conversation)
                self._expect(shown, ALONE if protocol == "independent" else IN_TURN, how.overlay_only)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._http.handle_error = lambda request, address: None  # type: ignore[method-assign]  # clients may hang up
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """Return the address for ``--api-base``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> FakeServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _expect(self, conversation: tuple[Item, ...], table: dict[str, list[str]], overlay_only: bool) -> None:
        seen: list[str] = []
        counts: list[int] = []
        for item in conversation:
            by_role = {(p.role, p.image): p for p in (*item.turn_images, *item.alone_images)}
            shown = []
            roles = [role for role in table[item.kind] if not (overlay_only and role == "radiograph")]
            for role in dict.fromkeys(roles):
                images = [image for r, image in by_role if r == role]
                assert len(images) == roles.count(role), f"{item.item_id} has other pictures than the table"
                shown += images
            seen += [image_digest(image) for image in shown]
            counts.append(len(shown))
            self._expected.setdefault((tuple(seen), item.question), []).append((item, list(counts)))

    def answer(self, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        """Check a request, and return the reply that the server's behaviour gives for it."""
        try:
            item = self._check(body)
        except (AssertionError, KeyError, ValueError, OSError) as error:
            with self._lock:
                self.problems.append(f"{type(error).__name__}: {error}")
            return Reply(status=400, body=b'{"error": {"message": "a bad request", "type": "invalid_request_error"}}')
        with self._lock:
            request = Request(item, body, len(self.requests), headers)
            self.requests.append(request)
        return self.behaviour(request)

    def _check(self, body: dict[str, Any]) -> Item:
        messages = body["messages"]
        roles = [message["role"] for message in messages]
        assert roles == ["system", *(["user", "assistant"] * len(roles))][: len(roles)], f"roles {roles}"
        assert roles[-1] == "user", f"the last message is the {roles[-1]}'s"
        assert isinstance(messages[0]["content"], str)
        digests: list[str] = []
        counts: list[int] = []
        for message in messages:
            if message["role"] == "assistant":
                assert message["content"].strip(), "an empty assistant message"
            if message["role"] == "user":
                digests += self._pictures(message["content"], len(digests))
                counts.append(len(digests) - sum(counts))
        lines = messages[-1]["content"][-1]["text"].split("\n")
        known = [entry for line in lines for entry in self._expected.get((tuple(digests), line), ())
                 if _options_stand(entry[0], lines)]  # fmt: skip
        assert known, f"no known question with these pictures: {lines}"
        item, expected = known[0]
        assert counts == expected, f"{item.item_id}: {counts} pictures a turn, expected {expected}"
        return item

    def _pictures(self, content: list[dict[str, Any]], before: int) -> list[str]:
        """Return the hashes of a message's pictures; each must be a PNG that decodes and follows its announcement."""
        digests = []
        for index, part in enumerate(content):
            if part["type"] != "image_url":
                continue
            head, _, data = part["image_url"]["url"].partition(",")
            assert head == "data:image/png;base64", head
            png = base64.b64decode(data, validate=True)
            digests.append(hashlib.sha256(png).hexdigest())
            if digests[-1] not in self._decoded:
                with Image.open(io.BytesIO(png)) as image:
                    assert image.format == "PNG"
                    image.load()
                self._decoded.add(digests[-1])
            announced = content[index - 1]
            assert announced["type"] == "text", "a picture without an announcement"
            line = announced["text"].split("\n")[-1]
            assert line.startswith(f"Picture {before + len(digests)}:"), announced
        return digests


def _options_stand(item: Item, lines: list[str]) -> bool:
    """Return True if the item's option texts are among the lines, in the item's order."""
    texts = [f"{place}. {option.text}" for place, option in enumerate(item.options, start=1) if option.text]
    return item.kind == GRID_CELL or all(text in lines for text in texts)


def _handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = server.answer(body, {name.lower(): value for name, value in self.headers.items()})
            time.sleep(reply.delay_s)
            if reply.drop:
                self._reset()
                return
            data = reply.body if reply.body is not None else json.dumps(completion(body, reply)).encode()
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if reply.cut:
                self.wfile.write(data[: len(data) // 2])
                self.wfile.flush()
                self._reset()
            elif reply.drip_s:
                for byte in data:
                    self.wfile.write(bytes([byte]))
                    time.sleep(reply.drip_s)
            else:
                self.wfile.write(data)

        def _reset(self) -> None:
            """Close the connection abruptly."""
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    return Handler


def completion(body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text, **reply.extra}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020},
    }


# The states without an answer, each with a reply that leads to the state.
FINAL: dict[str, Reply] = {
    "refused": Reply(None, extra={"refusal": "I cannot help with that."}),
    "truncated": Reply("Let me think about the", finish_reason="length"),
    "empty": Reply(""),
    "overflow": Reply(
        status=400, body=b'{"error": {"message": "maximum context length", "code": "context_length_exceeded"}}'
    ),
    "unparsed": Reply("The left lung has 3 zones; I see 2 or 4 findings."),
}
_SLOW = json.dumps({"error": {"message": "slow down"}}).encode()
# Transient failures with their relative frequencies. Stalls and drips end at the client's time limit.
FAULTS: list[tuple[str, Reply, int]] = [
    ("429", Reply(status=429, body=_SLOW), 8),
    ("429, seconds", Reply(status=429, headers={"Retry-After": "2"}, body=_SLOW), 8),
    ("429, date", Reply(status=429, headers={"Retry-After": "DATE"}, body=_SLOW), 8),
    ("500", Reply(status=500, body=b'{"error": {"message": "boom"}}'), 8),
    ("502 page", Reply(status=502, body=b"<html>bad gateway</html>", headers={"Content-Type": "text/html"}), 8),
    ("dropped", Reply(drop=True), 8),
    ("dropped in the body", Reply("Answer: 1", cut=True), 8),
    ("invalid JSON", Reply(body=b'{"choices": ['), 8),
    ("empty choices", Reply(body=b'{"id": "1", "object": "chat.completion", "model": "m", "choices": []}'), 8),
    ("drip", Reply("Answer: 1", drip_s=0.3), 1),
    ("stall", Reply("Answer: 1", delay_s=20), 1),
]
FAULT_SHARE, MOST_FAULTS = 0.3, 5


class Script:
    """Behaviour of a server: answers, final states and earlier failures that depend only on the model and the item."""

    def __init__(self, benchmark: Benchmark, storm: bool) -> None:
        assert benchmark.answers is not None
        self.benchmark, self.answers, self.storm = benchmark, benchmark.answers, storm
        self.seen: Counter[tuple[str, str]] = Counter()

    def state(self, model: str, item: Item) -> str:
        """Return ``right`` or ``wrong``, or the final state in which the item ends without an answer."""
        drawn = random.Random(f"state {model} {item.item_id}").random()
        states = [*FINAL, *["right"] * 10, *["wrong"] * 5]
        return states[int(drawn * len(states))]

    def faults(self, model: str, item: Item) -> list[Reply]:
        """Return the failures before the item gets its reply; each attempt fails with the same probability."""
        draw = random.Random(f"faults {model} {item.item_id}")
        count = 0
        while count < MOST_FAULTS and draw.random() < FAULT_SHARE:
            count += 1
        kinds = draw.choices(FAULTS, [weight for _, _, weight in FAULTS], k=count)
        return [reply for _, reply, _ in kinds] if self.storm else []

    def numbers(self, item: Item, right: bool) -> tuple[int, ...]:
        """Return the option numbers of a right or a wrong answer."""
        key = self.answers[item.item_id].answer
        given = (key[0] if key else 1,) if item.kind == GRID_CELL else key
        others = [(option.n,) for option in item.options if option.n not in key]
        return given if right else others[0]

    def __call__(self, request: Request) -> Reply:
        model, item = request.body["model"], request.item
        faults = self.faults(model, item)
        place = self.seen[model, item.item_id]
        self.seen[model, item.item_id] += 1
        if place < len(faults):
            fault = faults[place]
            if fault.headers.get("Retry-After") == "DATE":
                date = email.utils.formatdate(time.time() + 2, usegmt=True)
                return Reply(status=fault.status, headers={"Retry-After": date}, body=fault.body)
            return fault
        state = self.state(model, item)
        if state in FINAL:
            return FINAL[state]
        line = protocols.answer_line(self.benchmark.conversation_texts, item, self.numbers(item, state == "right"))
        return Reply(f"<think>2 or 3?</think>I looked closely.\n\n{line}")


def main(bench: str, log: str, storm: bool) -> None:
    """Serve a benchmark until the standard input is closed."""
    benchmark = benchmarks.load(Path(bench))
    script = Script(benchmark, storm)
    with Path(log).open("a", encoding="utf-8", buffering=1) as lines:

        def behave(request: Request) -> Reply:
            lines.write(json.dumps([request.body["model"], request.item.item_id]) + "\n")
            return script(request)

        with FakeServer(benchmark, "end_to_end", behave) as server:
            print(server.url, flush=True)
            sys.stdin.read()
            for problem in server.problems:
                print(problem, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], "storm" in sys.argv[3:])
