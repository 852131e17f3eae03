"""Segmentation model given as a Python function, named ``module:function``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chexqa.files.errors import InputError
from chexqa.imaging.read import Gray


class PythonModel:
    """Python function that takes a radiograph ``(H, W)`` uint8 and returns masks or probabilities of structures."""

    def __init__(self, name: str) -> None:
        """Import the function ``module:function`` from an installed module or the working folder."""
        module, _, attribute = name.partition(":")
        if not module or not attribute:
            raise InputError(f"--with {name}: is not of the form module:function; name a function this way.")
        self.name = name
        here = str(Path.cwd())
        added = here not in sys.path
        if added:
            sys.path.insert(0, here)
        try:
            found = getattr(importlib.import_module(module), attribute, None)
        except ModuleNotFoundError as error:
            raise InputError(
                f"--with {name}: there is no module '{error.name}'; install the module, or start chexqa in the "
                "module's folder."
            ) from None
        finally:
            if added:
                sys.path.remove(here)
        if not callable(found):
            raise InputError(f"--with {name}: the module '{module}' has no function '{attribute}'; correct the name.")
        self._function = found

    def __call__(self, image: Gray) -> Mapping[str, Any]:
        """Return the function's result; raise ``InputError``, with the function's name, if the function fails."""
        try:
            found: Mapping[str, Any] = self._function(image.copy())
        except InputError:
            raise
        except Exception as error:  # any error of the user's function
            raise InputError(
                f"--with {self.name}: the function failed ({type(error).__name__}: {error}); correct it."
            ) from error
        return found
