"""Expert review: reviewers get sheets of questions, their filled sheets are imported, and the benchmark is corrected.

Read ``columns``, ``cell_words`` (what people type), ``export_options`` and ``assignment``, then the packages in the
order of the work: ``sheets``, ``collect``, ``resolve``, ``followup``, ``study``, ``page``. The commands are in
``chexqa.cli.review``.
"""
