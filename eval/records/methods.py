"""The methods paragraphs of a report, ready to be pasted into a paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

import polars as pl

from chexqa.contract.items import CONTESTED
from chexqa.contract.kinds import GRID_CELL
from chexqa.contract.read_run import Run
from chexqa.eval.design.weights import NOT_COMPARED
from chexqa.eval.prompts import conditions
from chexqa.eval.scoring.grade import Graded, protocol_name
from chexqa.eval.scoring.intervals import LEAST_CLUSTERS
from chexqa.eval.scoring.predictions import ELSEWHERE
from chexqa.eval.scoring.significance import DRAWS, EXACT
from chexqa.eval.tables.model_pairs import READERS
from chexqa.files.jsonio import Record
from chexqa.files.terminal import PHANTOM_NOTICE, plural
from chexqa.stats import CONFIDENCE
from chexqa.version import __version__

_PROTOCOLS = {
    "end_to_end": "each case was one conversation in which the model's earlier answers were not corrected",
    "oracle_passed": "each case was one conversation in which a wrong answer was replaced by the right one "
    "before the next stage",
    "oracle_stated": "each case was one conversation in which the question after a wrong stage began with the "
    "right answer",
    "independent": "every item was asked alone, with the pictures it needs",
}


def paragraphs(graded: Graded, frames: Mapping[str, pl.DataFrame]) -> list[str]:
    """Return the methods section as a few paragraphs."""
    return [
        _benchmark(graded),
        *_runs(graded.runs),
        _counts(graded, frames),
        _states(),
        _statistics(frames["facts"]["clusters"][0]) + _tests(frames),
    ]


def _benchmark(graded: Graded) -> str:
    about = graded.benchmark.about
    counts, bank = about["counts"], about["question_bank"]
    recipes = ", ".join(f"'{recipe['name']}' ({recipe['hash'][:8]})" for recipe in about["recipes"])
    kind = f" The cases are {PHANTOM_NOTICE}." if graded.benchmark.is_phantom else ""
    return (
        f"Benchmark '{about['name']}', version {about['version']} (SHA-256 {graded.benchmark.hash[:16]}): "
        f"{plural(counts['items'], 'item')} from {plural(counts['cases'], 'case')}, made with chexqa "
        f"{about['tool_version']}, recipe {recipes}, question bank '{bank['name']}' ({bank['hash'][:8]}) and seed "
        f"{about['seed']}.{kind} The report was made with chexqa {__version__}."
    )


def _runs(runs: Sequence[Run]) -> list[str]:
    """Return a paragraph for each way in which models were asked, then one for each group of models."""
    ways: dict[str, list[str]] = {}
    models: dict[str, list[tuple[str, Run]]] = {}
    said: dict[str, str] = {}
    for run in runs:
        name, way = protocol_name(run), _way(run)
        same = ways.setdefault(name, [])
        if way not in same:
            same.append(way)
        number = same.index(way) + 1
        label = f"'{name}'" if number == 1 else f"'{name}' ({number})"
        said[label] = way
        for model in run.models:
            models.setdefault(model, []).append((label, run))
    groups: dict[tuple[str, ...], list[str]] = {}
    for model, asked in models.items():
        groups.setdefault(tuple(dict.fromkeys(label for label, _ in asked)), []).append(_model(model, asked))
    return [
        *(f"Protocol {label}: {way}" for label, way in said.items()),
        *(f"Models under {_listed(labels)}: {'; '.join(own)}." for labels, own in groups.items()),
    ]


def _way(run: Run) -> str:
    """Return sentences on how a run asked its models."""
    if run.about.get(ELSEWHERE):
        return "answers were made elsewhere, and graded as given."
    views = [
        ("blind", "No picture was sent."),
        ("overlay_only", "Only the drawings were sent, on plain grey instead of the radiograph."),
    ]
    notes = [*_condition(run), *(text for name, text in views if run.about.get(name))]
    return " ".join([f"{_PROTOCOLS[run.about['protocol']]}.", *notes]) + _how_much(run)


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def _condition(run: Run) -> Iterable[str]:
    """Yield sentences on the wording around the questions and on examples, if they are not the defaults."""
    how = conditions.of_run(run.about)
    if how.prompt:
        yield f"The words around the questions were those of '{how.prompt}'."
    if how.system:
        yield f"A system text of {len(how.system):,} characters (SHA-256 {how.system_mark}) was given."
    if how.shots:
        yield (
            f"Each question came after {plural(how.shots, 'example')} of its kind with pictures and right answers, "
            "from other patients."
        )
    if how.may_abstain:
        yield "Each question allowed the model to abstain; an abstention counts as not right."
    if how.confidence:
        yield "Each question asked for the confidence, from 0 to 100 percent, that the answer is right in every part."


def _how_much(run: Run) -> str:
    """Return a sentence on the number of cases, orders of options and repeats; empty if all cases were asked once."""
    about = run.about
    parts = [
        (about["limit_per_path"], "Only {} of each path were asked, as a trial.", "case"),
        (about["limit"], "Only {} were asked, as a trial.", "case"),
        (len(about["cases"]) if about.get("cases") else None, "Readers answered {}.", "case"),
        (about["rotations"] if about["rotations"] > 1 else None, "Options were shown in {}.", "order"),
        (about["repeats"] if about["repeats"] > 1 else None, "Every conversation was held {}.", "time"),
    ]
    said = [words.format(plural(count, noun)) for count, words, noun in parts if count is not None]
    if about.get("limit_prefers"):
        said.insert(1, f"Cases with altered pictures ({', '.join(about['limit_prefers'])}) were taken first.")
    return "".join(f" {one}" for one in said)


def _model(name: str, asked: Sequence[tuple[str, Run]]) -> str:
    """Return a model's name with its facts."""
    days: dict[str, set[str]] = {}
    ways: dict[str, list[str]] = {}
    for way, run in asked:
        if run.about.get(ELSEWHERE):
            continue
        turns = [turn for turn in run.turns if turn.model == name]
        facts = _facts(run.about["models"][name], {turn.provider_model for turn in turns if turn.provider_model})
        days.setdefault(facts, set()).update(turn.started[:10] for turn in turns)
        ways.setdefault(facts, []).append(way)
    said = [f"{facts}; {_when(sorted(days[facts]))}" for facts in days]
    # Facts that differ between the ways in which the model was asked name the way.
    if len(said) > 1:
        said = [f"{_listed(tuple(dict.fromkeys(own)))}: {one}" for own, one in zip(ways.values(), said, strict=True)]
    return f"{name} ({'; '.join(said)})" if said else name


