"""Makes the helpers in tests/fixtures importable and finds the real upstream files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "fixtures"))


@pytest.fixture(scope="session")
def real() -> Path:
    """The folder of real upstream files beside the checkout."""
    folder = ROOT.parent / "shared" / "data" / "upstream"
    if not folder.is_dir():
        pytest.skip("the real upstream files (../shared/data/upstream) are not there")
    return folder
