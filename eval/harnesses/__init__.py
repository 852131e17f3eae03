"""Benchmarks as tasks of other people's harnesses, and their logs brought back as runs.

Inspect: read ``inspect_task`` (the task ``chexqa/benchmark``), ``inspect_messages``, ``inspect_scorers`` and
``inspect_log`` (import); ``inspect_registry`` is what Inspect loads, ``inspect_folder`` the export. ``turns`` reads a
reply as a run does.
"""
