"""Copy of a benchmark without its key: others can ask their models with it, but it does not show the right answers.

``benchmark.json`` is copied unchanged, so the copy has the benchmark's hash. Answers to the copy are graded with the
benchmark that has the key.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chexqa.contract.benchmark import ABOUT, ITEMS, Benchmark
from chexqa.files import limits
from chexqa.files.jsonio import write_bytes
from chexqa.files.opening import link_or_copy, read_whole
from chexqa.generators.interventions import altered_items
from chexqa.interchange.folders import new_folder


def export_without_key(benchmark: Benchmark, out: Path, advance: Callable[[], None] = lambda: None) -> int:
    """Write the benchmark without its key into the new folder ``out``, and return the number of items.

    The key, the list of skipped cases, the card and the thumbnails are left out. Pictures are links to the benchmark's
    files if the disk allows links. Raise ``InputError`` if ``out`` exists or a picture is missing.
    """
    altered = altered_items.load(benchmark).items
    pictures: set[str] = set()
    with new_folder(out) as folder:
        for name in (ABOUT, ITEMS, *([altered_items.ITEMS] if altered else [])):
            write_bytes(folder / name, read_whole(benchmark.folder / name, limits.MAX_TABLE_BYTES, benchmark.folder))
        for item in (*benchmark.items, *altered.values()):
            for image in sorted(item.image_paths - pictures):
                (folder / image).parent.mkdir(parents=True, exist_ok=True)
                link_or_copy(benchmark.folder / image, folder / image, limits.MAX_PICTURE_BYTES, benchmark.folder)
            pictures |= item.image_paths
            if "@" not in item.item_id:
                advance()
    return len(benchmark.items)
