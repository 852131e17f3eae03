"""Records for Every Eval Ever 0.3: one aggregate file for each model, and a line for each answered item.

Files are ``data/<benchmark>/<developer>/<model>/<uuid>.json`` and ``<uuid>_samples.jsonl``. The scores of kinds are
plain accuracies. Those of levels (corrected for chance) and of the grid (mean of findings) are the headline's, with
intervals. Tested with the schemas and the validator of every-eval-ever 0.3.0.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item, clusters
from chexqa.contract.read_run import ERROR, Run, Turn
from chexqa.eval.models import data_policy, registry
from chexqa.eval.places import coordinate_systems
from chexqa.eval.prompts import answer_parser, conditions, option_order
from chexqa.eval.prompts.conditions import Prompter
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.prompts.protocols import Message, PriorReply, conversations, named
from chexqa.eval.scoring import grade
from chexqa.eval.tables.all_tables import all_tables
from chexqa.eval.tables.grid import MACRO
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, json_bytes, sha256, write_bytes, write_lines
from chexqa.files.opening import sha256_of
from chexqa.interchange.folders import new_folder
from chexqa.stats import CONFIDENCE
from chexqa.version import __version__

SCHEMA_VERSION = "0.3.0"
_INTERVALS = "over clusters (patients); see docs/intervals.md of chexqa"


class Publisher(NamedTuple):
    """Publisher of the records: an organization, and its relationship to the makers of the models."""

    organization: str = "not named"
    relationship: str = "other"


def export_records(
    run: Run, benchmark: Benchmark, out: Path, publisher: Publisher, with_key: bool = False,
    advance: Callable[[], None] = lambda: None,
) -> list[Path]:  # fmt: skip
    """Write the records of each model of a run into the new folder ``out``; return the path of each aggregate file.

    If ``with_key`` is True, the records contain the right answers. Raise ``InputError`` for a run without a finished
    turn.
    """
    graded = grade.grade_runs(benchmark, [run], allow_partial=True)
    tables = all_tables(graded)
    states = {(row["model"], row["item_id"], row["repeat"], row["rotation"]): row["state"]
              for row in graded.grades.iter_rows(named=True)}  # fmt: skip
    turns: dict[str, list[Turn]] = {}
    for turn in run.turns:
        if turn.state != ERROR:
            turns.setdefault(turn.model, []).append(turn)
    if not turns:
        raise InputError(
            f"{run.folder}: contains no finished turn, so there is nothing to record; run 'chexqa eval' first."
        )
    written = []
    with new_folder(out) as temporary:
        for model, said in turns.items():
            writer = _Writer(run, benchmark, model, said, tables, states, publisher, with_key)
            written.append(out / writer.write(temporary, advance))
    return written


class _Writer:
    """Records of one model."""

    def __init__(
        self, run: Run, benchmark: Benchmark, model: str, turns: list[Turn], tables: Mapping[str, pl.DataFrame],
        states: Mapping[tuple[str, str, int, int], str], publisher: Publisher, with_key: bool,
    ) -> None:  # fmt: skip
        self.run, self.benchmark, self.model, self.turns = run, benchmark, model, turns
        self.tables, self.states, self.publisher, self.with_key = tables, states, publisher, with_key
        self.about: Record = run.about["models"][model]
        self.model_id = _model_id(model, self.about["litellm"])
        times = sorted(turn.started for turn in turns if turn.started)
        self.began: str | None = times[0] if times else None
        self.ended: str | None = times[-1] if times else None
        self.retrieved = _epoch(self.ended) or "0"
        self.id = f"{benchmark.name}/{self.model_id}/{self.retrieved}"
        self.protocol = grade.protocol_name(run)

    def write(self, folder: Path, advance: Callable[[], None]) -> Path:
        """Write the model's aggregate file and the file of its turns inside ``folder``; return the path of the
        aggregate file, relative to ``folder``.
        """
        developer, _, name = self.model_id.partition("/")
        place = Path("data", *map(_safe, (self.benchmark.name, developer, name)))
        (folder / place).mkdir(parents=True, exist_ok=True)
        mark = _uuid(f"{self.benchmark.hash} {self.protocol} {self.model} {self.ended}")
        samples = place / f"{mark}_samples.jsonl"
        write_lines(folder / samples, self._instances(advance))
        record = self._aggregate(samples, sha256_of(folder / samples))
        write_bytes(folder / place / f"{mark}.json", json_bytes(record))
        return place / f"{mark}.json"

    def _aggregate(self, samples: Path, checksum: str) -> Record:
        bench = self.benchmark
        return {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": self.id,
            **({"evaluation_timestamp": self.began} if self.began else {}),
            "retrieved_timestamp": self.retrieved,
            "source_metadata": {
                "source_name": f"run {self.run.folder.name}",
                "source_type": "evaluation_run",
                "source_organization_name": self.publisher.organization,
                "evaluator_relationship": self.publisher.relationship,
            },
            "eval_library": {"name": "chexqa", "version": __version__,
                             "additional_details": {"parser_version": str(answer_parser.VERSION)}},
            "model_info": self._model_info(),
            "evaluation_results": [*self._levels(), *self._grid(), *self._kinds()],
            "detailed_evaluation_results": {
                "format": "jsonl", "file_path": samples.as_posix(), "hash_algorithm": "sha256", "checksum": checksum,
                "total_rows": len(self.turns), "additional_details": {"benchmark_hash": bench.hash},
            },
        }  # fmt: skip

    def _model_info(self) -> Record:
        known = registry.load().get(self.model)
        base = self.about["api_base"]
        deployed = "unknown"
        if self.about["litellm"].startswith("baseline/") or (base is not None and data_policy.is_local(base)):
            deployed = "self_deployed"
        elif known is not None and known.access == "proprietary":
            deployed = "externally_managed"
        weights = {"proprietary": "closed_weights", "open": "open_weights"}.get(
            known.access if known else "", "unknown"
        )
        return {
            "name": self.model, "id": self.model_id,
            "additional_details": {"deployment_type": deployed, "model_availability": weights,
                                   "litellm": self.about["litellm"]},
        }  # fmt: skip

    def _own(self, table: str) -> Iterator[dict[str, Any]]:
        for row in self.tables[table].iter_rows(named=True):
            if (row["model"], row["protocol"]) == (self.model, self.protocol):
                yield row

    def _levels(self) -> Iterator[Record]:
        for row in self._own("levels"):
            words = f"accuracy corrected for chance, level {row['level']}, {self.protocol}"
            if row["corrected"] is not None:
                yield self._result(f"level {row['level']}", "chexqa.corrected_accuracy", words, row, "corrected", -1.0)

    def _grid(self) -> Iterator[Record]:
        for row in self._own("grid"):
            words = f"hit rate on the grid, mean of findings, {self.protocol}"
            if row["finding"] == MACRO and row["hit_rate"] is not None:
                yield self._result("grid", "chexqa.hit_rate", words, row, "hit_rate", 0.0)

    def _kinds(self) -> Iterator[Record]:
        for row in self._own("kinds"):
            words = f"share of right answers, kind {row['kind']}, {self.protocol}"
            if row["accuracy"] is not None:
                yield self._result(row["kind"], "accuracy", words, row, "accuracy", 0.0)

    def _result(self, name: str, metric: str, words: str, row: Mapping[str, Any], column: str, least: float) -> Record:
        uncertainty: Record = {"num_samples": row["items"]}
        if row.get(f"{column}_low") is not None:
            uncertainty["confidence_interval"] = {
                "lower": row[f"{column}_low"], "upper": row[f"{column}_high"], "confidence_level": CONFIDENCE,
                "method": _INTERVALS,
            }  # fmt: skip
        bench = self.benchmark
        return {
            "evaluation_result_id": self._result_id(name),
            "evaluation_name": f"{bench.name}: {name}",
            "source_data": {
                "dataset_name": bench.name, "source_type": "other",
                "additional_details": {"version": str(bench.about["version"]), "hash": bench.hash,
                                       "data": bench.about["data"]},
            },
            "metric_config": {
                "evaluation_description": words, "metric_id": metric, "metric_name": words, "metric_kind": "accuracy",
                "metric_unit": "proportion", "lower_is_better": False, "score_type": "continuous",
                "min_score": least, "max_score": 1.0,
            },
            "score_details": {
                "score": row[column], "uncertainty": uncertainty,
                "details": {"unfinished": str(row["unfinished"]), "patients": str(row.get("patients"))},
            },
            "generation_config": self._generation(),
        }  # fmt: skip

    def _result_id(self, name: str) -> str:
        return f"{self.id}#{name.replace(' ', '_')}"

    def _generation(self) -> Record:
        decoding = self.about["decoding"]
        args: Record = {}
        for name, kinds in (("temperature", (int, float)), ("top_p", (int, float)), ("top_k", (int, float)),
                            ("max_tokens", (int,))):  # fmt: skip
            if isinstance(decoding.get(name), kinds):
                args[name] = decoding[name]
        how = conditions.of_run(self.run.about)
        return {
            "generation_args": args,
            "additional_details": {
                "protocol": self.run.about["protocol"], "condition": how.words or "none",
                "question_bank": self.run.about["question_bank"]["hash"],
                "decoding": ", ".join(f"{key}={value}" for key, value in sorted(decoding.items())) or "defaults",
            },
        }  # fmt: skip

    def _instances(self, advance: Callable[[], None]) -> Iterator[Record]:
        """Yield a line for each finished turn; in a conversation, the line has the messages up to this turn."""
        run, bench = self.run, self.benchmark
        protocol = named(run.about["protocol"])
        modifiers = Modifiers(run.about["blind"], run.about["overlay_only"])
        condition = conditions.of_run(run.about)
        prompter = Prompter(bench, protocol, modifiers, condition, run.about["seed"])
        frame = coordinate_systems.named(
            self.about.get("quirks", {}).get("frame"), f"{run.folder}: model '{self.model}'"
        )
        said = {turn.key[1:]: turn for turn in self.turns}
        known = clusters(bench.items, bench.key("records")[1])
        rounds = sorted({(turn.repeat, turn.rotation) for turn in self.turns})
        for talk in conversations(bench, protocol):
            for repeat, rotation in rounds:
                shown = tuple(option_order.shown(item, modifiers, rotation) for item in talk)
                before: list[PriorReply] = []
                for item in shown:
                    turn = said.get((item.item_id, repeat, rotation))
                    if turn is None:
                        break
                    messages = prompter.messages(shown, before, rotation, frame)
                    yield self._instance(item, turn, messages, sha256(known[item.case_id].encode())[:12])
                    advance()
                    before.append(PriorReply(turn.raw, turn.parsed))

    def _instance(self, item: Item, turn: Turn, messages: tuple[Message, ...], cluster: str) -> Record:
        texts = [_words(message) for message in messages]
        state = self.states[self.model, item.item_id, turn.repeat, turn.rotation]
        parsed = None if turn.parsed is None else ", ".join(map(str, turn.parsed))
        key = self.benchmark.key("records")[0][item.item_id]
        reference = [", ".join(map(str, key.answer))] if self.with_key else []
        alone = self.run.about["protocol"] == "independent"
        place = 0 if alone else len(texts)
        score = float(state == "correct")
        return {
            "schema_version": SCHEMA_VERSION, "evaluation_id": self.id, "model_id": self.model_id,
            "evaluation_name": f"{self.benchmark.name}: {item.kind}",
            "evaluation_result_id": self._result_id(item.kind), "sample_id": item.item_id,
            "sample_hash": sha256("".join([item.question, *reference]).encode()),
            "interaction_type": "single_turn" if alone else "multi_turn",
            "input": {
                "raw": item.question, "formatted": texts[-1], "reference": reference,
                "choices": [option.text or f"option {option.n}" for option in item.options],
            },
            "output": None if not alone else {
                "raw": [turn.raw or ""],
                **({"reasoning_trace": [turn.reasoning]} if turn.reasoning else {}),
            },
            "messages": None if alone else [
                *({"turn_idx": number, "role": message.role, "content": text}
                  for number, (message, text) in enumerate(zip(messages, texts, strict=True))),
                {"turn_idx": place, "role": "assistant", "content": turn.raw, "reasoning_trace": turn.reasoning},
            ],
            "answer_attribution": [{
                "turn_idx": place, "source": "output.raw" if alone else "messages[turn_idx].content",
                "extracted_value": parsed or "", "extraction_method": f"chexqa parser {turn.read_by}",
                "is_terminal": True,
            }],
            "evaluation": {"score": score, "is_correct": state == "correct",
                           "num_turns": sum(message.role == "user" for message in messages)},
            "token_usage": _usage(turn),
            "performance": None if turn.latency_s is None else {"latency_ms": 1000 * turn.latency_s},
            "error": None if state in ("correct", "wrong") else state,
            "metadata": {
                "case_id": item.case_id, "cluster": cluster, "kind": item.kind, "level": item.level or "none",
                "finding": item.finding, "state": state, "repeat": str(turn.repeat), "rotation": str(turn.rotation),
                "chance": f"{key.chance:.6g}",
            },
        }  # fmt: skip


def _words(message: Message) -> str:
    """Return a message as text; the record has no pictures, so a picture is replaced by its role."""
    return "\n".join(part if isinstance(part, str) else f"<picture: {part.role}>" for part in message.parts)


def _usage(turn: Turn) -> Record | None:
    usage = turn.usage or {}
    given, made = usage.get("input_tokens"), usage.get("output_tokens")
    if given is None or made is None:
        return None
    return {
        "input_tokens": given, "output_tokens": made, "total_tokens": given + made,
        "reasoning_tokens": usage.get("reasoning_tokens"), "input_tokens_cache_read": usage.get("cached_tokens"),
    }  # fmt: skip


def _model_id(model: str, litellm: str) -> str:
    """Return ``developer/model``; the developer is ``unknown`` if the model's id names none."""
    if litellm.startswith("baseline/"):
        return f"chexqa/{litellm.replace('/', '-')}"
    known = registry.load().get(model)
    if known is not None and known.repository:
        return known.repository
    return litellm if "/" in litellm else f"unknown/{litellm}"


def _safe(name: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", name).strip(".") or "unnamed"


def _epoch(started: str | None) -> str | None:
    if started is None:
        return None
    return str(datetime.fromisoformat(started).astimezone(UTC).timestamp())


def _uuid(text: str) -> uuid.UUID:
    """Return a UUID of version 4 made from the text; one text always gives one UUID."""
    return uuid.UUID(hex=sha256(text.encode())[:32], version=4)
