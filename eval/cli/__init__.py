"""The commands that ask models and show results, one module a command or group.

``eval``, ``run``, ``estimate`` and ``models`` ask; ``grade`` (with ``chexqa report``), ``compare`` and ``heatmaps``
read results. ``params`` holds the types of options, ``live_progress`` the display of a run in progress.
"""
