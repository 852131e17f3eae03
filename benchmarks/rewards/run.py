"""Processor time to compute the reward of one reply, and the part of this time that the parser takes.

``python benchmarks/rewards/run.py`` scores the replies that are stored for the tests, in nine rounds. The shortest
times count.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from handmade import Handmade, six_cases
from stored_replies import FILES, replies

from chexqa.contract import benchmark
from chexqa.eval.prompts import answer_parser
from chexqa.rewards import Rewards

ROUNDS = 9


def seconds(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = benchmark.load(six_cases(Handmade(Path(folder))))
        of_kind = {item.kind: item for item in bench.items}
        pairs = [(of_kind[item.kind], row["raw"]) for name in FILES for item, row, _ in replies(name)
                 if item.kind in of_kind]  # fmt: skip
        reward = Rewards(bench, allow_test=True)
        texts, names = [raw for _, raw in pairs], [item.item_id for item, _ in pairs]
        rounds = [
            (
                seconds(lambda: reward(texts, item_id=names)),
                seconds(lambda: [answer_parser.read(item, raw) for item, raw in pairs]),
            )
            for _ in range(ROUNDS)
        ]
        whole, parsing = map(min, zip(*rounds, strict=True))
    count = len(pairs)
    print(f"{count:,} replies: {1e6 * whole / count:.0f} µs of processor time per reward; reading the reply takes "
          f"{1e6 * parsing / count:.0f} µs ({100 * parsing / whole:.0f} %)")  # fmt: skip


if __name__ == "__main__":
    main()
