"""Runs the real client against the test Hub: in processes of its own, or patched, in this one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub.utils import disable_progress_bars, enable_progress_bars

from tests.hub.server import WRITER, HubServer


def run(
    hub: HubServer, home: Path, code: str, *args: object, token: str | None = WRITER, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run Python code (``sys.argv[1:]`` are ``args``) in a fresh process."""
    command = [sys.executable, "-c", code, *map(str, args)]
    return _run(command, home, hub.env(home, token) | env)


def result(hub: HubServer, home: Path, code: str, *args: object, **options: Any) -> Any:
    """Run Python code that ends with ``show(value)``; gives the value back."""
    show = "import json\ndef show(value): print('=>' + json.dumps(value, default=str))\n"
    done = run(hub, home, show + code, *args, **options)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.rpartition("=>")[2])


def maghub(
    hub: HubServer, home: Path, *args: object, token: str | None = WRITER, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    command = [str(Path(sys.executable).with_name("maghub")), *map(str, args)]
    return _run(command, home, hub.env(home, token) | env)


def _run(command: list[str], home: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run in a folder of its own: a folder ``maghub/emoji`` would come before the repo."""
    place = home / "place"
    place.mkdir(parents=True, exist_ok=True)
    options = {"capture_output": True, "text": True, "timeout": 200}
    return subprocess.run(command, cwd=place, env=env, **options)  # type: ignore[call-overload]


@contextmanager
def in_process(hub: HubServer, home: Path, token: str | None = WRITER) -> Iterator[None]:
    """Point the client of this process at the Hub; waiting between two tries takes no time."""
    patch = pytest.MonkeyPatch()
    for name, value in hub.env(home, token).items():
        patch.setenv(name, value)
    if token is None:
        patch.delenv("HF_TOKEN", raising=False)
    constants = "huggingface_hub.constants"
    patch.setattr(f"{constants}.ENDPOINT", hub.url)
    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    patch.setattr(f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", template)
    patch.setattr(f"{constants}.HF_HUB_DISABLE_XET", True)
    patch.setattr(f"{constants}.HF_HUB_CACHE", str(home / "hf" / "hub"))
    patch.setattr(f"{constants}.HF_TOKEN_PATH", str(home / "hf" / "token"))
    no_wait = SimpleNamespace(sleep=lambda seconds: None)
    patch.setattr("huggingface_hub.utils._http.time", no_wait)
    patch.setattr("tenacity.nap.time", no_wait)
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
        patch.undo()
