"""Addresses of the gallery: a page, and after ``#`` the filters of items and the item that is open.

The part after ``#`` has the form of a query (``name=value&name=value``, values percent-encoded). A name may be given
several times. An item passes if, for each name, it fits one of the name's values. For ``right`` and ``wrong``, it must
fit all values. Unknown names are ignored. Examples::

    gallery.html#kind=location&finding=edema
    gallery.html#right=gpt-5.4&wrong=medgemma-27b        items that only the first of two models has right
    gallery.html#kind=severity&model=gpt-5.4&key=3&said=1  a cell of the table of answers against the key
    gallery.html#item=ca1b2c3/location&models=differ     an open item; arrow keys go through the items that pass

=============  =====================================================================================================
name           items that pass
=============  =====================================================================================================
``kind``       items of this kind, such as ``revision_result``
``finding``    items on this finding
``level``      ``coarse``, ``fine`` or ``semantic``; ``none`` for kinds without a level
``stage``      ``1`` to ``4``
``path``       items of cases on this path, such as ``revision_free``
``condition``  one of: ``original``; the condition of an altered picture, such as ``target``; a way of stressing an
               item, such as ``noise-3``
``flag``       items with this flag, such as ``contested``; an item without an altered picture has a flag that says why,
               such as ``not asked with the target picture: no place``
``right``      items that this model has right
``wrong``      items that this model was asked and did not answer right
``model``      items that this model was asked; ``state``, ``said``, ``confidence`` and ``models`` then count
               only this model's answers
``protocol``   items asked with this protocol; all other filters then count only answers under this protocol
``state``      items with an answer of this result: ``correct``, ``wrong``, ``refused``, …, or ``not_correct``. On
               stressed items and on pictures with a filled lesion, an answer is ``changed`` if it differs from the
               answer to the original, and ``kept`` if it is the same
``key``        items whose key names the option of this number (for the grid: the cell)
``said``       items with an answer that names the option of this number
``confidence`` items with an answer of this stated confidence: ``70`` means from 70 to below 80 %, ``90`` from 90 to
               100 %
``models``     ``differ`` (answers right and wrong), ``all_right``, ``all_wrong``; an item without a key never passes
``difficulty`` share of right answers: ``hard`` (under a third), ``middle``, or ``easy`` (over two thirds); an item
               without a key never passes
``text``       items with all these words in question, options, id, source or flags
``reply``      items with a reply, or separate reasoning, that contains this text (case is ignored); only answers that
               fit ``model``, ``protocol``, ``state``, ``said`` and ``confidence`` count
``item``       not a filter: the id of the item that is open
``report``     not a filter: the view of the report that the link *Report* opens; the gallery reads it, then removes it
               from the address
=============  =====================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

PAGE = "gallery.html"
NAMES = (
    "kind", "finding", "level", "stage", "path", "condition", "flag", "right", "wrong", "model", "protocol", "state",
    "key", "said", "confidence", "models", "difficulty", "text", "reply", "item", "report",
)  # fmt: skip


def address(choice: Mapping[str, str | int | Iterable[str | int]]) -> str:
    """Return the address of the gallery with only the items that ``choice`` selects, relative to the report's page.

    ``choice`` has one value or several for each name of :data:`NAMES`. Raise ``ValueError`` for any other name.

    >>> address({"right": "gpt-5.4", "wrong": ["a b", "c"], "kind": "location"})
    'gallery.html#right=gpt-5.4&wrong=a+b&wrong=c&kind=location'
    """
    unknown = [name for name in choice if name not in NAMES]
    if unknown:
        raise ValueError(f"'{unknown[0]}' cannot be used in an address of the gallery.")
    pairs = [
        (name, str(value)) for name, given in choice.items()
        for value in ([given] if isinstance(given, (str, int)) else given)
    ]  # fmt: skip
    return f"{PAGE}#{urlencode(pairs, errors='replace')}" if pairs else PAGE
