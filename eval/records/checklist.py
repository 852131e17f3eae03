"""Reporting checklist for studies with language models: MI-CLEAR-LLM, and what referees ask beyond it.

The entries are filled from the runs and the benchmark. Facts that are in neither are listed as missing. Sources:
MI-CLEAR-LLM (Korean Journal of Radiology, 2024); STARD-AI and CLAIM for the flow of cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import stdev
from typing import NamedTuple

import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import CaseKey
from chexqa.contract.read_run import Run
from chexqa.eval.prompts import conditions
from chexqa.eval.prompts.conditions import Prompter
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.prompts.protocols import PriorReply, conversations, named
from chexqa.eval.records.case_flow import steps
from chexqa.eval.scoring.csv_and_parquet import csv_bytes
from chexqa.eval.scoring.grade import Graded, protocol_name
from chexqa.eval.scoring.predictions import ELSEWHERE
from chexqa.eval.tables.levels_and_stages import DECISIONS
from chexqa.files.terminal import PHANTOM_NOTICE, plural
from chexqa.files.text import markdown

MI_CLEAR = (
    "1. model", "2. randomness", "3. prompts", "4. how prompts were sent", "5. how prompts were developed",
    "6. independence of test data",
)  # fmt: skip
# Prevalences at which predictive values are computed.
PREVALENCES = (0.01, 0.1, 0.3)
UNDEFINED = "–"
PARTS, ENDS = ("sensitivity", "specificity"), ("", "_low", "_high")
_BRACKETS = "in brackets: values at the lower and at the upper ends of the intervals of sensitivity and specificity"


class Entry(NamedTuple):
    """Entry of a reporting checklist.

    - ``item``: the point to report.
    - ``known``: the known facts on this point, or None.
    - ``missing``: the facts on this point that the user must add, or None.
    """

    item: str
    known: str | None
    missing: str | None = None


def mi_clear(graded: Graded) -> list[Entry]:
    """Return the entries on the six points of MI-CLEAR-LLM, in its order; a point may have several entries."""
    runs = [run for run in graded.runs if not run.about.get(ELSEWHERE)]
    made: list[Entry] = []
    made += [entry for run in graded.runs for name in run.models for entry in _model(run, name)]
    made += [entry for run in runs for entry in _randomness(run)]
    made += [entry for run in runs for entry in _prompts(graded, run)]
    made += [entry for run in runs for entry in _sessions(run)]
    made.append(Entry(MI_CLEAR[4], _developed(graded),
                      "who chose the wording, on which other data it was tried, and how many versions were "
                      "tried"))  # fmt: skip
    made += _independence(graded)
    return sorted(dict.fromkeys(made), key=lambda entry: MI_CLEAR.index(entry.item))


def _model(run: Run, name: str) -> Iterator[Entry]:
    about = run.about["models"][name]
    turns = [turn for turn in (*run.turns, *run.altered) if turn.model == name]
    if run.about.get(ELSEWHERE):
        yield Entry(MI_CLEAR[0], f"{name}: answers made elsewhere", "model, version, provider and dates")
        return
    if about["litellm"].startswith("baseline/"):
        yield Entry(MI_CLEAR[0], f"{name}: a baseline that chexqa computes; it is no language model")
        return
    served = sorted({turn.provider_model for turn in turns if turn.provider_model})
    days = sorted({turn.started[:10] for turn in turns if turn.started})
    provider, _, _ = about["litellm"].rpartition("/")
    where = f"at {about['api_base']}" if about["api_base"] else f"at the provider {provider or 'named by its id'}"
    said = f"; the server called it {', '.join(served)}" if served else ""
    when = f"; asked {days[0]} to {days[-1]}" if days else "; not asked"
    lacks = [
        "the version that the server used" if not served else None,
        "the dates" if not days else None,
        "the maker, the last date of its training data, and whether it could use the web",
    ]
    yield Entry(MI_CLEAR[0], f"{name}: {about['litellm']} {where}{said}{when}", ", ".join(filter(None, lacks)))


def _randomness(run: Run) -> Iterator[Entry]:
    for name in run.models:
        about = run.about["models"][name]
        if about["litellm"].startswith("baseline/"):
            continue
        decoding = ", ".join(f"{key} {value}" for key, value in about["decoding"].items())
        times = run.about["repeats"]
        asked = f"each question {plural(times, 'time')} in {plural(run.about['rotations'], 'order')} of its options"
        single = "with one reply to each question, variance from run to run is unknown; use --repeats"
        known = f"{name}, {protocol_name(run)}: {decoding or 'no decoding setting given'}; {asked}"
        lacks = ["the temperature, if the provider sets one" if "temperature" not in about["decoding"] else None,
                 single if times == 1 else None]  # fmt: skip
        yield Entry(MI_CLEAR[1], known, "; ".join(filter(None, lacks)) or None)


def _prompts(graded: Graded, run: Run) -> Iterator[Entry]:
    bank = graded.benchmark.about["question_bank"]
    how = conditions.of_run(run.about)
    yield Entry(
        MI_CLEAR[2],
        f"{protocol_name(run)}: question bank '{bank['name']}' ({bank['hash'][:12]}), language {bank['language']}"
        f"{f', wording {how.words}' if how.words else ''}; every question is in items.jsonl, and the full text of one "
        "conversation follows this table",
    )


def _sessions(run: Run) -> Iterator[Entry]:
    how = {
        "independent": "every question in a separate session, without history",
        "end_to_end": "one session for each case; the model's earlier answers stay in the history",
        "oracle_passed": "one session for each case; a wrong answer is replaced by the right one before the next stage",
        "oracle_stated": "one session for each case; after a wrong stage the next question states the right answer",
    }[run.about["protocol"]]
    shown = "with the pictures of each question in its turn"
    if run.about["blind"] or run.about["overlay_only"]:
        shown = "without pictures" if run.about["blind"] else "with the drawings on plain grey, without the radiograph"
    shots = conditions.of_run(run.about).shots
    yield Entry(MI_CLEAR[3], f"{protocol_name(run)}: {how}, {shown}; {plural(shots, 'example')} before each question; "
                             "no tool and no retrieval is offered by chexqa")  # fmt: skip


def _developed(graded: Graded) -> str:
    bank = graded.benchmark.about["question_bank"]
    version = graded.benchmark.about["tool_version"]
    return f"The wording is that of the bank '{bank['name']}' of chexqa {version}; each run records its hash"


def _independence(graded: Graded) -> Iterator[Entry]:
    about = graded.benchmark.about
    _, cases = graded.benchmark.key("the checklist")
    sources = sorted({str(case.measures.get("source") or "not named") for case in cases.values()})
    if graded.benchmark.is_phantom:
        yield Entry(MI_CLEAR[5], f"Drawn with seed {about['seed']}; a canary string marks the items")
        return
    fresh = "; the questions were drawn anew" if about.get("fresh_of") else ""
    yield Entry(
        MI_CLEAR[5],
        f"Sources: {', '.join(sources)}; items drawn with seed {about['seed']}, with a canary string{fresh}",
        "whether radiographs, reports or masks were in the training data of each model, and since when they are public",
    )


def reviewer(graded: Graded, decisions: pl.DataFrame) -> list[Entry]:
    """Return the entries on what referees ask beyond MI-CLEAR-LLM.

    ``decisions`` is the report's table of yes/no decisions.
    """
    bench = graded.benchmark
    _, cases = bench.key("the checklist")
    views = Counter(case.view or "unknown" for case in cases.values())
    made = [
        _reference(bench, cases),
        Entry("AP and PA", f"{_counted(views)}; results by view are in the table 'subgroups'",
              "the view" if views["unknown"] else None),
        *(entry for name in ("device", "site") for entry in _by(graded, cases, name)),
    ]  # fmt: skip
    repeats = [run for run in graded.runs if run.about.get("repeats", 1) > 1]
    for run in repeats:
        made += [Entry("variance from run to run", line) for line in _spread(graded, run)]
    if not repeats:
        made.append(Entry("variance from run to run", None, "every question was asked once; use --repeats"))
    made.append(Entry("flow of cases", f"{len(steps(graded))} steps, drawn in case-flow.svg"))
    made += _predictive(decisions)
    studies = [run for run in graded.runs if run.about.get("cases") is not None]
    made.append(Entry("repeats within readers", None, "a reader study with repeated items") if not studies else Entry(
        "repeats within readers", "see the reader study's report of repeated items"))  # fmt: skip
    plan = (
        None if graded.plan is None else "a plan was written before the runs; the table 'plan' says whether it was kept"
    )
    made.append(
        Entry("plan before the study", plan, None if plan else "a plan written by 'chexqa plan' before the runs")
    )
    return made


def _reference(bench: Benchmark, cases: Mapping[str, CaseKey]) -> Entry:
    """Return each finding's sources of masks: drawn, from reports or predicted."""
    finding = {item.case_id: item.finding for item in bench.items}
    masks = Counter(f"{finding[name]}: {case.measures.get('source') or 'not named'}" for name, case in cases.items()
                    if name in finding)  # fmt: skip
    told = Counter(f"{finding[name]}: {case.measures['reference']}" for name, case in cases.items()
                   if name in finding and case.measures.get("reference"))  # fmt: skip
    unknown = len(finding) - told.total()
    known = f"sources of masks: {_counted(masks)}" + (f"; {_counted(told)}" if told else "")
    lacks = f"for {plural(unknown, 'case')}: drawn, from reports or by a model (field 'reference' of the manifest); "
    return Entry("reference standard by finding", known, None if bench.is_phantom else (
        f"{lacks if unknown else ''}by whom, and how differences were settled"))  # fmt: skip


