"""The benchmark card: a README on a benchmark's contents, its origin, and the results of the audit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chexqa.contract.benchmark import CARD, CARD_MARK, CHANGES
from chexqa.contract.items import PATHS
from chexqa.files.atomic import made_folder, write_all
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, read_text
from chexqa.files.opening import MissingError, check_folder
from chexqa.files.terminal import PHANTOM_NOTICE, plural
from chexqa.files.text import markdown, shown
from chexqa.generators.audit import plots
from chexqa.generators.audit.audit import Audit
from chexqa.generators.audit.classifier import POOLED, POOLED_KIND
from chexqa.generators.audit.rule_scores import LEVEL, Result
from chexqa.generators.interventions import card_lines
from chexqa.version import __version__

FIGURES = "card"


@contextmanager
def prepared(folder: Path) -> Iterator[None]:
    """Make the folders for a card, and remove them again if the card is not written.

    Raise ``InputError`` if the folders cannot be made, or contain a README that no audit wrote.
    """
    path = folder / CARD
    if path.exists() and not read_text(path, inside=folder).startswith(CARD_MARK):
        raise InputError(f"{path}: is not from 'chexqa audit', so it is kept; name another folder with -o.")
    figures = folder / FIGURES
    check_folder(figures, folder)
    with made_folder(figures):
        yield


def write(audit: Audit, folder: Path) -> Path:
    """Write the card and its figures into a prepared folder; return the card's path."""
    drawn = plots.draw(audit)
    files = {f"{FIGURES}/{name}": data for name, data in drawn.items()} | {CARD: text(audit, drawn).encode()}
    write_all(folder, files.items())
    return folder / CARD


def text(audit: Audit, figures: Iterable[str]) -> str:
    """Return the card in Markdown; ``figures`` has the file names of its figures."""
    about = audit.bench.about
    names = set(figures)
    parts = [
        [CARD_MARK, f"# {markdown(about['name'])} {markdown(about['version'])}".rstrip()],
        [f"**{PHANTOM_NOTICE[0].upper()}{PHANTOM_NOTICE[1:]}.**"] if audit.bench.is_phantom else [],
        _summary(audit),
        _composition(audit, names),
        card_lines.lines(about),
        _definitions(audit),
        _provenance(audit),
        _answers(audit, names),
        _measures(audit, names),
        _findings(audit, names),
        _given(audit),
        _limits(audit),
        _changes(audit.bench.folder),
        _canary(about["canary"]),
    ]
    return "\n\n".join(line for part in parts for line in part) + "\n"


def _canary(line: str) -> list[str]:
    if not line:
        return []
    words = "Keep this benchmark out of training data. Training data that contains this line can be filtered out:"
    return ["## Canary", words, f"`{markdown(line)}`"]


def _origin(about: Record) -> str:
    """Return the benchmark's origin in words: chexqa with a seed, or the layout of a foreign benchmark."""
    if "layout" in about:
        return f"read from {about['layout']}"
    return f"made by chexqa {markdown(about['tool_version'])} with seed {about['seed']}"


def _changes(folder: Path) -> list[str]:
    """Return the lines on changes made by expert review, if any.

    HTML, links and pictures are removed from the text, which is untrusted.
    """
    try:
        text = shown(read_text(folder / CHANGES, inside=folder)).strip()
    except MissingError:
        return []
    return [text.replace("<", "&lt;").replace("](", "]&#40;").replace("]:", "]&#58;")]


def _table(head: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1) -> str:
    """Return a Markdown table of text: the first ``left`` columns aligned left, the others right."""
    lines = [head, ["---" if index < left else "---:" for index in range(len(head))], *rows]
    return "\n".join("| " + " | ".join(markdown(str(cell)) for cell in line) + " |" for line in lines)


def _figure(name: str, words: str, names: set[str]) -> list[str]:
    return [f"![{words}]({FIGURES}/{name}.svg)"] if f"{name}.svg" in names else []


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def p_words(p: float | None) -> str:
    """Return a p value as text."""
    if p is None:
        return "–"
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.1 else f"{p:.2f}"


