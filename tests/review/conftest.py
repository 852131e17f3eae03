"""A browser for the tests of review pages; each module has its own."""

from collections.abc import Iterator
from typing import Any

import pytest
from browser import QUIET, Tab, playwright_api, tab_in


@pytest.fixture(scope="module")
def playwright() -> Iterator[Any]:
    with playwright_api().sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright: Any, chromium: str) -> Iterator[Any]:
    started = playwright.chromium.launch(executable_path=chromium, args=QUIET)
    yield started
    started.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    with tab_in(browser.new_context(viewport={"width": 1366, "height": 660})) as found:
        yield found
