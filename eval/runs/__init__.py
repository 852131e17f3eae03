"""Runs: asking models a benchmark, with a run's folder, logs, workers, budget and progress.

Read ``runner``, then ``conversations`` (one conversation), ``run_folder`` and ``turn_log``. ``cost_estimate`` and
``dry_run`` serve before a run, ``status`` during it; ``foreign_lines`` removes damaged lines from logs.
"""
