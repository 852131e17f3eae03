"""Checks behind ``chexqa validate``: a file's format is recognized by its content, and the content is checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chexqa import question_banks
from chexqa.contract import benchmark, read_run
from chexqa.contract.cases import IMAGE_ROOT_HINT, MANIFEST, Case, load_case, missing_file, read_manifest
from chexqa.contract.findings import find
from chexqa.eval.heatmaps.map_files import ORIGIN_SCHEMA
from chexqa.eval.leaderboard.submission import check_predictions
from chexqa.eval.map_makers.prompts import read_prompts
from chexqa.eval.models import registry
from chexqa.eval.runs import foreign_lines
from chexqa.eval.scoring import rereading
from chexqa.eval.stress.unequal_wordings import unequal
from chexqa.files.errors import InputError, WrongParts
from chexqa.files.jsonio import check, parse_json, read_lines, read_text, read_yaml, text_lines
from chexqa.files.opening import Given
from chexqa.files.terminal import plural
from chexqa.generators.interventions import altered_items
from chexqa.generators.pipeline.builders.plugins import check_texts
from chexqa.review.resolve.new_version import CHANGED, MASK_REVIEW

# Beginning of a message about a file: "FILE, line 3: …", "FILE: …" or "FILE, field 'x': …".
_PLACE = re.compile(r"(?P<file>[^:\n]+?)(?:, line (?P<line>\d+))?(?:, field '[^']*')?: ")

# The field that identifies each kind of YAML file, searched in this order, since a recipe may also have rows.
_YAML_KINDS = {
    "models": "models", "task": "recipe", "rows": "published", "kinds": "bank", "templates": "map_prompts",
}  # fmt: skip
# The schema of a YAML file whose fields are languages; its texts include a question.
_BY_LANGUAGE = "kind_texts"

# The same for JSON files: a review's batch file, a report's tables, graded maps, a dry run, a study's plan, the maker
# of a folder of maps.
_JSON_KINDS = {
    "batch": "review", "tables": "report", "targets": "heatmaps", "requests": "dry_run", "primary": "plan",
    "references": "leaderboard", "rows": "wording_review",
    "maker": ORIGIN_SCHEMA,
}  # fmt: skip

# The field that identifies each kind of line, searched in this order, since a verdict also has a reason.
_LINE_KINDS = {
    "turn": "attempts",
    "item": "question",
    "verdict": "batch",
    "review_change": "before",
    "mask_review": "items",
    "skipped": "reason",
}

# Files that chexqa writes empty, and what that means.
_MAY_BE_EMPTY = {
    benchmark.SKIPPED: "no case was left out",
    CHANGED: "no item was reviewed",
    MASK_REVIEW: "no mask was sent back",
}

# Number of a manifest's missing files that are named; the others are only counted.
_NAMED_MISSING = 3

# Fields that a key has and a prediction does not.
_ONLY_IN_KEYS = {"chance", "prior", "evidence"}


@dataclass(frozen=True)
class FileReport:
    """Result of a check.

    - ``summary``: a line on the path's format and content.
    - ``problems``: one sentence for each problem.
    - ``meaning``: the consequence of the problems for the user; it is printed after their number.
    - ``remarks``: lines on content that is allowed, but probably not wanted.
    """

    summary: str
    problems: tuple[str, ...] = ()
    meaning: str = ""
    remarks: tuple[str, ...] = ()


def validate(path: Given, image_root: Path | None = None) -> FileReport:
    """Check a file in one of chexqa's own formats, or a folder of such files, and return the result.

    Raises ``InputError`` for the first error in the files: a path that does not exist, cannot be read, has no known
    format or does not fit its format. Problems of single cases of a manifest are collected instead, so that the user
    sees all of them at once.
    """
    path = Path(path)
    if path.is_dir():
        return _folder(path, image_root)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder.")
    if path.suffix in (".yaml", ".yml"):
        return _yaml(path)
    if path.suffix == ".jsonl":
        return _lines(path, image_root)
    if path.name in (benchmark.ABOUT, read_run.ABOUT):
        return _folder(path.parent, image_root)
    if path.suffix == ".json":
        return FileReport(f"{_json_kind(path)} file, fits its schema")
    raise InputError(f"{path}: not a chexqa file; give a folder, or a .jsonl, .yaml or .json file.")


def validate_predictions(path: Path, bench: Path) -> FileReport:
    """Check a file of predictions against a benchmark; an item without a line is a problem. The key is not needed."""
    if path.suffix != ".jsonl" or not path.is_file():
        raise InputError(
            f"{path}: is not a file of predictions (.jsonl), which --benchmark requires; name such a file, or leave "
            "out --benchmark."
        )
    checked = check_predictions(path, benchmark.load(bench))
    meaning = "; a leaderboard takes complete answers only"
    return FileReport(checked.summary, checked.problems, meaning, checked.remarks)


def annotation(problem: str, path: Path) -> str:
    """Return a problem as a GitHub workflow command, so that GitHub shows the problem beside its file and line.

    The file and the line are read from the beginning of ``problem``. If ``problem`` names no file, the annotation is
    attached to ``path``.
    """
    named = _PLACE.match(problem)
    file = path if named is None else _beside(path, named["file"])
    line = f",line={named['line']}" if named and named["line"] else ""
    return f"::error file={_escape(str(file), ':,')}{line},title=chexqa validate::{_escape(problem)}"


def _beside(path: Path, name: str) -> Path:
    """Return the path of the file ``name``: as given, in the folder ``path``, or beside the file ``path``.

    If the file is in none of these places, return ``path``.
    """
    places = (Path(name), path / name, path.parent / name)
    return next((place for place in places if place.is_file()), path)


def _escape(text: str, marks: str = "") -> str:
    """Return text with escapes for ``marks`` and for the other characters that would end a workflow command."""
    for mark in "%\r\n" + marks:
        text = text.replace(mark, f"%{ord(mark):02X}")
    return text


def _folder(path: Path, image_root: Path | None) -> FileReport:
    if (path / benchmark.ABOUT).is_file():
        bench = benchmark.load(path)
        altered = altered_items.load(bench).items
        pictures = benchmark.check_images(bench, set().union(*(item.image_paths for item in altered.values())))
        also = f"{plural(len(altered), 'altered item')}, " if altered else ""
        key = "with its key" if bench.answers is not None else "without its key"
        found = unequal(bench)
        words = (
            f"; reviewers found that these wordings differ in meaning: {', '.join(map(str, found))}" if found else ""
        )
        return FileReport(
            f"benchmark '{bench.name}' {key}: {plural(bench.about['counts']['cases'], 'case')}, "
            f"{plural(len(bench.items), 'item')}, {also}{plural(pictures, 'picture')}, all hashes right{words}"
        )
    if (path / read_run.ABOUT).is_file():
        run = read_run.load(path)
        asked = foreign_lines.benchmark_of(run)
        misfits = [] if asked is None else [
            *foreign_lines.misfits(path, asked.item), *rereading.changed_by_hand(asked, run)
        ]  # fmt: skip
        turns = (*run.turns, *run.altered)
        states = Counter(turn.state for turn in turns)
        counts = ", ".join(f"{count:,} {state}" for state, count in states.most_common())
        aside = sum(one.count for one in run.aside)
        odd = f"; {plural(aside, 'line')} set aside" if aside else ""
        summary = f"run, protocol {run.about['protocol']}: {plural(len(turns), 'turn')} ({counts or 'none'}){odd}"
        return FileReport(summary, (*map(str, run.aside), *misfits))
    if (path / MANIFEST).is_file():
        return _manifest(path / MANIFEST, image_root)
    # A dry run has a folder for each model.
    files = sorted(path.glob("*.json")) or sorted(path.glob("*/*.json"))
    alone = Counter(_json_kind(file, path) for file in files)
    if alone:
        return FileReport(
            f"{', '.join(plural(count, f'{kind} file') for kind, count in alone.items())}, checked by schema"
        )
    raise InputError(
        f"{path}: contains no {benchmark.ABOUT} (a benchmark), {read_run.ABOUT} (a run), {MANIFEST} (cases) or other "
        f"JSON file in a chexqa format; give another folder."
    )


def _manifest(path: Path, image_root: Path | None) -> FileReport:
    cases = read_manifest(path, image_root)
    problems: list[str] = []
    missing: list[tuple[Case, Path]] = []
    for case in cases:
        lost = missing_file(case)
        if lost is not None:
            missing.append((case, lost))
            continue
        try:
            load_case(case)
        except InputError as error:
            problems.append(str(error))
    if missing:
        problems.insert(0, _missing(path, missing, len(cases)))
    findings = ", ".join(f"{name} {count}" for name, count in sorted(Counter(case.finding for case in cases).items()))
    summary = f"manifest: {plural(len(cases), 'case')} ({findings})"
    return FileReport(summary, tuple(problems), "; 'generate' would leave these cases out")


def _missing(path: Path, missing: Sequence[tuple[Case, Path]], cases: int) -> str:
    """Return one sentence on all missing files of a manifest; they usually have one cause, such as no --image-root."""
    if len(missing) == 1:
        [(case, file)] = missing
        return f"{path.name}, line {case.line}: {file.name}: no such file; {IMAGE_ROOT_HINT}."
    named = ", ".join(f"{file.name} (line {case.line})" for case, file in missing[:_NAMED_MISSING])
    more = f" and {len(missing) - _NAMED_MISSING:,} more" if len(missing) > _NAMED_MISSING else ""
    return f"{path.name}: {len(missing):,} of {cases:,} cases name a missing file: {named}{more}; {IMAGE_ROOT_HINT}."


def _yaml(path: Path) -> FileReport:
    text = read_text(path)
    named = [
        schema for key, schema in _YAML_KINDS.items() if any(line.startswith(f"{key}:") for line in text.splitlines())
    ]
    if not named and "question:" in text:
        named = [_BY_LANGUAGE]
    if not named:
        raise InputError(f"{path}: has none of the fields {', '.join(_YAML_KINDS)}, so it is not a chexqa YAML file.")
    record = question_banks.read(path) if named[0] == "bank" else read_yaml(path, named[0])
    if named[0] == "models":
        registry.load(path)
    if named[0] == "map_prompts":
        read_prompts(path)
    if named[0] == _BY_LANGUAGE:
        check_texts(record, path)
    for finding in record.get("findings", ()):
        find(finding, f"{path}, field 'findings'")
    return FileReport(f"{named[0]} file, fits its schema")


def _json_kind(path: Path, inside: Path | None = None) -> str:
    """Find a JSON file's schema by the file's fields, check the file against this schema, and return its name."""
    record = parse_json(read_text(path, inside=inside), str(path))
    fields = set(record) if isinstance(record, dict) else set()
    named = [schema for key, schema in _JSON_KINDS.items() if key in fields]
    if not named:
        raise InputError(f"{path}: has none of the fields {', '.join(_JSON_KINDS)}, so it is not a chexqa JSON file.")
    check(record, named[0], str(path))
    return named[0]


def _lines(path: Path, image_root: Path | None) -> FileReport:
    """Check a JSON-lines file whose format follows from the fields of its first record."""
    first = next((record for _, record in read_lines(path)), None)
    if first is None and path.name in _MAY_BE_EMPTY:
        return FileReport(_MAY_BE_EMPTY[path.name])
    if first is None:
        raise InputError(f"{path}: is empty; give a file with one record per line.")
    fields = set(first) if isinstance(first, dict) else set()
    for schema, marks in (("altered_item", {"condition", "image"}), ("altered_key", {"filled_pixels"}),
                          ("altered_key", {"condition", "reason"})):  # fmt: skip
        if marks <= fields:
            return _lines_of(path, schema)
    if {"image", "present"} & fields:
        return _manifest(path, image_root)
    for schema, mark in _LINE_KINDS.items():
        if mark in fields and schema == "verdict":
            return _verdicts(path)
        if mark in fields:
            return _lines_of(path, schema)
    if "item_id" in fields and not fields & _ONLY_IN_KEYS:
        return _lines_of(path, "prediction")
    if "answer" in fields or "measures" in fields:
        for number, record in read_lines(path):
            check(record, "answer" if "item_id" in record else "answer_case", f"{path}, line {number}")
        return FileReport("a benchmark's key, fits its schema")
    raise InputError(
        f"{path}: the fields of its first line fit none of chexqa's formats; compare them with docs/formats.md."
    )


def _lines_of(path: Path, schema: str) -> FileReport:
    """Return the number of lines that fit a schema; raise ``InputError`` that lists the first wrong lines."""
    wrong, count = WrongParts(path), 0
    for number, line in text_lines(path):
        with wrong.collected():
            where = f"{path}, line {number}"
            check(parse_json(line, where), schema, where)
        count += 1
    wrong.conclude()
    return FileReport(f"{schema} lines: {count:,}, all fit their schema")


def _verdicts(path: Path) -> FileReport:
    """Check a store of verdicts; verdicts that need a reason and have none are named, but they count."""
    from chexqa.review.collect.import_sheets import without_reason  # loads slowly
    from chexqa.review.collect.verdicts import read_store

    verdicts = read_store(path).values()
    summary = f"verdict lines: {len(verdicts):,}, all fit their schema"
    return FileReport(summary, remarks=tuple(f"no reason: {line}" for line in without_reason(verdicts)))
