"""Models with open weights, run by transformers; chexqa calls them in the same way as a user's callable.

Prompts are made by the model's own processor and chat template. Weights are read from a folder, or from the local cache
of the Hugging Face hub; nothing is downloaded. ``dtype``, ``load_in_4bit`` and ``attn_implementation`` are decoding
settings, because they change answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chexqa.eval.local.conversation import Conversation
from chexqa.eval.local.replies import ModelReply, PromptTooLongError
from chexqa.files.errors import InputError, suggest

LOADING = ("dtype", "load_in_4bit", "load_in_8bit", "attn_implementation")
LENGTHS = ("max_tokens", "max_completion_tokens")
SAMPLING = ("temperature", "top_p", "top_k", "repetition_penalty")
TEMPLATE = "chat_template_kwargs"
SETTINGS = (*LOADING, *LENGTHS, *SAMPLING, TEMPLATE)
DTYPES = ("auto", "float32", "float16", "bfloat16")
END_OF_THOUGHT = "</think>"


class OpenWeights:
    """One model with its processor; the conversations of a call are padded to one length and answered together."""

    pictures = "pil"

    def __init__(self, place: str, trust_code: bool, context_tokens: int | None, decoding: dict[str, Any]) -> None:
        """Store the settings; nothing is loaded yet.

        ``place`` is a folder or an id of the hub. ``trust_code`` is True if code that comes with the weights is allowed
        to run.
        """
        self._place, self._trust_code, self._decoding = place, trust_code, decoding
        self._context = context_tokens
        self._model: Any = None
        self._processor: Any = None

    @staticmethod
    def check(place: str, trust_code: bool, context_tokens: int | None, decoding: dict[str, Any]) -> None:
        """Raise ``InputError`` for an unknown setting, or if transformers or the weights are not on this machine."""
        who = f"transformers/{place}"
        for name in decoding:
            if name not in SETTINGS:
                raise InputError(
                    f"{who}: '{name}' is not a setting that chexqa passes to transformers{suggest(name, SETTINGS)}; "
                    "remove it."
                )
        if decoding.get("dtype", "auto") not in DTYPES:
            raise InputError(f"{who}: there is no dtype '{decoding['dtype']}'; write one of {', '.join(DTYPES)}.")
        if find_spec("torch") is None or find_spec("transformers") is None:
            raise InputError(f"{who}: torch and transformers are not installed; pip install 'chexqa[local]'.")
        if (decoding.get("load_in_4bit") or decoding.get("load_in_8bit")) and find_spec("bitsandbytes") is None:
            raise InputError(f"{who}: weights of 4 or 8 bits need the package bitsandbytes; pip install bitsandbytes.")
        if (Path(place) / "config.json").is_file():
            return
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        try:
            cached = try_to_load_from_cache(place, "config.json")
        except HFValidationError:
            cached = None
        if not isinstance(cached, str):
            raise InputError(
                f"{who}: there is no folder {place} with a config.json, and the weights are not in the hub's cache on "
                f"this machine; name a folder, or get them first with 'hf download {place}'."
            )

    def load(self, device: str | None) -> None:
        """Load the processor and the weights onto ``device``; None means all GPUs of the machine."""
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        common = {"local_files_only": True, "trust_remote_code": self._trust_code}
        # Nothing is downloaded, so there is no revision to pin.
        self._processor = AutoProcessor.from_pretrained(self._place, **common)  # nosec B615
        tokenizer = self._processor.tokenizer
        tokenizer.padding_side = "left"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        # The code of some weights, such as Hulu-Med's, registers them only as a language model.
        config = AutoConfig.from_pretrained(self._place, **common)  # nosec B615
        own = getattr(config, "auto_map", None) or {}
        plain = "AutoModelForCausalLM" in own and "AutoModelForImageTextToText" not in own
        on_cards = device != "cpu" and torch.cuda.is_available()
        self._model = (
            (AutoModelForCausalLM if plain else AutoModelForImageTextToText)
            .from_pretrained(
                self._place,
                dtype=self._decoding.get("dtype", "auto"),
                device_map="auto" if on_cards else None,
                attn_implementation=self._decoding.get("attn_implementation"),
                quantization_config=self._quantization(),
                **common,
            )
            .eval()
        )
        most = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        self._context = self._context or most

    def answer_batch(self, conversations: Sequence[Conversation]) -> list[ModelReply | Exception]:
        """Return a reply or an error for each conversation.

        A batch that does not fit into memory is split into two halves, which are answered one after the other.
        """
        import torch

        try:
            return self._generated(conversations)
        except torch.OutOfMemoryError:
            if len(conversations) == 1:
                raise
        torch.cuda.empty_cache()
        half = len(conversations) // 2
        return [*self.answer_batch(conversations[:half]), *self.answer_batch(conversations[half:])]

    def _generated(self, conversations: Sequence[Conversation]) -> list[ModelReply | Exception]:
        import torch

        inputs = self._inputs(conversations)
        counts = [int(count) for count in inputs["attention_mask"].sum(dim=1)]
        room = (self._context or 10**9) - 1
        if max(counts) > room:
            return self._without_long(conversations, counts, room)
        whole = inputs["input_ids"].shape[1]
        with torch.inference_mode():
            made = self._model.generate(
                **inputs.to(self._model.device, dtype=self._model.dtype),
                **self._sampling(),
                max_new_tokens=min(self._most_tokens(), room + 1 - max(counts)),
                pad_token_id=self._processor.tokenizer.pad_token_id,
            )
        return [self._reply(row[whole:].tolist(), count) for row, count in zip(made, counts, strict=True)]

    def _without_long(
        self, conversations: Sequence[Conversation], counts: Sequence[int], room: int
    ) -> list[ModelReply | Exception]:
        """Return a reply to each conversation that fits the context, and an error for each of the others."""
        fitting = [one for one, count in zip(conversations, counts, strict=True) if count <= room]
        replies = iter(self._generated(fitting) if fitting else [])
        return [
            next(replies)
            if count <= room
            else PromptTooLongError(f"the prompt has {count:,} tokens, but the model's context holds only {room + 1:,}")
            for count in counts
        ]

    def _inputs(self, conversations: Sequence[Conversation]) -> Any:
        """Return the padded inputs of the model, made by its chat template and processor."""
        processor, given = self._processor, self._decoding.get(TEMPLATE) or {}
        texts = [processor.apply_chat_template(one, add_generation_prompt=True, **given) for one in conversations]
        pictures = [
            [part["image"].convert("RGB") for message in one for part in message["content"] if part["type"] == "image"]
            for one in conversations
        ]
        # If the template writes the start token, the processor must not add another.
        start = processor.tokenizer.bos_token
        plain = {"add_special_tokens": False} if start and texts[0].startswith(start) else {}
        shown = pictures if any(pictures) else None
        return processor(text=texts, images=shown, padding=True, return_tensors="pt", **plain)

    def _reply(self, tokens: list[int], input_tokens: int) -> ModelReply:
        """Return the reply that consists of the new tokens; tokens after the end token are padding and are dropped."""
        ends = self._model.generation_config.eos_token_id
        known = set(ends if isinstance(ends, list) else [ends])
        place = next((number for number, token in enumerate(tokens) if token in known), None)
        own = tokens if place is None else tokens[:place]
        text = self._processor.tokenizer.decode(own, skip_special_tokens=True).strip()
        thought, mark, rest = text.rpartition(END_OF_THOUGHT)
        return ModelReply(
            rest.strip() if mark else text,
            input_tokens=input_tokens,
            output_tokens=len(own) + (place is not None),
            reasoning=thought.removeprefix("<think>").strip() or None,
            finish_reason="length" if place is None else "stop",
            model=self._version(),
        )

    def _version(self) -> str:
        """Return the name of the weights, with their commit on the hub if it is known."""
        commit = getattr(self._model.config, "_commit_hash", None)
        return f"{Path(self._place).name}{f' {commit[:12]}' if commit else ''} {self._model.dtype}".replace(
            "torch.", ""
        )

    def _most_tokens(self) -> int:
        limits = [self._decoding[name] for name in LENGTHS if self._decoding.get(name)]
        return int(min(limits, default=8192))

    def _sampling(self) -> dict[str, Any]:
        """Return the arguments of sampling.

        If the temperature is 0 or is not given, the likeliest token is taken each time.
        """
        given = {name: self._decoding[name] for name in SAMPLING if self._decoding.get(name) is not None}
        if not given.get("temperature"):
            kept = {name: value for name, value in given.items() if name == "repetition_penalty"}
            return {"do_sample": False, "temperature": None, "top_p": None, "top_k": None, **kept}
        return {"do_sample": True, **given}

    def _quantization(self) -> Any:
        bits = {name: True for name in ("load_in_4bit", "load_in_8bit") if self._decoding.get(name)}
        if not bits:
            return None
        from transformers import BitsAndBytesConfig

        return BitsAndBytesConfig(**bits)
