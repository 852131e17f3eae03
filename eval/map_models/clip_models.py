"""Models that embed pictures and text in one space (CLIP, SigLIP), read by transformers or open_clip.

:class:`TransformersClip` and :class:`OpenClip` have the same methods. ``texts`` embeds sentences. ``dense`` embeds
pictures, as a whole and patch by patch. ``target`` names the layer whose gradients show what a similarity depends on.
``N`` is the number of pictures, and ``D`` the dimension of the common space.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chexqa.eval.map_makers.geometry import InputFormat
from chexqa.eval.map_models import weights
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, is_file, is_folder, parse_json, read_text

OPEN_CLIP_CONFIG = "open_clip_config.json"
# The normalization of OpenAI's CLIP, for folders that give none.
_MEAN, _STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


class Dense(NamedTuple):
    """Embeddings of pictures.

    - ``whole``: ``(N, D)``, the pictures as a whole.
    - ``patches``: ``(N, h, w, D)``, each patch in the same space.
    """

    whole: Any
    patches: Any


class Target(NamedTuple):
    """Layer for Grad-CAM.

    - ``module``: the layer whose output is used as activations.
    - ``grid``: height and width of the grid of tokens; None if the activations are already ``(N, C, h, w)``.
    - ``skipped``: number of tokens before those of the grid.
    """

    module: Any
    grid: tuple[int, int] | None
    skipped: int

    def as_grid(self, activations: Any) -> Any:
        """Return activations or gradients as ``(N, C, h, w)``."""
        if self.grid is None:
            return activations
        tokens = activations[:, self.skipped :]
        return tokens.reshape(len(tokens), *self.grid, -1).permute(0, 3, 1, 2)


class TransformersClip:
    """CLIP or SigLIP with a vision transformer, read by transformers from a folder."""

    def __init__(self, folder: Path, device: Any) -> None:
        """Read the model, its tokenizer and the format of its pictures."""
        from transformers import AutoConfig, AutoImageProcessor, AutoModel, AutoTokenizer
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        weights.check_tokenizer(folder)
        try:
            config = AutoConfig.from_pretrained(folder, local_files_only=True)  # nosec B615 - a folder has no revision
            self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)  # nosec B615
            processor = AutoImageProcessor.from_pretrained(folder, local_files_only=True).to_dict()  # nosec B615
            model, found = AutoModel.from_pretrained(folder, local_files_only=True, output_loading_info=True)  # nosec B615
        except Exception as error:  # a damaged folder makes transformers raise errors of many types
            reason = " ".join(str(error).split())[:300].rstrip(".")
            raise InputError(
                f"{folder}: transformers cannot read the model ({type(error).__name__}: {reason}); give a complete "
                "folder that transformers can load."
            ) from None
        if found["missing_keys"]:
            raise InputError(
                f"{folder}: the weights lack the tensor '{sorted(found['missing_keys'])[0]}'; copy the folder again."
            )
        if config.model_type not in ("clip", "siglip"):
            raise InputError(
                f"{folder}: contains a model of type '{config.model_type}'; maps can be made with the types "
                "clip and siglip."
            )
        self._siglip, self._device = config.model_type == "siglip", device
        self._model = model.to(device).eval().requires_grad_(False)
        vision, text = config.vision_config, config.text_config
        self._length = text.max_position_embeddings
        self._side = vision.image_size // vision.patch_size
        self.scale = float(model.logit_scale.detach().exp())
        self.format = _processor_format(processor, vision.image_size)

    def texts(self, sentences: Sequence[str]) -> Any:
        """Return the embeddings of sentences ``(len(sentences), D)``, not normalized."""
        padding = "max_length" if self._siglip else True
        inputs = self._tokenizer(
            list(sentences), padding=padding, truncation=True, max_length=self._length, return_tensors="pt"
        ).to(self._device)
        given = {"input_ids": inputs["input_ids"]}
        if not self._siglip:
            given["attention_mask"] = inputs["attention_mask"]
        pooled = self._model.text_model(**given).pooler_output
        return pooled if self._siglip else self._model.text_projection(pooled)

    def dense(self, pixels: Any) -> Dense:
        """Return the embeddings of pictures ``(N, 3, H, W)`` and of their patches."""
        vision = self._model.vision_model
        out = vision(pixels)
        if self._siglip:
            tokens = out.last_hidden_state
            count, places, width = tokens.shape
            # The head pools all patches; on one patch alone, it places that patch in the common space.
            patches = vision.head(tokens.reshape(count * places, 1, width)).reshape(count, places, -1)
            return Dense(out.pooler_output, self._gridded(patches))
        patches = self._model.visual_projection(vision.post_layernorm(out.last_hidden_state[:, 1:]))
        return Dense(self._model.visual_projection(out.pooler_output), self._gridded(patches))

    def whole(self, pixels: Any) -> Any:
        """Return one embedding for each whole picture: ``(N, D)``."""
        pooled = self._model.vision_model(pixels).pooler_output
        return pooled if self._siglip else self._model.visual_projection(pooled)

    def target(self) -> Target:
        """Return the layer for Grad-CAM: the first normalization of the last block."""
        layer = self._model.vision_model.encoder.layers[-1].layer_norm1
        return Target(layer, (self._side, self._side), 0 if self._siglip else 1)

    def _gridded(self, tokens: Any) -> Any:
        return tokens.reshape(len(tokens), self._side, self._side, -1)


def _processor_format(processor: Record, side: int) -> InputFormat:
    """Return the input format that transformers' image processor describes; ``side`` is the side of the model's
    input.
    """
    crop, size = processor.get("crop_size") or {}, processor.get("size") or {}
    common: dict[str, Any] = {
        "mean": tuple(processor.get("image_mean") or _MEAN),
        "std": tuple(processor.get("image_std") or _STD),
        "scale": processor.get("rescale_factor") or 1 / 255,
        "interpolation": weights.resample_name(int(processor.get("resample") or 3)),
    }
    if processor.get("do_center_crop"):
        sides = (crop.get("height", side), crop.get("width", side))
        return InputFormat(sides, "crop", size.get("shortest_edge", min(sides)), **common)
    return InputFormat((size.get("height", side), size.get("width", side)), "stretch", **common)


class OpenClip:
    """CLIP read by open_clip from a folder: a vision transformer, a ResNet, or a vision transformer of timm.

    The folder has ``open_clip_config.json`` and one file of weights. If the text model is one of Hugging Face, it and
    its tokenizer are read from the subfolder ``text``.
    """

    def __init__(self, folder: Path, device: Any) -> None:
        """Read the model, its tokenizer and the format of its pictures."""
        from open_clip.model import CLIP, CustomTextCLIP
        from open_clip.tokenizer import HFTokenizer, SimpleTokenizer

        record = _config(folder)
        config = {key: value for key, value in record["model_cfg"].items() if key != "custom_text"}
        config["text_cfg"] = text = dict(config["text_cfg"])
        custom = bool(record["model_cfg"].get("custom_text")) or "hf_model_name" in text
        length = text.get("context_length", 77)
        if "hf_model_name" in text or "hf_tokenizer_name" in text:
            if not is_folder(folder / "text"):
                raise InputError(
                    f"{folder}: its text model {text.get('hf_model_name') or text['hf_tokenizer_name']} is "
                    "missing; put that model's config.json and tokenizer into the folder 'text' beside the weights."
                )
            if "hf_model_name" in text:
                text.update(hf_model_name=str(folder / "text"), hf_model_pretrained=False)
            text["hf_tokenizer_name"] = str(folder / "text")
            length = text.get("context_length", 256)
            self._tokenizer: Any = HFTokenizer(str(folder / "text"), length, local_files_only=True)
        else:
            self._tokenizer = SimpleTokenizer(context_length=length)
        config["vision_cfg"] = {**config["vision_cfg"], "timm_model_pretrained": False}
        try:
            model = (CustomTextCLIP if custom else CLIP)(**config)
        except (TypeError, KeyError, ValueError, RuntimeError, OSError) as error:
            reason = " ".join(str(error).split())[:300].rstrip(".")
            raise InputError(
                f"{folder / OPEN_CLIP_CONFIG}: open_clip cannot make this model ({reason}); correct the configuration."
            ) from None
        weights.load_state(model, _own_keys(weights.read_state(folder), model), folder)
        self._model = model.to(device).eval().requires_grad_(False)
        self._device = device
        self.scale = float(model.logit_scale.detach().exp())
        self.format = _open_clip_format(record)
        self._kind = _visual_kind(model.visual, folder)

    def texts(self, sentences: Sequence[str]) -> Any:
        """Return the embeddings of sentences ``(len(sentences), D)``, not normalized."""
        return self._model.encode_text(self._tokenizer(list(sentences)).to(self._device))

    def whole(self, pixels: Any) -> Any:
        """Return one embedding for each whole picture: ``(N, D)``."""
        return self._model.encode_image(pixels)

    def dense(self, pixels: Any) -> Dense:
        """Return the embeddings of pictures ``(N, 3, H, W)`` and of their patches."""
        visual = self._model.visual
        if self._kind == "resnet":
            return self._dense_resnet(pixels)
        if self._kind == "timm":
            tokens = visual.trunk.forward_features(pixels)
            whole = visual.head(visual.trunk.forward_head(tokens))
            # As for a class token, the trunk's last normalization stands before the projection.
            patches = visual.head(visual.trunk.fc_norm(tokens[:, visual.trunk.num_prefix_tokens :]))
        else:
            normal = visual.ln_post
            states = visual.transformer(visual._embeds(pixels))
            pooled, rest = visual._pool(states)
            patches = normal(rest) if visual.final_ln_after_pool else rest
            if visual.proj is not None:
                pooled, patches = pooled @ visual.proj, patches @ visual.proj
            whole = pooled
        return Dense(whole, patches.reshape(len(patches), *self._grid(), -1))

    def _dense_resnet(self, pixels: Any) -> Dense:
        """Return the embeddings made by a ResNet.

        Each place of the last feature map goes through the value and output projections of the attention pool.
        """
        visual = self._model.visual
        features = visual.layer4(visual.layer3(visual.layer2(visual.layer1(visual.stem(pixels)))))
        pool = visual.attnpool
        patches = pool.c_proj(pool.v_proj(features.permute(0, 2, 3, 1)))
        return Dense(pool(features), patches)

    def target(self) -> Target:
        """Return the layer for Grad-CAM: a ResNet's last stage, or the first normalization in a transformer's last
        block.
        """
        visual = self._model.visual
        if self._kind == "resnet":
            return Target(visual.layer4, None, 0)
        if self._kind == "timm":
            return Target(visual.trunk.blocks[-1].norm1, self._grid(), visual.trunk.num_prefix_tokens)
        return Target(visual.transformer.resblocks[-1].ln_1, self._grid(), 1)

    def _grid(self) -> tuple[int, int]:
        visual = self._model.visual
        size = visual.trunk.patch_embed.grid_size if self._kind == "timm" else visual.grid_size
        return int(size[0]), int(size[1])


def _visual_kind(visual: Any, folder: Path) -> str:
    """Return ``vit``, ``resnet`` or ``timm``; raise ``InputError`` for other vision models of open_clip."""
    if hasattr(visual, "attnpool") and hasattr(visual, "layer4"):
        return "resnet"
    if hasattr(visual, "trunk") and hasattr(visual.trunk, "blocks") and hasattr(visual.trunk, "num_prefix_tokens"):
        return "timm"
    if hasattr(visual, "ln_post") and getattr(visual, "attn_pool", None) is None and visual.pool_type in ("tok", "avg"):
        return "vit"
    raise InputError(
        f"{folder / OPEN_CLIP_CONFIG}: its vision model, a {type(visual).__name__}, gives no patch embeddings in "
        "the space shared by pictures and text; maps need a vision transformer or CLIP's ResNet."
    )


def _own_keys(state: dict[str, Any], model: Any) -> dict[str, Any]:
    """Return a state dict without the three extra numbers of OpenAI's files, and without buffers that the model makes
    itself.
    """
    own = set(model.state_dict())
    made = ("input_resolution", "context_length", "vocab_size", "attn_mask", "position_ids")
    return {key: value for key, value in state.items() if key in own or not key.endswith(made)}


def _config(folder: Path) -> Record:
    path = folder / OPEN_CLIP_CONFIG
    record = parse_json(read_text(path), str(path))
    parts = record.get("model_cfg", record) if isinstance(record, dict) else {}
    if not all(isinstance(parts.get(name), dict) for name in ("vision_cfg", "text_cfg")) or "embed_dim" not in parts:
        raise InputError(
            f"{path}: has no 'model_cfg' with embed_dim, vision_cfg and text_cfg; copy the file that open_clip wrote."
        )
    return {"preprocess_cfg": {}, **record, "model_cfg": parts}


def _open_clip_format(record: Record) -> InputFormat:
    size, given = record["model_cfg"]["vision_cfg"].get("image_size", 224), record["preprocess_cfg"]
    sides = (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
    policies: dict[str, Any] = {"shortest": "crop", "longest": "pad", "squash": "stretch"}
    interpolation = given.get("interpolation", "bicubic")
    return InputFormat(
        sides,
        policies.get(given.get("resize_mode", "shortest"), "crop"),
        min(sides),
        mean=tuple(given.get("mean") or _MEAN),
        std=tuple(given.get("std") or _STD),
        interpolation=interpolation if interpolation in ("bicubic", "bilinear") else "bicubic",
    )


def read_clip(folder: Path, device: str) -> TransformersClip | OpenClip:
    """Return the model of a folder, read by open_clip if there is an ``open_clip_config.json``, otherwise by
    transformers.

    Raise ``InputError`` if the folder has no model of these two libraries.
    """
    weights.prepare()
    place = weights.device_of(device)
    if is_file(folder / OPEN_CLIP_CONFIG):
        return OpenClip(folder, place)
    if is_file(folder / "config.json"):
        return TransformersClip(folder, place)
    raise InputError(
        f"{folder}: has neither {OPEN_CLIP_CONFIG} (of open_clip) nor config.json (of transformers), so its model is "
        "unknown; give the folder of a CLIP model."
    )
