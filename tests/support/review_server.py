"""Server of review pages in a separate process, for tests that kill it and send requests to it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-c", "from chexqa.cli.main import main; main()", "review", "serve")


class Served:
    """Server process for one folder; it can be killed and started again on the same port."""

    def __init__(self, folder: Path, *options: str, names: tuple[str, ...] = ("anna", "ben")) -> None:
        self.folder, self.options, self.names, self.port = folder, options, names, 0
        self.addresses: dict[str, str] = {}
        self.start()

    def start(self) -> None:
        command = [*COMMAND, str(self.folder), "--port", str(self.port), *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.addresses, address = {}, ""
        while not {"coordinator", *self.names} <= self.addresses.keys():
            name, _, address = self.process.stdout.readline().strip().partition(": ")
            assert name, "the server ended"
            self.addresses[name] = address
        self.port = int(re.findall(r":(\d+)/", address)[0])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def ask(self, who: str, path: str = "", data: Any = None, **headers: str) -> tuple[int, str]:
        """Send a request to an address of the server, and return the status and the text."""
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(self.addresses[who] + path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def rows(self, page: str) -> list[Any]:
        found: list[Any] = json.loads((self.folder / "answers" / f"{page}.json").read_text())["rows"]
        return found