def _summary(audit: Audit) -> list[str]:
    about = audit.bench.about
    counts = about["counts"]
    people = audit.contents["people"]
    patients = f"{plural(people['patients'], 'patient')}, " if people["patients"] else ""
    verdict = (
        f"**{plural(len(audit.leaks), 'leak')}**: a model can answer some items without looking at the anatomy."
        if audit.leaks
        else f"No leak: none of {plural(len(audit.tested), 'artefact')} tested beats chance."
    )
    return [
        f"{plural(counts['items'], 'item')} on {plural(counts['cases'], 'case')} ({patients}"
        f"{plural(people['radiographs'], 'radiograph')}, "
        f"{plural(counts['images'], 'picture')}), {_origin(about)}, "
        f"audited by chexqa {__version__}. Benchmark `{audit.bench.hash[:16]}`.",
        " ".join(words for words in (verdict, power_words(audit), pooled_words(audit)) if words),
    ]


def _composition(audit: Audit, names: set[str]) -> list[str]:
    counts = audit.bench.about["counts"]
    people = audit.contents["people"]
    made = [(kind, f"{counts['kinds'][kind]:,}") for kind in audit.bench.kinds if counts["kinds"].get(kind)]
    parts = ["## Composition", _table(["kind", "items"], made)]
    if counts["paths"]:
        head = ["finding", *(path.replace("_", "-") for path in PATHS)]
        parts.append(
            _table(head, [[finding, *(row[path] for path in PATHS)] for finding, row in counts["paths"].items()])
        )
    parts += _figure("composition", "cases by finding and path", names)
    known = [
        f"{name}: " + ", ".join(f"{markdown(k)} {n:,}" for k, n in people[name].items()) for name in ("sex", "view")
    ]
    if people["age"]:
        known.append("age: {min:g} to {max:g}, median {median:g}".format(**people["age"]))
    if people["negatives"]:
        known.append(
            "lesion-free radiographs: " + ", ".join(f"{markdown(k)} {n:,}" for k, n in people["negatives"].items())
        )
    parts.append("\n".join(f"- {line}" for line in known))
    return parts


def _definitions(audit: Audit) -> list[str]:
    about = audit.bench.about
    kinds = [
        f"- **{name}**: {kind.about}" for name, kind in audit.bench.kinds.items() if about["counts"]["kinds"].get(name)
    ]
    recipes = [f"- recipe {markdown(recipe['name'])}, SHA-256 `{recipe['hash']}`" for recipe in about["recipes"]]
    bank = about["question_bank"]
    if bank is not None:
        recipes.append(
            f"- question bank {markdown(bank['name'])} ({markdown(bank['language'])}), SHA-256 `{bank['hash']}`"
        )
    return [
        "## Definitions",
        "\n".join(kinds),
        "Sides are the patient's. *Chance* is one over the number of legal answers, and for points the probability "
        "of the most probable answer. *Prior* is the accuracy of always giving the most frequent answer of the kind "
        "and finding; with few items it is above chance in any case. "
        "Paths: lesion-free (detection only), revision-free (the outline fits) and revision-required (the outline was "
        "altered in one to three places).",
        "\n".join(recipes),
    ]


def _provenance(audit: Audit) -> list[str]:
    about = audit.bench.about
    sources = audit.contents["sources"]
    rows = [(field, name, f"{count:,}") for field in sources for name, count in sources[field].items()]
    access = about["access"]
    lines = ["## Sources and licences", _table(["", "", "cases"], rows, left=2)]
    if audit.bench.is_phantom:
        lines.append("The radiographs and masks are drawn by chexqa; none is of a person.")
    else:
        lines.append("Each source's terms apply to its pictures and to everything made from them.")
    if access["credentialed"]:
        lines.append(
            f"**{plural(access['credentialed'], 'case')} of credentialed access**: their terms forbid sending pictures "
            "to third parties and sharing this folder."
        )
    return lines


def _answers(audit: Audit, names: set[str]) -> list[str]:
    rows = [row for row in audit.results if row.predictor == "most frequent answer" and row.rule == "of each finding"]
    table = [[row.kind, f"{row.answers:,}", _percent(row.chance), _percent(row.share), _between(row)] for row in rows]
    return [
        "## Answers and priors",
        _table(["kind", "items", "chance %", "prior %", "95 % interval"], table),
        *_figure("answers", "answers by kind and finding", names),
        *_figure("grid", "cells of the grid that are hits", names),
    ]


def _between(row: Result) -> str:
    return f"{_percent(row.interval[0])} to {_percent(row.interval[1])}"


