"""Benchmarks as tasks of other evaluation harnesses, and these harnesses' logs imported as runs.

Inspect: read ``inspect_task`` (the task ``chexqa/benchmark``), ``inspect_messages``, ``inspect_scorers`` and
``inspect_log`` (import); Inspect loads ``inspect_registry``; ``inspect_folder`` is the export. ``turns`` reads a
reply as a run does. ``lmms_eval_folder`` writes a task of lmms-eval, whose functions are in ``alone``;
``vlmevalkit_folder`` does so for VLMEvalKit, whose dataset classes derive from ``vlmevalkit_dataset``.
"""
