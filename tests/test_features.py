"""Feature views: one mapping, the stored dtype, a cache that is never stale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import maghub
from maghub import features
from maghub.errors import MaghubError
from maghub.features import FeatureView, cache_folder
from tests.helpers.graphs import ENCODER, random_toy, write_toy

CONFIG = f"embeddings-{ENCODER}"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAGHUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make(folder: Path, vectors: dict[str, np.ndarray] | None = None, **options: Any) -> Path:
    toy = random_toy(30)
    toy.vectors = vectors or toy.vectors
    write_toy(toy, folder, **options)
    return folder


def matrix(dtype: str = "float16", rows: int = 30, width: int = 8, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, width)).astype(dtype)


def built(cache: Path) -> list[Path]:
    return sorted((cache / "features").glob("*"))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_values_and_dtype_are_kept_and_memory_is_shared(tmp_path: Path, dtype: str) -> None:
    values = {"text": matrix(dtype), "image": matrix(dtype, width=3)}
    mag = maghub.load(make(tmp_path / "toy", values))
    for modality, wanted in values.items():
        view = mag.features(ENCODER, modality)
        tensor = view.torch()
        assert isinstance(view, FeatureView)
        assert view.dtype == wanted.dtype
        assert tensor.dtype == getattr(torch, dtype)
        assert view.shape == tuple(tensor.shape) == wanted.shape
        assert np.array_equal(view, wanted)
        assert tensor.data_ptr() == view.ctypes.data
        tensor[0, 0] = 7
        assert view[0, 0] == 7
        part = view[5:9].torch()
        assert part.data_ptr() == view.ctypes.data + 5 * view.strides[0]


def test_writing_to_a_view_reaches_neither_disk_nor_other_views(tmp_path: Path) -> None:
    mag = maghub.load(make(tmp_path / "toy", {"text": matrix()}))
    first = mag.features(ENCODER, "text")
    first[:] = 0
    assert np.array_equal(mag.features(ENCODER, "text"), matrix())


def test_cache_is_built_once_and_shared_by_copies(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "one", {"text": matrix()})
    make(tmp_path / "two", {"text": matrix()})
    maghub.load(tmp_path / "one").features(ENCODER, "text")
    (file,) = built(cache)
    state = file.stat().st_mtime_ns
    monkeypatch.setattr(features, "_build", lambda *a: pytest.fail("built twice"))
    monkeypatch.setattr(features, "_vectors", lambda *a: pytest.fail("read twice"))
    for name in ("one", "two"):
        view = maghub.load(tmp_path / name).features(ENCODER, "text")
        assert np.array_equal(view, matrix())
    assert built(cache) == [file]
    assert file.stat().st_mtime_ns == state


def test_checksums_are_not_computed_again_for_unchanged_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mag = maghub.load(make(tmp_path / "toy"))
    mag.features(ENCODER, "text")
    monkeypatch.setattr(features, "file_sha256", lambda path: pytest.fail("hashed twice"))
    mag.features(ENCODER, "text")


def data_file(folder: Path) -> Path:
    (entry,) = maghub.load(folder).spec.config(CONFIG).files
    return folder / entry.path


def test_new_contents_of_the_same_size_are_seen(tmp_path: Path, cache: Path) -> None:
    folder = make(tmp_path / "toy", {"text": matrix(seed=1)})
    maghub.load(folder).features(ENCODER, "text")
    size = data_file(folder).stat().st_size
    for seed in range(2, 200):
        make(folder, {"text": matrix(seed=seed)}, overwrite=True)
        if data_file(folder).stat().st_size == size:
            break
    else:
        pytest.fail("no second matrix gave a file of the same size")
    assert np.array_equal(maghub.load(folder).features(ENCODER, "text"), matrix(seed=seed))
    assert len(built(cache)) == 2


@pytest.mark.parametrize("keep_times", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_a_damaged_file_is_refused(
    tmp_path: Path, cache: Path, known: bool, keep_times: bool
) -> None:
    folder = make(tmp_path / "toy")
    file = data_file(folder)
    if known:
        maghub.load(folder).features(ENCODER, "text")
    info = file.stat()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    if keep_times:
        os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))
    with pytest.raises(MaghubError, match="does not match its checksum") as caught:
        maghub.load(folder).features(ENCODER, "text")
    assert str(caught.value).startswith(f"{CONFIG}/full-00000-of-00001.parquet: ")
    assert len(built(cache)) == (1 if known else 0)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    folder = make(tmp_path / "toy")
    data_file(folder).unlink()
    with pytest.raises(MaghubError, match=r"00001\.parquet: cannot be read"):
        maghub.load(folder).features(ENCODER, "text")


def replace_vectors(folder: Path, array: pa.Array) -> None:
    """Put other text vectors into the file and record its new checksum."""
    file = data_file(folder)
    table = pq.read_table(file)
    table = table.set_column(table.column_names.index("text"), "text", array)
    pq.write_table(table, file, row_group_size=10)
    spec = json.loads((folder / "maghub.json").read_text("utf-8"))
    for config in spec["configs"]:
        if config["name"] == CONFIG:
            config["files"][0] |= {
                "sha256": features.file_sha256(file),
                "rows": len(table),
                "bytes": file.stat().st_size,
            }
    (folder / "maghub.json").write_text(json.dumps(spec), "utf-8")


def test_a_null_vector_is_refused_with_its_row(tmp_path: Path, cache: Path) -> None:
    folder = make(tmp_path / "toy")
    rows: list[list[float] | None] = matrix().tolist()
    rows[23] = None
    replace_vectors(folder, pa.array(rows, pa.list_(pa.float16(), 8)))
    with pytest.raises(MaghubError) as caught:
        maghub.load(folder).features(ENCODER, "text")
    assert "full-00000-of-00001.parquet, column text, row 23: vector is null" in str(caught.value)
    assert built(cache) == []


def test_nan_and_infinite_numbers_are_read_as_they_are(tmp_path: Path) -> None:
    folder = make(tmp_path / "toy")
    values = matrix()
    values[3, 1], values[29, 7] = np.nan, np.inf
    flat = pa.array(values.ravel())
    replace_vectors(folder, pa.FixedSizeListArray.from_arrays(flat, 8))
    view = maghub.load(folder).features(ENCODER, "text")
    assert np.array_equal(view, values, equal_nan=True)


def test_a_null_number_inside_a_vector_is_nan(tmp_path: Path) -> None:
    folder = make(tmp_path / "toy")
    rows: list[list[float | None]] = matrix().tolist()
    rows[23][2] = None
    replace_vectors(folder, pa.array(rows, pa.list_(pa.float16(), 8)))
    view = maghub.load(folder).features(ENCODER, "text")
    wanted = matrix()
    wanted[23, 2] = np.nan
    assert np.array_equal(view, wanted, equal_nan=True)


def test_a_damaged_cache_file_is_built_again(tmp_path: Path, cache: Path) -> None:
    mag = maghub.load(make(tmp_path / "toy", {"text": matrix()}))
    mag.features(ENCODER, "text")
    (file,) = built(cache)
    for damage in (b"", file.read_bytes()[:-8], b"x" * 400):
        file.write_bytes(damage)
        assert np.array_equal(mag.features(ENCODER, "text"), matrix())


def test_has_tells_missing_rows(tmp_path: Path) -> None:
    values = matrix()
    values[[2, 9]] = 0
    mag = maghub.load(make(tmp_path / "toy", {"text": values}))
    assert np.flatnonzero(~mag.has(ENCODER, "text")).tolist() == [2, 9]


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    assert cache_folder() == cache
    monkeypatch.delenv("MAGHUB_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/maghub")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "maghub"


def test_an_unwritable_cache_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path / "toy")
    (tmp_path / "file").touch()
    monkeypatch.setenv("MAGHUB_CACHE", str(tmp_path / "file"))
    with pytest.raises(MaghubError, match="cannot be read or written"):
        maghub.load(folder).features(ENCODER, "text")


@pytest.mark.integration
def test_many_processes_may_open_the_same_features_first(tmp_path: Path, cache: Path) -> None:
    folder = make(tmp_path / "toy", {"text": matrix()})
    start = tmp_path / "start"
    script = (
        "import os, time, maghub\n"
        f"mag = maghub.load({str(folder)!r})\n"
        "import maghub.features, maghub.mag\n"
        "print('ready', flush=True)\n"
        f"while not os.path.exists({str(start)!r}): time.sleep(0.001)\n"
        f"print(float(mag.features({ENCODER!r}, 'text').astype('f8').sum()))\n"
    )
    command = [sys.executable, "-c", script]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start.touch()
    sums = {process.communicate(timeout=120)[0].strip() for process in running}
    assert sums == {str(float(matrix().astype("f8").sum()))}
    assert all(process.returncode == 0 for process in running)
    assert len(built(cache)) == 1
