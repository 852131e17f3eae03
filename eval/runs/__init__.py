"""Asking: a run's folder, its logs, workers, budget and progress.

Read ``runner``, then ``worker`` (one conversation), ``run_folder`` and ``turn_log``.
``cost_estimate`` and ``dry_run`` tell before, ``status`` during, ``repair`` mends a log.
"""
