"""The commands of ``chexqa review`` that give work to reviewers: export, open, serve."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from chexqa.files.errors import EXIT_INPUT, EXIT_OK
from chexqa.files.say import argument, say
from chexqa.files.terminal import plural, progress

if TYPE_CHECKING:
    from chexqa.review.sheets.export import Beside, Written

_PATHS = click.Path(path_type=Path)


@click.command(epilog="Example: chexqa review export bench -o sheets --reviewers anna,ben,carla --seed 7")
@click.argument("source", metavar="BENCH|CASES", type=click.Path(path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The new folder for the sheets.")
@click.option("--reviewers", required=True, help="Names of the reviewers, separated by commas, or their number.")
@click.option(
    "--overlap",
    type=float,
    help="Share of cases that several reviewers judge. These reviewers answer the questions first in blind sheets, "
    "which do not show the key, and then in a sheet that shows it. With 0, each reviewer gets one sheet. Default: 0.2; "
    "0 for a single reviewer; 1 with --blind-answers.",
)
@click.option(
    "--overlap-readers",
    type=int,
    help="Number of reviewers for each shared case; usually 2, or all readers in a reader study.",
)
@click.option(
    "--what", type=click.Choice(["items", "masks"]), default="items", show_default=True, help="What to judge."
)
@click.option("--only", type=click.Choice(["flagged", "redrawn"]),
              help="flagged: only cases with a flagged item. redrawn: only redrawn masks that no second "
              "reader has approved.")  # fmt: skip
@click.option("--cases", type=click.Path(path_type=Path),
              help="The cases to export: a mask_review.jsonl, or a file with one id per line (of a case or of an "
              "item).")  # fmt: skip
@click.option("--sample", type=int, help="Sample this many cases, stratified by finding and path.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of assignment and sampling.")
@click.option("--blind-answers", is_flag=True,
              help="Make a reader study: every reader answers every case, and no sheet shows the key.")  # fmt: skip
@click.option("--both-parts", is_flag=True,
              help="Write all sheets now: the blind sheets, and the sheets that show the key. By default, the sheets "
              "that show the key are written once the blind sheets are answered.")  # fmt: skip
@click.option("--planted", type=float, default=0.05, show_default=True,
              help="Share of proposed answers that chexqa makes wrong on purpose, to find reviewers who accept without "
              "looking; verdicts on them are never applied. 0: none.")  # fmt: skip
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["xlsx", "csv"]),
    default="xlsx",
    help="Format of the sheets; csv is for mask sheets only.",
)
@click.option("--page", is_flag=True,
              help="Also write a review page for each sheet; reviewers open it in a browser, without a "
              "server.")  # fmt: skip
@click.option("--page-only", is_flag=True, help="Write review pages instead of sheets.")
@click.option("--source-pixels", is_flag=True,
              help="Put the radiographs' original pixels into the pages, so that reviewers can set window and "
              "level on the full bit depth. A radiograph takes about 5 MB; to keep the folders small, export "
              "only some cases with --cases FILE.")  # fmt: skip
@click.option("--manifest", type=_PATHS,
              help="The manifest that BENCH was made from. The source pixels, and the masks in their original "
              "size, are read from it.")  # fmt: skip
@click.option(
    "--image-root",
    type=click.Path(path_type=Path),
    help="Folder that the manifest's paths are relative to, if it is not the manifest's own folder.",
)
@click.option("--run", "runs", type=_PATHS, multiple=True,
              help="A run with answers to questions that ask for a point or box. The models' answers are drawn on the "
              "radiograph, in addition to the key's. May be repeated.")  # fmt: skip
def export(
    source: Path, out: Path, reviewers: str, overlap: float | None, overlap_readers: int | None,
    what: Literal["items", "masks"], only: Literal["flagged", "redrawn"] | None, cases: Path | None,
    sample: int | None, seed: int, blind_answers: bool, planted: float, both_parts: bool, fmt: str, page: bool,
    page_only: bool, source_pixels: bool, manifest: Path | None, image_root: Path | None, runs: tuple[Path, ...],
) -> None:  # fmt: skip
    """Assign items or masks to reviewers; each reviewer gets a folder with a spreadsheet.

    Items come from the benchmark BENCH. Masks (--what masks) come from BENCH, or from CASES, a manifest.
    """
    from chexqa.review.export_options import reviewer_names, usual_overlap
    from chexqa.review.sheets.export import Wish, export
    from chexqa.stats import wilson

    names = reviewer_names(reviewers)
    share, readers = usual_overlap(names, overlap, overlap_readers, blind_answers)
    wish = Wish(
        names, share, readers, what, only, sample, seed, blind_answers, fmt == "csv", planted, both_parts, cases,
        page_only, manifest, runs=runs,
    )  # fmt: skip
    done = export(source, out, wish, image_root, progress, page_writer(page or page_only, source_pixels))
    for reason in done.left_out:
        say(f"left out: {reason}", err=True)
    for file, rows in () if page_only else done.sheets:
        say(f"{out / file}: {plural(rows, 'row')}")
    list_pages(out, done.pages)
    if done.decoys:
        say(
            f"The blind rows include {plural(done.decoys, 'decoy')}: cases without the finding, added so that about "
            "half of the blind cases show the finding."
        )
    shared = f", {done.shared:,} of them by several reviewers" if done.shared else ""
    whole = "one folder after the other" if done.in_parts else "the whole folder that has their name"
    say(f"{plural(done.cases, 'case')} to judge{shared}. Give each reviewer {whole}.")
    if done.later:
        how = " --page-only" if page_only else " --page" if page else ""
        later = [str(Path(file).parent) if page_only else file for file in done.later]
        say(
            f"{', '.join(later)}: not written yet. When a reviewer's blind answers are all imported, run 'chexqa "
            f"review open {out}{how}'."
        )
    if blind_answers:
        low, high = wilson(0.5, done.patients)
        say(
            f"With {plural(done.cases, 'case')} of {plural(done.patients, 'patient')}, the 95 % interval of a "
            f"reader's share of right answers will be about ± {50 * (high - low):.0f} percentage points."
        )
    say(f"Next, with the folder of the returned files: chexqa review import RETURNED --batch {argument(out)}")


def page_writer(wanted: bool, source_pixels: bool = False) -> Beside | None:
    """Return the function that writes review pages, or ``None`` if no page is wanted."""
    from functools import partial

    from chexqa.files.errors import InputError
    from chexqa.review.page.write_page import write_page

    if source_pixels and not wanted:
        raise InputError("--source-pixels: only review pages can show source pixels; give --page or --page-only too.")
    return partial(write_page, source_pixels=source_pixels) if wanted else None


def list_pages(out: Path, pages: Sequence[Written]) -> None:
    """Print how pages are opened and, for each page, its file, its number of rows and its MB of original pixels."""
    for page in pages:
        size = f", {page.source_bytes / 2**20:,.0f} MB of source pixels" if page.source_bytes else ""
        say(f"{out / page.file}: {plural(page.rows, 'row')}{size}")
    if pages:
        say(
            "To open a page, double-click its review.html, or drag the file into a browser. "
            f"'chexqa review serve {out}' serves all pages from this machine instead."
        )


@click.command("open", epilog="Example: chexqa review open sheets")
@click.argument("batch", metavar="BATCH", type=click.Path(path_type=Path))
@click.option(
    "--verdicts",
    type=click.Path(path_type=Path),
    help="The imported verdicts; by default verdicts.jsonl beside review.json.",
)
@click.option(
    "--benchmark",
    type=click.Path(path_type=Path),
    help="Folder of the benchmark, if it is not at the path in review.json.",
)
@click.option("--page", is_flag=True, help="Also write a review page beside each sheet.")
@click.option("--page-only", is_flag=True, help="Write review pages instead of sheets.")
@click.option("--source-pixels", is_flag=True,
              help="Put the radiographs' original pixels into the pages. The manifest given to 'review export' says "
              "where the radiographs are.")  # fmt: skip
@click.option("--manifest", type=click.Path(path_type=Path),
              help="The manifest that the benchmark was made from, if it is not at the path in "
              "review.json.")  # fmt: skip
@click.option("--image-root", type=click.Path(path_type=Path), help="Folder that the manifest's paths are relative to.")
@click.option("--incomplete", is_flag=True,
              help="Write a reviewer's second folder, which proposes the keys, even if the reviewer has left rows of "
              "the blind sheet unanswered.")  # fmt: skip
def open_second(
    batch: Path, verdicts: Path | None, benchmark: Path | None, page: bool, page_only: bool, source_pixels: bool,
    manifest: Path | None, image_root: Path | None, incomplete: bool,
) -> int:  # fmt: skip
    """Write the second folder, which proposes the keys, for each reviewer who has answered the blind sheet."""
    from chexqa.review.collect.verdicts import STORE, load_batch, read_store
    from chexqa.review.followup.second_part import open_second_parts

    loaded = load_batch(batch)
    store = verdicts or loaded.path.parent / STORE
    said = read_store(verdicts or store.parent) if verdicts or store.exists() else {}
    writer = page_writer(page or page_only, source_pixels)
    opened = open_second_parts(
        loaded, list(said.values()), benchmark, progress, writer, page_only, manifest, image_root, incomplete
    )  # fmt: skip
    for path, rows in () if page_only else opened.sheets:
        say(f"{path}: {plural(rows, 'row')}")
    list_pages(loaded.path.parent, opened.pages)
    for one in opened.waiting:
        missing = f"{one.missing:,} of {plural(one.rows, 'blind row')} not answered yet"
        say(
            f"{one.reviewer}: {missing}, so this reviewer's second part is not written; give --incomplete if these "
            "rows will get no answer"
        )
    if not opened.sheets and not opened.waiting:
        say("The second parts of all reviewers are written already.")
    if opened.sheets:
        into = "" if verdicts is None else f" -o {argument(verdicts)}"
        home = argument(loaded.path.parent)
        say(f"Next, with the folder of the returned files: chexqa review import RETURNED --batch {home}{into}")
    return EXIT_OK if opened.sheets or not opened.waiting else EXIT_INPUT


@click.command(epilog="Example: chexqa review serve sheets")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. With any address except loopback, other computers can open the pages.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="The port; 0 chooses a free port."
)
@click.option(
    "--password-file", type=click.Path(path_type=Path), help="A file with the password that readers must enter."
)
@click.option(
    "--again-after", type=click.FloatRange(0, 3650), default=14, show_default=True,
    help="Days that the server waits before it asks a reader the repeated items. The wait begins when the reader has "
    "closed all other parts of the study.",
)  # fmt: skip
def serve(folder: Path, host: str, port: int, password_file: Path | None, again_after: float) -> None:
    """Serve the pages of DIR (written by 'review export --page') until Ctrl+C; each answer is saved in DIR at once."""
    import asyncio
    from contextlib import suppress

    from chexqa.files.errors import InputError
    from chexqa.files.jsonio import read_text
    from chexqa.review.page.serve import LOOPBACK, Review, Server, check_access

    password = None if password_file is None else read_text(password_file, 4096).strip()
    if password_file is not None and not password:
        raise InputError(f"{password_file}: is empty; write the password into it.")
    review = Review(folder, again_after)
    check_access(review.batch, host, password)
    if host not in LOOPBACK:
        say(
            f"warning: --host {host} lets other computers open these pages. The connection is not encrypted, so "
            f"names, pictures, answers and the password can be read by others on the network. Use it only in a "
            f"closed network, or behind your own server that encrypts.",
            err=True,
        )
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(Server(review, password, host), review.tokens, host, port))
    say(f"Stopped. Next: chexqa review import {argument(folder)}")


async def _run(server: object, tokens: dict[str, str], host: str, port: int) -> None:
    import asyncio
    import signal

    from aiohttp import web

    from chexqa.files.errors import InputError
    from chexqa.review.page.serve import Server

    assert isinstance(server, Server)
    runner = web.AppRunner(server.app(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        raise InputError(
            f"--port {port}: cannot be used ({error.strerror}); give another port, or 0 for a free one."
        ) from None
    bound = runner.addresses[0][1]
    shown = f"[{host}]" if ":" in host else host
    for name, token in tokens.items():
        say(f"{name or 'coordinator'}: http://{shown}:{bound}/{token}/")
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    await runner.cleanup()
