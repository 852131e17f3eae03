"""Import of CheXpercept's own release as a benchmark; cases, wording, order, pictures and answers are kept.

The texts sent with the questions (system prompt, announcements of pictures, answer forms) are chexqa's. The
announcements mention a mask over the radiograph, since the release's pictures show masks instead of outlines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import cv2

from chexqa import question_banks
from chexqa.contract import benchmark
from chexqa.contract.benchmark import Contents, Origin, image_path
from chexqa.contract.items import PATH_STAGES, Answer, CaseKey, Item, Option, Picture, with_priors
from chexqa.contract.kinds import KINDS
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, check, parse_json, read_text, sha256, write_bytes
from chexqa.files.limits import MAX_PICTURE_BYTES
from chexqa.files.opening import read_whole, sha256_of
from chexqa.files.seeds import digest
from chexqa.imaging.colors import POINT_COLORS
from chexqa.imaging.read import decode_png
from chexqa.interchange import layout
from chexqa.interchange.folders import new_folder
from chexqa.interchange.layout import ATTRIBUTES, REVISIONS

NAME = "imported-chexpercept"
_PICTURES = {
    "contour": "Picture {n}: the same radiograph with a mask laid over it in cyan.",
    "points": "Picture {n}: the same radiograph and mask, with coloured points.",
    "option": "Picture {n}: the same radiograph with another mask.",
}


def import_release(
    folder: Path, entries: dict[str, Record], out: Path, access: str, advance: Callable[[], None] = lambda: None
) -> Record:
    """Write the benchmark ``out`` from the release in ``folder``, and return the content of its ``benchmark.json``.

    ``entries`` comes from :func:`read_release`. A case with missing or damaged pictures is left out and listed in
    ``skipped.jsonl``. ``advance`` is called after every case, for a progress bar. Raises ``InputError`` if no case
    remains.
    """
    phantoms = [key_id for key_id in entries if _is_phantom(key_id)]
    if phantoms and len(phantoms) < len(entries):
        raise InputError(
            f"{folder / layout.INDEX}: contains both phantoms (drawn by a program) and real radiographs; import them "
            "separately."
        )
    with new_folder(out) as temporary:
        reader = _Reader(folder, temporary, access)
        for key_id, entry in entries.items():
            reader.read(key_id, entry)
            advance()
        if not reader.cases:
            first = reader.skipped[0]
            problem = f"the first is '{first['source_case_id']}': {first['reason']}"
            raise InputError(f"{folder}: no case could be used; {problem}")
        recipe = {"name": NAME, "source": sha256_of(folder / layout.INDEX, inside=folder)}
        data = "phantom" if phantoms else "real"
        origin = Origin(NAME, "1", 0, (recipe,), conversation_bank(), data)
        return benchmark.write_files(temporary, origin, reader.contents()).about


def read_release(folder: Path) -> dict[str, Record]:
    """Return the checked entries of ``chexpercept.json``, keyed by case; raise ``InputError`` for another layout."""
    path = folder / layout.INDEX
    entries = parse_json(read_text(path, inside=folder), str(path))
    if not isinstance(entries, dict) or not entries:
        raise InputError(
            f"{path}: is not a JSON object of questions keyed by case, as in CheXpercept's release; "
            f"give the release's folder."
        )
    for key_id, entry in entries.items():
        where = f"{path}, {key_id}"
        if layout.split_key(key_id) is None:
            raise InputError(
                f"{where}: the entry's name must be <finding>_<pair id>, where <finding> is one of chexqa's findings; "
                "rename the entry."
            )
        check(entry, "chexpercept_case", where)
        if entry["detection_qa"]["answer_index"] == 1 and not entry.get("contour_qa"):
            raise InputError(f"{where}: the finding is present but there is no contour_qa; add it.")
    return entries


def conversation_bank() -> Record:
    """Return the English texts that chexqa sends with each question, such as the system prompt and the answer forms.

    They are adapted to CheXpercept's pictures and lists of options.
    """
    bank = question_banks.load("en")
    conversation = bank["conversation"]
    words = {**conversation, "option": "({n}) {text}", "pictures": {**conversation["pictures"], **_PICTURES}}
    return {"name": NAME, "language": bank["language"], "conversation": words}


def case_id_of(key_id: str) -> str:
    """Return a case's id in the benchmark; it reveals neither the finding nor ``key_id``, the id in CheXpercept."""
    return "c" + digest("chexpercept", key_id).hex()[:12]


