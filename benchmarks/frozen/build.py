"""Make a frozen benchmark by its pinned commands, and compare its hashes.

The command is ``python benchmarks/frozen/build.py NAME -o OUT``.
``make phantom-1`` and ``make open-1 DATA=… LUNGS=…`` call this. Exit code 2 means that the files differ from those on
record, or that a command failed. ``--card`` also audits the benchmark and writes card, figures and Croissant metadata.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

import yaml

from chexqa.cli.main import run

HERE = Path(__file__).resolve().parent
ABOUT = "benchmark.json"
FILES = ("items.jsonl", "answers.jsonl", "skipped.jsonl")


def made(bench: Path) -> dict[str, str]:
    """Return the hashes of a benchmark's files, without ``benchmark.json``, which names the version of chexqa."""
    about = json.loads((bench / ABOUT).read_text(encoding="utf-8"))
    return {name: about["files"][name] for name in FILES}


def build(name: str, out: Path, folders: dict[str, str]) -> dict[str, str]:
    """Run the commands of a set into the new folder ``out``, and return the hashes."""
    about = yaml.safe_load((HERE / "sets.yaml").read_text(encoding="utf-8"))[name]
    lacking = [one for one in about.get("needs", ()) if not folders.get(one)]
    if lacking:
        raise SystemExit(f"error: {name} needs {' and '.join(f'--{one} FOLDER' for one in lacking)}.")
    out.mkdir(parents=True)
    for command in about["commands"]:
        words = [word.format(out=out, **folders) for word in command.split()]
        print("chexqa", *words, flush=True)
        if code := run(words):
            raise SystemExit(code)
    return made(out / "bench")


def settle(name: str, bench: Path) -> None:
    """Put the ``benchmark.json`` on record in the place of the one just made, so that every version gives one hash.

    Raises ``SystemExit`` if they differ in more than the version of chexqa that made them.
    """
    kept, made_now = HERE / name / ABOUT, bench / ABOUT
    if not kept.is_file():
        return
    told, found = (json.loads(path.read_text(encoding="utf-8")) for path in (kept, made_now))
    other = sorted(field for field in told.keys() | found.keys() if told.get(field) != found.get(field))
    if set(other) - {"tool_version"}:
        raise SystemExit(f"error: {name}: {ABOUT} differs from the one on record in {', '.join(other)}.")
    shutil.copy(kept, made_now)


def card(name: str, out: Path) -> None:
    """Audit the benchmark, describe it in Croissant, and copy card, figures and metadata beside this program."""
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
    parser.add_argument("-o", "--out", type=Path, required=True, help="the new folder")
    parser.add_argument("--data", default="", help="the folder of the data set")
    parser.add_argument(
        "--lungs", default="", help="lungs and heart: a folder or a CheXmask .csv, as 'ingest' takes them"
    )
    parser.add_argument("--card", action="store_true", help="audit, and keep card, figures and Croissant metadata")
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
        print(f"{given.name}: no hash is on record, so nothing was compared.")
    elif expected != found:
        other = ", ".join(name for name in FILES if expected.get(name) != found[name])
        print(f"error: {given.name}: {other} differ from those on record.", file=sys.stderr)
        raise SystemExit(2)
    else:
        settle(given.name, given.out / "bench")
        print(f"{given.name}: the files are those on record.")


if __name__ == "__main__":
    main()
