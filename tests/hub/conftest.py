"""A test Hub, and folders to push to it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.client import in_process
from tests.hub.folders import make_variants
from tests.hub.server import HubServer


@pytest.fixture(scope="session")
def variants(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders to copy; leave them as they are."""
    return make_variants(tmp_path_factory.mktemp("variants"))


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with HubServer(page_size=5) as server:
        yield server


@pytest.fixture
def client(hub: HubServer, tmp_path: Path) -> Iterator[HubServer]:
    """The Hub, with the client of this process pointed at it."""
    with in_process(hub, tmp_path / "home"):
        yield hub


@pytest.fixture
def toy(variants: dict[str, Path], tmp_path: Path) -> Path:
    """A fresh valid folder."""
    return Path(shutil.copytree(variants["plain"], tmp_path / "toy"))
