"""Removal of secrets from text that is shown or written."""

from __future__ import annotations

import os
from collections.abc import Callable

SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
MIN_CHARACTERS = 8

Hider = Callable[[str | None], str | None]


def hider(*known: str | None) -> Hider:
    """Return a function that replaces each secret in a text by ``[secret]``.

    Secrets are the texts ``known`` and the values of some environment variables. A variable's value is a secret if its
    name contains a word of :data:`SECRET_WORDS` (such as ``API_KEY``) and the value has at least eight characters.
    Shorter values could occur in any text.
    """
    named = (value.strip() for name, value in os.environ.items() if any(word in name.upper() for word in SECRET_WORDS))
    secrets = {value for value in named if len(value) >= MIN_CHARACTERS} | {value for value in known if value}
    ordered = sorted(secrets, key=len, reverse=True)

    def hide(text: str | None) -> str | None:
        for secret in ordered if text else ():
            text = text and text.replace(secret, "[secret]")
        return text

    return hide
