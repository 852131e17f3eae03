"""Grad-CAM: how much a score depends on each position in a layer, for CLIP models and for any network of torch.

The map is the sum of the layer's channels, each weighted by the mean of its gradient over all positions; negative
values become 0 (Selvaraju et al., "Grad-CAM: Visual Explanations from Deep Networks via Gradient-based Localization",
ICCV 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chexqa.eval.map_makers.prompts import Prompts
from chexqa.eval.map_makers.registry import Loading, Made, Maker, map_loader
from chexqa.eval.map_models.clip_maps import TextBank, batched, complete_maps, pair_score
from chexqa.eval.map_models.clip_models import Target, read_clip
from chexqa.imaging.read import Gray


class Recorder:
    """Context manager that replaces the output of a layer by a detached copy that requires gradients.

    Gradients then flow only through the later layers, so a map costs little more than the forward pass.
    """

    def __init__(self, module: Any) -> None:
        """Store the layer; :attr:`activations` is set when the layer has run inside the context."""
        self._module = module
        self.activations: Any = None

    def __enter__(self) -> Recorder:
        """Begin to record."""
        self._hook = self._module.register_forward_hook(self._record)
        return self

    def __exit__(self, *_: object) -> None:
        """End recording."""
        self._hook.remove()

    def _record(self, module: Any, given: Any, output: Any) -> Any:
        # A copy, since the layers behind may change their input in place.
        self.activations = output.detach().requires_grad_(True)
        return self.activations.clone()


def grad_cam(target: Target, activations: Any, scores: Any) -> Any:
    """Return the Grad-CAM maps ``(N, h, w)`` of scores ``(N,)`` that were computed from the activations.

    Each score must depend only on the activations of its own picture.
    """
    import torch

    (gradients,) = torch.autograd.grad(scores.sum(), activations, retain_graph=True)
    gradients, layer = target.as_grid(gradients), target.as_grid(activations.detach())
    weights = gradients.mean(dim=(2, 3), keepdim=True)
    return (weights * layer).sum(dim=1).relu()


class GradientMaps:
    """Grad-CAM of the similarity between a radiograph and the text of a finding."""

    def __init__(self, model: Any, prompts: Prompts, device: Any) -> None:
        """Store the model and the wording."""
        self._model, self._bank, self._device = model, TextBank(model, prompts), device

    def __call__(self, picture: Gray, finding: str) -> Made:
        """Return the map and the score of one finding."""
        return self.batch([picture], [[finding]])[0][0]

    def batch(self, pictures: Sequence[Gray], findings: Sequence[Sequence[str]]) -> list[list[Made]]:
        """Return the maps and the scores of several radiographs."""
        from torch.nn.functional import normalize

        pixels, fits = batched(pictures, self._model.format, self._device)
        target = self._model.target()
        with Recorder(target.module) as recorder:
            whole = normalize(self._model.whole(pixels), dim=-1)

        def of(finding: str) -> tuple[Any, Any]:
            texts = self._bank.pair(finding)
            return grad_cam(target, recorder.activations, whole @ texts[0]), pair_score(
                whole.detach(), texts, self._model.scale
            )

        return complete_maps(of, fits, findings)


@map_loader("clip-gradcam", about="Grad-CAM of the similarity of radiograph and text, for any CLIP or SigLIP model.")
def load(loading: Loading) -> Maker:
    """Return a maker of Grad-CAM maps that show what the similarity of radiograph and text depends on."""
    model = read_clip(loading.weights, loading.device)
    return GradientMaps(model, loading.prompts, loading.device)
