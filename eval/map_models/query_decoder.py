"""Maps of models whose decoder has a query for each finding (such as MedKLIP): the query's attention to each position.

A model's folder has ``map_model.json`` (fields ``image``, ``text``, ``heads``, ``layers``), a text model in the folder
``text``, and a state dict with these keys:

- ``trunk.*``: a network of torchvision. One of its layers gives the features of each position; ``layer`` in the
  field ``image`` names this layer.
- ``memory.*``: a linear layer from the features of a position to the decoder's width.
- ``query.*``: a linear layer from the text model's embeddings to the decoder's width; optional.
- ``decoder.layers.N.*`` and ``decoder.norm.*``: torch's TransformerDecoder; N is the number of the layer.
- ``head.*``: a linear layer to one output, or to two (absent and present).
- ``position``: an embedding of each position; optional.

The map is the query's attention to the positions, averaged over the chosen layers and their attention heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chexqa.eval.map_makers.registry import Loading, Made, Maker, map_loader
from chexqa.eval.map_models import weights
from chexqa.eval.map_models.clip_maps import batched, complete_maps
from chexqa.eval.map_models.local_contrastive import ConvolutionalTrunk, linear
from chexqa.eval.map_models.text_models import TextModel
from chexqa.files.errors import InputError
from chexqa.imaging.read import Gray


class QueryDecoderMaps:
    """Maker of maps that show where in the radiograph a finding's query attends."""

    def __init__(self, loading: Loading) -> None:
        """Read the model from its folder."""
        config = weights.read_config(loading.weights)
        weights.prepare()
        image, state = config["image"], weights.read_state(loading.weights)
        self._format, self._device = weights.input_format(image), weights.device_of(loading.device)
        trunk = weights.trunk(image["trunk"], len(self._format.mean), 1)
        self._trunk = ConvolutionalTrunk(trunk, image["layer"], state, loading.weights, self._device)
        self._memory = linear(state, "memory", loading.weights).to(self._device)
        self._head = linear(state, "head", loading.weights).to(self._device)
        project = linear(state, "query", loading.weights) if "query.weight" in state else None
        self._text = TextModel(loading.weights, config, project, self._device)
        self._position = state["position"].float().to(self._device) if "position" in state else None
        self._decoder = _decoder(state, config.get("heads", 4), loading.weights).to(self._device)
        self._layers = _chosen(config.get("layers"), len(self._decoder.layers), loading.weights)
        self._prompts = loading.prompts
        self._queries: dict[str, Any] = {}

    def __call__(self, picture: Gray, finding: str) -> Made:
        """Return the map and the score of one finding."""
        return self.batch([picture], [[finding]])[0][0]

    def batch(self, pictures: Sequence[Gray], findings: Sequence[Sequence[str]]) -> list[list[Made]]:
        """Return the maps and the scores of several radiographs."""
        import torch

        pixels, fits = batched(pictures, self._format, self._device)
        with torch.inference_mode():
            features = self._trunk(pixels)[0]
            grid = features.shape[2:]
            memory = self._memory(features.flatten(2).transpose(1, 2))
            if self._position is not None:
                memory = memory + self._position

            def of(finding: str) -> tuple[Any, Any]:
                query = self._query(finding)[None, None].expand(len(memory), 1, -1)
                output, attention = decode(self._decoder, query, memory)
                logits = self._head(output[:, 0])
                scores = logits[:, 0].sigmoid() if logits.shape[1] == 1 else logits.softmax(dim=1)[:, 1]
                maps = torch.stack([attention[layer][:, 0] for layer in self._layers]).mean(dim=0)
                return maps.reshape(len(memory), *grid), scores

            return complete_maps(of, fits, findings)

    def _query(self, finding: str) -> Any:
        """Return the query of a finding ``(D,)``: the mean of the embeddings of its sentences."""
        if finding not in self._queries:
            self._queries[finding] = self._text.sentences(self._prompts.positive(finding)).mean(dim=0)
        return self._queries[finding]


def decode(decoder: Any, queries: Any, memory: Any) -> tuple[Any, list[Any]]:
    """Return the output ``(N, Q, D)`` of a decoder for Q queries, and each layer's attention ``(N, Q, places)``.

    The attention is averaged over the heads.
    """
    found: list[Any] = []
    hooks = []
    for layer in decoder.layers:
        attend = layer.multihead_attn
        hooks.append(attend.register_forward_pre_hook(_ask_for_weights, with_kwargs=True))
        hooks.append(attend.register_forward_hook(lambda module, given, output: found.append(output[1])))
    try:
        output = decoder(queries, memory)
    finally:
        for hook in hooks:
            hook.remove()
    return output, found


def _ask_for_weights(module: Any, given: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return given, {**named, "need_weights": True, "average_attn_weights": True}


def _decoder(state: dict[str, Any], heads: int, where: Any) -> Any:
    """Return a decoder with the weights ``decoder.*``; its width, depth and inner width follow from the weights'
    shapes.
    """
    import torch

    own = {key.removeprefix("decoder."): value for key, value in state.items() if key.startswith("decoder.")}
    inner = own.get("layers.0.linear1.weight")
    if inner is None or inner.ndim != 2:
        raise InputError(
            f"{where}: the weights lack the tensor 'decoder.layers.0.linear1.weight'; save the model's "
            "state dict with its decoder."
        )
    width, depth = inner.shape[1], len({key.split(".")[1] for key in own if key.startswith("layers.")})
    if width % heads:
        raise InputError(
            f"{where / weights.CONFIG}: 'heads' is {heads}, which does not divide the decoder's width "
            f"{width}; correct 'heads'."
        )
    layer = torch.nn.TransformerDecoderLayer(width, heads, inner.shape[0], dropout=0.0, batch_first=True)
    norm = torch.nn.LayerNorm(width) if "norm.weight" in own else None
    decoder = torch.nn.TransformerDecoder(layer, depth, norm)
    weights.load_state(decoder, own, where)
    return decoder.eval().requires_grad_(False)


def _chosen(layers: list[int] | None, depth: int, where: Any) -> list[int]:
    """Return the numbers, from 0, of the layers whose attention makes the map: those named, or all if none is named."""
    if layers is None:
        return list(range(depth))
    if max(layers) >= depth:
        raise InputError(
            f"{where / weights.CONFIG}: 'layers' names layer {max(layers)}, but the last layer is "
            f"{depth - 1}; correct 'layers'."
        )
    return layers


@map_loader(
    "query-decoder",
    about="Cross-attention of a finding's query, averaged over the heads of chosen layers (models such as MedKLIP).",
)
def load(loading: Loading) -> Maker:
    """Return a maker of maps that show where in the radiograph a finding's query attends."""
    return QueryDecoderMaps(loading)
