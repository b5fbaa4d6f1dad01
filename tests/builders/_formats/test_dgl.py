"""DGL's binary graph files, read without dgl."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from dgl_writer import ARRAY, dgl_bytes, write_dgl
from mutants import check_survives

from maghub.builders._formats.dgl import read_dgl_graph
from maghub.builders._formats.tables import Column, Table
from maghub.errors import MaghubError

SRC = np.array([3, 0, 0, 2, 3, 1], dtype=np.int64)
DST = np.array([1, 1, 0, 3, 2, 0], dtype=np.int64)
LABEL = {"label": np.array([0, 2, 1, 1], dtype=np.int64)}


@pytest.mark.parametrize("name", ["Cornell", "Texas", "Washington"])
def test_real_cstag_graphs_agree_with_their_csv(real, name):
    graph = read_dgl_graph(real / "cstag_webkb" / f"{name}.pt")
    columns = [Column("node_id"), Column("label"), Column("category"), Column("neighbor_ids")]
    rows = list(Table(real / "cstag_webkb" / f"{name}.csv", columns))
    assert [row.integer("node_id") for row in rows] == list(range(graph.num_nodes))
    assert [row.integer("label") for row in rows] == graph.node_tensors["label"].tolist()
    names = {row.integer("label"): row["category"] for row in rows}
    assert len(names) == len({row["category"] for row in rows})  # label <-> name, one to one
    assert next(label for label, text in names.items() if text == "student") == (
        0 if name == "Cornell" else 2
    )
    listed = {(at, other) for at, row in enumerate(rows) for other in row.list("neighbor_ids")}
    stored = set(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
    assert stored == {(src, dst) for src, dst in listed if src != dst}


def test_the_writer_makes_what_dgl_makes(real):
    data = (real / "cstag_webkb" / "Cornell.pt").read_bytes()
    graph = read_dgl_graph(real / "cstag_webkb" / "Cornell.pt")
    made = dgl_bytes(graph.num_nodes, graph.src, graph.dst, graph.node_tensors)
    assert len(made) == len(data)
    assert made[:32] == data[:32]  # then uninitialised memory
    flags = {at for at in range(4096, len(data)) if made[at] != data[at]}
    assert len(flags) <= 2  # "sorted" flags


@pytest.mark.parametrize("sparse", ["coo", "csr", "csc"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_every_sparse_format_gives_the_edges_in_their_order(tmp_path, sparse, dtype):
    weight = np.arange(6, dtype=np.float32) / 4
    mask = np.array([True, False, True, True])
    path = tmp_path / "G.pt"
    write_dgl(
        path, 4, SRC.astype(dtype), DST.astype(dtype),
        node_tensors={**LABEL, "train_mask": mask.view(np.uint8), "x": np.ones((4, 3), np.float16)},
        edge_tensors={"w": weight}, sparse=sparse,
    )  # fmt: skip
    graph = read_dgl_graph(path)
    assert (graph.num_nodes, graph.num_edges) == (4, 6)
    assert graph.src.dtype == graph.dst.dtype == np.int64
    assert graph.src.tolist() == SRC.tolist()
    assert graph.dst.tolist() == DST.tolist()
    assert graph.node_tensors["label"].tolist() == [0, 2, 1, 1]
    assert graph.node_tensors["train_mask"].tolist() == mask.tolist()
    assert graph.node_tensors["x"].shape == (4, 3)
    assert graph.edge_tensors["w"].tolist() == weight.tolist()


def test_graph_without_edges(tmp_path):
    write_dgl(tmp_path / "G.pt", 4, SRC[:0], DST[:0], node_tensors=LABEL)
    assert read_dgl_graph(tmp_path / "G.pt").num_edges == 0


def _replace(data: bytes, old: bytes, new: bytes) -> bytes:
    assert data.count(old) == 1
    return data.replace(old, new)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: b"", "ends inside the header"),
        (lambda d: b"\x80\x02" + d, "not a DGL graph file"),
        (lambda d: d[:16] + b"\x01" + d[17:], "version 2, type 1"),
        (lambda d: d[:24] + b"\x02" + d[25:], "2 graphs in the file"),
        (lambda d: d[:4000], "ends inside the header"),
        (lambda d: d[:-1], "ends inside"),
        (lambda d: d + b"\0", "1 bytes follow"),
        (lambda d: _replace(d, b"label", b"l\xffbel"), "not UTF-8"),
        (lambda d: _replace(d, DST.tobytes(), (DST + 9).tobytes()), "leaves the 4 nodes"),
        (lambda d: d[:4096] + struct.pack("<Q", 1 << 60) + d[4104:], "cannot start at byte"),
        (
            lambda d: _replace(
                d, struct.pack("<qq", 6, 48) + SRC.tobytes(),
                struct.pack("<qq", 1 << 61, 48) + SRC.tobytes(),
            ),
            "says 48 bytes for shape",
        ),
        (
            lambda d: _replace(
                d, struct.pack("<qq", 6, 48) + SRC.tobytes(),
                struct.pack("<qq", 6 << 40, 48 << 40) + SRC.tobytes(),
            ),
            "the file ends inside edge sources",
        ),
    ],
)  # fmt: skip
def test_damage_is_named_with_its_byte(tmp_path, change, message):
    path = tmp_path / "MoviesGraph.pt"
    path.write_bytes(change(dgl_bytes(4, SRC, DST, LABEL)))
    with pytest.raises(MaghubError, match=message) as caught:
        read_dgl_graph(path)
    assert str(path) in caught.value.line()
    assert "byte" in caught.value.line()


def test_every_truncation_is_refused(tmp_path):
    data = dgl_bytes(4, SRC, DST, LABEL)
    path = tmp_path / "G.pt"
    for size in (*range(0, 4096, 512), *range(4096, len(data))):
        path.write_bytes(data[:size])
        with pytest.raises(MaghubError, match=r"ends inside|cannot start|do not fit"):
            read_dgl_graph(path)


@pytest.mark.parametrize("sparse", ["coo", "csr"])
def test_mutants(tmp_path, sparse):
    data = dgl_bytes(4, SRC, DST, LABEL, {"w": np.ones(6, np.float32)}, sparse)
    assert data.count(struct.pack("<Q", ARRAY)) > 8
    refused = check_survives(read_dgl_graph, data, tmp_path / "G.pt", start=4096, seed=1)
    assert refused > 1500


def test_missing_file(tmp_path):
    with pytest.raises(MaghubError, match="there is no such file"):
        read_dgl_graph(tmp_path / "none.pt")
