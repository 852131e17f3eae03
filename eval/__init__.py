"""Asking models the questions of a benchmark, and grading what they say."""
