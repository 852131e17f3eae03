"""Builder of the items, keys and pictures of one case."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from chexqa.chances import Chance
from chexqa.contract.benchmark import wrong_key
from chexqa.contract.evidence import Evidence
from chexqa.contract.findings import FINDINGS
from chexqa.contract.items import Answer, Item, Option, Path, Picture
from chexqa.contract.kinds import KINDS, Kind
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, check
from chexqa.imaging import overlays as drawing
from chexqa.imaging import png
from chexqa.imaging.read import encode_thumb

Store = Callable[[bytes, bytes | None], str]
_GREY = 128


@dataclass
class ItemBuilder:
    """Collector of the items and answers of one case.

    - ``store``: a function that takes a PNG and its JPEG thumbnail (or None instead of the thumbnail), saves them, and
      returns the PNG's path in the benchmark.
    - ``controls``: True to store every drawing (outline, points or grid) on plain grey, too.
    - ``layers``: True to store the drawn pixels as a mask, too.
    - ``more_texts``: the texts of kinds from outside the package, keyed by kind.
    - ``rule_words``: the wording of the recipes' rules in questions.
    """

    case_id: str
    finding: str
    path: Path | None
    bank: Record
    store: Store
    controls: bool = False
    layers: bool = False
    more_texts: Mapping[str, Record] = field(default_factory=dict)
    rule_words: Mapping[str, str] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def radiograph(self, image: drawing.Image) -> Picture:
        """Store the radiograph and return it as a picture."""
        return Picture("radiograph", self.store(png.encode(image), encode_thumb(image)))

    def drawn(self, role: str, image: drawing.Image, *draws: Callable[[drawing.Image], drawing.Image]) -> list[Picture]:
        """Draw on the radiograph ``image`` with each function in ``draws``; store and return a picture for each.

        If the builder's ``controls`` is True, each drawing is also stored on plain grey; if its ``layers`` is True,
        also as a mask.
        """
        overlays = [draw(image) for draw in draws]
        # Files of one length, so that the size of a file gives no answer away.
        files = png.of_one_length([png.encode(overlay) for overlay in overlays])
        images = [self.store(file, encode_thumb(overlay)) for file, overlay in zip(files, overlays, strict=True)]
        controls: list[str | None] = [None] * len(draws)
        if self.controls:
            plain = np.full_like(image, _GREY)
            # Controls are not reviewed, so they need no thumbnail.
            files = png.of_one_length([png.encode(draw(plain)) for draw in draws])
            controls = [self.store(file, None) for file in files]
        if not self.layers:
            return [Picture(role, *paths) for paths in zip(images, controls, strict=True)]
        base = self.radiograph(image).image
        masks = [self.store(png.encode(255 * _drawn_pixels(draw, image.shape).view(np.uint8)), None) for draw in draws]
        return [Picture(role, *paths, base) for paths in zip(images, controls, masks, strict=True)]

    def ask(
        self, kind: Kind, options: list[Option], answer: tuple[int, ...], *, turn: list[Picture], alone: list[Picture],
        evidence: Evidence, difficulty: dict[str, float], stable: bool = True,
        flags: tuple[str, ...] = (), chance: Chance | None = None, **words: str,
    ) -> None:  # fmt: skip
        """Add one item; its question is the bank's, with ``words`` filled in.

        - ``difficulty``: the numbers that show how hard the item is.
        - ``stable``: True if slightly different masks give the same answer.
        - ``flags``: further flags of the key.
        - ``chance``: the probability that a guess is right; by default, all legal answers are equally likely.

        Raise ``ValueError`` if a plugin's item or key is not allowed in a benchmark.
        """
        field = FINDINGS[self.finding].field if self.finding in FINDINGS else None  # a test marker is not a finding
        note = self.bank["notes"]["heart_overlap"] if field == "lung" else ""
        words = {"finding": self.bank["findings"].get(self.finding, ""), "note": note, **self.rule_words, **words}
        item_id = f"{self.case_id}/{kind.name}"
        self.items.append(
            Item(
                item_id=item_id,
                case_id=self.case_id,
                seq=kind.seq,
                kind=kind.name,
                level=kind.level,
                stage=kind.stage,
                finding=self.finding,
                question=self.texts(kind)["question"].format(**words),
                options=tuple(options),
                multi=kind.multi,
                turn_images=tuple(turn),
                alone_images=tuple(alone),
                declared=None if kind.name in KINDS else kind,
            )
        )
        chance = chance or Chance(kind.form.chance(len(options), len(answer)))
        # The prior needs the whole benchmark, so the pipeline fills it in later.
        # Detection is stable, since a slightly different mask is still a mask. Contour items are, too, since an edit
        # moves the outline by several times the error of hand drawing.
        flags = (*(() if stable else ("unstable",)), *evidence.flags(difficulty.get("margin")), *flags)
        self.answers.append(
            Answer(
                item_id,
                answer,
                chance.best,
                0.0,
                self.path,
                evidence.to_record(),
                flags,
                difficulty=difficulty,
                chance_uniform=chance.uniform,
                chance_joint=chance.joint,
                scored=chance.scored,
            )
        )
        if kind.name not in KINDS:
            if any(item.item_id == item_id for item in self.items[:-1]):
                raise ValueError("the case has a question of this kind already; ask one")
            _check(self.items[-1], self.answers[-1], kind)

    def texts(self, kind: Kind) -> Record:
        """Return the texts of a kind of question, from the bank or from the kind's plugin."""
        found: Record = self.bank["kinds"].get(kind.name) or self.more_texts[kind.name]
        return found

    def words(self, kind: Kind, *names: str) -> list[Option]:
        """Return options in the order of ``names``, each with the bank's text of that name."""
        return numbered(self.texts(kind)[name] for name in names)


def _drawn_pixels(draw: Callable[[drawing.Image], drawing.Image], shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Return the mask ``(H, W)`` of the pixels that a drawing changes on a black or on a white picture."""
    found = np.zeros(shape[:2], bool)
    for grey in (0, 255):
        found |= (draw(np.full(shape, grey, np.uint8)) != grey).any(axis=-1)
    return found


def _check(item: Item, answer: Answer, kind: Kind) -> None:
    """Raise ``ValueError`` if a benchmark cannot have an item of a plugin, or its key."""
    for name, pictures in (("turn", item.turn_images), ("alone", item.alone_images)):
        for picture in pictures:
            if not isinstance(picture, Picture):
                raise ValueError(f"'{name}' has {picture!r:.80}; it takes pictures, such as case.radiograph")
    if (wrong := wrong_key(item, answer, kind)) is not None:
        raise ValueError(f"the item has {wrong} (answer {answer.answer}, {len(item.options)} options)")
    shown = [replace(option, n=0) for option in item.options]
    twice = [option.text for number, option in enumerate(shown) if option in shown[:number]]
    if twice:
        raise ValueError(f"two options have the text '{twice[0]}'; give each option another text")
    try:
        for record, schema, name in ((item.to_record(), "item", "item"), (answer.to_record(), "answer", "key")):
            # As the files will hold it, with NumPy's floats as floats.
            check(json.loads(json.dumps(record)), schema, name)
    except InputError as error:
        raise ValueError(str(error).rstrip(".")) from None


def numbered(texts: Iterable[str]) -> list[Option]:
    """Return options with these texts, numbered from 1."""
    return [Option(number, text) for number, text in enumerate(texts, start=1)]
