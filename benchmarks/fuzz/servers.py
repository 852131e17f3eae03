"""A server on 127.0.0.1 that sends invalid or dangerous replies.

The path of a request names the kind of reply and the number of the try.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import mutations

LONGEST_S = 15.0


class Handler(BaseHTTPRequestHandler):
    """The handler of requests to ``/<scenario>/<number>/…``; the scenario is the kind of reply."""

    protocol_version = "HTTP/1.1"
    rng: random.Random

    def do_POST(self) -> None:
        _, scenario, number, *_ = self.path.split("/")
        self.rng = random.Random(f"{scenario} {number}")
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.close_connection = True
        try:
            SCENARIOS[scenario](self)
        except OSError:
            return

    do_GET = do_POST  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def send(self, body: bytes, status: int = 200, **headers: str) -> None:
        """Send a complete reply; ``_`` in a header's name stands for ``-``, and an empty header is not sent."""
        self.send_response(status)
        every = {"Content_Type": "application/json", "Content_Length": str(len(body)), **headers}
        for name, value in every.items():
            if value:
                self.wfile_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def wfile_header(self, name: str, value: str) -> None:
        self._headers_buffer.append(f"{name}: {value}\r\n".encode("latin-1", "replace"))  # type: ignore[attr-defined]

    def hang_up(self) -> None:
        """Close the connection abruptly."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


def completion(text: Any = "Answer: 1", finish: Any = "stop", **changes: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}, **changes,
    }  # fmt: skip


def whole(value: Any) -> bytes:
    return json.dumps(value).encode()


def good(to: Handler) -> None:
    to.send(whole(completion(to.rng.choice(("Answer: 1", "I looked.\n\nAnswer: 1, 2", "Answer: 2")))))


def huge(to: Handler) -> None:
    """Send a reply in which one part is 17 to 70 MB long, with or without a Content-Length.

    The part is the answer's text, the model's name, the finish reason, the reply's id or an extra field.
    """
    size = to.rng.choice((17, 40, 70)) * 2**20
    place = to.rng.randrange(5)
    text = to.rng.choice(("x", "1 ", "\n", "\u00e9", "Answer: 1\n", "<think>"))
    text *= size // len(text)
    reply = [
        completion(text),
        completion(model=text),
        completion(finish=text),
        completion(id=text),
        completion(extra=text),
    ]
    to.send(whole(reply[place]), Content_Length=to.rng.choice(("", str(len(whole(reply[place]))))))


def long(to: Handler) -> None:
    """Send a text of up to 15 MB, which is within the limit of the client."""
    words = (
        "1 ",
        "a\u0301",
        "\ufb03",
        "Answer: ",
        "(",
        "\\boxed{",
        "**",
        "<think>",
        "1, ",
        "\u2028",
        "[",
        '{"answer":',
        "- 1\n",
        "9",
    )
    word = to.rng.choice(words)
    to.send(whole(completion(word * (to.rng.choice((1000, 100_000, 3_000_000, 15_000_000)) // len(word)))))


def bombs(to: Handler) -> None:
    """Send a small reply that unpacks to hundreds of megabytes or gigabytes."""
    megabytes = to.rng.choice((50, 300, 2000))
    kind = to.rng.choice(("gzip", "deflate", "gzip, gzip"))
    pack = zlib.compressobj(9, zlib.DEFLATED, 31 if "gzip" in kind else 15)
    blank = to.rng.choice((b" ", b"x", b"[", b"0")) * 2**20
    body = pack.compress(b'{"id": "') + b"".join(pack.compress(blank) for _ in range(megabytes)) + pack.flush()
    if "," in kind:
        body = gzip.compress(body)
    to.send(body, Content_Encoding=kind, status=to.rng.choice((200, 200, 500, 400)))


def drip(to: Handler) -> None:
    """Send a byte now and then, without end, in the body or in the headers."""
    if to.rng.random() < 0.5:
        to.send(b"", Content_Length="100000")
        piece = to.rng.choice((b" ", b"{", b"0"))
    else:
        to.wfile.write(b"HTTP/1.1 200 OK\r\n")
        piece = b"X-A: b\r\n"
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        to.wfile.write(piece)
        time.sleep(0.05)


def stall(to: Handler) -> None:
    time.sleep(LONGEST_S)


def types(to: Handler) -> None:
    """Send a type and an encoding that do not match the body."""
    kind = to.rng.choice(
        (
            "text/html",
            "text/event-stream",
            "application/octet-stream",
            "",
            "x" * 5000,
            "application/json; charset=utf-7",
            "application/json; charset=\x1b[31m",
            "multipart/form-data; boundary=a",
            "application/json; charset=utf-16",
        )
    )
    coding = to.rng.choice(("", "", "gzip", "br", "zstd", "x", "identity", "gzip, br, deflate"))
    to.send(whole(completion()), Content_Type=kind, Content_Encoding=coding)


def malformed(to: Handler) -> None:
    """Send a good reply with its structure or bytes changed."""
    body = whole(completion(to.rng.choice(("Answer: 1", "1", "Answer: 1, 2"))))
    to.send(mutations.mutate(body, ".json", to.rng)[1], status=to.rng.choice((200, 200, 200, 400, 429, 500)))


def shaped(to: Handler) -> None:
    """Send a reply with unexpected values in its fields."""
    raw = to.rng.choice((*mutations.NUMBERS, *mutations.SHAPES, *(json.dumps(word) for word in mutations.WORDS)))
    value = completion()
    path = to.rng.choice(list(mutations.walk(value))[1:])
    to.send(mutations.replaced(value, path, raw).encode())


def deep(to: Handler) -> None:
    depth = to.rng.choice((60, 500, 5000, 200_000))
    to.send(
        to.rng.choice((b"[" * depth + b"]" * depth, b'{"choices":' * depth, b'{"a":' * depth + b"1" + b"}" * depth))
    )


def retry_after(to: Handler) -> None:
    word = to.rng.choice(
        (
            "1e308",
            "-1",
            "nan",
            "inf",
            "99999999999999999999",
            "Wed, 21 Oct 99999 07:28:00 GMT",
            "Wed, 21 Oct 0001 07:28:00 GMT",
            "Wed, 99 Foo 2015 99:99:99 GMT",
            "",
            "0",
            "0.0001",
            "\x1b[31m",
            "Fri, 31 Dec 9999 23:59:59 +9999",
            "1" * 5000,
            "Mon, 01 Jan 0000 00:00:00 GMT",
            "2026-01-01T00:00:00Z",
            "٣",
        )
    )
    to.send(whole({"error": {"message": "slow down"}}), to.rng.choice((429, 429, 503, 500)), Retry_After=word)


def usage(to: Handler) -> None:
    """Send impossible counts of tokens and an impossible cost."""
    raw = to.rng.choice((*mutations.NUMBERS, *mutations.SHAPES))
    value = completion(
        usage={
            "prompt_tokens": 1000,
            "completion_tokens": 20,
            "total_tokens": 1020,
            "cost": 1.0,
            "completion_tokens_details": {"reasoning_tokens": 3},
            "prompt_tokens_details": {"cached_tokens": 9},
        }
    )
    places = [path for path in mutations.walk(value) if path[:1] == ("usage",)]
    to.send(mutations.replaced(value, to.rng.choice(places), raw).encode())


def redirects(to: Handler) -> None:
    """Answer a request with a redirect, chosen at random, such as to itself or to an invalid address."""
    place = to.rng.choice(
        (
            to.path,
            "/good/1/x",
            "file:///etc/passwd",
            "http://127.0.0.1:1/",
            "//",
            "http://[::1",
            "",
            "x" * 9000,
            "\x1b[31m",
            "https://127.0.0.1:9/",
            "ftp://127.0.0.1/",
        )
    )
    to.send(b"", to.rng.choice((301, 302, 303, 307, 308, 300, 304)), Location=place)


def hang_up(to: Handler) -> None:
    body = whole(completion())
    cut = to.rng.randrange(len(body))
    match to.rng.randrange(4):
        case 0:
            to.hang_up()
        case 1:
            to.send(body[:cut], Content_Length=str(len(body)))
        case 2:
            to.send(body, Content_Length=str(cut))
        case _:
            to.wfile.write(b"HTTP/1.1 200")


def chunked(to: Handler) -> None:
    """Send a chunked reply with a fault: a wrong or invalid chunk size, no end, or thousands of trailers."""
    body = whole(completion())
    size = to.rng.choice((b"ffffffffffffffff", b"-1", b"zz", b"", b"%x" % len(body), b"0x10", b"1;a=" + b"x" * 9000))
    end = to.rng.choice((b"0\r\n\r\n", b"", b"0\r\n" + b"X: y\r\n" * 5000 + b"\r\n", b"\r\n"))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    to.wfile.write(head + size + b"\r\n" + body + b"\r\n" + end)


def old(to: Handler) -> None:
    """Send HTTP/1.0, HTTP/0.9 or something that is not HTTP."""
    body = whole(completion())
    to.wfile.write(
        to.rng.choice(
            (
                b"HTTP/1.0 200 OK\r\n\r\n" + body,
                body,
                b"HTTP/9.9 200 OK\r\n\r\n" + body,
                b"\0" * 100,
                b"HTTP/1.1 999 \x1b[31m\r\n\r\n",
                b"HTTP/1.1 200 OK\nContent-Length: 5\n\n{}",
                b"SSH-2.0-x\r\n",
                b"HTTP/1.1 100 Continue\r\n\r\n" * 2000,
                b"HTTP/1.1 200 OK\r\n" + b"A: " + b"b" * 200_000 + b"\r\n\r\n",
                b"HTTP/1.1 204 No Content\r\n\r\n",
                b"HTTP/1.1 101 Switching\r\n\r\n",
            )
        )
    )


def errors(to: Handler) -> None:
    """Send errors of any status and shape, with text that moves a terminal's cursor."""
    word = to.rng.choice(
        (
            *mutations.WORDS,
            "context_length_exceeded",
            "quota",
            "\x1b]8;;http://x\x07a\x1b]8;;\x07" * 3,
            "z" * 2_000_000,
            os.environ.get("CHEXQA_API_KEY", ""),
        )
    )
    shape = to.rng.choice(
        (
            {"error": {"message": word}},
            {"error": word},
            {"message": word},
            [word],
            word,
            {"error": {"message": {"a": word}}},
            {"error": {"code": word, "type": word, "message": None}},
            {"detail": [{"msg": word}]},
            {"error": None},
        )
    )
    body = whole(shape) if to.rng.random() < 0.8 else str(word).encode("utf-8", "surrogatepass")
    to.send(body, to.rng.choice((400, 401, 403, 404, 408, 409, 413, 418, 422, 429, 500, 502, 503, 504, 529, 599)))


