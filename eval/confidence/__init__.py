"""Confidences of models (stated, from repeats, from tokens): calibration, and which answers to leave to a reader.

Read ``answers`` (graded answers with their confidence), then ``calibration`` (Brier score, expected calibration error),
``selective`` (separating right answers from wrong ones) and ``confidence_tables``.
``abstention`` makes the table of abstentions; ``meanings`` explains the columns.
"""
