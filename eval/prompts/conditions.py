"""Conditions of a run: the wording around its questions, and the number of examples before each question.

The benchmark's wording (``conversation`` in its question bank) is used, unless ``--prompt`` or ``--system``
replaces a part of it. ``--confidence`` adds a line that asks for a confidence. The questions and options themselves
never change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chexqa import question_banks
from chexqa.contract.benchmark import Benchmark
from chexqa.contract.items import Item
from chexqa.eval.places.coordinate_systems import PIXELS, Frame
from chexqa.eval.prompts import protocols, shots
from chexqa.eval.prompts.option_order import Modifiers
from chexqa.eval.prompts.protocols import Conversation, Message, PriorReply, Protocol
from chexqa.files.errors import InputError, suggest
from chexqa.files.jsonio import Record, dump, read_text, sha256

# Largest number of characters of a system text; published ones have a few thousand.
MAX_SYSTEM_BYTES = 100_000
PLAIN, REASON, BANK = "plain", "reason", "bank:"


@dataclass(frozen=True)
class Condition:
    """Condition of a run: its wording, examples and further settings.

    ``prompt`` is the name of the wording; ``system`` replaces the system text of the wording. ``shots`` is the number
    of examples. ``confidence`` is True if each reply must state a confidence, and ``may_abstain`` is True if a model
    may abstain.
    """

    prompt: str | None = None
    system: str | None = None
    shots: int = 0
    confidence: bool = False
    may_abstain: bool = False

    @property
    def system_mark(self) -> str | None:
        """Return a short name for the system text: the first digits of its hash; None if there is no system text."""
        return self.system and sha256(self.system.encode())[:12]

    @property
    def wording(self) -> str | None:
        """Return the wording's name for tables; None if there is no system text and the wording is that of the
        benchmark's question bank.

        If there is a system text, the name contains its :attr:`system_mark`.
        """
        system = self.system and f"system {self.system_mark}"
        return ", ".join(filter(None, (self.prompt, system))) or None

    @property
    def examples(self) -> str | None:
        """Return the number of examples in words, followed by "confidence" and "may abstain" if these options are set.

        Return None if there are no examples and neither option is set.
        """
        shots = f"{self.shots} shot{'s' if self.shots > 1 else ''}" if self.shots else None
        said = ("confidence" if self.confidence else None, "may abstain" if self.may_abstain else None)
        return ", ".join(filter(None, (shots, *said))) or None

    @property
    def words(self) -> str:
        """Return the condition in words; the text is empty if the run keeps the bank's wording and sets no option."""
        return ", ".join(filter(None, (self.wording, self.examples)))

    def record(self, benchmark: Benchmark) -> Record | None:
        """Return the value of the field ``condition`` of ``run.json``.

        Return None if the run keeps the wording of the benchmark's question bank and changes no setting.
        """
        if not self.words:
            return None
        wording = sha256(dump(texts(benchmark, self)).encode())
        made = {"prompt": self.prompt, "wording": wording, "system": self.system, "shots": self.shots}
        given = {"confidence": self.confidence, "may_abstain": self.may_abstain}
        return {**made, **{name: True for name, value in given.items() if value}}


def of_run(about: Mapping[str, Any]) -> Condition:
    """Return the condition that a ``run.json`` records."""
    held = about.get("condition") or {}
    return Condition(held.get("prompt"), held.get("system"), held.get("shots", 0), held.get("confidence", False),
                     held.get("may_abstain", False))  # fmt: skip


def given(prompt: str | None, system: Path | None, examples: int, confidence: bool = False, may_abstain: bool = False
          ) -> Condition:  # fmt: skip
    """Return the condition that a command's options describe.

    ``prompt`` is the name of a wording; None for the wording of the benchmark's question bank. Raises ``InputError`` if
    the file ``system`` is empty or is not text.
    """
    text = None
    if system is not None:
        text = read_text(system, MAX_SYSTEM_BYTES).strip()
        if not text:
            raise InputError(f"{system}: is empty; write the system text into it, or leave out --system.")
    return Condition(prompt, text, examples, confidence, may_abstain)


