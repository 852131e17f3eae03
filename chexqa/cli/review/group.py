"""The command group ``review``: a table of its commands."""

from __future__ import annotations

from typing import ClassVar

import click

from chexqa.cli.main import Entry, LazyGroup

COMMANDS: dict[str, Entry] = {
    "export": Entry("chexqa.cli.review.deal:export", "Assign items or masks to reviewers in spreadsheets."),
    "study": Entry("chexqa.cli.review.study:study", "Set up a reader study: training, sheets, repeated items."),
    "import": Entry("chexqa.cli.review.returned:import_sheets", "Import filled sheets, row by row."),
    "open": Entry("chexqa.cli.review.deal:open_second", "Write the sheets with proposals after the blind answers."),
    "serve": Entry("chexqa.cli.review.deal:serve", "Serve review pages that save every answer at once."),
    "status": Entry("chexqa.cli.review.returned:status", "Show each reviewer's progress."),
    "agreement": Entry("chexqa.cli.review.returned:agreement", "Show how far reviewers agree."),
    "validity": Entry("chexqa.cli.review.results:validity", "Show how far readers agree with the key."),
    "readers": Entry("chexqa.cli.review.study:readers", "Show the figures of each reader of a study."),
    "carry": Entry("chexqa.cli.review.results:carry", "Carry verdicts on unchanged items over to a new version."),
    "adjudicate": Entry("chexqa.cli.review.results:adjudicate", "Write a sheet of the items reviewers disagree on."),
    "wordings": Entry("chexqa.cli.review.wordings:wordings", "Have an expert compare wordings of each question."),
    "apply": Entry("chexqa.cli.review.results:apply", "Write the next version of a benchmark or manifest."),
}


class ReviewGroup(LazyGroup):
    """The commands of ``chexqa review``."""

    table: ClassVar[dict[str, Entry]] = COMMANDS


@click.group(cls=ReviewGroup, epilog="Example: chexqa review export bench -o sheets --reviewers anna,ben")
def review() -> None:
    """Assign work to expert reviewers in spreadsheets, and import what they return."""
