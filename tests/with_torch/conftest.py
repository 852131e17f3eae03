"""Tests that need torch: ``make test-torch`` runs them where it is installed; elsewhere they are not collected."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

# Not a skip, since CHEXQA_NO_SKIP forbids these, and the usual environment is not meant to have torch.
collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny trained vision-language model with its processor."""
    import tiny_model

    return tiny_model.save(tmp_path_factory.mktemp("tiny"), tiny_model.drawn_samples(40))
