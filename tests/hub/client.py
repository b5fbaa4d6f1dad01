"""Runs the real client in processes of its own against the test Hub."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.hub.server import WRITER, HubServer


def run(
    hub: HubServer, home: Path, code: str, *args: object, token: str | None = WRITER, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run Python code (``sys.argv[1:]`` are ``args``) in a fresh process."""
    command = [sys.executable, "-c", code, *map(str, args)]
    return _run(command, hub.env(home, token) | env)


def result(hub: HubServer, home: Path, code: str, *args: object, **options: Any) -> Any:
    """Run Python code that ends with ``show(value)``; gives the value back."""
    show = "import json\ndef show(value): print('=>' + json.dumps(value, default=str))\n"
    done = run(hub, home, show + code, *args, **options)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-1000:]
    return json.loads(done.stdout.rpartition("=>")[2])


def maghub(
    hub: HubServer, home: Path, *args: object, token: str | None = WRITER, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    command = [str(Path(sys.executable).with_name("maghub")), *map(str, args)]
    return _run(command, hub.env(home, token) | env)


def _run(command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
