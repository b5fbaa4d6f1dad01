"""A million vectors open as numpy and torch over one mapping, in next to no memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import maghub
from maghub import layout, schema
from maghub.spec import BuilderInfo
from maghub.tables import Facts, Table
from maghub.writing import write_folder
from tests.helpers.graphs import ENCODER, toy_card

ROWS, WIDTH = 1_000_000, 768
PART = 20_000
NEEDED_BYTES = 6 * 10**9
LIMIT_BYTES = 50 * 10**6

PROBE = """
import json, sys
import numpy as np, psutil, torch
import maghub

def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

folder, encoder = sys.argv[1:]
mag = maghub.load(folder)
process = psutil.Process()
rss, private = process.memory_info().rss, anonymous()
view = mag.features(encoder, "text")
tensor = view.torch()
rows = [0, 20_000, 123_456, len(view) - 1]
found = {
    "values": [view[row].view("uint16")[:8].tolist() for row in rows],
    "rss": process.memory_info().rss - rss,
}
tensor[5, 7] = 3.0
found |= {
    "shape": [list(view.shape), list(tensor.shape)],
    "dtype": [str(view.dtype), str(tensor.dtype)],
    "address": [view.ctypes.data, tensor.data_ptr()],
    "seen": float(view[5, 7]),
    "sum": sum(float(np.abs(view[i : i + 50_000]).max()) for i in range(0, len(view), 50_000)),
}
found["private"] = anonymous() - private
print(json.dumps({**found, "rows": rows}))
"""


def block() -> np.ndarray:
    """Random values that compress well, so that the test is short."""
    values = np.random.default_rng(0).integers(0, 16, (PART, WIDTH), dtype=np.int8)
    return values.astype(np.float16)


class Vectors:
    """Rows ``start..stop`` of the matrix: one random block, its last bits changed in every part."""

    def __init__(self) -> None:
        self.bits = block().view(np.uint16)

    def part(self, index: int) -> np.ndarray:
        return (self.bits ^ np.uint16(index)).view(np.float16)

    def __call__(self, start: int, stop: int) -> pa.Table:
        values = self.part(start // PART)[: stop - start]
        return pa.table(
            {
                layout.NODE_ID: np.arange(start, stop),
                layout.TEXT: pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), WIDTH),
                layout.has_column(layout.TEXT): np.ones(stop - start, bool),
            }
        )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for some gigabytes that are gone afterwards."""
    free = shutil.disk_usage(tmp_path).free
    if free < NEEDED_BYTES:
        pytest.skip(
            f"needs {NEEDED_BYTES / 1e9:.0f} GB of free disk, {tmp_path} has {free / 1e9:.1f}"
        )
    monkeypatch.setattr("os.fsync", lambda handle: None)
    monkeypatch.setenv("MAGHUB_CACHE", str(tmp_path / "cache"))
    yield tmp_path
    for child in tmp_path.iterdir():
        shutil.rmtree(child)


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_a_million_vectors_share_one_mapping(place: Path) -> None:
    vectors = Vectors()
    table = Table(
        config=layout.embeddings_config(ENCODER),
        kind="embeddings",
        features=schema.embeddings_features({layout.TEXT: WIDTH}),
        num_rows=ROWS,
        read=vectors,
        part_size=PART,
    )
    builder = BuilderInfo(name="toy", version="1.0.0", seed=0)
    spec = write_folder(place / "toy", [table], Facts(), builder, toy_card())
    (config,) = spec.configs
    assert config.rows == ROWS
    assert len(config.files) == 4  # of at most 500 MB each
    maghub.load(place / "toy").features(ENCODER, layout.TEXT)  # builds the cache

    command = [sys.executable, "-c", PROBE, str(place / "toy"), ENCODER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=os.environ)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["shape"] == [[ROWS, WIDTH]] * 2
    assert found["dtype"] == ["float16", "torch.float16"]
    assert found["address"][0] == found["address"][1]
    assert found["seen"] == 3.0
    for row, values in zip(found["rows"], found["values"], strict=True):
        part = vectors.part(row // PART)
        assert values == part[row % PART].view(np.uint16)[:8].tolist()
    assert found["rss"] < LIMIT_BYTES, f"opening grew by {found['rss'] / 1e6:.0f} MB"
    assert found["private"] < LIMIT_BYTES, f"a full pass copied {found['private'] / 1e6:.0f} MB"
