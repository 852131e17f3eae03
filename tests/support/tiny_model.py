"""A vision-language model of a few hundred thousand weights, made and trained in a test to answer "Answer: N".

Its architecture is SmolVLM's first (Idefics3): a vision tower, a connector that merges patches, a language model. The
tokenizer is trained on the texts it will see, and the chat template is written here. Only environments with torch
(``make test-torch``) import this module.
"""

from __future__ import annotations

import functools
import io
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    Idefics3ImageProcessorPil,
    Idefics3Processor,
    PreTrainedTokenizerFast,
)

from chexqa.contract.benchmark import Benchmark
from chexqa.eval.local.conversation import conversation
from chexqa.eval.prompts.protocols import PriorReply, Protocol, answer_line, conversations, render

Sample = tuple[list[dict[str, Any]], str]
"""A conversation in the form of chat templates, its pictures as PIL, and the reply to learn."""

PAD, START, END, IMAGE = "<pad>", "<|im_start|>", "<end_of_utterance>", "<image>"
SPECIAL = [PAD, START, END, IMAGE, "<fake_token_around_image>", "<global-img>"]
SIDE, PATCH, MERGE = 32, 8, 2
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}:\n"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant:\n"
    "{% if enable_thinking is defined and not enable_thinking %} (briefly){% endif %}{% endif %}"
)


def texts_of(sample: Sample) -> str:
    """Return all texts of a sample."""
    return "\n".join([*(part.get("text", "") for message in sample[0] for part in message["content"]), sample[1]])


def make_processor(samples: Sequence[Sample]) -> Idefics3Processor:
    """Return a processor whose tokenizer is trained on the samples.

    It can encode any text, if necessary byte by byte.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([texts_of(sample) for sample in samples], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, padding_side="left")
    fast.add_special_tokens({"additional_special_tokens": SPECIAL[3:]})
    images = Idefics3ImageProcessorPil(
        do_image_splitting=False, size={"longest_edge": SIDE}, max_image_size={"longest_edge": SIDE}
    )
    seen = (SIDE // PATCH // MERGE) ** 2
    return Idefics3Processor(images, fast, image_seq_len=seen, chat_template=TEMPLATE)


def make_model(processor: Idefics3Processor, layers: int = 2, width: int = 64) -> Idefics3ForConditionalGeneration:
    """Return an untrained model for the processor."""
    tokenizer = processor.tokenizer
    config = Idefics3Config(
        image_token_id=tokenizer.convert_tokens_to_ids(IMAGE),
        scale_factor=MERGE,
        vision_config={
            "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
            "image_size": SIDE, "patch_size": PATCH,
        },
        text_config={
            "model_type": "llama", "vocab_size": len(tokenizer), "hidden_size": width, "intermediate_size": 2 * width,
            "num_hidden_layers": layers, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 8192, "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None,
        },
    )  # fmt: skip
    model = Idefics3ForConditionalGeneration(config)
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model


def train(
    model: Idefics3ForConditionalGeneration, processor: Idefics3Processor, samples: Sequence[Sample], steps: int,
    rate: float = 3e-3, batch: int = 8,
) -> float:  # fmt: skip
    """Train on the replies alone until the model knows them, or for this many ``steps``; return the loss.

    Training is limited by steps, not by time, so that a busy machine gives the same weights.
    """
    torch.set_num_threads(1)  # on a busy machine, threads that wait for each other take ten times as long
    draw = random.Random(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    model.train()
    losses = [9.9]
    for _ in range(steps):
        if sum(losses[-8:]) / len(losses[-8:]) <= 0.02:
            break
        inputs = encoded(processor, [samples[draw.randrange(len(samples))] for _ in range(batch)])
        loss = model(**inputs).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return sum(losses[-8:]) / len(losses[-8:])


def encoded(processor: Idefics3Processor, samples: Sequence[Sample]) -> Any:
    """Return the model's inputs for whole conversations, with labels on the replies alone."""
    prompts, wholes, pictures = [], [], []
    for said, reply in samples:
        prompts.append(processor.apply_chat_template(said, add_generation_prompt=True))
        wholes.append(f"{prompts[-1]}{reply}{END}")
        pictures.append([part["image"] for one in said for part in one["content"] if part["type"] == "image"])
    shown = pictures if any(pictures) else None
    inputs = processor(text=wholes, images=shown, padding=True, return_tensors="pt")
    labels = torch.full_like(inputs["input_ids"], -100)
    for row, (_, reply) in enumerate(samples):
        count = len(processor.tokenizer(f"{reply}{END}", add_special_tokens=False)["input_ids"])
        labels[row, -count:] = inputs["input_ids"][row, -count:]
    return {**inputs, "labels": labels}


def drawn_samples(count: int, seed: int = 0) -> list[Sample]:
    """Return made-up questions about small pictures, each with the reply "Answer: N"."""
    draw = random.Random(seed)
    samples = []
    for number in range(count):
        shade = draw.randrange(256)
        picture = Image.fromarray(np.full((SIDE, SIDE, 3), shade, np.uint8))
        question = f"The radiograph:\nQuestion {number}: which of these?\n1. one\n2. two\n3. three"
        content = [{"type": "image", "image": picture}, {"type": "text", "text": question}]
        samples.append(([{"role": "user", "content": content}], f"Answer: {draw.randrange(1, 4)}"))
    return samples


def save(folder: Path, samples: Sequence[Sample], questions: int = 150, whole: int = 150, seed: int = 0) -> Path:
    """Make, train and save a model with its processor; return the folder, which ``from_pretrained`` reads.

    The first ``questions`` steps train on the last question of each conversation alone, because learning whole
    conversations from the start takes much longer. The next ``whole`` steps train on whole conversations.
    """
    torch.manual_seed(seed)
    processor = make_processor(samples)
    model = make_model(processor)
    train(model, processor, [(said[-1:], reply) for said, reply in samples], questions)
    train(model, processor, samples, whole, rate=2e-3, batch=4)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def benchmark_samples(bench: Benchmark, protocol: Protocol = "end_to_end") -> list[Sample]:
    """Return every question of a benchmark as it is asked, with a reply that its kind and finding decide.

    The history has the replies of the samples, so a model that learned them meets nothing new when it is asked.
    """
    taught = {}
    for item in bench.items:
        draw = random.Random(f"{item.kind} of {item.finding}")
        taught[item.item_id] = answer_line(bench.conversation_texts, item, (draw.randrange(1, len(item.options) + 1),))

    @functools.cache
    def picture(image: str) -> Image.Image:
        """Return the picture at the model's size, so that the processor need not reduce it at every training step."""
        whole = Image.open(io.BytesIO(bench.image_bytes(image))).convert("RGB")
        whole.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
        return whole

    samples = []
    for talk in conversations(bench, protocol):
        for place, item in enumerate(talk):
            said = [PriorReply(taught[earlier.item_id], None) for earlier in talk[:place]]
            messages = render(bench, protocol, talk, said)
            samples.append((conversation(messages, picture), taught[item.item_id]))
    return samples
