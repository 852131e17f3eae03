"""Known checkpoints (``map_models.yaml``), and the choice of a map maker by the name of a checkpoint or model family.

A map maker is the code that makes a model's localization maps.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chexqa.eval.map_makers import registry
from chexqa.eval.map_makers.prompts import Prompts
from chexqa.eval.map_makers.registry import FAMILIES, Family, Loading, Maker
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, is_folder, read_yaml

FILE = "map_models.yaml"
# Modules that register the families of chexqa; none of them imports torch before a maker is loaded.
BUILT_IN = ("clip_maps", "gradients", "local_contrastive", "query_decoder", "classifier")
# Further lines on each checkpoint in the list, by the field of the entry.
_LINES = {"licence": "licence", "weights": "checkpoint", "needs": "needs"}


@dataclass(frozen=True)
class Chosen:
    """Map maker that was chosen by its name and is not loaded yet.

    ``domain`` is the kind of data that the maker was trained on; None if this is unknown.
    """

    name: str
    family: Family
    domain: str | None
    weights: Path | None

    def load(self, device: str, prompts: Prompts) -> Maker:
        """Return the maker; raise ``InputError`` if the weights cannot be read or a plugin's code fails."""
        if self.family.ready is not None:
            return self.family.ready
        assert self.weights is not None, "checked when it was chosen"
        return registry.load_maker(self.family, Loading(self.weights, device, prompts))


def known_models() -> list[Record]:
    """Return the entries of ``map_models.yaml``."""
    path = Path(str(resources.files("chexqa.eval.map_models").joinpath(FILE)))
    models: list[Record] = read_yaml(path, "map_models")["models"]
    return models


def register_built_in() -> None:
    """Register the families of map models that come with chexqa."""
    for module in BUILT_IN:
        importlib.import_module(f"chexqa.eval.map_models.{module}")


def choose(name: str, weights: Path | None) -> Chosen:
    """Return the map maker for the name of a known checkpoint or of a model family.

    ``weights`` is the folder with the maker's weights. Raise ``InputError``

    - if the name is unknown, or if the checkpoint runs only with an adapter;
    - if the maker needs weights, and ``weights`` is None or not a folder, or torch is not installed;
    - if the maker needs no weights, and ``weights`` is given.
    """
    register_built_in()
    models = {model["name"]: model for model in known_models()}
    model = models.get(name) if name not in FAMILIES else None
    if model is not None and model["loads"] == "with an adapter":
        raise InputError(
            f"--maker {name}: chexqa cannot run this model without an adapter ({model['needs']}); write one as a "
            "plugin, see docs/extending.md."
        )
    family = registry.family_named(name if model is None else model["family"], models)
    if family.ready is not None:
        if weights is not None:
            raise InputError(f"--maker {name}: takes no weights; leave --weights out.")
    else:
        _check_weights(name, family, weights)
    return Chosen(name, family, family.domain if model is None else model["domain"], weights)


def _check_weights(name: str, family: Family, weights: Path | None) -> None:
    if weights is None:
        raise InputError(f"--maker {name}: this maker needs a folder with its weights; give it with --weights DIR.")
    if not is_folder(weights):
        raise InputError(f"--weights {weights}: is not a folder; give the folder that holds the model's weights.")
    ours = getattr(family.load, "__module__", "").startswith("chexqa.")
    if ours and (find_spec("torch") is None or find_spec("torchvision") is None):
        raise InputError(f"--maker {name}: torch and torchvision are not installed; pip install 'chexqa[maps]'.")


def show(out: Console) -> None:
    """Print the families of map models, and the checkpoints that chexqa knows."""
    register_built_in()
    families = _table("Families (each runs any folder of weights of its kind)", "family", "domain", "map")
    for family in FAMILIES.values():
        families.add_row(*map(Text, (family.name, family.domain or "by the weights", family.about)))
    out.print(families)
    models = _table("Known checkpoints", "name", "family and domain; what it takes")
    for model in known_models():
        lines = [f"{model['family']}, {model['domain']}; loads {model['loads']}"]
        lines += [f"{head}: {model[field]}" for head, field in _LINES.items()]
        models.add_row(Text(model["name"]), Text("\n".join(lines)))
    out.print()
    out.print(models)


def _table(title: str, *heads: str) -> Table:
    made = Table(
        title=Text(title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False,
        padding=(0, 1, 0, 0), collapse_padding=True,
    )  # fmt: skip
    for head in heads:
        made.add_column(head, overflow="fold", vertical="top")
    return made
