"""Reads JSON objects out of what models say: fences, thoughts and chatter around them are cut."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

from maghub.llm.client import BadAnswer
from maghub.llm.messages import Answer

_THOUGHTS = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)
MALFORMED, CUT = "malformed JSON", "answer cut off"
MOST_STARTS = 50
"""So many opening braces are tried: an answer of braces alone would take quadratic time."""


def said(answer: Answer) -> str:
    """What a model says once it has thought: the text without its thoughts."""
    return _THOUGHTS.sub("", answer.text)


def json_object(answer: Answer, reply: str) -> dict[str, Any]:
    """The first JSON object in an answer.

    Args:
        answer: What the model said.
        reply: What to tell it where there is none.

    Raises:
        BadAnswer: There is none, or the answer was cut off before its end.
    """
    text = said(answer)
    starts = (match.start() for match in re.finditer("{", text))
    for start in islice(starts, MOST_STARTS):
        try:
            found, _ = json.JSONDecoder().raw_decode(text, start)
            json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair is no text
        except (ValueError, RecursionError):
            continue
        return dict(found)
    raise BadAnswer(CUT if answer.finish == "length" else MALFORMED, reply)
