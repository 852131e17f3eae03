"""Module that the server of processes imports once, so that each run of :mod:`runs` begins with litellm loaded."""

from chexqa.eval.models.client import load_litellm

load_litellm()