def _by(graded: Graded, cases: Mapping[str, CaseKey], name: str) -> Iterator[Entry]:
    """Yield each model's accuracy for each ``device`` or ``site``; if none is known, yield what is missing."""
    of = {case_id: str(case.measures.get(name) or "unknown") for case_id, case in cases.items()}
    unknown = sum(value == "unknown" for value in of.values())
    lacks = f"the {name} of {plural(unknown, 'case')} (field '{name}' of the manifest)" if unknown else None
    if unknown == len(of):
        yield Entry(f"results by {name}", None, lacks)
        return
    rows = graded.grades.with_columns(pl.col("case_id").replace_strict(of, default="unknown").alias("group"))
    shares = rows.group_by("model", "protocol", "group", maintain_order=True).agg(pl.col("correct").mean(), pl.len())
    for (model, protocol), part in shares.group_by("model", "protocol", maintain_order=True):
        told = ", ".join(f"{row['group']} {100 * row['correct']:.1f} % of {plural(row['len'], 'answer')}"
                         for row in part.sort("group").iter_rows(named=True))  # fmt: skip
        yield Entry(f"results by {name}", f"{model}, {protocol}: accuracy over all items: {told}", lacks)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


def _spread(graded: Graded, run: Run) -> Iterator[str]:
    """Yield the range of accuracy over repeats, for each model of a run that has repeats."""
    rows = graded.grades.filter(pl.col("protocol") == protocol_name(run), pl.col("model").is_in(list(run.models)))
    means = rows.group_by("model", "repeat", maintain_order=True).agg(pl.col("correct").mean())
    for (model,), part in means.group_by("model", maintain_order=True):
        shares: list[float] = part["correct"].to_list()
        spread = stdev(shares) if len(shares) > 1 else 0.0
        yield (
            f"{model}, {protocol_name(run)}: accuracy over all items in {plural(len(shares), 'repeat')} from "
            f"{min(shares):.3f} to {max(shares):.3f}, standard deviation {spread:.4f}"
        )


