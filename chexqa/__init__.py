"""chexqa: a benchmark engine for chest-radiograph perception."""

from chexqa.version import __version__ as __version__
