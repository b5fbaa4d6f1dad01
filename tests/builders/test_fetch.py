"""Downloads of upstream files, against an HTTP server on the loopback interface."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
import pytest

from maghub.builders._fetch import Remote, raw_folder
from maghub.errors import MaghubError

CONTENT = {f"/{name}": bytes(range(256)) * size for name, size in (("a.csv", 40), ("b.pt", 400))}
COMMIT = "0123456789abcdef0123456789abcdef01234567"
HUB = "/datasets/org/data/resolve/"


class Server(ThreadingHTTPServer):
    """Serves CONTENT, plainly and as a Hub repository would; counts, and breaks on demand."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, str | None]] = []
        self.break_after: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def gets(self, path: str) -> list[str | None]:
        return [span for verb, asked, span in self.asked if verb == "GET" and asked == path]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: Any) -> None: ...

    def do_HEAD(self) -> None:
        self.answer(False)

    def do_GET(self) -> None:
        self.answer(True)

    def answer(self, body: bool) -> None:
        span = self.headers.get("Range")
        self.server.asked.append((self.command, self.path, span))
        if self.path.startswith("/api/datasets/org/data"):
            info = {"id": "org/data", "sha": COMMIT, "siblings": [], "private": False, "tags": []}
            self.reply(json.dumps(info).encode(), {})
            return
        found = CONTENT.get("/" + self.path.rpartition("/")[2])
        if found is None:
            self.reply(b"no such file", {}, 404)
            return
        etag = hashlib.sha256(found).hexdigest()
        more = {"ETag": f'"{etag}"', "Accept-Ranges": "bytes", "X-Repo-Commit": COMMIT}
        code = 200
        if span is not None and (match := re.fullmatch(r"bytes=(\d+)-(\d*)", span)):
            start, total = int(match[1]), len(found)
            stop = int(match[2]) + 1 if match[2] else total
            more["Content-Range"] = f"bytes {start}-{stop - 1}/{total}"
            found, code = found[start:stop], 206
        self.reply(found, more, code, body)

    def reply(self, data: bytes, more: dict[str, str], code: int = 200, body: bool = True) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(data)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        if body and self.command != "HEAD":
            cut = self.server.break_after if code in (200, 206) and len(data) > 50_000 else None
            self.wfile.write(data[:cut])
            if cut is not None:
                self.server.break_after = None
                self.close_connection = True


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server()
    monkeypatch.setenv("MAGHUB_CACHE", str(tmp_path / "maghub"))
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.setattr(datasets.config, "DOWNLOADED_DATASETS_PATH", tmp_path / "downloads")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", server.url)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def remote(server: Server, name: str, sha256: str | None = None) -> Remote:
    return Remote(f"{server.url}/{name}", sha256)


def test_files_lie_under_upstreams_names_and_are_fetched_once(server: Server) -> None:
    files = {
        "a.csv": remote(server, "a.csv", hashlib.sha256(CONTENT["/a.csv"]).hexdigest()),
        "deep/er/b.pt": remote(server, "b.pt"),
    }
    for _ in range(2):
        folder = raw_folder("toy", None, files)
        assert (folder / "a.csv").read_bytes() == CONTENT["/a.csv"]
        assert (folder / "deep" / "er" / "b.pt").read_bytes() == CONTENT["/b.pt"]
    assert len(server.gets("/a.csv")) == len(server.gets("/b.pt")) == 1


def test_every_file_that_cannot_be_had_is_named_in_one_line(server: Server) -> None:
    files = {name: remote(server, name) for name in ("gone.csv", "a.csv", "lost.pt")}
    with pytest.raises(MaghubError) as caught:
        raw_folder("toy", None, files)
    line = str(caught.value)
    assert "\n" not in line
    assert f"{server.url}/gone.csv" in line
    assert f"{server.url}/lost.pt" in line
    assert f"{server.url}/a.csv" not in line
    assert "--raw-dir" in line


def test_after_a_break_the_complete_files_are_kept(server: Server) -> None:
    files = {name: remote(server, name) for name in ("a.csv", "b.pt")}
    server.break_after = 1000
    with pytest.raises(MaghubError, match=r"b\.pt.*cannot be downloaded"):
        raw_folder("toy", None, files)
    folder = raw_folder("toy", None, files)
    assert (folder / "b.pt").read_bytes() == CONTENT["/b.pt"]
    assert len(server.gets("/a.csv")) == 1


def test_a_wrong_checksum_is_one_line_and_the_file_is_not_kept(server: Server) -> None:
    for attempt in (1, 2):
        with pytest.raises(MaghubError, match="has the checksum") as caught:
            raw_folder("toy", None, {"a.csv": remote(server, "a.csv", "0" * 64)})
        assert "\n" not in str(caught.value)
        assert len(server.gets("/a.csv")) == attempt


def test_a_server_that_is_gone_is_one_line(server: Server) -> None:
    file = remote(server, "a.csv")
    server.shutdown()
    server.server_close()
    with pytest.raises(MaghubError, match="cannot be downloaded") as caught:
        raw_folder("toy", None, {"a.csv": file})
    assert "\n" not in str(caught.value)


def test_what_a_person_must_get_is_listed_with_all_the_rest(server: Server, tmp_path: Path) -> None:
    files = {"a.csv": remote(server, "a.csv"), "images.zip": "ask at https://example.org/form"}
    for raw_dir in (None, tmp_path):
        with pytest.raises(MaghubError) as caught:
            raw_folder("toy", raw_dir, files)
        assert f"a.csv (from {server.url}/a.csv)" in str(caught.value)
        assert "images.zip (ask at https://example.org/form)" in str(caught.value)
    for name in files:
        (tmp_path / name).touch()
    assert raw_folder("toy", tmp_path, files) == tmp_path
    assert not server.asked


def test_hub_urls_resume_inside_a_file(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 500)
    file = Remote("hf://datasets/org/data@main/b.pt")
    server.break_after = 1000
    folder = raw_folder("toy", None, {"b.pt": file})
    assert (folder / "b.pt").read_bytes() == CONTENT["/b.pt"]
    spans = server.gets(f"{HUB}{COMMIT}/b.pt") + server.gets(f"{HUB}main/b.pt")
    assert "bytes=1000-" in spans