def _facts(about: Record, answered: Set[str]) -> str:
    """Return what a model is called where it is served, and how its answers were decoded."""
    decoding = (
        ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in about["decoding"].items()) or "default decoding"
    )
    others = sorted(answered - {about["litellm"], about["litellm"].partition("/")[2]})
    says = f", which called itself {', '.join(others[:3])}" if others else ""
    return f"{about['litellm']}{says}; {decoding}"


def _when(days: Sequence[str]) -> str:
    return "not asked" if not days else f"asked on {days[0]}" if len(days) == 1 else f"asked {days[0]} to {days[-1]}"


def _counts(graded: Graded, frames: Mapping[str, pl.DataFrame]) -> str:
    """Return sentences on the numbers of questions."""
    items = graded.grades.unique("item_id", keep="first")
    levels = items.filter(pl.col("level").is_not_null())
    contested = levels.filter(pl.col("flags").list.contains(CONTESTED)).height
    left = levels.filter((pl.col("finding") == NOT_COMPARED) & ~pl.col("flags").list.contains(CONTESTED)).height
    grid = items.filter(pl.col("kind") == GRID_CELL).height
    sorts = {"of the three levels": levels.height, "on the grid": grid}
    sorts["of other kinds"] = items.height - sum(sorts.values())
    most = max(frames["states"]["items"].to_list(), default=0)
    out = " and ".join(_counted({f"on {NOT_COMPARED}": left, "contested": contested}))
    return (
        f"An item is one question about one case. {plural(items.height, 'item')} were asked: "
        f"{', '.join(_counted(sorts))}.{f' Scores of levels leave out {out}.' if out else ''} States count how often "
        f"items with their original pictures were asked, which is at most {most:,} times for a model "
        "and protocol. Costs count those with an outcome, and have columns of their own for altered pictures."
    )


def _counted(numbers: Mapping[str, int]) -> list[str]:
    return [f"{count:,} {words}" for words, count in numbers.items() if count]


def _states() -> str:
    return (
        "An answer was read where a reply last announced one, or from a reply that was nothing but the answer; other "
        "prose was not read. Replies that were unparsed, truncated, refused or empty, and prompts longer than the "
        "context, count as not correct. A model with unfinished items has no headline number."
    )


def _statistics(clusters: str) -> str:
    return (
        f"Intervals are {100 * CONFIDENCE:.0f} % intervals over {clusters}. Intervals of shares, and of means of "
        "shares, are Wilson's, on the number of answers divided by the design effect, with a t quantile. Intervals of "
        f"differences are t intervals over {clusters}, with two more {clusters} that differ, one in each direction. "
        f"Numbers from fewer than {LEAST_CLUSTERS} {clusters} have no interval. Scores are corrected for chance as "
        "sum(a - c) / sum(1 - c), with accuracy a and chance c of each item, and averaged over the kinds "
        "of a level. Cardiomegaly has no semantic items and is left out of comparisons of levels. "
        f"Differences between models were tested by {DRAWS:,} sign flips of the {clusters}' differences, "
        f"or by all possible sign flips where at most {EXACT} {clusters} differ."
    )


def _tests(frames: Mapping[str, pl.DataFrame]) -> str:
    """Return sentences on the families of tests that Holm's method corrects."""
    said = [
        " Holm's method corrects the p values of each family of tests by itself, and those of tests of equivalence in "
        "the same families. The family named in advance has every pair of models on each level and on the mean of "
        "levels, and medical against general models on the same scores."
    ]
    if READERS in frames["pairs"]["family"]:
        said.append("Pairs of a reader with a model or with another reader are a second family, on the same scores.")
    if frames["random_readers"]["p_holm"].drop_nulls().len():
        said.append("Models minus readers as a random sample are a family of their own, over all models and levels.")
    said.append("All other comparisons are exploratory and not corrected. Intervals are never corrected.")
    return " ".join(said)
