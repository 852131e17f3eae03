"""A batch endpoint on 127.0.0.1 in OpenAI's form, which answers like a :class:`fake_server.FakeServer`."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fake_server import FakeServer, Reply, Request, completion

# Steps at which a test can stop the server. A batch passes them in this order: a file comes, a file is there, a batch
# comes, a batch has begun, status, results go.
STEPS = ("a file is there", "a batch has begun", "results go", "a file comes", "a batch comes", "status")
Lines = list[dict[str, Any]]


def answered(server: FakeServer, request: dict[str, Any]) -> dict[str, Any]:
    """Return the result line for a request line, as ``server`` answers it."""
    reply = server.answer(request["body"], {})
    data = reply.body if reply.body is not None else json.dumps(completion(request["body"], reply)).encode()
    response = {"status_code": reply.status, "request_id": "r", "body": json.loads(data)}
    return {"id": "b", "custom_id": request["custom_id"], "response": response, "error": None}


def expired(request: dict[str, Any]) -> dict[str, Any]:
    """Return the result line for a request that expired."""
    error = {"code": "batch_expired", "message": "This request could not be executed before the batch expired."}
    return {"id": "b", "custom_id": request["custom_id"], "response": None, "error": error}


def returned(server: FakeServer, requests: Iterable[dict[str, Any]], random_: random.Random) -> Lines:
    """Return the result lines of requests in random order; 10 % are missing and 5 % are doubled."""
    lines = [answered(server, request) for request in requests]
    random_.shuffle(lines)
    kept = [line for line in lines if random_.random() >= 0.1]
    return kept + [line for line in kept if random_.random() < 0.05]


class BatchServer:
    """Batch endpoint that stores files and batches; ``asked`` has the ids of the requests of all batches."""

    def __init__(self, server: FakeServer, seed: int = 0, looks: int = 1) -> None:
        """Start the endpoint, which answers with ``server``.

        A batch is unfinished at the first ``looks`` requests for its status. The second batch expires half way.
        """
        self._random = random.Random(seed)
        self._looks, self._server = looks, server
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self._lock = threading.Lock()
        self._held_at: str | None = None
        self.is_held, self._goes_on = threading.Event(), threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._http.handle_error = lambda request, address: None  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """Return the address for ``--api-base``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> BatchServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def hold(self, step: str) -> None:
        """Do not answer the next request of this step (one of ``STEPS``) until :meth:`release` is called."""
        self.is_held.clear()
        self._goes_on.clear()
        self._held_at = step

    def release(self) -> None:
        """Answer the request that is held."""
        self._goes_on.set()

    def at(self, step: str) -> None:
        """Wait if this step is held."""
        if self._held_at == step:
            self._held_at = None
            self.is_held.set()
            assert self._goes_on.wait(60)

    def upload(self, data: bytes) -> dict[str, Any]:
        """Store a file and return its record."""
        with self._lock:
            name = f"file-{len(self.files)}"
            self.files[name] = data
        return {"id": name, "object": "file", "bytes": len(data), "created_at": 1, "filename": "x", "purpose": "batch",
                "status": "processed"}  # fmt: skip

    def begin(self, body: dict[str, Any]) -> dict[str, Any]:
        """Begin a batch and return its record."""
        assert (body["endpoint"], body["completion_window"]) == ("/v1/chat/completions", "24h")
        requests = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        with self._lock:
            self.asked += [request["custom_id"] for request in requests]
            name = f"batch-{len(self.batches)}"
            lines = returned(self._server, requests, self._random)
            status = "expired" if len(self.batches) == 1 else "completed"
            if status == "expired":
                lines = lines[: len(lines) // 2]
                lines += [expired(request) for request in requests[::3]]
            good = [line for line in lines if line["response"] and line["response"]["status_code"] == 200]
            files = {}
            for kind, part in (("output", good), ("error", [line for line in lines if line not in good])):
                if part:
                    files[f"{kind}_file_id"] = f"file-{len(self.files)}"
                    self.files[f"file-{len(self.files)}"] = "".join(json.dumps(line) + "\n" for line in part).encode()
            self.batches[name] = {
                "id": name, "object": "batch", "endpoint": body["endpoint"], "input_file_id": body["input_file_id"],
                "completion_window": "24h", "status": "in_progress", "created_at": 1, "looks": 0, "end": status,
                "results": files,
            }  # fmt: skip
            return self._shown(self.batches[name])

    def look(self, name: str) -> dict[str, Any]:
        """Return the record of a batch with its current status."""
        with self._lock:
            batch = self.batches[name]
            batch["looks"] += 1
            if batch["looks"] > self._looks:
                batch["status"] = batch["end"]
            return self._shown(batch)

    def _shown(self, batch: dict[str, Any]) -> dict[str, Any]:
        shown = {name: value for name, value in batch.items() if name not in ("looks", "end", "results")}
        return shown | (batch["results"] if batch["status"] != "in_progress" else {})

    def listed(self) -> dict[str, Any]:
        """Return all batches, the newest first."""
        with self._lock:
            return {"object": "list", "data": [self._shown(one) for one in reversed(self.batches.values())],
                    "has_more": False}  # fmt: skip


def _handler(server: BatchServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            server.at("a file comes" if self.path == "/v1/files" else "a batch comes")
            if self.path == "/v1/files":
                mark = re.search(r"boundary=(\S+)", self.headers["Content-Type"])
                assert mark
                parts = data.split(b"--" + mark[1].encode())
                (file,) = [part for part in parts if b'name="file"' in part]
                self._send(server.upload(file.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")))
            else:
                assert self.path == "/v1/batches", self.path
                self._send(server.begin(json.loads(data)))

        def do_GET(self) -> None:
            path = self.path.partition("?")[0].removeprefix("/v1/")
            kind, _, rest = path.partition("/")
            server.at("results go" if kind == "files" else "status")
            if kind == "files":
                self._send(server.files[rest.removesuffix("/content")])
            else:
                self._send(server.look(rest) if rest else server.listed())

        def _send(self, answer: Any) -> None:
            if self.command == "POST":
                server.at("a file is there" if self.path == "/v1/files" else "a batch has begun")
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream" if answer is data else "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    return Handler


Behaviour = Callable[[Request], Reply]
