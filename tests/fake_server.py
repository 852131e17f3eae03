"""An OpenAI-compatible server on 127.0.0.1 that checks every request and answers as a test tells it to."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image

from chexqa.benchmark import Benchmark, image_digest
from chexqa.eval import protocols
from chexqa.items import Item

# What each kind shows, in its turn and alone: the table of DESIGN section 12, by role.
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
    """What the server sends: a completion with ``text``, or ``body`` as it stands, or nothing at all."""

    text: str | None = None
    finish_reason: str = "stop"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    drop: bool = False
    delay_s: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """A checked request: the item it asks, its JSON, how many came before it, and its headers by lower-case name."""

    item: Item
    body: dict[str, Any]
    number: int
    headers: dict[str, str]


Behaviour = Callable[[Request], Reply]


class FakeServer:
    """Knows a benchmark and a protocol; ``problems`` lists what was wrong with the requests it got."""

    def __init__(self, benchmark: Benchmark, protocol: str, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.problems: list[str] = []
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        self._expected: dict[tuple[tuple[str, ...], str], tuple[Item, list[int]]] = {}
        for conversation in protocols.conversations(benchmark, protocols.named(protocol)):
            self._expect(conversation, ALONE if protocol == "independent" else IN_TURN)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._http.handle_error = lambda request, address: None  # type: ignore[method-assign]  # clients may hang up
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """The address for ``--api-base``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> FakeServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _expect(self, conversation: tuple[Item, ...], table: dict[str, list[str]]) -> None:
        seen: list[str] = []
        counts: list[int] = []
        for item in conversation:
            by_role = {(p.role, p.image): p for p in (*item.turn_images, *item.alone_images)}
            shown = []
            for role in dict.fromkeys(table[item.kind]):
                images = [image for r, image in by_role if r == role]
                assert len(images) == table[item.kind].count(role), f"{item.item_id} has other pictures than the table"
                shown += images
            seen += [image_digest(image) for image in shown]
            counts.append(len(shown))
            self._expected[tuple(seen), item.question] = (item, list(counts))

    def answer(self, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        """Check a request and ask the behaviour for the reply."""
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
        known = [self._expected[tuple(digests), line] for line in lines if (tuple(digests), line) in self._expected]
        assert len(known) == 1, f"{len(known)} known questions with these pictures: {lines}"
        item, expected = known[0]
        assert counts == expected, f"{item.item_id}: {counts} pictures a turn, expected {expected}"
        return item

    def _pictures(self, content: list[dict[str, Any]], before: int) -> list[str]:
        """The hashes of a message's pictures, each a PNG that decodes and follows its announcement."""
        digests = []
        for index, part in enumerate(content):
            if part["type"] != "image_url":
                continue
            head, _, data = part["image_url"]["url"].partition(",")
            assert head == "data:image/png;base64", head
            png = base64.b64decode(data, validate=True)
            with Image.open(io.BytesIO(png)) as image:
                assert image.format == "PNG"
                image.load()
            digests.append(hashlib.sha256(png).hexdigest())
            announced = content[index - 1]
            assert announced["type"] == "text", "a picture without an announcement"
            line = announced["text"].split("\n")[-1]
            assert line.startswith(f"Picture {before + len(digests)}:"), announced
        return digests


def _handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = server.answer(body, {name.lower(): value for name, value in self.headers.items()})
            time.sleep(reply.delay_s)
            if reply.drop:
                reset = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                self.connection.close()
                self.close_connection = True
                return
            data = reply.body if reply.body is not None else json.dumps(_completion(body, reply)).encode()
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Tests print nothing."""

    return Handler


def _completion(body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text, **reply.extra}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020},
    }
