"""Makes the fixtures in tests/fixtures importable for the tests of all builders."""

from __future__ import annotations

import sys
from pathlib import Path

FIXTURES = str(Path(__file__).resolve().parents[1] / "fixtures")
if FIXTURES not in sys.path:
    sys.path.insert(0, FIXTURES)