def _predictive(decisions: pl.DataFrame) -> Iterator[Entry]:
    """Yield positive and negative predictive values of detection at stated prevalences."""
    name = next(iter(DECISIONS))
    known = pl.all_horizontal(pl.col(f"{part}{end}").is_not_null() for part in PARTS for end in ENDS)
    rows = decisions.filter((pl.col("kind") == name) & known)
    if not rows.height:
        yield Entry("predictive values", None, "sensitivity and specificity of detection with intervals")
    for row in rows.iter_rows(named=True):
        pairs = [(row[f"sensitivity{end}"], row[f"specificity{end}"]) for end in ENDS]
        told = "; ".join(_told(pairs, prevalence) for prevalence in PREVALENCES)
        yield Entry("predictive values", f"{row['model']}, {row['protocol']}, detection: {told} ({_BRACKETS})")


def _told(pairs: Sequence[tuple[float, float]], prevalence: float) -> str:
    """Return both predictive values at a prevalence, with the values at both ends of the intervals.

    ``pairs`` has sensitivity and specificity: the values, their lower ends and their upper ends. A value that is not
    defined, as of a model that never says yes, is a dash.

    >>> _told([(0.9, 0.8), (0.8, 0.7), (0.95, 0.9)], 0.1)
    'at a prevalence of 10 %: PPV 33.3 % (22.9 to 51.4), NPV 98.6 % (96.9 to 99.4)'
    """
    positive, negative = (
        value if value == UNDEFINED else f"{value} % ({low} to {high})"
        for value, low, high in zip(*(_values(*pair, prevalence) for pair in pairs), strict=True)
    )
    return f"at a prevalence of {100 * prevalence:g} %: PPV {positive}, NPV {negative}"


