"""Display of an audit on the terminal: in percent, at most 80 columns wide, with the verdict first."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chexqa.files.terminal import PHANTOM_NOTICE, plural
from chexqa.generators.audit.audit import Audit
from chexqa.generators.audit.card import p_words, pooled_words, power_words
from chexqa.generators.audit.rule_scores import SAME, Result


def show(found: Audit, out: Console) -> None:
    """Print the audit's results, with the verdict first."""
    _verdict(found, out)
    if found.bench.is_phantom:
        out.print(Text(f"({PHANTOM_NOTICE})", style="yellow"))
    out.print()
    for table in (_priors(found), _others(found), _contents(found), _artefacts(found)):
        if table.row_count:
            out.print(table)
            out.print()
    for line in _remarks(found):
        out.print(line)
    for words in filter(None, (power_words(found), pooled_words(found))):
        out.print(Text(words))


def _verdict(found: Audit, out: Console) -> None:
    """Print whether there is a leak, and which artefacts leak."""
    if not found.leaks:
        out.print(Text(f"No leak: none of {plural(len(found.tested), 'artefact')} tested beats chance.", style="green"))
        if found.tested:
            near = min(found.tested, key=lambda row: row.p or 0.0)
            out.print(Text(f"Smallest p: {near.kind}, {near.predictor} ({near.rule}), p = {p_words(near.holm)}."))
        return
    out.print(
        Text(f"{plural(len(found.leaks), 'leak')} among {plural(len(found.tested), 'artefact')}:", style="bold red")
    )
    for row in found.leaks:
        words = f"{row.predictor} ({row.rule}): {_percent(row.share)} % right, {_percent(row.chance)} % by chance"
        out.print(Text(f"  {row.kind}, {words}", style="red"))


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _interval(row: Result) -> str:
    return f"{100 * row.interval[0]:.0f}–{100 * row.interval[1]:.0f}"


def _scores(table: Table, rows: Iterable[Result], *, with_p: bool) -> Table:
    """Return the table with a line for each kind and a row for each of its results.

    Columns: predictor and rule, answers, right, interval, chance, Holm's p.
    """
    table.add_column("predictor (best rule)", ratio=1)
    for head in ("n", "right\n%", "95 %\ninterval", "chance\n%", *(["p\n(Holm)"] if with_p else [])):
        table.add_column(head, justify="right", no_wrap=True)
    kind = None
    for row in rows:
        if row.kind != kind:
            kind = row.kind
            table.add_row(Text(kind, style="bold"))
        cells = ["–", "", "", ""]
        if row.answers:
            cells = [f"{row.answers:,}", _percent(row.share), _interval(row), _percent(row.chance)]
        style = "bold red" if row.leak else ""
        words = Text(f" {row.predictor} ({row.rule})", style=style)
        table.add_row(words, *cells, *([Text(p_words(row.holm), style=style)] if with_p else []))
    return table


def _artefacts(found: Audit) -> Table:
    """Return the table of artefacts; artefacts that are the same in every item, such as the wording, are left out."""
    rows = [row for row in found.results if row.sort == "artefact" and row.rule != SAME]
    return _scores(_table("Artefacts: none may beat chance"), rows, with_p=True)


def _others(found: Audit) -> Table:
    rows = [
        row
        for row in found.results
        if row.sort == "forced" or (row.sort == "prior" and row.predictor != "most frequent answer")
    ]
    return _scores(_table("Forced by the rules, and priors: measured, not leaks"), rows, with_p=False)


def _priors(found: Audit) -> Table:
    """Return the table of the most frequent answers; it names the finding in which this answer is right most often."""
    table = _table("Priors: the most frequent answer of each finding")
    table.add_column("kind")
    for head in ("items", "chance\n%", "prior\n%", "95 %\ninterval"):
        table.add_column(head, justify="right")
    table.add_column("at most", ratio=1)
    rows = [row for row in found.results if row.predictor == "most frequent answer"]
    for row in rows:
        if row.rule == "of each finding":
            one = max((other for other in rows if other.kind == row.kind and other is not row), key=lambda x: x.share)
            cells = [f"{row.answers:,}", _percent(row.chance), _percent(row.share), _interval(row)]
            table.add_row(row.kind, *cells, f"{_percent(one.share)}, {one.rule}")
    return table


def _contents(found: Audit) -> Table:
    table = _table("Stability")
    table.add_column("kind")
    for head in ("items", "unstable", "near a threshold"):
        table.add_column(head, justify="right")
    near = found.contents["near_threshold"] or {}
    for kind, row in found.contents["unstable"].items():
        if row["unstable"] or kind in near:
            close = f"{near[kind]['near']:,}" if kind in near else "–"
            table.add_row(kind, f"{row['items']:,}", f"{row['unstable']:,}", close)
    return table


def _remarks(found: Audit) -> list[Text]:
    """Return lines on duplicates and ranges."""
    contents = found.contents
    same = contents["duplicates"]
    lines = [
        f"Duplicates: {plural(same['items'], 'item')} asked twice, {same['items_with_equal_options']:,} with equal "
        f"options, {plural(same['radiographs_of_several_cases'], 'radiograph')} in several cases."
    ]
    sizes = contents["lesion_share"].values()
    if sizes:
        least, most = min(size["min"] for size in sizes), max(size["max"] for size in sizes)
        lines.append(f"Lesions: {100 * least:.2g} to {100 * most:.3g} % of the picture.")
    for name, words in (
        ("overlap", "Overlap of altered outlines (IoU)"),
        ("depth", "Depth of edits, divided by the picture's longer side"),
    ):
        if contents[name] is not None:
            part = contents[name]
            lines.append(f"{words}: {part['min']:.3f} to {part['max']:.3f}, median {part['median']:.3f}.")
    return [Text(line) for line in lines]
