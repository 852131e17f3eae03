"""Version of chexqa; ``CITATION.cff`` has the same version, as a test checks."""

__version__ = "0.2.0"
