"""Maker of frozen benchmarks: it runs a benchmark's pinned commands and compares the hashes with those on record.

``python benchmarks/frozen/build.py NAME -o OUT``; ``make phantom-1`` and ``make open-1 DATA=… LUNGS=…`` call it.
``sets.yaml`` has the commands and hashes. Exit code 2 means that a hash differs, or that a command failed. ``--card``
also audits the benchmark and writes card, figures and Croissant metadata.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

import yaml

from chexqa.cli.main import run

HERE = Path(__file__).resolve().parent
ABOUT = "benchmark.json"
FILES = ("items.jsonl", "answers.jsonl", "skipped.jsonl")


def made(bench: Path) -> dict[str, str]:
    """Return the hashes of a benchmark's files, keyed by name.

    ``benchmark.json`` is left out, because it names the version of chexqa.
    """
    about = json.loads((bench / ABOUT).read_text(encoding="utf-8"))
    return {name: about["files"][name] for name in FILES}


def build(name: str, out: Path, folders: dict[str, str]) -> dict[str, str]:
    """Run the commands of the set ``name`` into the new folder ``out``; return the hashes of the benchmark's files.

    ``folders`` has the folders that the set needs, keyed by command-line option. Raises ``SystemExit`` if one is
    missing or a command fails.
    """
    about = yaml.safe_load((HERE / "sets.yaml").read_text(encoding="utf-8"))[name]
    lacking = [one for one in about.get("needs", ()) if not folders.get(one)]
    if lacking:
        raise SystemExit(f"error: {name} needs {' and '.join(f'--{one} FOLDER' for one in lacking)}.")
    out.mkdir(parents=True)
    # The paths of a manifest start where 'ingest' says, in the nearest common parent of the folders.
    real = [os.path.realpath(place) for place in folders.values() if place and Path(place).is_dir()]
    folders = folders | {"root": os.path.commonpath(real) if real else ""}
    for command in about["commands"]:
        words = [word.format(out=out, **folders) for word in command.split()]
        print("chexqa", *words, flush=True)
        if code := run(words):
            raise SystemExit(code)
    return made(out / "bench")


def settle(name: str, bench: Path) -> None:
    """Replace the new ``benchmark.json`` by the one on record.

    Raises ``SystemExit`` if the two files differ in more than the version of chexqa.
    """
    kept, made_now = HERE / name / ABOUT, bench / ABOUT
    if not kept.is_file():
        return
    told, found = (json.loads(path.read_text(encoding="utf-8")) for path in (kept, made_now))
    other = sorted(field for field in told.keys() | found.keys() if told.get(field) != found.get(field))
    if set(other) - {"tool_version"}:
        raise SystemExit(f"error: {name}: {ABOUT} differs from the one on record in: {', '.join(other)}.")
    shutil.copy(kept, made_now)


def card(name: str, out: Path) -> None:
    """Audit the benchmark, and copy its ``benchmark.json``, card, figures and metadata beside this program."""
    bench = out / "bench"
    if run(["audit", str(bench)]) or run(
        ["export", str(bench), "--format", "croissant", "-o", str(bench / "croissant.json")]
    ):
        raise SystemExit(2)
    place = HERE / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for file in (ABOUT, "README.md", "croissant.json"):
        shutil.copy(bench / file, place / file)
    shutil.copytree(bench / "card", place / "card")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=list(yaml.safe_load((HERE / "sets.yaml").read_text(encoding="utf-8"))))
    parser.add_argument("-o", "--out", type=Path, required=True, help="the folder to make")
    parser.add_argument("--data", default="", help="the folder of the data set")
    parser.add_argument(
        "--lungs", default="", help="lungs and heart: a folder or a CheXmask .csv, as 'ingest' takes them"
    )
    parser.add_argument(
        "--card",
        action="store_true",
        help="also audit the benchmark; store its card, figures and Croissant metadata beside this program",
    )
    given = parser.parse_args()
    if given.out.exists():
        raise SystemExit(f"error: {given.out}: exists already; name another folder.")
    found = build(given.name, given.out, {"data": given.data, "lungs": given.lungs})
    for name, digest in found.items():
        print(f"{digest}  {name}")
    if given.card:
        card(given.name, given.out)
    expected = yaml.safe_load((HERE / "sets.yaml").read_text(encoding="utf-8"))[given.name]["hashes"]
    if expected is None:
        print(f"{given.name}: the benchmark was made, but no hash is on record, so nothing was compared.")
    elif expected != found:
        other = ", ".join(name for name in FILES if expected.get(name) != found[name])
        print(f"error: {given.name}: these files have other hashes than in sets.yaml: {other}.", file=sys.stderr)
        raise SystemExit(2)
    else:
        settle(given.name, given.out / "bench")
        print(f"{given.name}: all hashes are equal to those on record.")


if __name__ == "__main__":
    main()
