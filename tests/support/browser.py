"""A real browser for tests of pages, which records a page's requests and errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

QUIET = ("--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync")


class Tab:
    """A page of a browser, with all requests and errors of the page."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("requestfailed", lambda request: self.complaints.append(f"failed: {request.url}"))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, address: Path | str) -> Any:
        """Open a review page, wait until it has read its stored answers, and return the page."""
        self.page.goto(address.as_uri() if isinstance(address, Path) else address)
        self.page.wait_for_selector("body[data-ready]")
        return self.page

    def wait(self, script: str) -> None:
        """Wait until a script is true; the page's security policy forbids it to evaluate the script itself."""
        for _ in range(1200):
            if self.page.evaluate(script):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never true: {script}")

    def press(self, *keys: str) -> int:
        """Press keys one after the other, and return their number."""
        for key in keys:
            self.page.keyboard.press(key)
        return len(keys)


def serious(page: Any) -> list[str]:
    """Return the serious problems that axe finds on a page, each with its rule and an element."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    found = axe.run(page).response["violations"]
    return [f"{rule['id']}: {rule['nodes'][0]['html']}" for rule in found if rule["impact"] in ("serious", "critical")]


def playwright_api() -> Any:
    """Return Playwright; the test is skipped where it is not installed."""
    return pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


@contextmanager
def tab_in(context: Any) -> Iterator[Tab]:
    """Yield a tab of a browser's context, which is closed at the end."""
    context.set_default_timeout(60_000)  # a busy machine is no failure
    # The browser's own window for saving has no keys that a test could press.
    context.add_init_script("delete window.showSaveFilePicker")
    yield Tab(context.new_page())
    context.close()
