"""Version of chexqa; no other file states the version."""

__version__ = "0.1.0"
