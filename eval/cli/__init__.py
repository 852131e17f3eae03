"""Commands that ask models questions and show the results.

- Before a run: ``estimate`` and ``models``.
- Asking: ``eval``, with ``batches`` for its option ``--batch``; ``run`` shows, exports and repairs a run.
- Results: ``grade`` (also ``chexqa report``), ``compare``, ``import_results`` and ``heatmaps``.
- For several commands: ``params`` (options), ``completion`` (their values in the shell) and ``live_progress``.
"""
