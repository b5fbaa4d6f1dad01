"""A folder with real vectors; ``encoded`` is the original, ``own`` a copy to change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.helpers.searchable import write_encoded


@pytest.fixture(scope="session")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Part of emoji with MiniLM and EfficientNet vectors."""
    return write_encoded(tmp_path_factory.mktemp("search") / "part")


@pytest.fixture
def own(encoded: Path, tmp_path: Path) -> Path:
    """A copy of that folder."""
    return Path(shutil.copytree(encoded, tmp_path / "part"))
