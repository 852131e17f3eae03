"""A handmade benchmark that needs no generator."""

from __future__ import annotations

import functools
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
# The roles of the pictures that a question shows in its turn, and alone. A kind not listed shows no picture in its
# turn, and the radiograph alone.
ROLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "detection": (("radiograph",), ("radiograph",)),
    "contour_evaluation": (("contour",), ("radiograph", "contour")),
    "revision_expansion": (("points",), ("radiograph", "points")),
    "revision_contraction": ((), ("radiograph", "points")),
    "revision_result": (("option",), ("radiograph", "contour", "option")),
    "grid_cell": (("grid",), ("grid",)),
}
english = functools.cache(lambda: question_banks.load("en"))


class Handmade:
    """Builder of a small benchmark with known answers, and a plain 64 px picture for each use of a picture."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._drawn: dict[object, Picture] = {}
        self.items: list[Item] = []
        self.answers: list[Answer] = []
        self.cases: list[CaseKey] = []

    def picture(self, role: str, *key: object) -> Picture:
        """Write a picture into the benchmark and return it; its bytes depend on its role and key."""
        if (role, key) in self._drawn:
            return self._drawn[role, key]
        shade = hashlib.sha256(repr((role, *key)).encode()).digest()
        image = np.frombuffer(shade * 128, np.uint8).reshape(64, 64)
        data = cv2.imencode(".png", image)[1].tobytes()
        path = benchmark.image_path(hashlib.sha256(data).hexdigest())
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(data)
        self._drawn[role, key] = Picture(role, path)
        return self._drawn[role, key]

    def _pictures(self, case_id: str, roles: tuple[str, ...]) -> list[Picture]:
        """Return the pictures of these roles; four of them if the pictures are options."""
        keys = [(role, case_id, n) for role in roles for n in range(4 if role == "option" else 1)]
        return [self.picture(*(key if key[0] == "option" else key[:2])) for key in keys]

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
        """Add a case with every item of its path, and a grid item with the hit cells ``grid``; return the case's id."""
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
        turn, alone = (self._pictures(case_id, roles) for roles in ROLES.get(kind, ((), ("radiograph",))))
        if kind == "revision_result":
            options = [Option(n, image=picture.image) for n, picture in enumerate(turn, start=1)]
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
        origin = benchmark.Origin("handmade", "1", 0, ({"name": "handmade"},), english(), data)
        contents = benchmark.Contents(tuple(self.items), tuple(self.answers), tuple(self.cases))
        benchmark.write_files(self.folder, origin, contents)
        return self.folder


def six_cases(made: Handmade) -> Path:
    """Write a benchmark of six cases with all ten kinds, and return its folder.

    The cases are on all three paths. Two have a grid item, and one has cardiomegaly.
    """
    made.case("a", "effusion", "lesion_free", detection=(2,))
    made.case("b", "effusion", "revision_free", contour_evaluation=(2,), location=(1, 3), grid=(10, 11))
    made.case("c", "effusion", "revision_required", revision_expansion=(1, 3), revision_contraction=(5,),
              revision_result=(3,), distribution=(2,), grid=())  # fmt: skip
    made.case("d", "cardiomegaly", "revision_required", revision_expansion=(2,), revision_contraction=(1, 4))
    made.case("e", "edema", "revision_free", contour_evaluation=(2,), location=(4,), comparison=(4,))
    made.case("f", "edema", "lesion_free", detection=(2,))
    return made.write()
