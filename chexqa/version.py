"""The version; it is written nowhere else."""

__version__ = "0.1.0"
