"""A saved index: what it was, mapped, readable by FAISS alone, refused when damaged."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import pytest

from maghub.search import Index, Options, storage
from maghub.search.storage import kept, read_record
from tests.helpers.reports import refusal
from tests.search.test_exact import matrix, queries_for

VECTORS = matrix("binary", 400, 16, "float16", 0)
OPTIONS = Options(nlist=4, nprobe=4)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("metric", ["cosine", "ip"])
@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
@pytest.mark.parametrize("ids", [None, 1000 + np.arange(400)[::-1]])
def test_opened_it_finds_what_it_found(tmp_path: Path, kind, metric, dtype, ids) -> None:
    built = Index.build(VECTORS.astype(dtype), kind, metric, ids, options=OPTIONS, seed=5)
    opened = Index.open(built.save(tmp_path / "index"))
    for name in ("kind", "metric", "dim", "options", "seed"):
        assert getattr(opened, name) == getattr(built, name)
    assert len(opened) == len(built)
    queries = queries_for(VECTORS, 1)
    for one, other in zip(built.search(queries, 20), opened.search(queries, 20), strict=True):
        assert (one == other).all()


def test_a_saved_copy_of_an_opened_index_is_the_same(tmp_path: Path) -> None:
    first = Index.build(VECTORS).save(tmp_path / "a")
    second = Index.open(first).save(tmp_path / "b")
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_faiss_reads_the_flat_file_and_its_bits_are_the_vectors(tmp_path: Path, dtype: str) -> None:
    faiss = pytest.importorskip("faiss")
    vectors = np.random.default_rng(0).standard_normal((50, 8)).astype(dtype)
    place = Index.build(vectors).save(tmp_path / "index")
    raw = faiss.read_index(str(place / "index.faiss"))
    assert (raw.ntotal, raw.d, raw.metric_type) == (50, 8, faiss.METRIC_INNER_PRODUCT)
    assert (raw.reconstruct_n(0, 50) == vectors.astype(np.float32)).all()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_files_are_mapped(tmp_path: Path, kind: str) -> None:
    place = Index.build(VECTORS, kind, options=OPTIONS).save(tmp_path / "index")
    opened = Index.open(place)
    assert str(place / "index.faiss") in Path("/proc/self/maps").read_text()
    assert len(opened) > 0


def line(place: Path) -> str:
    text = refusal(Index.open, place)
    assert "maghub search build" in text
    return text


@pytest.mark.parametrize("name", ["index.faiss", "norms.npy", "ids.npy"])
@pytest.mark.parametrize("how", ["cut", "bit"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, how: str) -> None:
    place = Index.build(VECTORS, ids=np.arange(400) * 2).save(tmp_path / "index")
    data = bytearray((place / name).read_bytes())
    if how == "cut":
        data = data[:-10]
    else:
        data[-10] ^= 1
    (place / name).write_bytes(data)
    assert f"{name}: does not match its checksum in index.json" in line(place)


def test_bad_records(tmp_path: Path) -> None:
    assert "nowhere: holds no index" in line(tmp_path / "nowhere")
    place = Index.build(VECTORS).save(tmp_path / "index")
    record = place / "index.json"
    data = json.loads(record.read_text())
    for text, expected in (
        ("{", "is no record of an index"),
        (json.dumps({**data, "dim": "wide"}), "(dim: "),
        (json.dumps({**data, "format": "maghub-index 9"}), "(format: "),
        (json.dumps({**data, "files": {**data["files"], "../../x": "0"}}), "does not match its"),
        (json.dumps({**data, "files": {}}), "a flat index has a file index.faiss"),
        (json.dumps({**data, "kind": "ivf", "vectors": 400}), "(nprobe)"),
        (json.dumps({**data, "kind": "hnsw"}), "kind is hnsw, the files have flat"),
        (json.dumps({**data, "dim": 10**9}), "dim is 1000000000, the files have"),
        (json.dumps({**data, "rows": 10**9}), "number of vectors is 1000000000, the files have"),
        (json.dumps({**data, "dtype": "float32"}), "dtype is float32, the files have float16"),
        ("\xff", "is no record of an index"),
    ):
        record.write_text(text)
        assert expected in line(place)
    record.write_bytes(b"\xff\xfe")
    assert "cannot be read" in line(place)


def test_a_file_that_faiss_cannot_read_is_one_line(tmp_path: Path) -> None:
    from maghub.features import file_sha256

    place = Index.build(VECTORS).save(tmp_path / "index")
    (place / "index.faiss").write_bytes(b"IxZZ" + bytes(100))
    data = json.loads((place / "index.json").read_text())
    data["files"]["index.faiss"] = file_sha256(place / "index.faiss")
    (place / "index.json").write_text(json.dumps(data))
    assert "cannot be read by FAISS" in line(place)


def test_saving_again_replaces_and_a_half_saved_index_is_none(tmp_path: Path) -> None:
    place = Index.build(VECTORS, ids=np.arange(400) + 7).save(tmp_path / "index")
    Index.build(VECTORS[:50]).save(place)
    assert {path.name for path in place.iterdir()} == {"index.faiss", "index.json", "norms.npy"}
    assert len(Index.open(place)) == np.count_nonzero(VECTORS[:50].any(axis=1))
    (place / "index.json").unlink()
    (place / "index.faiss.partial").write_bytes(b"killed here")
    (place / ".index.json.partial-x7f_").write_bytes(b"or here")
    assert "holds no index" in line(place)
    Index.build(VECTORS).save(place)
    assert len(Index.open(place)) == np.count_nonzero(VECTORS.any(axis=1))


SAVE = """
import sys
import numpy as np
from maghub.search import Index

