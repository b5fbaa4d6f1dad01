"""How the endpoints of the test Hub are found, asked and answered."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.hub.server import HubServer, User

REPO = r"(?P<repo>[^/]+/[^/]+)"
API = rf"/api/(?P<kind>datasets|models|spaces)/{REPO}"
REV = r"(?P<rev>refs%2F[^/]+|refs/pr/\d+|[^/]+)"


@dataclass
class Request:
    """A request, parsed."""

    hub: HubServer
    method: str
    args: dict[str, str]
    query: dict[str, str]
    headers: Any
    body: bytes
    user: User | None

    def json(self) -> Any:
        return json.loads(self.body or b"{}")


@dataclass
class Answer:
    """A status, headers and body."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Refused(Exception):
    """Raised by an endpoint to answer an error."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        self.answer = reply({"error": message}, status)
        self.answer.headers |= {"X-Error-Message": message} | (
            {"X-Error-Code": code} if code else {}
        )


Endpoint = Callable[[Request], Answer]
ROUTES: list[tuple[str, re.Pattern[str], Endpoint]] = []


def route(method: str, pattern: str) -> Callable[[Endpoint], Endpoint]:
    def add(endpoint: Endpoint) -> Endpoint:
        ROUTES.append((method, re.compile(pattern + r"/?$"), endpoint))
        return endpoint

    return add


def reply(data: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(data).encode(), {"Content-Type": "application/json"})
