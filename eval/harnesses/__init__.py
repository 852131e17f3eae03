"""Benchmarks as tasks of other evaluation harnesses, and these harnesses' logs imported as runs.

- Inspect: read ``inspect_task`` (the task ``chexqa/benchmark``), ``inspect_messages``, ``inspect_scorers`` and
  ``inspect_log`` (import). Inspect loads ``inspect_registry``; ``inspect_folder`` is the export.
- lmms-eval: ``lmms_eval_folder`` writes a task, whose functions are in ``alone``.
- VLMEvalKit: ``vlmevalkit_folder`` writes a folder, whose dataset classes derive from ``vlmevalkit_dataset``.

``turns`` makes a turn of a run from a reply.
"""