def replies(to: Handler) -> None:
    """Send a well-formed reply with an unusual text, model name or finish reason."""
    word = to.rng.choice(
        (
            *mutations.WORDS,
            "Answer: " + "1, " * 100_000,
            "Answer: " + "9" * 100_000,
            "Answer: ١",
            "Answer: ²",
            "Answer: Ⅳ",
            "\\boxed{" * 1000,
            "<think>" * 10_000 + "Answer: 1",
            "Answer: 1" + "\n" * 100_000,
            "答案：1",
            "Answer: 1\u0000",
        )
    )
    key = to.rng.choice(("text", "text", "model", "finish"))
    to.send(whole(completion(**{key: word}) if key != "model" else completion(model=word)))


SCENARIOS: dict[str, Callable[[Handler], None]] = {
    one.__name__: one
    for one in (good, huge, long, bombs, drip, stall, types, malformed, shaped, deep, retry_after, usage, redirects,
                hang_up, chunked, old,
                errors, replies)
}  # fmt: skip
# Scenarios that take seconds are drawn less often.
WEIGHTS = {
    "huge": 1,
    "long": 3,
    "bombs": 2,
    "drip": 1,
    "stall": 1,
    "retry_after": 8,
    "malformed": 20,
    "shaped": 30,
    "usage": 20,
}


def draw(rng: random.Random) -> str:
    """Return the name of a random scenario."""
    names = [name for name in SCENARIOS if name != "good"]
    return rng.choices(names, [WEIGHTS.get(name, 8) for name in names])[0]


def start() -> tuple[int, int]:
    """Serve in a separate process; return the process's id and the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    pid = os.fork()
    if pid:
        server.socket.close()
        return pid, server.server_address[1]
    server.handle_error = lambda request, address: None  # type: ignore[method-assign,assignment]
    threading.Thread(target=die_with, args=(os.getppid(),), daemon=True).start()
    server.serve_forever()
    os._exit(0)


def die_with(parent: int) -> None:
    """Wait until the process ``parent`` has ended, then exit."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)
