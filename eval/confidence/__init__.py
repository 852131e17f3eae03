"""What a model's stated confidence is worth: calibration, and which answers one would hand to a reader.

Read ``answers`` (graded answers with their confidence), then ``calibration`` (Brier score, expected calibration error),
``selective`` (telling right answers from wrong ones) and ``confidence_tables``.
"""
