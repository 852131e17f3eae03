"""The report's page in a real browser: it opens from disk, and no request leaves it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from handmade import Handmade, six_cases

from chexqa.cli import main
from chexqa.contract import benchmark
from chexqa.contract.benchmark import Benchmark

pytestmark = pytest.mark.xdist_group("page")

HOSTILE = "<script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'> \u202eAnswer\u202c \x07 Answer: 1"
LONG = "a" * 1_000_000


def log(folder: Path, bench_folder: Path, replies: dict[str, str]) -> Path:
    """A run in which each model of ``replies`` says one thing to every item, read as option 1."""
    bench = benchmark.load(bench_folder)
    about: dict[str, Any] = {
        "schema_version": 1, "tool_version": "0", "protocol": "end_to_end", "blind": False, "overlay_only": False,
        "rotations": 1, "repeats": 1, "limit": None, "limit_per_path": None, "seed": 0,
        "benchmark": {"name": bench.name, "version": "1", "hash": bench.hash, "path": str(bench_folder)},
        "question_bank": {"name": "en", "hash": bench.about["question_bank"]["hash"]},
        "models": {name: {"litellm": f"openai/{name}", "api_base": None, "decoding": {}} for name in replies},
    }  # fmt: skip
    (folder / "turns").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(about))
    for model, raw in replies.items():
        lines = [
            {
                "model": model, "protocol": "end_to_end", "case_id": item.case_id, "item_id": item.item_id, "repeat": 0,
                "rotation": 0, "order": None, "blind": False, "overlay_only": False, "attempts": 1,
                "state": "answered", "parsed": [1], "raw": raw, "finish_reason": "stop", "usage": None,
                "cost_usd": None, "latency_s": None, "provider_model": None, "request_hash": "0" * 64,
                "image_hashes": [], "started": "2026-01-01T00:00:00Z", "error": None,
            }
            for item in bench.items
        ]  # fmt: skip
        (folder / "turns" / f"{model}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return benchmark.load(six_cases(Handmade(tmp_path_factory.mktemp("bench"))))


@pytest.fixture(scope="module")
def report(bench: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on two models, one of which says hostile things and one of which never stops; no test changes it."""
    home = tmp_path_factory.mktemp("report")
    log(home / "run", bench.folder, {"hostile": HOSTILE, "endless": LONG})
    assert main.run(["report", str(home / "run"), "-o", str(home / "report")]) == 0
    return home / "report"


class Tab:
    """A page of a browser with everything it asked for and complained about."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("requestfailed", lambda request: self.complaints.append(f"failed: {request.url}"))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, path: Path, place: str = "") -> Any:
        """Open a file of the disk and wait until it has loaded."""
        self.page.goto(path.as_uri() + place)
        return self.page


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    quiet = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=quiet)
        yield started
        started.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(120_000)  # a busy machine is no failure
    yield Tab(context.new_page())
    context.close()


def test_the_page_opens_from_disk_without_a_complaint_or_a_request_to_elsewhere(report: Path, tab: Tab) -> None:
    page = tab.open(report / "index.html")
    assert page.locator("figure svg").count() >= 4
    assert tab.complaints == []
    assert tab.requests
    assert all(url.startswith(report.as_uri()) for url in tab.requests)
