"""Pictures of the gallery: which are shown, how they are numbered, and which items come first.

A picture is a WebP of at most 384 px, stored in a script as base64 text. A drawing over a radiograph is stored without
the radiograph (``thin_drawings``).
"""

from __future__ import annotations

from collections import defaultdict

from chexqa.contract.items import CONTESTED, Picture
from chexqa.eval.gallery.entries import Entries, Entry, is_altered

CHOSEN = 300
_RADIOGRAPH = "radiograph"


def numbered(entries: Entries) -> dict[str, int]:
    """Return the running number of each picture that is shown, from 0 in the order of the cases."""
    found: dict[str, int] = {}
    for entry in entries.flat():
        for image in shown(entry):
            found.setdefault(image, len(found))
    return found


def shown(entry: Entry) -> list[str]:
    """Return the paths of an item's pictures in the benchmark: first the question's pictures, then the options'."""
    options = [option.image for option in entry.item.options if option.image is not None]
    return [picture.image for picture in question_pictures(entry)] + options


def question_pictures(entry: Entry) -> list[Picture]:
    """Return the pictures of an item's question (asked alone), without the pictures of the options."""
    return [picture for picture in entry.item.alone_images if picture.role != "option"]


def of_card(entry: Entry) -> list[str]:
    """Return the pictures on an item's card: up to four pictures of its options.

    If the options have no pictures, return the question's last picture.
    """
    options = [option.image for option in entry.item.options if option.image is not None]
    return options[:4] or [picture.image for picture in question_pictures(entry)[-1:]]


def chosen(entries: Entries) -> list[int]:
    """Return the indices of the entries that the gallery shows first, at most :data:`CHOSEN`.

    There is a group of entries for each pair of kind and finding, and one entry is taken from each group in turn.
    Within a group, contested items come first, then items on which models differ most, then items that no model has
    right.
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


def bases(entries: Entries) -> dict[str, str]:
    """Return, for each picture with a drawing, the picture of the same radiograph without a drawing.

    Pictures of altered items are left out.
    """
    found: dict[str, str] = {}
    for of_case in entries.by_case.values():
        own = [entry for entry in of_case if not is_altered(entry)]
        radiographs = [
            picture.image for entry in own for picture in question_pictures(entry) if picture.role == _RADIOGRAPH
        ]
        if radiographs:
            found |= {image: radiographs[0] for entry in own for image in shown(entry) if image not in radiographs}
    return found
