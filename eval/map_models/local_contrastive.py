"""Maps of models that align words with regions of the radiograph (such as GLoRIA and BioViL).

A model's folder has ``map_model.json`` (fields ``image``, ``text``, ``map``), a text model with its tokenizer in the
folder ``text``, and a state dict with these keys:

- ``trunk.*``: a network of torchvision. One of its layers gives the features of each region; ``layer`` in the field
  ``image`` names this layer.
- ``local.*``: a linear layer from these features to the common space of pictures and text.
- ``global.*``: a linear layer from the features of the last layer, averaged over the picture, to the common space.
- ``text.*``: a linear layer from the text model's embeddings to the common space; optional.

The field ``map`` says how a map is made. With ``attention``, each word's attention to the regions is averaged over the
words. With ``cosine``, the map is the cosine similarity of each region with the sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chexqa.eval.map_makers.registry import Loading, Made, Maker, map_loader
from chexqa.eval.map_models import weights
from chexqa.eval.map_models.clip_maps import TextBank, batched, complete_maps, pair_score
from chexqa.eval.map_models.text_models import TextModel
from chexqa.imaging.read import Gray


class LocalContrastiveMaps:
    """Maps made from the projected local features of a convolutional network."""

    def __init__(self, loading: Loading) -> None:
        """Read the model from its folder."""
        config = weights.read_config(loading.weights)
        weights.prepare()
        image, state = config["image"], weights.read_state(loading.weights)
        self.format = weights.input_format(image)
        self.scale = config.get("logit_scale", 1.0)
        self._attention, self._temperature = config.get("map", "cosine") == "attention", config.get("temperature", 1.0)
        self._device = weights.device_of(loading.device)
        trunk = weights.trunk(image["trunk"], len(self.format.mean), 1)
        self._trunk = ConvolutionalTrunk(trunk, image["layer"], state, loading.weights, self._device)
        self._local = linear(state, "local", loading.weights).to(self._device)
        self._global = linear(state, "global", loading.weights).to(self._device)
        project = linear(state, "text", loading.weights) if "text.weight" in state else None
        self._text = TextModel(loading.weights, config, project, self._device)
        self._prompts, self._bank = loading.prompts, TextBank(self, loading.prompts)

    def texts(self, sentences: Sequence[str]) -> Any:
        """Return the embeddings of sentences ``(len(sentences), D)``."""
        return self._text.sentences(sentences)

    def __call__(self, picture: Gray, finding: str) -> Made:
        """Return the map and the score of one finding."""
        return self.batch([picture], [[finding]])[0][0]

    def batch(self, pictures: Sequence[Gray], findings: Sequence[Sequence[str]]) -> list[list[Made]]:
        """Return the maps and the scores of several radiographs."""
        import torch
        from torch.nn.functional import normalize

        pixels, fits = batched(pictures, self.format, self._device)
        with torch.inference_mode():
            local, last = self._trunk(pixels)
            regions = self._local(local.permute(0, 2, 3, 1))
            whole = normalize(self._global(last.mean(dim=(2, 3))), dim=-1)

            def of(finding: str) -> tuple[Any, Any]:
                texts = self._bank.pair(finding)
                scores = pair_score(whole, texts, self.scale)
                if not self._attention:
                    return normalize(regions, dim=-1) @ texts[0], scores
                return word_attention(regions, *self._text.words(finding), self._temperature), scores

            return complete_maps(of, fits, findings)


class ConvolutionalTrunk:
    """Network of torchvision that returns the feature maps of one of its layers and of its last layer."""

    def __init__(self, network: Any, layer: str, state: Mapping[str, Any], where: Any, device: Any) -> None:
        """Load the keys ``trunk.*`` into the network, without its classifier."""
        own = {key.removeprefix("trunk."): value for key, value in state.items() if key.startswith("trunk.")}
        head = {key: value for key, value in network.state_dict().items() if key.startswith(("fc.", "classifier."))}
        weights.load_state(network, {**own, **head}, where)
        self._network = network.to(device).eval().requires_grad_(False)
        features = getattr(network, "features", network)
        self._layers = [getattr(features, layer), network.layer4 if features is network else features.norm5]

    def __call__(self, pixels: Any) -> tuple[Any, Any]:
        """Return the feature maps ``(N, C, h, w)`` of the chosen layer and of the last layer."""
        found: dict[int, Any] = {}
        hooks = [
            layer.register_forward_hook(lambda module, given, output, at=at: found.__setitem__(at, output.clone()))
            for at, layer in enumerate(self._layers)
        ]
        try:
            self._network(pixels)
        finally:
            for hook in hooks:
                hook.remove()
        return found[0], found[1]


def word_attention(regions: Any, begin: Any, words: Any, temperature: float) -> Any:
    """Return the attention of words to the regions of N pictures, ``(N, h, w)``, averaged over the words.

    - ``regions``: the embeddings of the regions, ``(N, h, w, D)``.
    - ``begin``, ``words``: the embeddings of the start token ``(1, D)`` and of the words ``(T, D)``.
    - ``temperature``: a factor for similarities; a larger one concentrates a word's attention on fewer regions.
    """
    import torch

    # There are two softmaxes, as in GLoRIA: at each region, over the start token and the words; then, for each word,
    # over the regions. Without the start token, the first softmax would give a single word the share 1 everywhere.
    count, height, width, _ = regions.shape
    similarity = regions.reshape(count, height * width, -1) @ torch.cat([begin, words]).T
    attention = (temperature * similarity.softmax(dim=2)[:, :, 1:]).softmax(dim=1)
    return attention.mean(dim=2).reshape(count, height, width)


def linear(state: Mapping[str, Any], name: str, where: Any) -> Any:
    """Return the linear layer with the weights ``name.weight`` and, if there is one, ``name.bias``.

    The weights may be those of a 1x1 convolution. Raise ``InputError`` if ``name.weight`` is missing; the message
    begins with ``where``.
    """
    import torch

    from chexqa.files.errors import InputError

    found = state.get(f"{name}.weight")
    if found is None:
        raise InputError(
            f"{where}: the weights lack the tensor '{name}.weight'; save the model's state dict with this layer."
        )
    matrix = found.reshape(found.shape[0], -1).float()
    layer = torch.nn.Linear(matrix.shape[1], matrix.shape[0], bias=f"{name}.bias" in state)
    own = {"weight": matrix, **({"bias": state[f"{name}.bias"].float()} if f"{name}.bias" in state else {})}
    layer.load_state_dict(own)
    return layer.eval().requires_grad_(False)


@map_loader(
    "local-contrastive",
    about="Maps that compare words with regions of the radiograph, by models such as GLoRIA and BioViL.",
)
def load(loading: Loading) -> Maker:
    """Return a maker of maps that compare words with regions of the radiograph."""
    return LocalContrastiveMaps(loading)
