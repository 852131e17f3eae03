"""The commands of ``chexqa review``.

``group`` is the table of the commands; ``deal`` exports sheets and pages, ``returned`` imports them, ``results`` shows
validity and applies verdicts, ``study`` is for reader studies.
"""
