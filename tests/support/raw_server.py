"""A server on 127.0.0.1 that answers every request with given bytes, which may be endless and need not be HTTP."""

from __future__ import annotations

import re
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def raw_server(answer: Callable[[], Iterable[bytes]]) -> Iterator[str]:
    """Yield the address of a server that reads each request completely and sends the pieces of ``answer()``."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = self.rfile.readline()
                if not line:
                    return
                head += line
            length = re.search(rb"(?i)content-length: (\d+)", head)
            self.rfile.read(int(length[1]) if length else 0)
            with suppress(OSError):  # the client may close the connection
                for piece in answer():
                    self.wfile.write(piece)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False
        allow_reuse_address = True

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def http(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """Return a complete HTTP response; an underscore in a header's name becomes a hyphen."""
    named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{named}\r\n".encode() + body
