"""Grounding: tests if a model's answers follow the lesion when the radiograph is altered.

Read ``answer_pairs`` first (each answer beside the answer to the altered picture), then ``net_grounding`` (our measure
and its verdicts), ``published_measures`` (CGR, UAR and IS as published), ``followed_keys`` (partial targets, mirrored
pictures) ``grounding_tables`` and ``terminal_table``.
"""
