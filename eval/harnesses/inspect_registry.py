"""Objects that Inspect finds under the name ``chexqa`` (entry point ``inspect_ai``): a task, and a scorer of items."""

from __future__ import annotations

from chexqa.eval.harnesses.inspect_scorers import alone as alone
from chexqa.eval.harnesses.inspect_task import benchmark as benchmark
