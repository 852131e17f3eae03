"""Reader studies: what readers are dealt and told, and what becomes of their answers.

Read ``design`` and ``feedback`` (training), then ``reader_run`` (the study as a run), ``repeats`` (a reader with
himself) and ``about_readers`` (what readers say of themselves, and the study's table).
"""
