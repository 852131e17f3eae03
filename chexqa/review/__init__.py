"""Expert review: sheets are exported, filled sheets are imported, and a new version of the benchmark is written.

Read ``columns``, ``cell_words`` (what people type), ``export_options`` and ``assignment``, then the packages in the
order of the work: ``sheets``, ``collect``, ``resolve``, ``followup``, ``study``, ``page``.
The commands are in ``chexqa.cli.review``.
"""
