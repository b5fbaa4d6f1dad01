"""Fixtures shared by all tests; ``tests.helpers`` becomes importable."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# No test reads or fills the user's caches; the libraries read these names when they are imported.
_CACHE = tempfile.mkdtemp(prefix="maghub-tests-")
os.environ |= {
    name: os.path.join(_CACHE, name) for name in ("HF_HOME", "HF_DATASETS_CACHE", "MAGHUB_CACHE")
}
os.environ["COLUMNS"] = "200"  # tables are printed for this width, whatever terminal runs the tests

from tests.helpers.folders import write_valid  # noqa: E402


def pytest_unconfigure() -> None:
    shutil.rmtree(_CACHE, ignore_errors=True)


@pytest.fixture(scope="session")
def valid_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The original that ``folder`` copies; leave it as it is."""
    folder = tmp_path_factory.mktemp("valid") / "toy"
    write_valid(folder)
    return folder


@pytest.fixture
def folder(valid_folder: Path, tmp_path: Path) -> Path:
    """A fresh copy of a small valid folder with every kind of config."""
    return Path(shutil.copytree(valid_folder, tmp_path / "toy"))
