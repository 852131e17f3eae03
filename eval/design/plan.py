"""The plan of a study, written before the run (preregistration), and the check that the study kept to it.

A plan is a JSON file (schema ``plan``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.kinds import LEVELS
from chexqa.eval.design import subset
from chexqa.eval.prompts import answer_parser
from chexqa.files.jsonio import Record, read_json, write_json
from chexqa.files.opening import sha256_of
from chexqa.files.terminal import plural
from chexqa.stats import CONFIDENCE
from chexqa.version import __version__

if TYPE_CHECKING:
    from chexqa.eval.scoring.grade import Graded

PRIMARY = (*LEVELS, "mean")
FAMILY = (
    "every pair of models on each level and on the mean of levels, and medical against general models on the same "
    "scores; Holm's correction"
)
EXCLUSIONS = (
    "items whose key reviewers contest count in no score",
    "a model with unfinished items has no score",
    "cardiomegaly is left out where levels are compared",
)
_OTHERS = ("baseline/", "reader/", "readers/")
SCHEMA: dict[str, Any] = {
    "protocol": pl.String, "item": pl.String, "kept": pl.Boolean, "planned": pl.String, "done": pl.String,
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """The plan of a study, read from its file: the path, the file's SHA-256, and the fields."""

    path: Path
    sha256: str
    record: Record

    @property
    def margin(self) -> float:
        """Return the equivalence margin as a fraction; two models are called alike if their scores differ by less."""
        return float(self.record["margin"]) / 100


def write_plan(
    benchmark: Benchmark, out: Path, models: list[str], protocols: list[str], primary: str, margin: float,
    seed: int = 0, repeats: int = 1, rotations: int = 1, limit: int | None = None, exclusions: tuple[str, ...] = (),
) -> Plan:  # fmt: skip
    """Write the plan of a study into the new file ``out``; ``limit`` is the number of cases, None for all."""
    items = subset.chosen(benchmark, limit, None)
    bank = benchmark.about["question_bank"]
    record: Record = {
        "schema_version": 1, "tool_version": __version__,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "benchmark": {"name": benchmark.name, "version": benchmark.about["version"], "hash": benchmark.hash},
        "question_bank": {"name": bank["name"], "hash": bank["hash"]},
        "primary": primary, "levels": list(LEVELS), "kinds": list(dict.fromkeys(item.kind for item in items)),
        "margin": margin, "confidence": CONFIDENCE, "family": FAMILY, "models": models, "protocols": protocols,
        "seed": seed, "repeats": repeats, "rotations": rotations, "parser_version": answer_parser.VERSION,
        "cases": len({item.case_id for item in items}), "items": len(items),
        "exclusions": [*EXCLUSIONS, *exclusions],
    }  # fmt: skip
    write_json(out, record, "plan")
    return read_plan(out)


def read_plan(path: Path) -> Plan:
    """Read a plan; raise ``InputError`` if the file is not a plan."""
    record = read_json(path, "plan")
    return Plan(path, sha256_of(path), record)


def kept(graded: Graded) -> pl.DataFrame:
    """Return a row for each setting in the plan; no rows if there is no plan.

    - ``protocol``: the protocol; null for a setting of all protocols.
    - ``item``: the name of the setting (not a question).
    - ``kept``: True if the study kept to the plan.
    - ``planned``, ``done``: the setting's value in the plan and in the study; either may be a long list.
    """
    # Baselines and readers that the plan does not name are no deviation.
    plan = graded.plan
    rows = [] if plan is None else [*_overall(graded, plan), *_by_protocol(graded, plan)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def verdict(table: pl.DataFrame) -> str:
    """Return a sentence without its full stop that says if the plan was kept; ``table`` comes from :func:`kept`."""
    broken = table.filter(~pl.col("kept")).height
    return f"The plan was not kept in {plural(broken, 'point')}" if broken else "The plan was kept"


Row = tuple[str | None, str, bool, str, str]


def _overall(graded: Graded, plan: Plan) -> Iterator[Row]:
    record = plan.record
    bench = record["benchmark"]

    def row(item: str, planned: object, done: object, fine: bool | None = None) -> Row:
        return None, item, planned == done if fine is None else fine, str(planned), str(done)

    yield row("plan, SHA-256", plan.sha256, f"read from {plan.path.name}", True)
    yield row("benchmark", bench["hash"][:16], graded.benchmark.hash[:16], bench["hash"] == graded.benchmark.hash)
    asked = graded.grades["protocol"].unique(maintain_order=True).to_list()
    yield row("protocols", ", ".join(record["protocols"]), ", ".join(asked), set(asked) == set(record["protocols"]))
    deciding = sorted({run.about["until_decided"]["on"] for run in graded.runs if "until_decided" in run.about})
    primary = record["primary"]
    yield row("primary score", primary, ", ".join(deciding) or "every score is reported", deciding in ([], [primary]))
    yield row("margin, points", f"{record['margin']:g}", f"{100 * graded.margin:g}")
    yield row("unfinished models have scores", False, graded.allow_partial)
    for name in ("seed", "repeats", "rotations"):
        done: list[Any] = sorted({run.about.get(name, record[name]) for run in graded.runs}, key=str)
        yield row(name, record[name], ", ".join(map(str, done)), done == [record[name]])
    readers = sorted({turn.read_by for run in graded.runs for turn in run.turns if turn.read_by})
    wanted = record["parser_version"]
    yield row("parser's version", wanted, ", ".join(map(str, readers)) or "none", readers in ([], [wanted]))
    begun = min(filter(None, (_time(turn.started) for run in graded.runs for turn in run.turns)), default=None)
    written = _time(record["written"])
    late = begun is None or written is None or begun >= written
    shown = "unknown" if begun is None else begun.isoformat(timespec="seconds")
    yield row("asked after the plan was written", record["written"], shown, late)


def _time(text: str) -> datetime | None:
    """Return the time in a text of a log or a plan; None if the text is not a time. A time without a zone is in UTC."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _by_protocol(graded: Graded, plan: Plan) -> Iterator[Row]:
    record = plan.record
    rows = graded.grades.group_by("protocol", "model", maintain_order=True).agg(
        pl.col("case_id").n_unique().alias("cases"), pl.col("item_id").n_unique().alias("items"),
        pl.col("state").is_in(["error", "not_asked"]).sum().alias("unfinished"),
    )  # fmt: skip
    for (protocol,), part in rows.group_by("protocol", maintain_order=True):
        planned = record["models"]
        own = [row for row in part.to_dicts() if row["model"] in planned or not row["model"].startswith(_OTHERS)]
        names = [row["model"] for row in own]
        yield (
            str(protocol), "models", set(names) == set(planned), ", ".join(planned), ", ".join(names)
        )  # fmt: skip
        for what in ("cases", "items"):
            counts = sorted({row[what] for row in own})
            yield str(protocol), what, counts == [record[what]], str(record[what]), ", ".join(map(str, counts))
        left = sum(row["unfinished"] for row in own)
        yield str(protocol), "unfinished questions", left == 0, "0", str(left)
