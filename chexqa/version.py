"""The version of chexqa; no other file states it."""

__version__ = "0.1.0"
