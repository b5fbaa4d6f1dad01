"""Fixtures shared by all tests; ``tests.helpers`` becomes importable."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# No test reads or fills the user's caches; the libraries read these names when they are imported.
_CACHE = tempfile.mkdtemp(prefix="maghub-tests-")
os.environ |= {
    name: os.path.join(_CACHE, name) for name in ("HF_HOME", "HF_DATASETS_CACHE", "MAGHUB_CACHE")
}
# As many test processes as cores: more threads than that only wait for one another.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["COLUMNS"] = "200"  # tables are printed for this width, whatever terminal runs the tests

from tests.helpers.folders import write_valid  # noqa: E402

# The same examples in every run, so that a change cannot fail by chance. New ones are searched for
# with HYPOTHESIS_PROFILE=explore.
settings.register_profile("fixed", derandomize=True)
settings.register_profile("explore", print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_unconfigure() -> None:
    shutil.rmtree(_CACHE, ignore_errors=True)


@pytest.fixture(scope="session")
def emoji_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the bundled emoji with MiniLM's vectors of its texts; leave it as it is."""
    import maghub
    from maghub.loading import sample_path

    folder = tmp_path_factory.mktemp("encoded") / "emoji"
    source = sample_path("emoji")
    assert source is not None
    shutil.copytree(source, folder)
    maghub.encode(folder, "all-minilm-l6-v2")
    return folder


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
