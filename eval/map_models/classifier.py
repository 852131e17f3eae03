"""Maps of classifiers: Grad-CAM of the output for a finding, in a DenseNet or ResNet, as in CheXlocalize.

A classifier's folder has ``map_model.json`` (fields ``image``, ``labels``) and the state dict of a torchvision network.
The state dict of a DenseNet of torchxrayvision also fits, because its tensors have the same names. The networks of
torchxrayvision take pictures with one channel and values from -1024 to 1024.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chexqa.eval.map_makers.prompts import Prompts
from chexqa.eval.map_makers.registry import Loading, Made, Maker, map_loader
from chexqa.eval.map_models import weights
from chexqa.eval.map_models.clip_maps import batched, complete_maps
from chexqa.eval.map_models.clip_models import Target
from chexqa.eval.map_models.gradients import Recorder, grad_cam
from chexqa.files.errors import InputError
from chexqa.imaging.read import Gray


class ClassifierMaps:
    """Grad-CAM of the outputs of a classifier."""

    def __init__(self, loading: Loading) -> None:
        """Read the classifier from its folder."""
        config = weights.read_config(loading.weights)
        self._labels = config.get("labels") or []
        if not self._labels:
            raise InputError(
                f"{loading.weights / weights.CONFIG}: has no 'labels'; add this field, a list with the finding "
                "of each output, in order."
            )
        self._format = weights.input_format(config["image"])
        network = weights.trunk(config["image"]["trunk"], len(self._format.mean), len(self._labels))
        self._device = weights.device_of(loading.device)
        weights.load_state(network, weights.read_state(loading.weights), loading.weights)
        self._network, layer = explained(network)
        self._network = self._network.to(self._device).eval().requires_grad_(False)
        self._target = Target(layer, None, 0)
        self._outputs = outputs_by_words(self._labels, loading.prompts)
        self._folder = loading.weights

    def __call__(self, picture: Gray, finding: str) -> Made:
        """Return the map and the score of one finding."""
        return self.batch([picture], [[finding]])[0][0]

    def batch(self, pictures: Sequence[Gray], findings: Sequence[Sequence[str]]) -> list[list[Made]]:
        """Return the maps and the scores of several radiographs.

        Raise ``InputError`` if the classifier has no output for a finding.
        """
        pixels, fits = batched(pictures, self._format, self._device)
        with Recorder(self._target.module) as recorder:
            logits = self._network(pixels)

        def of(finding: str) -> tuple[Any, Any]:
            if finding not in self._outputs:
                raise InputError(
                    f"{self._folder}: the classifier has no output for '{finding}' (its labels: "
                    f"{', '.join(self._labels)}); give only cases of findings that it has."
                )
            own = logits[:, self._outputs[finding]]
            return grad_cam(self._target, recorder.activations, own), own.sigmoid()

        return complete_maps(of, fits, findings)


def explained(network: Any) -> tuple[Any, Any]:
    """Return the network, and the layer whose output is the last feature map after the ReLU and before the pooling.

    torchvision's DenseNet applies this ReLU in place and outside its layers, so this function rebuilds the network from
    its parts.
    """
    import torch

    if not hasattr(network, "features"):
        return network, network.layer4
    relu = torch.nn.ReLU()
    pooling = (torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    return torch.nn.Sequential(network.features, relu, *pooling, network.classifier), relu


def outputs_by_words(labels: Sequence[str], prompts: Prompts) -> dict[str, int]:
    """Return the index of a classifier's output for each finding, keyed by the finding in words.

    A label can be chexqa's name of a finding, one of its names in words, or CheXlocalize's name. Upper case and
    underscores make no difference.
    """
    from chexqa.sources.chexlocalize import FINDINGS

    known = {_plain(name): finding for name, finding in FINDINGS.items()}
    for finding, names in prompts.words.items():
        known.update({_plain(name): finding for name in (finding, *names)})
    found = {known.get(_plain(label), label): number for number, label in enumerate(labels)}
    return {prompts.finding(finding): number for finding, number in found.items()}


def _plain(label: str) -> str:
    return label.lower().replace("_", " ").strip()


@map_loader(
    "classifier-gradcam",
    about="Grad-CAM of a classifier's output for the finding (DenseNet or ResNet of torchvision or torchxrayvision).",
)
def load(loading: Loading) -> Maker:
    """Return a maker of Grad-CAM maps that show what a classifier's output depends on."""
    return ClassifierMaps(loading)
