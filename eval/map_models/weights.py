"""Folders of weights: preparation of torch for work offline, reading of state dicts, and descriptions of models.

Nothing is downloaded here. Weights are read as tensors only; no code in them is run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chexqa.eval.map_makers.geometry import INTERPOLATIONS, InputFormat
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, is_file, read_json
from chexqa.files.text import few

CONFIG, SCHEMA = "map_model.json", "map_model"
SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".tar")
# Keys under which training programs store a model's state dict.
_NESTED = ("state_dict", "model_state_dict", "model")
_TOKENIZERS = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model", "tokenizer.model")
# Operators that torchvision describes when it is imported, even if its compiled part cannot be loaded.
_OPERATORS = ("nms", "qnms")


def prepare() -> None:
    """Keep Hugging Face's libraries from downloading, and make torchvision importable with any build of torch.

    If torchvision was built for graphics cards and torch was not, torchvision cannot load its compiled operators and
    then cannot be imported. Maps do not need these operators, so they are declared here without a body.
    """
    os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch

    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    for library in sorted(Path(spec.origin).parent.glob("_C*.so")):
        with suppress(OSError, RuntimeError):
            torch.ops.load_library(str(library))
            return
    for name in _OPERATORS:
        with suppress(RuntimeError):  # declared before
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float limit) -> Tensor")


def device_of(name: str) -> Any:
    """Return a device of torch; raise ``InputError`` if this machine does not have it."""
    import torch

    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(
            f"--device {name}: this device cannot be used ({reason}); --device cpu always works."
        ) from None
    return device


def check_tokenizer(folder: Path) -> None:
    """Raise ``InputError`` if a folder has no tokenizer.

    Without this check, transformers would make an empty tokenizer and report nothing.
    """
    if not any(is_file(folder / name) for name in _TOKENIZERS):
        raise InputError(
            f"{folder}: has no tokenizer ({', '.join(_TOKENIZERS)}); copy the model's tokenizer into this folder."
        )


def weights_file(folder: Path) -> Path:
    """Return the only file of weights in a folder; raise ``InputError`` if there is no file or more than one file."""
    found = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    if len(found) > 1:
        preferred = [path for path in found if path.suffix == ".safetensors"]
        found = preferred if len(preferred) == 1 else found
    if len(found) != 1:
        listed = ", ".join(path.name for path in found) or "none"
        raise InputError(f"{folder}: must have exactly one file of weights ({', '.join(SUFFIXES)}), but has {listed}.")
    return found[0]


def read_state(folder: Path) -> dict[str, Any]:
    """Return the state dict in a folder's file of weights.

    The state dict is the file's whole content, or its entry ``state_dict``, ``model_state_dict`` or ``model``. The
    prefix ``module.`` is removed from keys. Raise ``InputError`` for a damaged file, and for a file that would run
    code.
    """
    path = weights_file(folder)
    import torch

    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            state: Any = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # each library raises errors of its own for damaged files
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(
            f"{path}: cannot be read as weights ({type(error).__name__}: {reason}); copy it again."
        ) from None
    for key in _NESTED:
        if isinstance(state, Mapping) and isinstance(state.get(key), Mapping):
            state = state[key]
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise InputError(f"{path}: is not a state dict; save the model's state_dict() with torch.save.")
    return {str(key).removeprefix("module."): value for key, value in state.items()}


def load_state(model: Any, state: Mapping[str, Any], where: Path) -> None:
    """Load a state dict into a model; raise ``InputError`` if a tensor is missing or unknown, or does not fit."""
    try:
        found = model.load_state_dict(dict(state), strict=False)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(
            f"{where}: the shapes of the weights do not fit the model ({reason}); give the weights of this model."
        ) from None
    wrong = [f"missing {key}" for key in found.missing_keys] + [f"unknown {key}" for key in found.unexpected_keys]
    if wrong:
        raise InputError(f"{where}: the weights do not fit the model ({few(wrong)}); give the weights of this model.")


def read_config(folder: Path) -> Record:
    """Return the description of a model in ``map_model.json``; raise ``InputError`` if the folder has none."""
    if not is_file(folder / CONFIG):
        raise InputError(
            f"{folder}: has no {CONFIG}, the file that describes the model; write one (docs/formats.md says how)."
        )
    return read_json(folder / CONFIG, SCHEMA)


def input_format(image: Record) -> InputFormat:
    """Return the input format from the field ``image`` of a ``map_model.json``."""
    return InputFormat(
        side=tuple(image["side"]),
        policy=image.get("policy", "stretch"),
        shorter=image.get("shorter"),
        mean=tuple(image["mean"]),
        std=tuple(image["std"]),
        scale=image.get("scale", 1 / 255),
        interpolation=image.get("interpolation", "bilinear"),
    )


def trunk(name: str, channels: int, classes: int) -> Any:
    """Return torchvision's DenseNet or ResNet ``name`` with untrained weights.

    ``channels`` is the number of input channels, and ``classes`` the number of outputs.
    """
    prepare()
    import torch
    from torchvision import models

    network = getattr(models, name)(weights=None, num_classes=classes)
    if channels != 3:
        parent, key = (network.features, "conv0") if hasattr(network, "features") else (network, "conv1")
        old = getattr(parent, key)
        new = torch.nn.Conv2d(channels, old.out_channels, old.kernel_size, old.stride, old.padding, bias=False)
        setattr(parent, key, new)
    return network


def resample_name(number: int) -> str:
    """Return the name of an interpolation, given the number that Pillow uses for it."""
    return next((name for name, value in INTERPOLATIONS.items() if int(value) == number), "bicubic")