def _is_phantom(key_id: str) -> bool:
    key = layout.split_key(key_id)
    return key is not None and key.pair_id.startswith(layout.PHANTOM)


@dataclass
class _Reader:
    """Reader of cases, one at a time; it copies their pictures into the new benchmark's folder."""

    folder: Path
    out: Path
    access: str
    cases: list[CaseKey] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    skipped: list[Record] = field(default_factory=list)

    def contents(self) -> Contents:
        """Return all cases, items, answers and skipped cases; the answers have the field ``prior``.

        Cases are sorted by id; items, like their answers, by case id and then by position in the case's conversation.
        """
        self.items.sort(key=lambda item: (item.case_id, item.seq))
        place = {item.item_id: number for number, item in enumerate(self.items)}
        self.answers.sort(key=lambda answer: place[answer.item_id])
        self.cases.sort(key=lambda case: case.case_id)
        answers = tuple(with_priors(self.items, self.answers))
        return Contents(tuple(self.items), answers, tuple(self.cases), tuple(self.skipped))

    def read(self, key_id: str, entry: Record) -> None:
        """Read one case; if that fails, list the case as skipped."""
        key = layout.split_key(key_id)
        assert key is not None, "keys were checked"
        try:
            case = _Case(self, key_id, key.finding, entry)
            made = case.build()
        except InputError as error:
            reason = str(error)
            self.skipped.append({"source_case_id": key_id, "finding": key.finding, "task": None, "reason": reason})
            return
        for item, answer in made:
            self.items.append(item)
            self.answers.append(answer)
        self.cases.append(case.key())

    def picture(self, key_id: str, name: str) -> str:
        """Copy a picture of the release, byte for byte, and return its path in the benchmark."""
        if "\0" in name:
            raise InputError(f"the picture's path {name!r} contains a NUL character; correct the path.")
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or PurePosixPath(name).is_absolute():
            raise InputError(f"the picture '{name}' lies outside the case's folder; correct the picture's path.")
        path = self.folder / layout.PICTURES / key_id / Path(*parts)
        try:
            data = read_whole(path, MAX_PICTURE_BYTES, self.folder)
        except InputError as error:
            # The reason names no folders, so that it is the same on every machine.
            reason = (
                str(error).removeprefix(f"{path}: ").replace(f"out of {self.folder};", "out of the release's folder;")
            )
            raise InputError(f"the picture {name}: {reason}") from None
        decode_png(data, f"the picture {name}", cv2.IMREAD_REDUCED_GRAYSCALE_8)
        image = image_path(sha256(data))
        if not (self.out / image).exists():
            (self.out / image).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(self.out / image, data)
        return image


