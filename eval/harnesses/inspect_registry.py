"""What Inspect finds under the name ``chexqa`` (entry point ``inspect_ai``): the task and the scorer of items alone."""

from __future__ import annotations

from chexqa.eval.harnesses.inspect_scorers import alone as alone
from chexqa.eval.harnesses.inspect_task import benchmark as benchmark
