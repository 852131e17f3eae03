"""Simulated readers for a whole review, and a second, plain computation of the figures of their answers."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from libreoffice import fill_in_libreoffice
from review_sheets import another_answer, sheets_of

from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.review import columns

Cli = Callable[..., tuple[int, str, str]]
Answer = tuple[int, ...]


def typed(item: Item, answer: Answer, rng: random.Random) -> str:
    """Return an answer as a person would type it."""
    if not item.form.lists_options:
        names = [str(item.options[number - 1].text) for number in answer]
        return ", ".join(rng.choice((name, name.lower(), f"{name[0].lower()} {name[1]}")) for name in names)
    if item.form.takes_several:
        return rng.choice((", ", " ")).join(map(str, answer))
    return rng.choice((str(answer[0]), columns.choices(item)[answer[0] - 1], f"({answer[0]})"))


@dataclass
class Readers:
    """Readers of a benchmark, each with a share of right answers; their entries are kept by name and row."""

    bench: Benchmark
    skills: dict[str, float]
    doubted: frozenset[str] = frozenset()
    blind: dict[str, dict[str, Answer]] = field(default_factory=lambda: defaultdict(dict))
    verdicts: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))

    def _item(self, row: str) -> tuple[Item, Answer]:
        item = self.bench.item[row[2:]]
        return item, (self.bench.answers or {})[item.item_id].answer

    def blindly(self, name: str, row: str) -> dict[str, str]:
        """Answer a row without a proposal."""
        rng = random.Random(f"{name} {row}")
        item, key = self._item(row)
        right = key if item.form.lists_options else key[:1]
        key_record = (self.bench.answers or {})[item.item_id]
        answer = right if rng.random() < self.skills[name] and right else another_answer(item, key_record, rng)
        self.blind[name][row] = answer
        return {columns.ANSWER: typed(item, answer, rng)}

    def judge(self, name: str, row: str) -> dict[str, str]:
        """Judge a row with its proposal; rows in ``doubted`` get "fix" for their contour."""
        rng = random.Random(f"{name} {row} again")
        if row in self.doubted:
            self.verdicts[name][row] = "fix"
            return {columns.VERDICT: "f", columns.REASON: "wrong contour"}
        word = "accept" if rng.random() < 0.9 else rng.choice(("reject", "unsure"))
        self.verdicts[name][row] = word
        return {columns.VERDICT: rng.choice((word, word[0], word.upper()))}


def review(bench: Benchmark, readers: Readers, sheets: Path, cli: Cli, folder: Path, *options: object) -> None:
    """Let LibreOffice fill both parts of every reader's sheets, in the order in which a coordinator hands them out."""
    names = ",".join(readers.skills)
    code, _, err = cli("review", "export", bench.folder, "-o", sheets, "--reviewers", names, *options)
    assert code == 0, err
    for part, say in (("-1-blind", readers.blindly), ("-2", readers.judge)):
        found = [(name, path) for name in readers.skills for path in sheets_of(sheets, f"{name}{part}")]
        assert len(found) >= len(readers.skills)
        fill_in_libreoffice(
            [(path, lambda row, name=name, say=say: say(name, row)) for name, path in found], folder / part
        )
        code, _, err = cli("review", "import", sheets)
        assert code == 0, err
        if part == "-1-blind":
            assert cli("review", "open", sheets)[0] == 0


def check_figures(bench: Benchmark, readers: Readers, sheets: Path, cli: Cli) -> dict[str, Any]:
    """Compare the figures of ``agreement`` and ``validity`` with a second, plain computation; return the figures."""
    code, out, err = cli("review", "validity", bench.folder, sheets, "--json")
    assert code == 0, err
    told = json.loads(out)
    shares = {one["reviewer"]: one for one in told["against_key"] if one["kind"] is one["finding"] is None}
    pooled = [row for own in readers.blind.values() for row in own.items()]
    for name, said in {None: pooled, **{name: list(own.items()) for name, own in readers.blind.items()}}.items():
        right = [_right(bench, row, answer) for row, answer in said]
        assert shares[name]["answers"] == len(right)
        assert abs(shares[name]["share"]["value"] - sum(right) / len(right)) < 1e-9
    planted = {
        sheet["reviewer"]: set(sheet.get("planted", {}))
        for sheet in json.loads((sheets / columns.BATCH_FILE).read_text())["sheets"] if sheet["kind"] == "items"
    }  # fmt: skip
    wrong = [(name, row) for name, rows in planted.items() for row in rows]
    accepted = sum(readers.verdicts[name][row] == "accept" for name, row in wrong)
    if wrong:
        assert told["wrong_on_purpose"][0]["proposals"] == len(wrong)
        assert abs(told["wrong_on_purpose"][0]["accepted"]["value"] - accepted / len(wrong)) < 1e-9
    code, out, err = cli("review", "agreement", bench.folder, sheets, "--json")
    assert code == 0, err
    groups = {(one["what"], one["kind"], one["finding"]): one for one in json.loads(out)}
    counted = {name: {row: word for row, word in own.items() if row not in planted[name]}
               for name, own in readers.verdicts.items()}  # fmt: skip
    same = _equal_pairs(counted.values())
    whole = groups["verdict", None, None]
    assert whole["units"] == len(same)
    assert abs(whole["percent"]["value"] - sum(same) / len(same)) < 1e-9
    kinds = {}
    for kind in {item.kind for item in bench.items if item.form.lists_options and not item.form.takes_several}:
        own = [{row: said for row, said in one.items() if bench.item[row[2:]].kind == kind}
               for one in readers.blind.values()]  # fmt: skip
        equal = _equal_pairs(own)
        if equal:
            kinds[kind] = sum(equal) / len(equal)
            assert abs(groups["answer", kind, None]["percent"]["value"] - kinds[kind]) < 1e-9
    right = {name: one["share"]["value"] for name, one in shares.items()}
    verdicts = {"same verdict": sum(same) / len(same), "planted": len(wrong), "accepted": accepted}
    return {"right": right, "same answer": kinds, **verdicts}


def _right(bench: Benchmark, row: str, answer: Answer) -> bool:
    item = bench.item[row[2:]]
    key = (bench.answers or {})[item.item_id].answer
    return set(answer) == set(key) if item.form.lists_options else answer[0] in key


def _equal_pairs(said: Iterable[dict[str, Any]]) -> list[float]:
    """Return, for each row that two or more readers judged, the share of pairs of readers with equal entries."""
    rows: dict[str, list[Any]] = {}
    for own in said:
        for row, word in own.items():
            rows.setdefault(row, []).append(word)
    pairs = [list(combinations(words, 2)) for words in rows.values() if len(words) > 1]
    return [sum(first == second for first, second in own) / len(own) for own in pairs]
