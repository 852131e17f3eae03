"""Cases of a manifest by id, and whether they are drawn phantoms or real radiographs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from chexqa.contract.cases import Case, Manifest
from chexqa.files.errors import InputError
from chexqa.files.jsonio import sha256


class Cases(Mapping[str, Case]):
    """Cases of a manifest, keyed by id and read from the file on demand.

    With ``only`` (case ids), the mapping has only these cases. The attributes always describe all cases of the
    manifest:

    - ``data``: what the images are: ``{"phantom"}``, ``{"real"}``, or both.
    - ``findings``: the present findings of each image, keyed by image.
    - ``present``: the ids of the cases with a present finding, keyed by image.
    - ``digest``: a hash of the content, whatever the order of lines.
    """

    def __init__(self, manifest: Manifest, only: Collection[str] | None = None) -> None:
        self._manifest = manifest
        self._places: dict[str, int] = {}
        self.data: set[str] = set()
        self.findings: dict[str, tuple[str, ...]] = {}
        self.present: dict[str, tuple[str, ...]] = {}
        hashes = []
        for place, case in enumerate(manifest):
            if only is None or case.case_id in only:
                self._places[case.case_id] = place
            self.data.add("phantom" if case.source == "phantom" else "real")
            hashes.append(sha256(repr(replace(case, manifest=Path(), line=0)).encode()))
            if case.present:
                image = str(case.image)
                self.findings[image] = (*self.findings.get(image, ()), case.finding)
                self.present[image] = (*self.present.get(image, ()), case.case_id)
        self.digest = sha256("".join(sorted(hashes)).encode())

    def __getitem__(self, case_id: str) -> Case:
        return self._manifest[self._places[case_id]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def only_data(data: set[str], manifest: Path) -> str:
    """Return ``phantom`` or ``real``; raise ``InputError`` for a manifest that has both."""
    if len(data) > 1:
        raise InputError(
            f"{manifest}: contains both phantoms (drawn by a program) and real radiographs, but a benchmark must not "
            "mix the two; use a separate manifest for each."
        )
    return "phantom" if "phantom" in data else "real"
