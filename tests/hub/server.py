"""A small Hub on 127.0.0.1 for tests; the real client runs against it unmodified.

It keeps everything in memory, writes down every request with its bytes, and can be told to fail
(``faults``). ``hook`` is called at every step of every request, so that a test can kill a client at
any of them.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import tests.hub.api  # noqa: F401  (fills ROUTES)
from tests.hub.faults import Entry, Fault
from tests.hub.routing import ROUTES, Answer, Refused, Request, reply
from tests.hub.store import Commit, Repo

WRITER, READER = "hf_writerTokenOfTheTests", "hf_readerTokenOfTheTests"


@dataclass(frozen=True)
class User:
    """Who a token stands for."""

    name: str
    orgs: tuple[str, ...] = ()

    def may_write(self, owner: str) -> bool:
        return owner == self.name or owner in self.orgs


@dataclass
class HubServer:
    """The server; use as a context manager."""

    page_size: int = 1000
    repos: dict[tuple[str, str], Repo] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    log: list[Entry] = field(default_factory=list)
    hook: Callable[[str], object] = lambda event: None
    users: dict[str, User] = field(
        default_factory=lambda: {WRITER: User("writer", ("maghub",)), READER: User("reader")}
    )
    url: str = ""

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"hub": self})
        self._http = _Http(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self.lock = threading.RLock()
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def repo(self, name: str, kind: str = "dataset") -> Repo:
        """A repo that exists."""
        return self.repos[kind, name]

    def add_repo(self, name: str, kind: str = "dataset", *, private: bool = False) -> Repo:
        """Make an empty repo."""
        return self.repos.setdefault((kind, name), Repo(name, kind, private))

    def put(self, name: str, files: Mapping[str, bytes | None], title: str = "by hand") -> Commit:
        """A commit by somebody else (None deletes a file)."""
        with self.lock:
            repo = self.add_repo(name)
            head = repo.commits[repo.refs["main"]]
            return repo.commit("main", repo.store(head.tree, files), title)

    def put_folder(self, name: str, folder: Path) -> Commit:
        """A commit of a whole folder."""
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        return self.put(name, files)

    def requests(self, method: str = "", part: str = "") -> list[Entry]:
        """What was asked so far, optionally of one method and with a text in the path."""
        return [e for e in self.log if e.method.startswith(method) and part in e.path]

    def fault(self, kind: str, method: str, pattern: str, **options: object) -> Fault:
        """Make something go wrong with the next matching request."""
        made = Fault(kind, method, pattern, **options)  # type: ignore[arg-type]
        self.faults.append(made)
        return made

    def env(self, home: Path, token: str | None = WRITER) -> dict[str, str]:
        """Environment of a client process with caches of its own."""
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("HF_", "MAGHUB_"))}
        own = {
            "HF_ENDPOINT": self.url,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
            "HF_HOME": str(home / "hf"),
            "MAGHUB_CACHE": str(home / "maghub"),
        }
        return {**kept, **own, **({"HF_TOKEN": token} if token else {})}


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that are killed are no error."""


class _Handler(BaseHTTPRequestHandler):
    hub: ClassVar[HubServer]
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Requests are kept in ``log``, not printed."""

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        with self.hub.lock:
            fault = next((f for f in self.hub.faults if f.takes(self.command, path)), None)
        self.hub.hook(f"{self.command} {path} begins")
        kind = fault.kind if fault else None
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size // 2)
        if size > 1:
            self.hub.hook(f"{self.command} {path} half read")
        if kind == "drop":
            self._note(path, 0, len(body), 0)
            return self._hang_up()
        body += self.rfile.read(size - len(body))
        if len(body) < size:
            self.close_connection = True  # the client died in the middle
            return None
        if fault is not None and fault.call is not None:
            fault.call()
        if fault is not None and kind == "slow":
            time.sleep(fault.seconds)
        if fault is not None and kind == "status":
            answer = reply({"error": fault.message}, fault.status)
            answer.headers |= fault.headers
        else:
            answer = self._answer(path, dict(parse_qsl(url.query)), body)
        if kind == "lose_object":
            self._lose(path, body)
        self.hub.hook(f"{self.command} {path} done")
        if kind == "lose_answer":
            self._note(path, answer.status, size, 0)
            return self._hang_up()
        self._send(path, size, answer)

    def _answer(self, path: str, query: dict[str, str], body: bytes) -> Answer:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        method = "GET" if self.command == "HEAD" else self.command
        for wanted, pattern, endpoint in ROUTES:
            match = pattern.match(path) if wanted == method else None
            if match is None:
                continue
            args = {name: value for name, value in match.groupdict().items() if value}
            user = self.hub.users.get(token)
            with self.hub.lock:
                try:
                    return endpoint(
                        Request(self.hub, method, args, query, self.headers, body, user)
                    )
                except Refused as refused:
                    return refused.answer
        return reply({"error": "there is no such page"}, 404)

    def _lose(self, path: str, body: bytes) -> None:
        """Lose the LFS object of an upload, or the first one of a commit."""
        oids = [path.rpartition("/")[2]]
        if "/commit/" in path:
            lines = [json.loads(line) for line in body.splitlines()]
            oids = [line["value"]["oid"] for line in lines if line["key"] == "lfsFile"][:1]
        with self.hub.lock:
            for repo in self.hub.repos.values():
                for oid in oids:
                    repo.objects.pop(oid, None)

    def _send(self, path: str, received: int, answer: Answer) -> None:
        body = b"" if self.command == "HEAD" else answer.body
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        self._note(path, answer.status, received, len(body))

    def _note(self, path: str, status: int, received: int, sent: int) -> None:
        with self.hub.lock:
            self.hub.log.append(Entry(self.command, path, status, received, sent))

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve
