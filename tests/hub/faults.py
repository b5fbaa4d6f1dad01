"""What the test Hub can be told to do wrong, and what it writes down."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Kind = Literal["status", "drop", "lose_answer", "lose_object", "slow", "call"]


@dataclass
class Fault:
    """Something that goes wrong with the next requests that match.

    ``status`` answers an error; ``drop`` hangs up in the middle of the body; ``lose_answer`` does
    what was asked and hangs up; ``lose_object`` does it and then loses one LFS object it was about;
    ``slow`` waits; ``call`` runs ``call()`` before the request is looked at.
    """

    kind: Kind
    method: str
    pattern: str
    times: int = 1
    skip: int = 0
    status: int = 500
    seconds: float = 0.2
    headers: dict[str, str] = field(default_factory=dict)
    call: Callable[[], object] | None = None
    message: str = "told to fail"

    def takes(self, method: str, path: str) -> bool:
        """Whether the fault strikes this request (and counts it)."""
        if not self.times or method != self.method or not re.search(self.pattern, path):
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.times -= 1
        return True


class Entry(NamedTuple):
    """One request as the server saw it."""

    method: str
    path: str
    status: int
    received: int
    sent: int


UPLOAD, COMMIT, BATCH, PREUPLOAD = (
    r"^/lfs/.*/[0-9a-f]{64}$",
    "/commit/",
    "/objects/batch$",
    "/preup",
)
