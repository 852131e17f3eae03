"""Grounding: tests of whether a model's answers follow the lesion when the radiograph is altered.

- ``answer_pairs``: each answer beside the answer to the altered picture; read this first.
- ``net_grounding``: chexqa's own measure and its verdicts.
- ``published_measures``: three measures of a published study, named CGR, UAR and IS.
- ``followed_keys``: answers to partly filled lesions, mirrored pictures, repeats, and phantoms with and without the
  lesion (twins).
- ``grounding_tables`` and ``terminal_table``: the tables. ``meanings`` explains their columns.
"""
