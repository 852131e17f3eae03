"""Version of chexqa; only CITATION.cff states it too, and a test compares the two."""

__version__ = "0.2.0"
