"""Altered items: questions of a benchmark asked again with an altered radiograph, and the files that hold them.

An altered item's id is the original item's id, ``@`` and a condition, such as ``c1/detection@target``. The conditions:

- ``target``: the lesion is filled in.
- ``partial``: a part of the lesion is filled in.
- ``irrelevant``: other lung tissue is filled in.
- ``mirror``: the radiograph is mirrored.

The files, which a benchmark has only if it was made with ``--interventions``:

- ``interventions.jsonl``: the altered items as a model may see them.
- ``interventions-key.jsonl``: the keys of the altered items; also the reason if a case has no altered item of a
  condition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from chexqa.contract.benchmark import ABOUT, Benchmark
from chexqa.contract.items import ORIGINAL, Item, Picture, condition_of
from chexqa.files import limits
from chexqa.files.errors import InputError, suggest
from chexqa.files.jsonio import Record, check, read_jsonl, read_lines, write_jsonl, write_lines
from chexqa.files.opening import MissingError, link_or_copy, sha256_of

Condition = Literal["original", "target", "partial", "irrelevant", "mirror"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
# The conditions whose questions are asked with an altered picture, in the order of the tables.
ALTERED = tuple(name for name in CONDITIONS if name != ORIGINAL)
# The conditions of attribute questions. The original questions have a history unless each item is asked alone.
ALONE = ("partial", "mirror")
ITEMS, KEY = "interventions.jsonl", "interventions-key.jsonl"
# Flag, in a gallery, of questions that cannot be asked under a condition.
FLAG = "not asked with the {condition} picture: {reason}"


@dataclass(frozen=True)
class AlteredKey:
    """Key of an altered item.

    - ``answer``: the right option numbers, sorted; None if the lesion is filled (condition ``target``), because no
      answer is then known to be right.
    - ``filled_pixels``: the number of filled pixels; 0 for a mirrored picture.
    - ``part``: the filled part: ``all``, ``right``, ``left`` or ``component`` of the lesion, or ``lung`` beside the
      lesion; None for a mirrored picture.
    """

    item_id: str
    answer: tuple[int, ...] | None
    filled_pixels: int = 0
    part: str | None = None

    @classmethod
    def from_record(cls, record: Record) -> AlteredKey:
        """Return the key of a checked record."""
        answer = None if record["answer"] is None else tuple(map(int, record["answer"]))
        return cls(record["item_id"], answer, int(record["filled_pixels"]), record["part"])

    def to_record(self) -> Record:
        """Return the JSON form."""
        answer = None if self.answer is None else list(self.answer)
        return {"item_id": self.item_id, "answer": answer, "filled_pixels": self.filled_pixels, "part": self.part}


@dataclass(frozen=True)
class NotAudited:
    """A case that cannot be asked under a condition, with its finding and the reason in a few words."""

    case_id: str
    finding: str
    condition: str
    reason: str

    @property
    def flag(self) -> str:
        """Return the condition and the reason as one text, by which the case is found in a gallery."""
        return FLAG.format(condition=self.condition, reason=self.reason)

    def to_record(self) -> Record:
        """Return the JSON form."""
        return {"case_id": self.case_id, "finding": self.finding, "condition": self.condition, "reason": self.reason}


@dataclass(frozen=True)
class Interventions:
    """All altered items of a benchmark, keyed by id, in the order of the file.

    ``keys`` and ``not_audited`` are None if the key was withheld.
    """

    items: Mapping[str, Item] = field(default_factory=dict)
    keys: Mapping[str, AlteredKey] | None = None
    not_audited: tuple[NotAudited, ...] | None = None

    def of(self, items: Iterable[Item], conditions: Sequence[str]) -> list[Item]:
        """Return the altered items made from ``items``, in the order of ``conditions``, then of ``items``."""
        known = [*items]
        ids = (f"{item.item_id}@{condition}" for condition in conditions for item in known)
        return [self.items[item_id] for item_id in ids if item_id in self.items]


def altered_record(item: Item, condition: str, image: str, question: str) -> Record:
    """Return the line of ``interventions.jsonl`` for an altered item, made from its original."""
    return {"item_id": f"{item.item_id}@{condition}", "condition": condition, "image": image, "question": question}


def named(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the conditions named by a command's options, each once, in the order of :data:`CONDITIONS`.

    A text may hold several names between commas. Without a name, the result is the condition ``original`` alone. Raise
    ``InputError`` for an unknown name.
    """
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    for name in names:
        if name not in CONDITIONS:
            raise InputError(f"--condition {name}: there is no such condition{suggest(name, CONDITIONS)}.")
    return tuple(name for name in CONDITIONS if name in names) or (ORIGINAL,)


def load(benchmark: Benchmark) -> Interventions:
    """Return the altered items of a benchmark; there are none if it was made without altered pictures.

    Raise ``InputError`` if a file was changed, or if an altered item contradicts its original.
    """
    about = benchmark.about.get("interventions")
    if about is None:
        return Interventions()
    where = benchmark.folder / ITEMS
    if not _is_whole(where, about["files"][ITEMS], benchmark.folder):
        raise InputError(f"{where}: no such file, but {ABOUT} names it; restore it.")
    items: dict[str, Item] = {}
    for number, record in read_jsonl(where, "altered_item", benchmark.folder):
        items[record["item_id"]] = _item(benchmark, record, f"{where}, line {number}")
    path = benchmark.folder / KEY
    if not _is_whole(path, about["files"][KEY], benchmark.folder):
        return Interventions(items)
    keys, left = _read_key(benchmark, path)
    lacking = [item_id for item_id in items if item_id not in keys]
    if lacking:
        raise InputError(f"{path}: the altered item '{lacking[0]}' has no key; restore the file.")
    return Interventions(items, keys, left)


