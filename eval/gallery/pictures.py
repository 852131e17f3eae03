"""Pictures of the gallery: numbered, reduced, and stored in files of neighbouring cases.

The pictures of the chosen items are in the first file. A picture is a WebP of at most 384 px in base64, because a page
opened from disk can load scripts only.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from PIL import features

from chexqa.contract.items import CONTESTED, Picture
from chexqa.eval.gallery.entries import Entries, Entry, is_altered
from chexqa.imaging.read import open_thumb

CHOSEN = 300
_WORKERS, _QUALITY, _EFFORT = 2, 40, 2


def numbered(entries: Entries) -> dict[str, int]:
    """Return the number of each picture that is shown, in the order of the cases."""
    found: dict[str, int] = {}
    for entry in entries.flat():
        for image in shown(entry):
            found.setdefault(image, len(found))
    return found


def shown(entry: Entry) -> list[str]:
    """Return the paths of an item's pictures in the benchmark: first the question's, then the options' pictures."""
    options = [option.image for option in entry.item.options if option.image is not None]
    return [picture.image for picture in question_pictures(entry)] + options


def question_pictures(entry: Entry) -> list[Picture]:
    """Return the pictures that an item shows when it is asked alone; the pictures of its options are left out."""
    return [picture for picture in entry.item.alone_images if picture.role != "option"]


def of_card(entry: Entry) -> list[str]:
    """Return the pictures that the question is about: those of the options or, if they have none, the question's last
    one.
    """
    options = [option.image for option in entry.item.options if option.image is not None]
    return options[:4] or [picture.image for picture in question_pictures(entry)[-1:]]


def chosen(entries: Entries) -> list[int]:
    """Return the indices, among all entries, of at most :data:`CHOSEN` items that the gallery shows first.

    Kinds and findings alternate. Within a kind and finding, contested items come first, then items on which models
    differ most, then items that no model has right.
    """
    groups: dict[tuple[str, str], list[tuple[tuple[bool, float, float], int]]] = defaultdict(list)
    for place, entry in enumerate(entries.flat()):
        if not is_altered(entry) and entry.share is not None:
            contested = entry.answer is not None and CONTESTED in entry.answer.flags
            rank = (not contested, abs(entry.share - 0.5), entry.share)
            groups[entry.item.kind, entry.item.finding].append((rank, place))
    queues = [sorted(group) for group in groups.values()]
    turns = [
        queue[number][1]
        for number in range(max(map(len, queues), default=0))
        for queue in queues
        if number < len(queue)
    ]
    return turns[:CHOSEN]


class Thumbs(Protocol):
    """Source of reduced pictures, for example a benchmark."""

    def thumb_bytes(self, image: str) -> bytes:
        """Return the reduced JPEG of a picture."""


def encoded(thumbs: Thumbs, images: Iterable[str]) -> list[str]:
    """Return pictures as base64 of a WebP, or of the JPEG if Pillow was built without WebP."""
    webp = features.check("webp")

    def one(image: str) -> str:
        data = thumbs.thumb_bytes(image)
        return b64encode(_webp(data, image) if webp else data).decode()

    with ThreadPoolExecutor(_WORKERS) as pool:
        return list(pool.map(one, images))


def _webp(jpeg: bytes, image: str) -> bytes:
    buffer = io.BytesIO()
    open_thumb(jpeg, f"the thumbnail of {image}").save(buffer, "WEBP", quality=_QUALITY, method=_EFFORT)
    return buffer.getvalue()
