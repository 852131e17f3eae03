"""Expert review: sheets are exported, filled sheets imported, and a new version of the benchmark is written.

Read ``columns``, ``cell_words`` (what people type) and ``assignment``, then the packages in the order of the work:
``sheets``, ``page``, ``collect``, ``resolve``.
The commands are ``chexqa.cli.review`` and ``chexqa.cli.review_import``.
"""
