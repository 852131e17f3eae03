"""Commands that ask models questions and show the results; each module has one command or group of commands.

``eval``, ``run``, ``estimate`` and ``models`` ask models. ``grade`` (with ``chexqa report``), ``compare`` and
``heatmaps`` read results. ``params`` has the types of options, and ``live_progress`` shows the progress of a run.
"""