def _measures(audit: Audit, names: set[str]) -> list[str]:
    contents = audit.contents
    parts = ["## Lesions, edits and stability"]
    if contents["lesion_share"]:
        rows = [[finding, *_range_cells(box, 100)] for finding, box in contents["lesion_share"].items()]
        parts.append(
            _table(["lesion, % of the picture", "cases", "least", "quartile", "median", "quartile", "largest"], rows)
        )
    edits = [
        [words, *_range_cells(contents[name], 100)]
        for name, words in (("overlap", "overlap (IoU)"), ("depth", "depth, divided by the longer side"))
        if contents[name] is not None
    ]
    if edits:
        parts.append(_table(["altered outlines, %", "n", "least", "quartile", "median", "quartile", "largest"], edits))
        found = contents["edits"]
        outlines = [f"{count:,} with {plural(int(number), 'edit')}" for number, count in found["by_number"].items()]
        parts.append(
            f"Altered outlines: {', '.join(outlines)}. Edits that make the outline too large: {found['over']:,}, "
            f"too small: {found['under']:,}."
        )
    parts += [*_figure("lesions", "sizes of lesions", names), *_figure("edits", "overlap and depth of edits", names)]
    near: Record = contents["near_threshold"] or {}
    rows = [
        [kind, f"{row['items']:,}", f"{row['unstable']:,}", f"{near[kind]['near']:,}" if kind in near else "–"]
        for kind, row in contents["unstable"].items()
    ]
    parts.append(_table(["kind", "items", "unstable", "near a threshold"], rows))
    parts.append(
        "*Unstable*: masks that are 3 px larger or smaller (in a picture of 1,024 px) give another answer. *Near a "
        "threshold*: a number that decides the answer is within a tenth of its threshold (within a quarter for a "
        "location), or the lesion touches a region that counts as free. –: not known."
    )
    return parts


def _range_cells(box: Record, scale: float) -> list[str]:
    return [f"{box['n']:,}", *(f"{scale * box[name]:.3g}" for name in ("min", "q1", "median", "q3", "max"))]


def _findings(audit: Audit, names: set[str]) -> list[str]:
    leaks = [f"- **{row.kind}**: {markdown(f'{row.predictor} ({row.rule})')}, {_percent(row.share)} % right against "
             f"{_percent(row.chance)} % by chance, p = {p_words(row.holm)}" for row in audit.leaks]  # fmt: skip
    untested = [markdown(f"{row.kind}: {row.predictor} ({row.rule})") for row in _artefacts(audit) if row.holm is None]
    parts = [
        "## Audit",
        "Predictors that never look at the anatomy try to answer every kind of item. *Artefacts* may not beat chance: "
        f"a one-sided p under {LEVEL} after Holm's correction over all artefacts is a leak. A predictor with "
        f"several rules has its p value and interval corrected for their number.",
        "\n".join(leaks) if leaks else f"None of {plural(len(audit.tested), 'artefact')} tested beats chance.",
        *_figure("predictors", "predictors against chance", names),
        _results_table(audit.tested),
        *_power(audit),
    ]
    if untested:
        parts.append(f"Not tested (the same in every item, or too few items): {'; '.join(untested)}.")
    return parts


def _power(audit: Audit) -> list[str]:
    """Return the section on the smallest leaks that the audit could have detected, by kind and class of predictor."""
    rows: dict[tuple[str, str], list[Result]] = {}
    for row in audit.tested:
        rows.setdefault((row.kind, row.family), []).append(row)
    table = []
    for (kind, family), group in rows.items():
        known = sorted((row for row in group if row.excess is not None), key=lambda row: row.excess or 0.0)
        ends = [f"{_percent(row.detectable or 0.0)} ({_percent(row.chance)})" for row in (*known[:1], *known[-1:])]
        table.append([kind, family, str(len(group)), *(ends or ["–", "–"])])
    return [
        "### The smallest leak that would have been found",
        "The size of a leak is the share of answers that a model gets right by it; the share by chance is in "
        "brackets. A test finds a leak of this size with a probability of 80 %, after all corrections. "
        "Smaller leaks may exist. –: not known, or too few items to find any leak.",
        _table(["kind", "predictors", "number", "most sensitive %", "least sensitive %"], table, left=2),
    ] if table else []  # fmt: skip


