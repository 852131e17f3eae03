"""Page of a report: the template, filled with its texts, data, style and scripts.

``sections.py`` has the order of the page. The scripts draw tables and plots from the data. A section is left out if all
its tables are empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import jinja2
import polars as pl
from markupsafe import Markup

from chexqa.eval.gallery.files import script_json
from chexqa.eval.grounding.answer_pairs import has_altered
from chexqa.eval.prompts import conditions
from chexqa.eval.report.page.sections import OUTLINE, Frames, Section
from chexqa.eval.scoring.grade import WITHOUT, Graded
from chexqa.eval.tables.model_pairs import GRID_SCORE
from chexqa.eval.thresholds.stress_tables import has_stress
from chexqa.files.terminal import plural
from chexqa.files.text import shown

_PAGE = "chexqa.eval.report.page"
# A short description of the questions of each level.
TASKS = {
    "coarse": "is the finding visible",
    "fine": "does its outline fit, and where must it move",
    "semantic": "where and how large is it",
    GRID_SCORE: "which cell of a grid shows it",
}
SCRIPTS = ("base.js", "plots.js", "tables.js", "leaderboard.js", "views.js", "effects.js", "compare.js", "page.js")


def sections(frames: Frames) -> list[Section]:
    """Return the sections that have a plot or a table with rows."""
    return [one for one in OUTLINE if any(name in frames and frames[name].height for name in one.tables)]


def asked(data: Mapping[str, Any], frames: Frames, several: bool) -> str:
    """Return one sentence on the models and the items that were asked.

    ``several`` is True if the report has further models, which were asked other items.
    """
    whole = frames["facts"].row(-1, named=True)
    models = [one for one in data["models"] if one["role"] == "model"]
    domains = [f"{sum(one['domain'] == name for one in models)} {name}" for name in ("general", "medical")]
    known = [text for text in domains if not text.startswith("0 ")]
    unknown = sum(one["domain"] not in ("general", "medical") for one in models)
    if known and unknown:
        known.append(f"{unknown} of unknown domain")
    who = _counts([one["role"] for one in data["models"]], f" ({', '.join(known)})" if known else "")
    levels = set(frames["levels"]["level"]) | (set() if frames["grid"].is_empty() else {GRID_SCORE})
    tasks = [f"{task} ({level})" for level, task in TASKS.items() if level in levels]
    return (
        f"{who} {'was' if len(data['models']) == 1 else 'were'} asked {plural(whole['items'], 'question')} on "
        f"{plural(whole['cases'], 'case')} of {whole['patients']:,} {whole['clusters']}, with "
        f"{plural(whole['findings'], 'finding')}, {_under(data, frames['states'])}"
        f"{'; other models were asked other questions' if several else ''}."
        + (f" The questions: {', '.join(tasks)}." if tasks else "")
    )


def _counts(roles: Sequence[str], domains: str = "") -> str:
    """Return how many models, baselines and readers there are; ``domains`` follows the number of models."""
    counts = {role: roles.count(role) for role in ("model", "baseline", "reader")}
    return " and ".join(
        plural(count, role) + (domains if role == "model" else "") for role, count in counts.items() if count
    )


def _under(data: Mapping[str, Any], states: pl.DataFrame) -> str:
    """Return the protocols, with the number of models of each if not all were asked under every protocol."""
    roles = {one["name"]: one["role"] for one in data["models"]}
    asked = {name: set(states.filter(protocol=name)["model"]) for name in data["protocols"]}
    if all(names == set(roles) for names in asked.values()):
        ways = [name.replace("_", " ") for name in asked]
        return f"{'under the protocols ' if len(ways) > 1 else 'under the protocol '}{', '.join(ways)}"
    return ", ".join(
        f"{_counts([roles[model] for model in names])} under the protocol {name.replace('_', ' ')}"
        for name, names in asked.items()
    )


def not_asked(graded: Graded) -> str | None:
    """Return a line that lists what no run has asked, such as repeated questions; None if nothing is missing.

    After each entry, the line names the command-line option that asks it.
    """
    runs = [run.about for run in graded.runs]
    # A Python model can state a confidence unasked.
    is_stated = any(conditions.of_run(about).confidence for about in runs) or any(
        turn.confidence is not None for run in graded.runs for turn in run.turns
    )
    missing = [
        part
        for part, is_asked in (
            ("altered radiographs (--condition original,target,irrelevant)", has_altered(graded)),
            ("degraded radiographs and other words (--stress all)", has_stress(graded)),
            ("stated confidence (--confidence)", is_stated),
            ("no pictures (--blind)", any(about.get(name) for about in runs for name in WITHOUT)),
            ("other orders of the options (--rotate 4)", any(about.get("rotations", 1) > 1 for about in runs)),
            ("repeated questions (--repeats 2)", any(about.get("repeats", 1) > 1 for about in runs)),
            ("a fresh seed (chexqa freshen)", graded.fresh is not None),
        )
        if not is_asked
    ]
    if not missing:
        return None
    return f"No run asked: {'; '.join(missing)}. In brackets: the option of 'chexqa eval', or a command."


def render(
    title: str,
    sentence: str,
    subtitle: str,
    notice: str | None,
    remark: str | None,
    plan: str | None,
    notes: Sequence[str],
    filled: Sequence[Section],
    missing: str | None,
    methods: Sequence[str],
    data: Mapping[str, Any],
) -> str:
    """Return the page as HTML; all text is escaped, except the package's own style and scripts."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, finalize=_finalized
    )
    template = environment.from_string(_file(_PAGE, "page.html.j2"))
    return template.render(
        title=title,
        asked=sentence,
        subtitle=subtitle,
        notice=notice,
        remark=remark,
        plan=plan,
        notes=notes,
        sections=filled,
        missing=missing,
        methods=methods,
        data=_own(script_json({"notice": notice, **data})),
        css=_own(_file(_PAGE, "page.css")),
        js=_own("".join(_file(_PAGE, name) for name in SCRIPTS)),
    )


def _file(package: str, name: str) -> str:
    """Return a file of the package: a template, a style or a script."""
    return (resources.files(package) / name).read_text("utf-8")


def _finalized(value: object) -> object:
    """Return text with invisible and direction-changing characters made visible; markup is returned unchanged."""
    return shown(value) if type(value) is str else value


def _own(text: str) -> Markup:
    """Return trusted markup unescaped: the package's style or scripts, or JSON that is safe in a script."""
    return Markup(text)  # nosec B704
