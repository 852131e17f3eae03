"""The command ``chexqa review carry``: verdicts taken along to a new benchmark or manifest."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import click

from chexqa.cli.review_import import read_stores
from chexqa.files.say import say, say_json
from chexqa.files.terminal import plural

_PATHS = click.Path(path_type=Path)
_SHOWN = 20


@click.command(epilog="Example: chexqa review carry bench bench-mended verdicts.jsonl -o verdicts-mended.jsonl")
@click.argument("old", metavar="OLD", type=_PATHS)
@click.argument("new", metavar="NEW", type=_PATHS)
@click.argument("stores", metavar="VERDICTS…", nargs=-1, required=True, type=_PATHS)
@click.option("-o", "--out", required=True, type=_PATHS, help="The new file of verdicts.")
@click.option("--rest", type=_PATHS, help="Write the cases to be judged again here, for 'review export --cases'.")
@click.option("--image-root", type=_PATHS, help="Folder of the manifests' paths, if not their own.")
@click.option("--json", "as_json", is_flag=True, help="Print what was left as JSON, for machines.")
def carry(
    old: Path, new: Path, stores: tuple[Path, ...], out: Path, rest: Path | None, image_root: Path | None, as_json: bool
) -> None:
    """Take verdicts on OLD along to NEW for every item that is the same, and list the rest.

    OLD and NEW are two benchmarks, or two manifests for verdicts on masks. An item is the same if its question,
    options, pictures and key are, and the masks that made the key; a mask, if it, the lungs and the radiograph are.
    """
    from chexqa.files.errors import InputError
    from chexqa.files.jsonio import write_bytes
    from chexqa.review.collect.verdicts import write_store
    from chexqa.review.resolve.carry import carry as take_along

    for path in (out, rest):
        if path is not None and path.exists():
            raise InputError(f"{path}: exists already; name a new file.")
    found = take_along(old, new, read_stores(stores), image_root)
    if not found.verdicts:
        raise InputError(f"{new}: no verdict on {old} holds there, so nothing is written; review it from the start.")
    write_store(out, found.verdicts)
    if rest is not None:
        write_bytes(rest, "".join(f"{case_id}\n" for case_id in found.cases).encode())
    if as_json:
        left = [{"row": one.verdict.row, "reviewer": one.verdict.reviewer, "why": one.why, "case_id": one.case_id}
                for one in found.left]  # fmt: skip
        say_json(json.dumps({"carried": len(found.verdicts), "left": left}, indent=2))
        return
    say(f"{out}: {plural(len(found.verdicts), 'verdict')} taken along, {len(found.left):,} left")
    reasons = Counter((one.verdict.row, one.why) for one in found.left)
    for (row, why), count in list(reasons.items())[:_SHOWN]:
        say(f"left: {row} ({plural(count, 'verdict')}): {why}")
    if len(reasons) > _SHOWN:
        say(f"and {len(reasons) - _SHOWN:,} more; --json lists all")
    if found.left:
        say(f"{plural(len(found.cases), 'case')} to judge again: chexqa review export {new} --cases {rest or 'FILE'}")
