"""Reading answers and predictions as categories, booleans, numbers and sets (paper D.1)."""

from __future__ import annotations

import math
import re
from typing import Final

LONGEST: Final = 100_000
"""Characters of a prediction that are read; what lies beyond changes no answer format."""

TRUE: Final = frozenset({"yes", "true", "1"})
FALSE: Final = frozenset({"no", "false", "0"})
_PUNCTUATION = re.compile(r"[^\w\s]")
_SPLIT = re.compile(r"[;,]")
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?")


def as_text(value: object) -> str:
    """Any prediction as text: None is empty, lists are joined by commas, depth does not matter."""
    if isinstance(value, str):
        return value[:LONGEST]
    if value is None:
        return ""
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(_leaves(value))[:LONGEST]
    try:
        return str(value)[:LONGEST]
    except Exception:  # a foreign object whose str() fails is an unparsable prediction
        return ""


def _leaves(value: object) -> list[str]:
    """The texts of a nested list, without recursion."""
    found: list[str] = []
    stack = [value]
    while stack and len(found) < LONGEST:
        item = stack.pop()
        if isinstance(item, list | tuple):
            stack.extend(reversed(item))
        elif isinstance(item, set | frozenset):
            stack.extend(sorted(map(as_text, item), reverse=True))
        else:
            found.append(as_text(item))
    return found


def normalise(text: str) -> str:
    """Punctuation dropped, lower case, stripped."""
    return _PUNCTUATION.sub("", text).lower().strip()


def as_boolean(text: str) -> bool | None:
    """``yes/true/1`` or ``no/false/0`` after normalising."""
    word = normalise(text)
    return True if word in TRUE else False if word in FALSE else None


def as_number(text: str) -> tuple[float | None, bool]:
    """A number, and whether it took the fallback: the first well-formed one in the text."""
    try:
        value = float(text)
    except ValueError:
        found = _NUMBER.search(text)
        if found is None:
            return None, False
        value = float(found[0].replace(",", ""))
        return (value, True) if math.isfinite(value) else (None, False)
    return (value, False) if math.isfinite(value) else (None, False)


def as_set(text: str) -> frozenset[str]:
    """Normalised items between commas and semicolons."""
    items = map(normalise, _SPLIT.split(text))
    return frozenset(item for item in items if item)
