"""Any server with OpenAI's chat-completions interface, through the ``openai`` library.

The key comes from the environment and goes nowhere else: not into messages of errors (servers like
to repeat it), not into tracebacks, not into the library's own debug log.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from maghub.errors import MaghubError
from maghub.libraries import library
from maghub.llm.backend import Refused, Transient
from maghub.llm.messages import Answer, Request

KEY_VARIABLE, URL_VARIABLE = "OPENAI_API_KEY", "OPENAI_BASE_URL"
_LOGGERS = ("openai", "httpx2", "httpcore2", "httpx", "httpcore")
_SILENT = "(hidden)"


class _NoKey(logging.Filter):
    """Takes a key out of whatever a library logs."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self._key = key

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if self._key in text or record.exc_info:
            record.msg, record.args = text.replace(self._key, _SILENT), ()
            record.exc_info = None
        return True


def read_key(variable: str | None = None) -> str:
    """The key from the environment.

    Raises:
        MaghubError: The variable is not set, or holds what no header can carry.
    """
    name = variable or KEY_VARIABLE
    key = os.environ.get(name, "").strip()
    if not key:
        fix = f"export {name}=... (any word will do for a server that asks for no key)"
        raise MaghubError(f"no key: the environment variable {name} is not set", fix=fix)
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise MaghubError(f"what {name} holds cannot be a key", fix="set it to the key alone")
    return key


class OpenAIBackend:
    """Chat completions of one model.

    Args:
        model: Its name at the server.
        base_url: Where the server is (up to ``/v1``); ``OPENAI_BASE_URL`` or OpenAI's own if None.
        key_variable: The environment variable with the key (``OPENAI_API_KEY`` if None).
        timeout: Seconds until an answer counts as lost.
        concurrency: Requests at the same time.
        parameters: Sent with every request in place of ours; None as a value leaves one out.
    """

    batch_size = 1

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key_variable: str | None = None,
        timeout: float = 120.0,
        concurrency: int = 8,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        openai = library("openai", "openai", "llm")
        self.model, self.concurrency = model, concurrency
        self._openai = openai
        self._variable = key_variable or KEY_VARIABLE
        self._key = read_key(key_variable)
        self._parameters = dict(parameters or {})
        url = base_url or os.environ.get(URL_VARIABLE) or None
        if url is not None and urlsplit(url).scheme not in ("http", "https"):
            raise MaghubError("is no address of a server", where=url, fix="give http(s)://.../v1")
        self.host = urlsplit(url).netloc.rpartition("@")[2] if url else "api.openai.com"
        self._guard = _NoKey(self._key)
        self._watch()
        self._client = openai.OpenAI(
            api_key=self._key, base_url=url, timeout=timeout, max_retries=0
        )

    def _watch(self) -> None:
        """A filter sits on loggers, not on their children, so every one there is gets it."""
        for name in list(logging.root.manager.loggerDict):
            if name.split(".")[0] in _LOGGERS:
                logging.getLogger(name).addFilter(self._guard)

    def parameters(self, request: Request) -> dict[str, Any]:
        """The request's own, with the settings of this backend over them."""
        merged = {**request.parameters(), **self._parameters}
        return {name: value for name, value in merged.items() if value is not None}

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """Send one request; see ``Backend.answer``."""
        (request,) = requests
        api = self._openai
        messages: Any = [message.to_openai() for message in request.messages]
        try:
            reply = self._client.chat.completions.create(
                model=self.model,
                messages=messages,
                extra_body=self.parameters(request),
            )
        except api.APITimeoutError:
            raise Transient("no answer in time") from None
        except api.APIConnectionError as error:
            raise Transient(f"cannot be reached ({self._clean(_cause(error))})") from None
        except api.APIStatusError as error:
            raise self._failure(error) from None
        except (api.OpenAIError, ValueError) as error:  # a body that is no completion
            raise Transient(self._clean(error)) from None
        return [self._read(reply)]

    def _read(self, reply: Any) -> Answer:
        """The answer in a reply; the library lets any JSON through."""
        usage = getattr(reply, "usage", None)
        try:
            (choice, *_) = reply.choices
            return Answer.read(
                {
                    "text": choice.message.content or "",
                    "finish": str(getattr(choice, "finish_reason", None) or "stop"),
                    "prompt_tokens": _count(getattr(usage, "prompt_tokens", 0)),
                    "completion_tokens": _count(getattr(usage, "completion_tokens", 0)),
                    "model": str(getattr(reply, "model", None) or self.model),
                }
            )
        except (AttributeError, TypeError, ValueError):
            raise Transient("the server answered with something that is no completion") from None

    def _failure(self, error: Any) -> Exception:
        """What an HTTP status means for this request and the run."""
        status, text = error.status_code, self._clean(error)
        if status == 429 and getattr(error, "code", None) == "insufficient_quota":
            return MaghubError(f"the quota of the key is used up ({text})", where=self.host)
        if status in (408, 409, 429) or status >= 500:
            return Transient(f"HTTP {status}", _retry_after(error.response.headers))
        if status in (401, 403):
            fix = f"check what {self._variable} holds"
            return MaghubError(f"the key is refused (HTTP {status})", where=self.host, fix=fix)
        if status == 404:
            fix = "check the name of the model and --base-url (it ends with /v1)"
            return MaghubError(f"no model '{self.model}' there ({text})", where=self.host, fix=fix)
        return Refused(text)

    def _clean(self, error: object) -> str:
        """An error's text on one short line, without the key."""
        text = " ".join(str(error).split()).replace(self._key, _SILENT)
        return text if len(text) <= 200 else f"{text[:200]}..."

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _count(value: object) -> int:
    """A number of tokens; 0 for what is none, since the answer is paid for whatever stands here."""
    return int(value) if isinstance(value, (int, float)) and 0 <= value < 1 << 53 else 0


def _cause(error: BaseException) -> object:
    """The innermost reason of a chain of exceptions."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait, from ``Retry-After`` as a number or a date."""
    text = headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
