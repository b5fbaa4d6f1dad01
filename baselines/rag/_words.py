"""The words of a question."""

from __future__ import annotations

import re

_PICTURE = re.compile(r"\[image\]", re.IGNORECASE)


def asked_text(text: str) -> str:
    """A question without the mark that stands for its picture."""
    return _PICTURE.sub(" ", text)
