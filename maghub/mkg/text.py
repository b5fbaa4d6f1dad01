"""How names and questions are compared: without case, punctuation and compatibility forms."""

from __future__ import annotations

import re
import unicodedata

_NO_WORD = re.compile(r"[\W_]+")
# Scripts that put no blanks between words: Thai, Lao, Myanmar, Khmer, kana, Han.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def plain(text: str) -> str:
    """Its words in lower case with one blank between them; "" where it has no word.

    Example:
        >>> plain("  People's  Republic of CHINA ")
        'people s republic of china'
    """
    return _NO_WORD.sub(" ", _folded(text)).strip()


def contains(text: str, name: str) -> bool:
    """Whether whole words of ``text`` are ``name``; both as ``plain`` gives them.

    Scripts without blanks between words are compared letter by letter.
    """
    if not name:
        return False
    if _UNSPACED.search(name):
        return name in text
    return f" {name} " in f" {text} "


def says(text: str, name: str) -> bool:
    """Whether a text contains a name; a name without any word (``...``, an emoji) as it is."""
    if words := plain(name):
        return contains(plain(text), words)
    sign = _folded(name).strip()
    return bool(sign) and sign in _folded(text)
