"""Expert review: work goes out in spreadsheets, verdicts come back, a new version is made.

Read ``columns`` and ``assignment``, then the packages in the order of the work: ``sheets``, ``collect``, ``resolve``.
The commands are ``chexqa.cli.review`` and ``chexqa.cli.review_import``.
"""