def pooled_words(audit: Audit) -> str:
    """Return sentences on known biases that are too small for one audit to show.

    The text is "" if chexqa did not make the benchmark.
    """
    drawn = "layout" not in audit.bench.about and audit.bench.about["counts"]["kinds"].get(POOLED_KIND)
    return POOLED if drawn and not audit.leaks else ""


def power_words(audit: Audit) -> str:
    """Return a sentence on the smallest leak that the audit could have found; "" if no artefact was tested."""
    known = [row.excess for row in audit.tested if row.excess is not None]
    if not known:
        return "The benchmark has too few items to show any leak." if audit.tested else ""
    blind = len(audit.tested) - len(known)
    rest = f"; for {plural(blind, 'test')} this size is not known, or no leak could be found" if blind else ""
    return (
        f"The audit finds a leak with a probability of 80 % if it raises the share of right answers above "
        f"chance by {_percent(min(known))} (most sensitive test) to {_percent(max(known))} percentage points "
        f"(least sensitive test){rest}."
    )


def _artefacts(audit: Audit) -> list[Result]:
    return [row for row in audit.results if row.sort == "artefact"]


def _results_table(rows: Iterable[Result]) -> str:
    cells = [
        [row.kind, f"{row.predictor}: {row.rule}", f"{row.answers:,}", _percent(row.share), _between(row),
         _percent(row.chance), p_words(row.p), p_words(row.holm),
         "–" if row.detectable is None else _percent(row.detectable)]
        for row in rows
    ]  # fmt: skip
    head = [
        "kind",
        "predictor",
        "answers",
        "right %",
        "95 % interval",
        "chance %",
        "p",
        "p (Holm)",
        "smallest leak found %",
    ]
    return _table(head, cells, left=2)


def _given(audit: Audit) -> list[str]:
    """Return the sections on priors other than the most frequent answers, and on forced answers."""
    rows = [
        row for row in audit.results if row.sort == "prior" and row.predictor != "most frequent answer" and row.answers
    ]
    forced = [row for row in audit.results if row.sort == "forced" and row.answers]
    parts = []
    if forced:
        parts += ["### Forced by the published rules", _results_table(forced)]
    if rows:
        parts += ["### Priors", "Answers that are frequent in nature: reported, but not leaks.", _results_table(rows)]
    return parts


def _limits(audit: Audit) -> list[str]:
    """Return the lines on the known limits of this benchmark and of every benchmark."""
    about, contents = audit.bench.about, audit.contents
    limits = []
    if audit.bench.is_phantom:
        limits.append(f"{PHANTOM_NOTICE}; scores on it say nothing about perception in patients")
    if audit.leaks:
        limits.append("it has leaks: a model can answer some items without looking at the anatomy")
    for row in about["shortfall"]:
        path = row["path"].replace("_", "-")
        limits.append(
            f"{markdown(row['finding'])}, {path}: {row['made']} of the {row['quota']} cases that the recipe asks for"
        )
    if contents["one_answer"]:
        limits.append(
            f"items of the kind {markdown(' or '.join(contents['one_answer']))} all have the same answer, so a model "
            f"can answer without looking"
        )
    unstable = sum(row["unstable"] for row in contents["unstable"].values())
    if unstable:
        limits.append(
            f"{plural(unstable, 'item')} would have another answer if the masks were drawn slightly differently"
        )
    if contents["review"].get("not reviewed"):
        limits.append(f"{plural(contents['review']['not reviewed'], 'item')} not reviewed by an expert")
    same = contents["duplicates"]
    if same["items"] or same["items_with_equal_options"]:
        limits.append(
            f"{plural(same['items'], 'item')} asked twice, {plural(same['items_with_equal_options'], 'item')} "
            "with two equal pictures among the options"
        )
    if same["radiographs_of_several_cases"]:
        limits.append(
            f"{plural(same['radiographs_of_several_cases'], 'radiograph')} used in several cases, "
            f"{same['radiographs_twice_with_one_finding']:,} of them twice for the same finding"
        )
    if about["counts"]["skipped"]:
        limits.append(f"{plural(about['counts']['skipped'], 'case')} left out; skipped.jsonl has the reasons")
    limits.append("an audit finds only the shortcuts it looks for; others may exist")
    return ["## Known limits", "\n".join(f"- {line}" for line in limits)]
