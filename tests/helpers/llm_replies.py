"""Replies of the loopback server that let the whole construction run: verdicts and questions."""

from __future__ import annotations

import json
from typing import Any


def _fields(body: dict[str, Any]) -> dict[str, str]:
    """Head, relation and tail as the first user message gives them."""
    content = body["messages"][1]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)


def construct(body: dict[str, Any]) -> str:
    """Keeps what is not nested in itself; asks about what is masked, without naming it."""
    fields = _fields(body)
    if "keep" in body["messages"][0]["content"]:
        keep = fields["Head"] not in fields["Tail"]
        return json.dumps({"keep": keep, "reason": "clear" if keep else "nested"})
    head = fields["Head"].split(" (")[0]
    if fields["Relation"] == "[Mask]":
        question = f"In which way do {head} and {fields['Tail'].split(' (')[0]} belong together?"
    else:
        question = f"Thinking of {head}: which is its {fields['Relation'].split(' (')[0]}?"
    return json.dumps({"question": question})
