"""The tiny model that other tests ask: it has learned its answers and is read as any model of its architecture is."""

from __future__ import annotations

from pathlib import Path

import tiny_model as made
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor


def test_it_says_what_it_was_taught_to_batches_too(tiny_model: Path) -> None:
    processor = AutoProcessor.from_pretrained(tiny_model, local_files_only=True)
    model = AutoModelForImageTextToText.from_pretrained(tiny_model, local_files_only=True)
    samples = made.drawn_samples(40)[:12]
    inputs = processor.apply_chat_template(
        [conversation for conversation, _ in samples], add_generation_prompt=True, tokenize=True, return_dict=True,
        return_tensors="pt", processor_kwargs={"padding": True},
    )  # fmt: skip
    with torch.inference_mode():
        said = model.generate(**inputs, max_new_tokens=12, do_sample=False)[:, inputs["input_ids"].shape[1] :]
    texts = [text.strip() for text in processor.batch_decode(said, skip_special_tokens=True)]
    assert texts == [reply for _, reply in samples]
    assert len(set(texts)) == 3
