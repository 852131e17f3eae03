"""The commands of ``chexqa review``.

``group`` is the table of the commands; ``deal`` gives out sheets and pages, ``returned`` takes them back, ``results``
measures and applies, ``study`` is for reader studies.
"""
