"""Module that the process server imports once, so that every run of :mod:`runs` starts with litellm already loaded."""

from chexqa.eval.models.client import load_litellm

load_litellm()
