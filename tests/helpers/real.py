"""The real upstream files beside the checkout; tests that need them are skipped without."""

from __future__ import annotations

from pathlib import Path

import pytest

UPSTREAM = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "upstream"


def real(name: str) -> Path:
    """A folder or file of them."""
    path = UPSTREAM / name
    if not path.exists():
        pytest.skip(f"the real upstream files are not there: ../shared/data/upstream/{name}")
    return path


def linked(folder: Path, *paths: Path) -> Path:
    """A raw folder with links to these files."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        (folder / path.name).symlink_to(path)
    return folder
