"""Folders of tiny models with random weights, one for each family of map makers.

Only environments with torch, transformers, open_clip and torchvision (``make test-torch``) import this module.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from chexqa.eval.map_makers.prompts import read_prompts
from chexqa.eval.map_models import weights

weights.prepare()
torch.set_num_threads(1)  # threads that wait for each other take ten times as long on a busy machine

from transformers import (  # noqa: E402
    BertConfig,
    BertModel,
    CLIPConfig,
    CLIPImageProcessor,
    CLIPModel,
    PreTrainedTokenizerFast,
    SiglipConfig,
    SiglipImageProcessor,
    SiglipModel,
)

SIDE, PATCH, WIDTH = 64, 16, 32
MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
VISION = {"hidden_size": WIDTH, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
          "image_size": SIDE, "patch_size": PATCH}  # fmt: skip


def tokenizer(folder: Path, kind: str) -> PreTrainedTokenizerFast:
    """Make a word tokenizer of the wording of findings, and save it: begin and end as CLIP's, or as BERT's."""
    wording = read_prompts(None)
    texts = [text for names in wording.words.values() for text in
             wording.positive(names[0]) + wording.negative(names[0])]  # fmt: skip
    begin, end = ("[CLS]", "[SEP]") if kind == "bert" else ("<|startoftext|>", "<|endoftext|>")
    made = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["[PAD]", "[UNK]", begin, end]))
    ids = [(begin, made.token_to_id(begin)), (end, made.token_to_id(end))]
    made.post_processor = processors.TemplateProcessing(single=f"{begin} $A {end}", special_tokens=ids)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", cls_token=begin, sep_token=end,
        bos_token=begin, eos_token=end, model_max_length=32,
    )  # fmt: skip
    fast.save_pretrained(folder)
    return fast


def clip(folder: Path, seed: int = 0) -> Path:
    """Save a tiny CLIP of transformers."""
    torch.manual_seed(seed)
    words = tokenizer(folder, "clip")
    text = {"hidden_size": WIDTH, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
            "vocab_size": len(words), "max_position_embeddings": 32, "eos_token_id": words.eos_token_id,
            "bos_token_id": words.bos_token_id, "pad_token_id": words.pad_token_id}  # fmt: skip
    CLIPModel(CLIPConfig(text_config=text, vision_config=VISION, projection_dim=24)).save_pretrained(folder)
    CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    return folder


def siglip(folder: Path, seed: int = 0) -> Path:
    """Save a tiny SigLIP of transformers."""
    torch.manual_seed(seed)
    words = tokenizer(folder, "clip")
    text = {"hidden_size": WIDTH, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
            "vocab_size": len(words), "max_position_embeddings": 32, "projection_size": WIDTH}  # fmt: skip
    SiglipModel(SiglipConfig(text_config=text, vision_config=VISION)).save_pretrained(folder)
    SiglipImageProcessor(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    return folder


OPEN_VISION: dict[str, dict[str, Any]] = {
    "vit": {"layers": 2, "width": WIDTH, "head_width": 16, "patch_size": PATCH, "image_size": SIDE},
    "resnet": {"layers": [1, 1, 1, 1], "width": 8, "head_width": 8, "patch_size": None, "image_size": 2 * SIDE},
    "timm": {"timm_model_name": "vit_tiny_patch16_224", "timm_pool": "", "timm_proj": "linear", "image_size": 224},
}


def open_clip(folder: Path, vision: str, seed: int = 0) -> Path:
    """Save a tiny CLIP of open_clip: ``vit``, ``resnet`` or ``timm`` (with a Hugging Face text model, as in
    BiomedCLIP).
    """
    from open_clip.model import CLIP, CustomTextCLIP

    torch.manual_seed(seed)
    text: dict[str, Any] = {"context_length": 77, "vocab_size": 49408, "width": WIDTH, "heads": 2, "layers": 1}
    if vision == "timm":
        bert(folder / "text")
        text = {"hf_model_name": "somebody/bert", "hf_tokenizer_name": "somebody/bert", "hf_proj_type": "mlp",
                "hf_pooler_type": "cls_last_hidden_state_pooler", "context_length": 32}  # fmt: skip
    config = {"embed_dim": 24, "vision_cfg": OPEN_VISION[vision], "text_cfg": text}
    (folder / "open_clip_config.json").write_text(json.dumps({
        "model_cfg": config, "preprocess_cfg": {"mean": MEAN, "std": STD, "resize_mode": "shortest"},
    }))  # fmt: skip
    if vision == "timm":
        here = {**text, "hf_model_name": str(folder / "text"), "hf_tokenizer_name": str(folder / "text"),
                "hf_model_pretrained": False}  # fmt: skip
        own = {**config["vision_cfg"], "timm_model_pretrained": False}
        model: Any = CustomTextCLIP(config["embed_dim"], own, here)
    else:
        model = CLIP(**config)
        with torch.no_grad():  # new weights have zeros in many places
            for weight in model.parameters():
                weight.add_(0.1 * torch.randn_like(weight))
    torch.save(model.state_dict(), folder / "open_clip_pytorch_model.bin")
    return folder


def bert(folder: Path) -> Path:
    """Save a tiny BERT with its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    words = tokenizer(folder, "bert")
    config = BertConfig(
        vocab_size=len(words), hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=64, pad_token_id=words.pad_token_id,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return folder


IMAGE = {"side": [SIDE, SIDE], "policy": "crop", "shorter": SIDE, "mean": MEAN, "std": STD}


def described(folder: Path, record: dict[str, Any], state: dict[str, torch.Tensor]) -> Path:
    """Write ``map_model.json`` and the state dict."""
    (folder / "map_model.json").write_text(json.dumps(record))
    torch.save(state, folder / "model.pt")
    return folder


def classifier(folder: Path, labels: list[str], seed: int = 0, channels: int = 1) -> Path:
    """Save a tiny DenseNet whose outputs are findings."""
    torch.manual_seed(seed)
    network = weights.trunk("densenet121", channels, len(labels))
    for part in network.modules():  # random statistics, so that the normalization is not the identity
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    image = {**IMAGE, "trunk": "densenet121", "mean": [127.5] * channels, "std": [127.5 / 1024] * channels, "scale": 1}
    return described(folder, {"image": image, "labels": labels}, network.state_dict())


def trunk_state(seed: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    network = weights.trunk("resnet18", 3, 1)
    return {f"trunk.{key}": value for key, value in network.state_dict().items() if not key.startswith("fc.")}


def local_contrastive(folder: Path, kind: str = "attention", seed: int = 0) -> Path:
    """Save a tiny ResNet with projected local features of its third layer, and a BERT."""
    bert(folder / "text")
    state = trunk_state(seed)
    state |= {"local.weight": torch.randn(24, 256, 1, 1) / 16, "local.bias": torch.randn(24),
              "global.weight": torch.randn(24, 512) / 16, "text.weight": torch.randn(24, WIDTH) / 16}  # fmt: skip
    image = {**IMAGE, "trunk": "resnet18", "layer": "layer3"}
    record = {"image": image, "map": kind, "temperature": 4.0, "text": {"layers": 2, "pool": "mean"}}
    return described(folder, record, state)


def query_decoder(folder: Path, seed: int = 0) -> Path:
    """Save a tiny ResNet, a decoder of two layers, and a BERT that makes the queries."""
    bert(folder / "text")
    state = trunk_state(seed)
    layer = torch.nn.TransformerDecoderLayer(24, 4, 48, batch_first=True)
    decoder = torch.nn.TransformerDecoder(layer, 2, torch.nn.LayerNorm(24))
    for part in decoder.parameters():
        torch.nn.init.normal_(part, 0, 0.3)
    state |= {f"decoder.{key}": value for key, value in decoder.state_dict().items()}
    state |= {"memory.weight": torch.randn(24, 256) / 8, "memory.bias": torch.zeros(24),
              "query.weight": torch.randn(24, WIDTH), "head.weight": torch.randn(2, 24),
              "head.bias": torch.zeros(2)}  # fmt: skip
    image = {**IMAGE, "trunk": "resnet18", "layer": "layer3"}
    return described(folder, {"image": image, "heads": 4, "text": {"pool": "cls"}}, state)
