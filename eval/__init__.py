"""Asking models the questions of a benchmark, grading their answers, and reporting.

Read the packages in the order of the work: ``prompts``, ``models``, ``runs``, ``scoring``, ``tables``, ``report``.
``heatmaps`` grades localization maps; ``cli`` has the commands.
"""