def _is_whole(path: Path, expected: str, inside: Path) -> bool:
    """Return True if a file has the expected hash, False if it is missing; otherwise raise ``InputError``."""
    try:
        actual = sha256_of(path, limits.MAX_TABLE_BYTES, inside)
    except MissingError:
        return False
    if actual != expected:
        raise InputError(
            f"{path}: changed after the benchmark was written (its hash is not the one in {ABOUT}); restore it."
        )
    return True


def _item(benchmark: Benchmark, record: Record, where: str) -> Item:
    """Return the altered item of a line, made from its original."""
    base = benchmark.item.get(record["item_id"].partition("@")[0])
    if base is None or record["item_id"] != f"{base.item_id}@{record['condition']}":
        raise InputError(
            f"{where}: the item_id '{record['item_id']}' must be an item's id followed by "
            f"'@{record['condition']}'; restore the file."
        )
    shown = (Picture("radiograph", record["image"]),)
    return replace(base, item_id=record["item_id"], question=record["question"], turn_images=shown, alone_images=shown)


def _read_key(benchmark: Benchmark, path: Path) -> tuple[dict[str, AlteredKey], tuple[NotAudited, ...]]:
    keys: dict[str, AlteredKey] = {}
    left: list[NotAudited] = []
    for number, record in read_lines(path, benchmark.folder):
        check(record, "altered_key", f"{path}, line {number}")
        if "reason" in record:
            left.append(NotAudited(**record))
            continue
        key = AlteredKey.from_record(record)
        if wrong := _wrong_key(benchmark, key):
            raise InputError(f"{path}, line {number}: '{key.item_id}' {wrong}; restore the file.")
        keys[key.item_id] = key
    return keys, tuple(left)


def _wrong_key(benchmark: Benchmark, key: AlteredKey) -> str | None:
    """Return the contradiction between a key and its item; None if there is no contradiction."""
    base_id, condition = key.item_id.partition("@")[0], condition_of(key.item_id)
    base = benchmark.item.get(base_id)
    if base is None:
        return "is not an altered item of this benchmark"
    if not set(key.answer or ()) <= {option.n for option in base.options}:
        return "has an answer that is not an option number of the item"
    if (key.answer is None) != (condition == "target"):
        return "has no answer" if key.answer is None else "has an answer, but must have none (the lesion is filled in)"
    answers = benchmark.answers
    if condition in ALONE and answers is not None and key.answer == answers[base_id].answer:
        return "has the same key as its original, but must have another"
    return None


def write(folder: Path, rows: Iterable[Record]) -> tuple[Record, set[str]]:
    """Write the altered items into one file and their keys into another; ``rows`` are the cases' records.

    Return two values:

    - the value of the field ``interventions`` of ``benchmark.json``, but without the entry ``fill``.
    - the paths of the altered pictures.

    ``rows`` is iterated twice.
    """
    images: set[str] = set()
    counts: Counter[str] = Counter()
    left: Counter[tuple[str, str, str]] = Counter()

    def items() -> Iterator[Record]:
        for row in rows:
            for record in row["items"]:
                counts[record["condition"]] += 1
                images.add(record["image"])
                yield record

    def keys() -> Iterator[Record]:
        for row in rows:
            for record in (*row["keys"], *row["not_audited"]):
                check(record, "altered_key", str(folder / KEY))
                if "reason" in record:
                    left[record["finding"], record["condition"], record["reason"]] += 1
                yield record

    write_jsonl(folder / ITEMS, items(), "altered_item")
    write_lines(folder / KEY, keys())
    about: Record = {
        "counts": {name: counts[name] for name in ALTERED},
        "not_audited": [
            {"finding": finding, "condition": condition, "reason": reason, "cases": many}
            for (finding, condition, reason), many in sorted(left.items())
        ],
        "files": {name: sha256_of(folder / name) for name in (ITEMS, KEY)},
    }
    return about, images


def carry(bench: Benchmark, folder: Path, kept: Set[str]) -> Record:
    """Write the altered items made from the items in ``kept``, with their pictures, into the folder of a new version.

    Return the field ``interventions`` of the new ``benchmark.json``. Raise ``InputError`` if a file is missing or was
    changed.
    """
    found = load(bench)
    if found.keys is None or found.not_audited is None:
        raise InputError(f"{bench.folder / KEY}: no such file, but {ABOUT} names it; restore it.")
    cases = {item_id.partition("/")[0] for item_id in kept}
    items = [item for item_id, item in found.items.items() if item_id.partition("@")[0] in kept]
    row: Record = {
        "items": [altered_record(bench.item[item.item_id.partition("@")[0]], condition_of(item.item_id),
                                 item.turn_images[0].image, item.question) for item in items],
        "keys": [found.keys[item.item_id].to_record() for item in items],
        "not_audited": [one.to_record() for one in found.not_audited if one.case_id in cases],
    }  # fmt: skip
    about, images = write(folder, [row])
    for name in sorted(images):
        if not (folder / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            bench.image_bytes(name)
            link_or_copy(bench.folder / name, folder / name, limits.MAX_PICTURE_BYTES, bench.folder)
    return {"fill": bench.about["interventions"]["fill"], **about}
