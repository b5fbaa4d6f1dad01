"""A chat-completions server on 127.0.0.1 for tests: the real ``openai`` client runs against it.

It writes down every request, answers through ``reply``, fails as told by ``faults`` (one per
request, in order of arrival), and checks the key, which it repeats when it refuses it, as some real
servers do.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

KEY = "sk-secretKeyOfTheTests-0123456789"
Reply = Callable[[dict[str, Any]], str]


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request: a status, with headers, after a delay, or another body."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    delay: float = 0.0
    cut: bool = False  # the connection ends before any answer


OK = Fault()


@dataclass
class Entry:
    """One request as it came, and what it got."""

    body: dict[str, Any]
    headers: dict[str, str]
    status: int = 0
    began: float = 0.0
    ended: float = 0.0

    @property
    def key(self) -> str:
        """Equal for equal requests."""
        return json.dumps(self.body, sort_keys=True)

    @property
    def last(self) -> str:
        """Text of the last message."""
        content = self.body["messages"][-1]["content"]
        return content if isinstance(content, str) else content[0]["text"]


def echo(body: dict[str, Any]) -> str:
    """The last message, as it is."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else json.dumps(content)


@dataclass
class LLMServer:
    """The server; use as a context manager.

    Attributes:
        reply: Text of an answer to a request.
        faults: What goes wrong, request by request; nothing once they are used up.
        delay: Seconds that every answer takes.
        hold_after: Answer so many requests, then keep the rest waiting for ever.
        held: How many are kept waiting.
    """

    reply: Reply = echo
    faults: list[Fault] = field(default_factory=list)
    delay: float = 0.0
    hold_after: int | None = None
    key: str = KEY
    model: str = "test-model-2026"
    log: list[Entry] = field(default_factory=list)
    held: int = 0
    most_at_once: int = 0
    url: str = ""

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        self._release = threading.Event()
        self._now = self._answered = 0
        handler = type("Handler", (_Handler,), {"server_state": self})
        self._http = _Http(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._release.set()
        self._http.shutdown()
        self._http.server_close()

    def answered(self) -> list[Entry]:
        """The requests that were answered with 200: those that cost money."""
        return [entry for entry in self.log if entry.status == 200]

    def enter(self, entry: Entry) -> Fault:
        """Register a request; gives what shall go wrong with it."""
        with self._lock:
            self.log.append(entry)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            fault = self.faults.pop(0) if self.faults else OK
            hold = self.hold_after is not None and self._answered >= self.hold_after
            self.held += hold
            self._answered += not hold
        if hold:
            self._release.wait()
        return fault

    def hold(self, after: int | None) -> None:
        """From now on answer so many requests, then keep the rest waiting; None keeps none."""
        with self._lock:
            self.hold_after, self.held, self._answered = after, 0, 0

    def leave(self, entry: Entry, status: int) -> None:
        """Register that a request got its answer."""
        with self._lock:
            self._now -= 1
            entry.status, entry.ended = status, time.monotonic()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed, or that gave up waiting, is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: ClassVar[LLMServer]

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        state = self.server_state
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        entry = Entry(body, dict(self.headers.items()), began=time.monotonic())
        fault = state.enter(entry)
        time.sleep(state.delay + fault.delay)
        status, data = self._answer(body, fault)
        state.leave(entry, 0 if fault.cut else status)
        if fault.cut:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in {**fault.headers, "content-type": "application/json"}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _answer(self, body: dict[str, Any], fault: Fault) -> tuple[int, bytes]:
        state = self.server_state
        given = self.headers.get("authorization", "")
        if given != f"Bearer {state.key}":
            return 401, _error(f"Incorrect API key provided: {given.removeprefix('Bearer ')}")
        if self.path != "/v1/chat/completions":
            return 404, _error("no such path")
        if fault.body is not None:
            return fault.status, fault.body
        if fault.status != 200:
            return fault.status, _error(f"fault {fault.status} of {given}")
        text = state.reply(body)
        words = sum(len(echo({"messages": [one]}).split()) for one in body["messages"])
        message = {"role": "assistant", "content": text}
        reply = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": state.model,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": words,
                "completion_tokens": len(text.split()),
                "total_tokens": words + len(text.split()),
            },
        }
        return 200, json.dumps(reply).encode()


def _error(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "error", "code": None}}).encode()
