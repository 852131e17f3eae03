"""The commands that ask models and show results, one module a command or group.

``eval``, ``run``, ``estimate`` and ``models`` ask; ``grade`` (with ``chexqa report``), ``compare`` and ``heatmaps``
read what is there. ``params`` holds options' types, ``live_progress`` the display of a run that goes on.
"""