def texts(benchmark: Benchmark, condition: Condition) -> dict[str, Any]:
    """Return the wording around the questions.

    The wording is the question bank's own, changed by the prompt that the condition names. A prompt ``plain`` or
    ``reason`` is taken from the bank or, if the bank lacks it, from chexqa's prompts in the bank's language.
    ``bank:NAME`` is always the bank's prompt NAME. Raise ``InputError`` if the prompt is missing, or if a setting of
    the condition (examples, confidence, abstaining) has no text.
    """
    bank = benchmark.about["question_bank"]
    made = dict(benchmark.conversation_texts)
    own, known = bank.get("prompts", {}), question_banks.wordings(bank["language"])
    if condition.prompt is not None:
        name = condition.prompt.removeprefix(BANK)
        theirs = {} if condition.prompt.startswith(BANK) or known is None else known["prompts"]
        if name not in own and (name not in theirs or name not in (PLAIN, REASON)):
            raise InputError(_missing(condition.prompt, bank, own, theirs))
        made = question_banks.reworded(made, own.get(name) or theirs[name], "--prompt", condition.prompt)
    if condition.system is not None:
        made["system"] = condition.system
    for option, wanted, name, what in (
        ("--shots", condition.shots, "example", "an example"),
        ("--confidence", condition.confidence, "confidence", "the confidence"),
        ("--may-abstain", condition.may_abstain, "may_abstain", "abstaining"),
    ):
        if wanted and name not in made:
            if known is None:
                raise InputError(
                    f"{option}: the question bank '{bank['name']}' has no wording for {what}, and chexqa has "
                    f"none in the language '{bank['language']}'; add '{name}' to the bank's 'conversation' and "
                    "generate the benchmark again."
                )
            made[name] = known[name]
    for name, wanted in (("confidence", condition.confidence), ("may_abstain", condition.may_abstain)):
        if not wanted:
            made.pop(name, None)
    return made


def _missing(prompt: str, bank: Record, own: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Return the error message for a prompt name that the bank does not have."""
    names = sorted({*theirs, *(f"{BANK}{name}" for name in own)})
    hint = suggest(prompt, names) if names else ", and no other named wording"
    return (
        f"--prompt {prompt}: the question bank '{bank['name']}' has no wording of this name{hint}; to add one, "
        "put it into 'prompts' of a question bank of your own."
    )


class Prompter:
    """Maker of the messages sent to models, for one protocol, one set of modifiers (such as ``blind``: without
    pictures) and one condition (wording, examples).
    """

    def __init__(
        self, benchmark: Benchmark, protocol: Protocol, modifiers: Modifiers, condition: Condition, seed: int = 0
    ) -> None:
        """Find the wording and the pool of examples; raise ``InputError`` if either is missing."""
        self.benchmark, self.protocol, self.blind = benchmark, protocol, modifiers.blind
        self.texts = texts(benchmark, condition)
        self.examples = shots.Examples(benchmark, condition.shots, seed) if condition.shots else None
        self._modifiers = modifiers

    def check(self, items: Sequence[Item]) -> None:
        """Raise ``InputError`` if there are too few examples for one of the items."""
        if self.examples is not None:
            self.examples.check(items)

    def messages(
        self, shown: Conversation, said: Sequence[PriorReply], rotation: int = 0, frame: Frame = PIXELS
    ) -> tuple[Message, ...]:
        """Return the messages that ask the next item; ``said`` has the replies to the items before it.

        ``shown`` has the items of the conversation as shown in this ``rotation`` (order of the options). ``frame`` is
        the model's coordinate system. See also :func:`protocols.render`.
        """
        before: tuple[Message, ...] = ()
        if self.examples is not None:
            item = shown[len(said)]
            before = self.examples.messages(item, self.texts, self._modifiers, rotation)
        return protocols.render(self.benchmark, self.protocol, shown, said, self.blind, self.texts, before, frame)
