"""What is asked and what comes back: messages with pictures, requests, answers, and their keys."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

Role = Literal["system", "user", "assistant"]

_MAGIC = {
    b"\xff\xd8\xff": "image/jpeg",
    b"\x89PNG": "image/png",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}


def media_type(image: bytes) -> str:
    """The media type of the bytes of an image, by its first bytes (PNG where unknown)."""
    return next((kind for magic, kind in _MAGIC.items() if image.startswith(magic)), "image/png")


@dataclass(frozen=True)
class Message:
    """One turn: text, and the bytes of the pictures shown with it (user turns only)."""

    role: Role
    text: str
    images: tuple[bytes, ...] = ()

    def to_openai(self) -> dict[str, Any]:
        """The turn as the chat-completions interface wants it; pictures become data URLs."""
        if not self.images:
            return {"role": self.role, "content": self.text}
        parts: list[dict[str, Any]] = [{"type": "text", "text": self.text}]
        for image in self.images:
            url = f"data:{media_type(image)};base64,{base64.b64encode(image).decode()}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        return {"role": self.role, "content": parts}

    def digest(self) -> list[object]:
        """What the turn is, with every picture as its SHA-256."""
        return [self.role, self.text, [hashlib.sha256(image).hexdigest() for image in self.images]]


@dataclass(frozen=True)
class Request:
    """A conversation to be continued, and how.

    Attributes:
        messages: The turns so far; the last one is the user's.
        max_tokens: Longest answer.
        temperature: 0 asks for the most likely answer.
        seed: Sent along; servers that honour it repeat themselves.
        json_object: Ask the server for a JSON object (where it knows that setting).
    """

    messages: tuple[Message, ...]
    max_tokens: int = 512
    temperature: float = 0.0
    seed: int = 0
    json_object: bool = False

    def parameters(self) -> dict[str, Any]:
        """The sampling parameters of the request."""
        found: dict[str, Any] = {
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
        }
        if self.json_object:
            found["response_format"] = {"type": "json_object"}
        return found

    def again(self, answer: str, reason: str) -> Request:
        """The same conversation, the bad answer in it, and what is wrong with it."""
        turns = (Message("assistant", answer or "(nothing)"), Message("user", reason))
        return replace(self, messages=(*self.messages, *turns))


@dataclass(frozen=True)
class Answer:
    """What a model said.

    Attributes:
        text: The answer; "" where it said nothing.
        finish: Why it stopped: ``stop``, ``length`` (cut off), or the server's own word.
        prompt_tokens: Tokens read, 0 where the server does not say.
        completion_tokens: Tokens written, likewise.
        model: The exact model that answered, as it calls itself.
    """

    text: str
    finish: str = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    model: str = ""

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Answer:
        """An answer from data of others, which may be anything.

        Half a surrogate pair, as a model cut off within an emoji leaves it, becomes U+FFFD: no file
        can hold it.

        Raises:
            TypeError: Another field, or a text or number that is none.
        """
        answer = cls(**values)
        texts = (answer.text, answer.finish, answer.model)
        counts = (answer.prompt_tokens, answer.completion_tokens)
        if not all(isinstance(one, str) for one in texts) or not all(map(_is_count, counts)):
            raise TypeError("no answer")
        text, finish, model = map(whole, texts)
        return replace(answer, text=text, finish=finish, model=model)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < 1 << 63


def whole(text: str) -> str:
    """A text with U+FFFD for every half of a surrogate pair."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def request_key(model: str, request: Request, parameters: dict[str, Any]) -> str:
    """SHA-256 (hex) of model, messages and the parameters as sent: equal keys, equal questions."""
    content = {
        "model": model,
        "messages": [message.digest() for message in request.messages],
        "parameters": parameters,
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
