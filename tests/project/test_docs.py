"""README and docs say what is true: commands parse, links lead somewhere, pages are current."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from browser import QUIET, playwright_api, tab_in
from modules import load
from pages import DOCS, FENCE, PAGES, ROOT, blocks, command_lines

from chexqa import schemas
from chexqa.cli.main import app
from chexqa.files.terminal import PHANTOM_NOTICE

LINK = re.compile(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")


def commands(page: Path) -> list[list[str]]:
    """The arguments of every command that a page gives."""
    return [shlex.split(line, comments=True) for block in blocks(page) for line in command_lines(block)]


def complaint(args: list[str]) -> str | None:
    """What click says against a command line (an unknown option, a value of another type, a lack); runs nothing."""
    command: click.Command = app
    context = click.Context(app, info_name="chexqa")
    while isinstance(command, click.Group) and args and (inner := command.get_command(context, args[0])):
        command, args = inner, args[1:]
    assert command is not app, f"there is no command {args[0]}"
    try:
        command.make_context("chexqa", list(args), parent=context)
    except click.ClickException as error:
        return error.format_message()
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_parses(page: Path) -> None:
    for args in commands(page):
        assert complaint(args) is None, f"{page.name}: chexqa {shlex.join(args)}"


def test_commands_named_in_prose_exist() -> None:
    for page in PAGES:
        for text in re.findall(r"`chexqa ([a-z]+)[^`]*`", page.read_text(encoding="utf-8")):
            assert app.get_command(click.Context(app), text), f"{page.name} names 'chexqa {text}'"


def test_every_command_is_on_some_page() -> None:
    named = {args[0] for page in PAGES for args in commands(page)} | {"demo"}
    assert named >= set(app.list_commands(click.Context(app)))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder of the built pages, and the program that built them, which takes a warning for an error."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed (extra 'docs')")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return folder, subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.xdist_group("site")
@pytest.mark.long
def test_the_search_finds_pages_that_are_opened_from_the_disk(site: tuple[Path, Any], chromium: str) -> None:
    with playwright_api().sync_playwright() as api:
        browser = api.chromium.launch(executable_path=chromium, args=list(QUIET))
        with tab_in(browser.new_context()) as tab:
            tab.page.goto((site[0] / "index.html").as_uri())
            found = tab.page.locator(".md-search-result__link")
            query = tab.page.locator("[data-md-component=search-query]")
            query.click()
            query.press_sequentially("pneumothora")
            for _ in range(12):  # what is typed before the page's script listens is not searched for
                query.press("x")
                tab.page.wait_for_timeout(2000)
                if found.count():
                    break
                query.press("Backspace")
            links = [one.get_attribute("href") for one in found.all()]
            assert tab.complaints == []
            assert {address.partition(":")[0] for address in tab.requests} == {"file"}
        browser.close()
    assert any("layouts.html" in str(link) for link in links)


@pytest.mark.long
@pytest.mark.xdist_group("site")
def test_the_reviewers_page_is_one_sheet_of_paper(site: tuple[Path, Any], tmp_path: Path, chromium: str) -> None:
    page, paper = site[0] / "reviewer.html", tmp_path / "reviewer.pdf"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", f"--print-to-pdf={paper}"]
    subprocess.run([chromium, *flags, page.as_uri()], check=True, capture_output=True, timeout=120)
    assert len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes())) == 1


def test_the_parser_of_this_test_refuses_what_is_wrong() -> None:
    for wrong in (
        ["grade", "run", "--nonsense"],
        ["generate", "cases.jsonl"],
        ["export", "b", "--format", "pdf", "-o", "x"],
    ):
        assert complaint(wrong)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as mkdocs makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_project_resolve(page: Path) -> None:
    for found in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        target, _, anchor = (found[0] or found[1]).partition("#")
        if target.startswith("http"):
            continue
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {target}#{anchor}"


def test_generated_pages_are_current() -> None:
    pages: dict[str, Callable[[], str]] = load(DOCS / "generated.py").PAGES
    for name, make in pages.items():
        assert (DOCS / name).read_text(encoding="utf-8") == make(), f"docs/{name} is old; run 'make docs'"


def test_pictures_are_small_and_say_that_they_are_phantoms() -> None:
    sizes = {path.name: path.stat().st_size for path in (DOCS / "pictures").iterdir()}
    assert max(sizes.values()) < 250_000
    assert sum(sizes.values()) < 1_500_000
    shown = set()
    for page in PAGES:
        paragraphs = page.read_text(encoding="utf-8").split("\n\n")
        for paragraph, caption in zip(paragraphs, [*paragraphs[1:], ""], strict=True):
            for name in re.findall(r"pictures/([\w-]+\.png)", paragraph):
                shown.add(name)
                assert PHANTOM_NOTICE in caption, f"{page.name}: the caption of {name}"
    assert shown == set(sizes)


def test_every_picture_is_made_by_the_script() -> None:
    load(DOCS / "screens.py")
    made: list[set[str]] = list(load(DOCS / "pictures.py").MAKERS.values())
    names = set().union(*made)
    assert len(names) == sum(map(len, made))
    assert {f"{name}.png" for name in names} == {path.name for path in (DOCS / "pictures").iterdir()}


def test_other_yaml_of_the_project_loads() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["theme"]["font"] is False


def test_every_package_is_on_the_map() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for top in ("chexqa", "generators", "eval", "schemas", "question_banks"):
        for init in sorted((ROOT / top).rglob("__init__.py")):
            assert f"`{init.parent.relative_to(ROOT).as_posix()}" in text
    for path in re.findall(r"`([\w/]+/(?:[\w.]+)?)`", text):
        assert path.startswith("build/") or (ROOT / path).exists(), f"CONTRIBUTING.md names {path}"


@pytest.mark.xdist_group("site")
def test_the_pages_build_without_a_warning(site: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, done = site
    assert done.returncode == 0, done.stderr
    assert (folder / "index.html").exists()


def undescribed(schema: Any, place: str = "") -> Iterator[str]:
    """The fields without a description; what an ``if`` looks at is described where the field is defined."""
    parts = schema.items() if isinstance(schema, dict) else enumerate(schema) if isinstance(schema, list) else ()
    for key, part in parts:
        if key == "properties":
            for name, field in part.items():
                if not str(field.get("description", "")).strip():
                    yield f"{place}.{name}"
                yield from undescribed(field, f"{place}.{name}")
        elif key != "if":
            yield from undescribed(part, place)


@pytest.mark.parametrize("name", schemas.names())
def test_every_field_of_a_file_format_says_what_it_holds(name: str) -> None:
    assert list(undescribed(schemas.schema(name))) == []


def test_a_field_without_description_is_found_wherever_it_is() -> None:
    inner = {"properties": {"depth": {"type": "number"}, "unit": {"description": "px"}}}
    for schema in (inner, {"allOf": [{"then": inner}]}, {"$defs": {"edit": {"items": inner}}}):
        assert list(undescribed(schema)) == [".depth"]
    assert list(undescribed({"allOf": [{"if": inner}]})) == []


def test_the_bounds_that_security_names_are_those_in_force() -> None:
    """Every row of the table: the number, and the constant it is."""
    text = (DOCS / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| ([\d,]+) (\w+) \| `([\w/]+)\.py` `(\w+)` \|$", text, re.MULTILINE)
    assert len(rows) == text.partition("## Bounds")[2].partition("\n## ")[0].count("\n| ") - 2
    for number, unit, place, name in rows:
        module = place.replace("/", ".")
        value = getattr(importlib.import_module(module if place.startswith("chexqa/") else f"chexqa.{module}"), name)
        assert value == int(number.replace(",", "")) * (2**20 if unit == "MB" else 1), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_holds_two_versions_of_a_line(page: Path) -> None:
    marks = ("<" * 7, ">" * 7)
    assert [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith(marks)] == []
