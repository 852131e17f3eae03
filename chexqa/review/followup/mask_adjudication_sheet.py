"""Adjudication of masks: a third person decides on each mask on which the reviewers' verdicts differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path

from chexqa.contract import benchmark
from chexqa.files.errors import InputError
from chexqa.files.jsonio import write_json
from chexqa.files.seeds import digest, stream
from chexqa.review import columns
from chexqa.review.assignment import Share
from chexqa.review.collect.verdicts import Verdict
from chexqa.review.columns import SheetKind
from chexqa.review.export_options import Wish, one_name
from chexqa.review.followup.adjudication_sheet import Adjudicated
from chexqa.review.resolve.apply_masks import state_of
from chexqa.review.resolve.mask_hashes import ManifestMasks, check_same
from chexqa.review.resolve.redrawn import DOUBTED
from chexqa.review.sheets.export import WORK, Beside, Maker, Progress, mask_source, new_folder
from chexqa.review.sheets.masks_sheet import Masks, Subject
from chexqa.review.sheets.questions import Entry
from chexqa.review.sheets.sheet import Tab


@dataclass(frozen=True)
class DisputedMasks(Masks):
    """Masks on which the reviewers' verdicts differ, as rows of a sheet.

    ``said`` has further cells of each row, such as each reviewer's verdict, keyed by row id and column title.
    """

    said: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def tabs(self, cases: Sequence[str], kind: SheetKind) -> tuple[list[Tab], dict[str, Entry]]:
        """Return the work tabs of the cases, and their rows keyed by row id."""
        tabs, entries = super().tabs(cases, kind)
        found = {
            row_id: changed(entry, row=changed(entry.row, cells={**entry.row.cells, **self.said.get(row_id, {})}))
            for row_id, entry in entries.items()
        }
        return [Tab(tab.name, [found[row.row_id].row for row in tab.rows]) for tab in tabs], found


def adjudicate_masks(
    path: Path, verdicts: Iterable[Verdict], out: Path, adjudicator: str, blind_names: bool, progress: Progress,
    image_root: Path | None = None, beside: Beside | None = None, page_only: bool = False,
) -> Adjudicated:  # fmt: skip
    """Write the sheet of the disputed masks of a manifest or benchmark into the new folder ``out``.

    - ``beside``: a function that also writes the rows as a review page (HTML).
    - ``page_only``: True to write only the review page.
    - ``blind_names``: True to leave out the reviewers' names and to shuffle their verdicts.

    Raises ``InputError`` if a mask with a verdict is missing from ``path`` or is different there, if no mask is
    disputed, or if the adjudicator judged or drew a disputed mask.
    """
    adjudicator = one_name(adjudicator, "--adjudicator")
    rows = [verdict for verdict in verdicts if verdict.is_on_mask]
    bench = benchmark.load(path) if (path / benchmark.ABOUT).is_file() else None
    check_same(rows, bench if bench is not None else ManifestMasks(path, image_root))
    disputed = _disputed(rows)
    if not disputed:
        raise InputError(f"{path}: none of its masks is disputed, so there is nothing to adjudicate.")
    source, subjects = mask_source(path, image_root)
    own = [subject for subject in subjects if columns.mask_row_id(subject.case_id) in disputed]
    _check_third(adjudicator, own, disputed)
    said = {row_id: _votes(row_id, votes, blind_names) for row_id, votes in disputed.items()}
    batch = "r-" + digest(source.hash, "masks adjudication", adjudicator, sorted(map(repr, said.items()))).hex()[:12]
    with new_folder(out) as folder, progress("writing the sheet", len(own)) as step:
        masks = DisputedMasks(tuple(own), folder / WORK, said=said)
        for subject in own:
            masks.draw(subject)
        most = max(len(votes) for votes in said.values())
        wish = Wish((adjudicator,), 0.0, 1, "masks", page_only=page_only)
        maker = Maker(source, masks, wish, batch, folder, most, beside)
        share = Share(adjudicator, tuple(subject.case_id for subject in own), ())
        sheet = maker.sheet(share, "adjudication", step)
        write_json(folder / columns.BATCH_FILE, maker.batch_record([sheet]), "review")
    return Adjudicated(out / sheet["file"], len(own), tuple(maker.pages))


def _disputed(rows: Iterable[Verdict]) -> dict[str, list[Verdict]]:
    """Return the newest verdict of each reviewer on the masks that are still disputed, keyed by row id."""
    found: dict[str, list[Verdict]] = {}
    for row in sorted(rows, key=lambda verdict: (verdict.imported, verdict.batch)):
        if row.verdict is not None:
            found.setdefault(row.row, []).append(row)
    return {
        row_id: list({(vote.kind, vote.reviewer): vote for vote in votes}.values())
        for row_id, votes in sorted(found.items())
        if state_of(votes) == DOUBTED
    }


def _check_third(adjudicator: str, own: Iterable[Subject], disputed: Mapping[str, Sequence[Verdict]]) -> None:
    """Raise ``InputError`` if the adjudicator judged or drew one of the masks."""
    readers = {vote.reviewer for votes in disputed.values() for vote in votes if vote.kind != "adjudication"}
    people = {name.casefold() for name in readers} | {str(one.author).casefold() for one in own if one.author}
    if adjudicator.casefold() in people:
        raise InputError(
            f"--adjudicator {adjudicator}: has judged or drawn one of these masks; name a third person, who has "
            "judged and drawn none of them."
        )


def _votes(row_id: str, votes: Sequence[Verdict], blind_names: bool) -> dict[str, str]:
    """Return the cells with the verdicts of a row in words."""
    texts = []
    for vote in votes:
        lines = [str(vote.verdict), *([f"reason: {vote.reason}"] if vote.reason else [])]
        lines += [f"“{vote.comment}”"] if vote.comment else []
        texts.append("\n".join(lines if blind_names else [f"{vote.reviewer}:", *lines]))
    if blind_names:
        texts = [texts[place] for place in stream(0, "masks adjudication", row_id).permutation(len(texts))]
    return {columns.vote_title(number): text for number, text in enumerate(texts, start=1)}
