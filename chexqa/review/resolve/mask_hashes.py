"""Check that a verdict is still valid: lesion, lungs and radiograph must be the judged ones."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.cases import MANIFEST, Manifest, load_case, read_manifest
from chexqa.contract.items import CaseKey
from chexqa.files.errors import InputError
from chexqa.files.opening import sha256_of
from chexqa.review.binding import mask_seen, shown_mask
from chexqa.review.collect.verdicts import Verdict
from chexqa.review.columns import benchmark_mark, check_authors, mask_row_id


class ManifestMasks:
    """Masks of a manifest, with hashes; a case's files are read when its hash is first needed."""

    def __init__(self, path: Path, image_root: Path | None = None) -> None:
        """Read and check the manifest; ``path`` is its file or its folder."""
        self.path = path / MANIFEST if path.is_dir() else path
        self.cases: Manifest = read_manifest(path, image_root)
        check_authors(self.cases)
        self._seen: dict[str, str] = {}

    @cached_property
    def hash(self) -> str:
        """The hash of the manifest's bytes."""
        return sha256_of(self.path)

    @cached_property
    def places(self) -> dict[str, int]:
        """The position of each case in the manifest, from 0, keyed by case id."""
        return {case.case_id: place for place, case in enumerate(self.cases)}

    @cached_property
    def by_row(self) -> dict[str, str]:
        """The case ids, keyed by the row id in a sheet."""
        return {mask_row_id(case_id): case_id for case_id in self.places}

    def seen(self, case_id: str) -> str:
        """Return one hash for a case's current mask, lungs and radiograph.

        Raises ``InputError`` if its files are faulty.
        """
        if case_id not in self._seen:
            self._seen[case_id] = shown_mask(load_case(self.cases[self.places[case_id]])).seen
        return self._seen[case_id]

    def is_same(self, verdict: Verdict, case_id: str) -> bool:
        """Return True if a verdict is on the case's current mask."""
        return verdict.benchmark == self.hash if verdict.seen is None else verdict.seen == self.seen(case_id)


def seen_in_key(key: CaseKey) -> str | None:
    """Return one hash for a case's radiograph, lesion and lungs; None if the key has no hash of the radiograph."""
    stored, image_key = key.measures.get("masks", {}), key.measures.get("image_key")
    return mask_seen(str(image_key), stored) if image_key else None


def check_same(verdicts: list[Verdict], source: Benchmark | ManifestMasks) -> None:
    """Raise ``InputError`` if a verdict was given on another mask than the mask of its case in ``source``."""
    for verdict in verdicts:
        if isinstance(source, ManifestMasks):
            case_id = source.by_row.get(verdict.row)
            same = case_id is not None and (verdict.benchmark == source.hash or source.is_same(verdict, case_id))
            name = str(source.path)
        else:
            _, cases = source.key("comparing verdicts on masks")
            rows = {mask_row_id(name): case for name, case in cases.items()}
            same = verdict.benchmark == source.hash or (
                verdict.seen is not None and verdict.row in rows and verdict.seen == seen_in_key(rows[verdict.row])
            )
            name = str(source.folder)
        if not same:
            raise InputError(
                f"verdict on '{verdict.row}': was given on the mask in {benchmark_mark(verdict.benchmark)}, but {name} "
                f"has another mask; give the reviewed benchmark or manifest instead of {name}."
            )
