"""Expert review: sheets are exported, filled sheets imported, and a new version of the benchmark is written.

Read ``columns``, ``cell_words`` (what people type), ``wish`` (options) and ``assignment``, then the packages in the
order of the work: ``sheets``, ``collect``, ``resolve``, ``followup``, ``page``.
The commands are ``chexqa.cli.review``, ``chexqa.cli.review_import`` and ``chexqa.cli.review_results``.
"""
