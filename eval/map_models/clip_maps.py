"""Maps of CLIP models: the cosine similarity of each image patch with the text on a finding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chexqa.eval.map_makers.geometry import Fit, InputFormat
from chexqa.eval.map_makers.prompts import Prompts
from chexqa.eval.map_makers.registry import Loading, Made, Maker, map_loader
from chexqa.eval.map_models.clip_models import read_clip
from chexqa.imaging.read import Gray


class TextBank:
    """Embeddings of findings; each is the normalized mean of the normalized embeddings of all sentences on the
    finding.
    """

    def __init__(self, model: Any, prompts: Prompts) -> None:
        """Store the model; the embeddings of a finding are computed when they are first needed."""
        self._model, self._prompts = model, prompts
        self._known: dict[str, tuple[Any, Any]] = {}

    def pair(self, finding: str) -> tuple[Any, Any]:
        """Return two embeddings ``(D,)`` of a finding: as present, and as absent.

        The second embedding is None if the wording has no sentences for absent findings.
        """
        if finding not in self._known:
            negative = self._prompts.negative(finding)
            self._known[finding] = (
                self._mean(self._prompts.positive(finding)),
                self._mean(negative) if negative else None,
            )
        return self._known[finding]

    def _mean(self, sentences: list[str]) -> Any:
        import torch
        from torch.nn.functional import normalize

        with torch.no_grad():
            return normalize(normalize(self._model.texts(sentences), dim=-1).mean(dim=0), dim=-1)


def batched(pictures: Sequence[Gray], form: InputFormat, device: Any = None) -> tuple[Any, list[Fit]]:
    """Return radiographs as the model's input ``(N, channels, H, W)``, and the place of each radiograph in its input
    picture.
    """
    import torch

    inputs = [form.to_input(picture) for picture in pictures]
    pixels = torch.from_numpy(np.stack([one for one, _ in inputs]))
    return pixels if device is None else pixels.to(device), [fit for _, fit in inputs]


def pair_score(whole: Any, texts: tuple[Any, Any], scale: float) -> Any:
    """Return the scores ``(N,)`` of pictures with the normalized embeddings ``whole (N, D)``.

    ``texts`` has the normalized embeddings of the finding as present and as absent. A picture's two cosines with them
    are multiplied by ``scale`` and go through a softmax; the score is the first result. If the second embedding is
    None, the score is the cosine with the first.
    """
    present, absent = texts
    if absent is None:
        return whole @ present
    return (scale * (whole @ present - whole @ absent)).sigmoid()


def complete_maps(
    maps_of: Callable[[str], tuple[Any, Any]], fits: Sequence[Fit], findings: Sequence[Sequence[str]]
) -> list[list[Made]]:
    """Return the map and the score of each finding, for each radiograph; a map covers the complete radiograph.

    - ``maps_of``: a function that returns a finding's maps ``(N, h, w)`` of the N inputs of the model, and its scores
      ``(N,)``.
    - ``fits``: the place of each radiograph in its input.
    - ``findings``: the findings that are wanted, for each radiograph.
    """
    made = {}
    for finding in dict.fromkeys(name for wanted in findings for name in wanted):
        maps, scores = maps_of(finding)
        made[finding] = maps.detach().float().cpu().numpy(), scores.detach().float().cpu().numpy()
    return [
        [(fits[row].undo(made[name][0][row]), float(made[name][1][row])) for name in wanted]
        for row, wanted in enumerate(findings)
    ]


class CosineMaps:
    """Maker of maps that show the cosine similarity of each image patch with the text on a finding.

    One forward pass serves all findings of a radiograph.
    """

    def __init__(self, model: Any, prompts: Prompts, device: Any) -> None:
        """Store the model and the wording."""
        self._model, self._bank, self._device = model, TextBank(model, prompts), device

    def __call__(self, picture: Gray, finding: str) -> Made:
        """Return the map and the score of one finding."""
        return self.batch([picture], [[finding]])[0][0]

    def batch(self, pictures: Sequence[Gray], findings: Sequence[Sequence[str]]) -> list[list[Made]]:
        """Return the maps and the scores of several radiographs."""
        import torch
        from torch.nn.functional import normalize

        pixels, fits = batched(pictures, self._model.format, self._device)
        with torch.inference_mode():
            dense = self._model.dense(pixels)
            whole, patches = normalize(dense.whole, dim=-1), normalize(dense.patches, dim=-1)

            def of(finding: str) -> tuple[Any, Any]:
                texts = self._bank.pair(finding)
                return patches @ texts[0], pair_score(whole, texts, self._model.scale)

            return complete_maps(of, fits, findings)


@map_loader(
    "clip-cosine",
    about="Cosine similarity of image patches and text, by CLIP or SigLIP (vision transformer or CLIP's ResNet).",
)
def load(loading: Loading) -> Maker:
    """Return a maker of maps that show the cosine similarity of each image patch with the text on a finding."""
    model = read_clip(loading.weights, loading.device)
    return CosineMaps(model, loading.prompts, loading.device)
