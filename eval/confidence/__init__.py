"""Stated confidences of models: calibration, and the answers to hand to a reader.

Read ``answers`` (graded answers with their confidence), then ``calibration`` (Brier score, expected calibration error),
``selective`` (telling right answers from wrong ones) and ``confidence_tables``.
"""
