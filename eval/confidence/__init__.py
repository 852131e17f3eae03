"""Confidences of models (stated, from repeats, from tokens): calibration, and the answers to hand to a reader.

Read ``answers`` (graded answers with their confidence), then ``calibration`` (Brier score, expected calibration error),
``selective`` (telling right answers from wrong ones) and ``confidence_tables``.
"""
