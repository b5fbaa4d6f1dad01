"""The prompts of question writing, from one readable file, filled in for a triplet or a form."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

PROMPTS = "prompts.yaml"
SHOWN_DESCRIPTION = 300


@cache
def prompts() -> dict[str, Any]:
    """The content of ``prompts.yaml``."""
    found: dict[str, Any] = yaml.safe_load(data_text(PROMPTS))
    return found


def data_text(name: str) -> str:
    """The text of a data file of this package."""
    return (files("maghub.mkg") / name).read_text(encoding="utf-8")


def data_digest(name: str) -> str:
    """What tells one state of a data file from another: the start of its SHA-256."""
    return f"sha256 {hashlib.sha256(data_text(name).encode()).hexdigest()[:16]}"


def fill(template: str, **values: str) -> str:
    """A template with its {names} filled in, each place once, whatever the values hold.

    Other braces stay as they are.
    """
    pattern = re.compile("{(" + "|".join(values) + ")}")
    return pattern.sub(lambda match: values[match[1]], template)


def described(name: str, description: str) -> str:
    """A name with its description, cut to a length that no prompt suffers from."""
    text = " ".join(description.split())
    if not text or text.casefold() == name.casefold():
        return name
    if len(text) > SHOWN_DESCRIPTION:
        text = f"{text[:SHOWN_DESCRIPTION]}..."
    return fill(prompts()["described"], name=name, description=text)
