"""A handmade benchmark that needs no generator."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from chexqa import question_banks
from chexqa.contract import benchmark
from chexqa.contract.items import PATH_STAGES, Answer, CaseKey, Item, Option, Picture
from chexqa.contract.kinds import KINDS

COLORS = ("red", "orange", "yellow", "green")
CELLS = [f"{column}{row}" for row in range(1, 9) for column in "ABCDEFGH"]


class Handmade:
    """Builds a small benchmark by hand: known answers, one plain 64 px picture for each use of a picture."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.items: list[Item] = []
        self.answers: list[Answer] = []
        self.cases: list[CaseKey] = []

    def picture(self, role: str, *key: object) -> Picture:
        """A picture whose bytes depend on its role and key, written where a benchmark keeps it."""
        shade = hashlib.sha256(repr((role, *key)).encode()).digest()
        image = np.frombuffer(shade * 128, np.uint8).reshape(64, 64)
        data = cv2.imencode(".png", image)[1].tobytes()
        path = benchmark.image_path(hashlib.sha256(data).hexdigest())
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(data)
        return Picture(role, path)

    def case(
        self,
        name: str,
        finding: str,
        path: Any,
        *,
        patient: str | None = None,
        grid: tuple[int, ...] | None = None,
        access: str = "open",
        measures: dict[str, Any] | None = None,
        **answers: tuple[int, ...],
    ) -> str:
        """Add a case with every item of its path (``grid``: hit cells of a grid item too); returns its id."""
        case_id = "c" + hashlib.sha256(name.encode()).hexdigest()[:12]
        stages = PATH_STAGES[path] if path else ()
        kinds = [kind for kind, about in KINDS.items() if about.stage in stages and about.stage]
        if finding == "cardiomegaly":
            kinds = [kind for kind in kinds if KINDS[kind].stage != 4]
        for kind in kinds:
            self._item(case_id, kind, finding, path, answers.get(kind, (1,)))
        if grid is not None:
            self._item(case_id, "grid_cell", finding, path, grid)
        person = patient or f"patient-{name}"
        self.cases.append(CaseKey(case_id, name, person, None, path, "F", 60, "PA", access, measures or {}))
        return case_id

    def _item(self, case_id: str, kind: str, finding: str, path: Any, answer: tuple[int, ...]) -> None:
        about = KINDS[kind]
        radiograph = self.picture("radiograph", case_id)
        contour, points = self.picture("contour", case_id), self.picture("points", case_id)
        fits = [self.picture("option", case_id, n) for n in range(4)]
        turn, alone = {
            "detection": ([radiograph], [radiograph]),
            "contour_evaluation": ([contour], [radiograph, contour]),
            "revision_expansion": ([points], [radiograph, points]),
            "revision_contraction": ([], [radiograph, points]),
            "revision_result": (fits, [radiograph, contour, *fits]),
            "grid_cell": ([self.picture("grid", case_id)],) * 2,
        }.get(kind, ([], [radiograph]))
        if kind == "revision_result":
            options = [Option(n, image=picture.image) for n, picture in enumerate(fits, start=1)]
        elif kind in ("revision_expansion", "revision_contraction"):
            options = [Option(n, f"the {color} point", color=color) for n, color in enumerate(COLORS, start=1)]
            options.append(Option(len(options) + 1, "at none of the points"))
        else:
            texts = CELLS if kind == "grid_cell" else ["Yes", "No"] if about.stage in (1, 2) else ["a", "b", "c", "d"]
            options = [Option(n, text) for n, text in enumerate(texts, start=1)]
        chance = len(answer) / 64 if kind == "grid_cell" else 1 / len(options)
        if about.multi:
            chance = 2.0 ** -(len(options) - 1)
        item_id = f"{case_id}/{kind}"
        self.items.append(
            Item(
                item_id,
                case_id,
                about.seq,
                kind,
                about.level,
                about.stage,
                finding,
                f"The {kind} of {finding}?",
                tuple(options),
                about.multi,
                tuple(turn),
                tuple(alone),
            )
        )
        self.answers.append(Answer(item_id, answer, chance, chance, path, {}))

    def write(self, data: str = "phantom") -> Path:
        """Write the benchmark's files and return its folder."""
        origin = benchmark.Origin("handmade", "1", 0, ({"name": "handmade"},), question_banks.load("en"), data)
        contents = benchmark.Contents(tuple(self.items), tuple(self.answers), tuple(self.cases))
        benchmark.write_files(self.folder, origin, contents)
        return self.folder