class _Case:
    """Case of the release during its conversion into items."""

    def __init__(self, reader: _Reader, key_id: str, finding: str, entry: Record) -> None:
        self._reader, self._key_id, self._finding, self._entry = reader, key_id, finding, entry
        self._path = layout.path_of(entry)
        self._case_id = case_id_of(key_id)
        self._pictures: dict[str, Picture] = {}

    def build(self) -> list[tuple[Item, Answer]]:
        """Return an item and its answer for each question on the case's path."""
        made = []
        for kind, about in KINDS.items():
            if about.stage not in PATH_STAGES[self._path]:
                continue
            part = layout.asked(self._entry, kind)
            if part is not None:
                made.append(self._item(kind, part))
            elif kind not in ATTRIBUTES:
                raise InputError(
                    f"the {kind} question is missing, although this case's right answers to the earlier questions lead "
                    f"to it; download CheXpercept's {layout.INDEX} again."
                )
        return made

    def key(self) -> CaseKey:
        """Return the case's entry in the benchmark's key."""
        image = self._picture("radiograph", layout.XRAY).image
        release = {name: self._entry.get(name) for name in ("pair_id", "dicom_id")}
        measures = {
            "image_key": benchmark.image_digest(image),
            "negative_kind": "normal" if self._path == "lesion_free" else None,
            "source": "CheXpercept",
            "release": release,
        }
        return CaseKey(self._case_id, self._key_id, None, None, self._path, None, None, None, self._reader.access,
                       measures)  # fmt: skip

    def _item(self, kind: str, part: Record) -> tuple[Item, Answer]:
        about, item_id = KINDS[kind], f"{self._case_id}/{kind}"
        listed = layout.split_list(part["question"], len(part["answer_options"]))
        question = listed[0] if listed else part["question"]
        options = self._options(kind, part["answer_options"], listed[1] if listed else None)
        context = self._entry["contour_qa"].get("initial_context", "") if kind == "revision_expansion" else ""
        turn, alone = self._shown(kind, options)
        item = Item(
            item_id, self._case_id, about.seq, kind, about.level, about.stage, self._finding,
            f"{context}\n\n{question}" if context else question, tuple(options), about.multi, turn, alone,
        )  # fmt: skip
        index = part["answer_index"]
        right = tuple(sorted(set(index if isinstance(index, list) else [index])))
        if right[-1] > len(options):
            raise InputError(
                f"the answer to the {kind} question is {index}, but its options are numbered 1 to {len(options)}."
            )
        evidence = {"release": {**self._kept(kind, part, context), "listed": listed is not None}}
        pictures = [option.image for option in options if option.image is not None]
        flags = ("same_picture",) if len(set(pictures)) < len(pictures) else ()
        return item, Answer(item_id, right, about.form.chance(len(options)), 0.0, self._path, evidence, flags)

    def _kept(self, kind: str, part: Record, context: str) -> Record:
        """Return those fields of the release that an item does not have; an export to the release's layout
        needs them.
        """
        kept: Record = {"answer": part.get("answer")}
        if kind in REVISIONS:
            kept["options"] = part["answer_options"]
        if kind == "revision_expansion":
            kept["initial_context"] = context
        if kind == "contour_evaluation":
            kept["relative_path"] = part["relative_path"]
        return kept

    def _options(self, kind: str, given: list[Any], listed: list[str] | None) -> list[Option]:
        """Return the options; their texts are those of the list in the question, if the question has a list."""
        texts = listed or [_words(option, number) for number, option in enumerate(given, start=1)]
        images: list[str | None] = [None] * len(given)
        if kind == "revision_result":
            folder = f"contour_qa/{layout.REVISION_FOLDER}"
            images = [self._picture("option", f"{folder}/{option['relative_path']}").image for option in given]
        colors = [option["color"] if kind in REVISIONS and "color" in option else None for option in given]
        if colors[-1] not in (None, layout.NO_POINT):
            raise InputError(
                f"the last option of the {kind} question is a point, but must be '{layout.NO_POINT}'; add this option."
            )
        return [
            Option(number, text, image, color if color in POINT_COLORS else None)
            for number, (text, image, color) in enumerate(zip(texts, images, colors, strict=True), start=1)
        ]

    def _shown(self, kind: str, options: list[Option]) -> tuple[tuple[Picture, ...], tuple[Picture, ...]]:
        """Return two tuples of pictures: those that an item adds to a conversation, and those it needs if asked
        alone.
        """
        radiograph = self._picture("radiograph", layout.XRAY)
        if kind == "detection":
            return (radiograph,), (radiograph,)
        if kind in ATTRIBUTES:
            return (), (radiograph,)
        contour = self._picture(
            "contour", f"contour_qa/{self._entry['contour_qa']['contour_eval_qa']['relative_path']}"
        )
        if kind == "contour_evaluation":
            return (contour,), (radiograph, contour)
        if kind == "revision_result":
            fits = tuple(Picture("option", option.image) for option in options if option.image is not None)
            return fits, (radiograph, contour, *fits)
        pointed = self._picture("points", f"contour_qa/{layout.POINTS}")
        return (pointed,) if kind == "revision_expansion" else (), (radiograph, pointed)

    def _picture(self, role: str, name: str) -> Picture:
        if name not in self._pictures:
            self._pictures[name] = Picture(role, self._reader.picture(self._key_id, name))
        return self._pictures[name]


def _words(option: Any, number: int) -> str:
    """Return the text of an option that is not in the question's list."""
    if isinstance(option, str):
        return option
    if "color" in option:
        return str(option["color"]) if option["color"] == layout.NO_POINT else f"{option['color']} point"
    return layout.ordinal(number)
