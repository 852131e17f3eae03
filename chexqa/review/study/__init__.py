"""Reader studies: the items and instructions that readers get, and the results of their answers.

Read ``design`` and ``feedback`` (training), then ``reader_run`` (the study as a run), ``repeats`` (a reader's agreement
with himself) and ``about_readers`` (what readers say of themselves, and the study's table).
"""
