"""OpenAI-compatible server that answers every request with one reply, SECONDS after the request is complete.

`python mock.py SECONDS` starts it on a free port and prints the port. It does not decode requests.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys

COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "mock",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Answer: 1"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020},
}
BODY = json.dumps(COMPLETION).encode()
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


class Mock(asyncio.BufferedProtocol):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.buffer = bytearray(1 << 20)
        self.head = b""
        self.left: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, count: int) -> None:
        if self.left is None:
            self.head += self.buffer[:count]
            head, end, rest = self.head.partition(b"\r\n\r\n")
            if not end:
                return
            length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
            assert length, "every request has a length"
            self.left = int(length[1]) - len(rest)
            self.head = b""
        else:
            self.left -= count
        if self.left == 0:
            self.left = None
            asyncio.get_running_loop().call_later(self.seconds, self.transport.write, REPLY)


async def main(seconds: float) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Mock(seconds), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