index = Index.build(np.random.default_rng(0).standard_normal((400, 8)).astype(np.float32))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(20):
    index.save(sys.argv[1])
"""


@pytest.mark.integration
def test_who_else_saves_at_the_same_time_waits(tmp_path: Path) -> None:
    place = tmp_path / "index"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    command = [sys.executable, "-c", SAVE, str(place)]
    writers = [subprocess.Popen(command, text=True, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    said = [""] * len(writers)
    for writer in writers:  # now all of them at once
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for i, writer in enumerate(writers):
        said[i] = writer.communicate(timeout=60)[0]
    assert [writer.returncode for writer in writers] == [0, 0], said
    assert {path.name for path in place.iterdir()} == {"index.faiss", "index.json", "norms.npy"}
    assert len(Index.open(place)) == 400


MEASURE = """
import sys
import numpy as np
from maghub.search import Index
from maghub.search.backend import library

def peak(reset):
    if reset:
        open("/proc/self/clear_refs", "w").write("5")
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

library()
vectors = np.load(sys.argv[1], mmap_mode="r")
before = peak(True)
Index.build(vectors).save(sys.argv[2])
print(peak(False) - before)
"""


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_a_mapped_matrix_is_streamed_into_the_index(tmp_path: Path) -> None:
    """Memory is that of the index and a block, not of index and matrix together."""
    rows, width, block = 300_000, 512, 200 << 20
    out = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float16, (rows, width))
    part = np.random.default_rng(0).standard_normal((10_000, width)).astype(np.float16)
    for start in range(0, rows, len(part)):
        out[start : start + len(part)] = part
    out.flush()
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "x.npy"), str(tmp_path / "index")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    grown = int(done.stdout)
    assert grown < out.nbytes + block, f"grew by {grown / 1e6:.0f} MB"


def test_readers_wait_while_an_index_is_written(tmp_path: Path, monkeypatch) -> None:
    """Half of an index is never seen: not by who opens it, not by who looks for it."""
    folder = Index.build(VECTORS).save(tmp_path / "index")
    halfway, go_on = threading.Event(), threading.Event()
    write = storage._write_faiss

    def slow(index, path: Path) -> None:
        halfway.set()
        assert go_on.wait(60)
        write(index, path)

    monkeypatch.setattr(storage, "_write_faiss", slow)
    with ThreadPoolExecutor(4) as pool:
        writer = pool.submit(Index.build(VECTORS, metric="ip").save, folder)
        assert halfway.wait(60)
        assert not (folder / "index.json").exists()
        readers = [pool.submit(read, folder) for read in (Index.open, kept, read_record)]
        assert not wait(readers, timeout=0.3).done
        go_on.set()
        writer.result(60)
        opened, found, record = (reader.result(60) for reader in readers)
    assert (opened.metric, found, record.metric) == ("ip", True, "ip")


@pytest.mark.parametrize("name", ["index.faiss", "norms.npy"])
@pytest.mark.parametrize("folder", [False, True])
def test_a_file_that_is_gone_is_named(tmp_path: Path, name: str, folder: bool) -> None:
    place = Index.build(VECTORS).save(tmp_path / "index")
    (place / name).unlink()
    if folder:
        (place / name).mkdir()
    assert str(place / name) in line(place)
