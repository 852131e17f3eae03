"""Text models of Hugging Face (BERT and similar), read from a folder; they embed sentences and words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chexqa.eval.map_models import weights
from chexqa.files.errors import InputError
from chexqa.files.jsonio import Record, is_folder

FOLDER = "text"


class TextModel:
    """Text model, which may have a projection after it.

    The field ``text`` of ``map_model.json`` has two settings. ``layers`` is the number of last layers whose outputs are
    added to give a word's embedding (default 1). ``pool`` says what a sentence's embedding is: the embedding of the
    first token (``cls``), or the mean of its words' embeddings (``mean``, the default).
    """

    def __init__(self, folder: Path, config: Record, project: Any, device: Any) -> None:
        """Read the model and its tokenizer from the folder ``text``; ``project`` is a layer of torch, or None."""
        if not is_folder(folder / FOLDER):
            raise InputError(
                f"{folder}: has no folder '{FOLDER}' with the text model and its tokenizer; put them there."
            )
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        weights.check_tokenizer(folder / FOLDER)
        try:
            # A folder has no revision that could be pinned.
            self._tokenizer = AutoTokenizer.from_pretrained(folder / FOLDER, local_files_only=True)  # nosec B615
            model = AutoModel.from_pretrained(folder / FOLDER, local_files_only=True)  # nosec B615
        except Exception as error:  # a damaged folder makes transformers raise errors of many types
            reason = " ".join(str(error).split())[:300].rstrip(".")
            raise InputError(
                f"{folder / FOLDER}: transformers cannot read the text model ({type(error).__name__}: {reason}); give "
                "a complete folder that transformers can load."
            ) from None
        self._model = model.to(device).eval().requires_grad_(False)
        self._project = None if project is None else project.to(device)
        self._device = device
        given = config.get("text") or {}
        self._layers, self._pool = given.get("layers", 1), given.get("pool", "mean")

    def words(self, sentence: str) -> tuple[Any, Any]:
        """Return the embeddings of a sentence's first token ``(1, D)`` and of its words ``(T, D)``.

        The first token marks the sentence's beginning. The words are all tokens but the special ones.
        """
        states, kept = self._states([sentence])
        return self._projected(states[0, :1]), self._projected(states[0][kept[0]])

    def sentences(self, sentences: Sequence[str]) -> Any:
        """Return the embeddings of sentences ``(len(sentences), D)``."""
        states, kept = self._states(sentences)
        if self._pool == "cls":
            return self._projected(states[:, 0])
        share = kept.to(states.dtype)[..., None]
        return self._projected((states * share).sum(dim=1) / share.sum(dim=1).clamp(min=1))

    def _states(self, sentences: Sequence[str]) -> tuple[Any, Any]:
        import torch

        inputs = self._tokenizer(
            list(sentences), padding=True, truncation=True, return_tensors="pt", return_special_tokens_mask=True
        ).to(self._device)
        special = inputs.pop("special_tokens_mask").bool()
        with torch.no_grad():
            hidden = self._model(**inputs, output_hidden_states=True).hidden_states
        states = torch.stack(hidden[-self._layers :]).sum(dim=0)
        return states, inputs["attention_mask"].bool() & ~special

    def _projected(self, states: Any) -> Any:
        return states if self._project is None else self._project(states)
