"""Runs: asking models the questions of a benchmark, and the run's folder, logs, workers, budget and progress.

Read ``runner``, then ``conversations`` (one conversation), ``run_folder`` and ``turn_log``. ``cost_estimate`` and
``dry_run`` are used before a run, ``status`` during a run. ``foreign_lines`` moves damaged lines out of logs.
"""
