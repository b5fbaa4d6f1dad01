"""A page in a real headless browser: what its console says and what it looks like."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--enable-logging=stderr",
]


def browse(page: Path, tmp: Path, size: str = "1200,2400") -> tuple[list[str], np.ndarray]:
    """Console lines and the screenshot of a page; skips the test where there is no chromium."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no browser here: apt-get install chromium")
    shot = tmp / "shot.png"
    command = [browser, *FLAGS, f"--window-size={size}", f"--user-data-dir={tmp / 'profile'}"]
    done = subprocess.run(
        [*command, f"--screenshot={shot}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert shot.is_file(), done.stderr[-2000:]
    lines = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return lines, np.asarray(PIL.Image.open(shot).convert("RGB"))