def _values(sensitivity: float, specificity: float, prevalence: float) -> tuple[str, str]:
    """Return both predictive values in percent, by Bayes' rule; an undefined value is a dash."""
    yes = sensitivity * prevalence + (1 - specificity) * (1 - prevalence)
    no = specificity * (1 - prevalence) + (1 - sensitivity) * prevalence
    positive = f"{100 * sensitivity * prevalence / yes:.1f}" if yes else UNDEFINED
    negative = f"{100 * specificity * (1 - prevalence) / no:.1f}" if no else UNDEFINED
    return positive, negative


def example(graded: Graded) -> str | None:
    """Return the text of the first run's longest conversation, without the replies; None if nothing was asked."""
    for run in graded.runs:
        if run.about.get(ELSEWHERE):
            continue
        modifiers = Modifiers(run.about["blind"], run.about["overlay_only"])
        protocol = named(run.about["protocol"])
        prompter = Prompter(graded.benchmark, protocol, modifiers, conditions.of_run(run.about), run.about["seed"])
        talk = max(conversations(graded.benchmark, protocol), key=len)
        asked = [prompter.messages(talk, [PriorReply(None, None)] * place)[-1] for place in range(len(talk))]
        messages = (prompter.messages(talk, [])[0], *asked)
        return "\n\n".join(
            f"[{message.role}]\n"
            + "\n".join(part if isinstance(part, str) else f"<{part.role}>" for part in message.parts)
            for message in messages
        )
    return None


def files(graded: Graded, decisions: pl.DataFrame) -> dict[str, bytes]:
    """Return the checklist as Markdown and as CSV, keyed by file name.

    ``decisions`` is the report's table of yes/no decisions.
    """
    parts = {"MI-CLEAR-LLM": mi_clear(graded), "What a reviewer asks for": reviewer(graded, decisions)}
    notice = PHANTOM_NOTICE if graded.benchmark.is_phantom else None
    lines = ["# Reporting checklist", *(["", f"*{notice}*"] if notice else []), ""]
    lines += [
        "Filled from the runs and the benchmark. The last column lists facts that are in neither; the authors must add "
        "them.",
        "",
    ]
    for title, entries in parts.items():
        lines += [f"## {title}", "", "| item | known | missing |", "| --- | --- | --- |"]
        lines += [f"| {' | '.join(markdown(cell or '–') for cell in entry)} |" for entry in entries]
        lines.append("")
    text = example(graded)
    if text is not None:
        lines += ["## A conversation in full", "", *(f"    {line}" for line in text.split("\n")), ""]
    frame = pl.DataFrame(
        [(title, *entry) for title, entries in parts.items() for entry in entries],
        schema=dict.fromkeys(("checklist", "item", "known", "missing"), pl.String), orient="row",
    )  # fmt: skip
    return {"reporting.md": "\n".join(lines).encode(), "reporting.csv": csv_bytes(frame, notice)}
