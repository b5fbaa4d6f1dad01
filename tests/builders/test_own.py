"""A user's own tables, pictures and graphs become a valid folder; what goes in comes out."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import dgl_writer
import networkx
import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import maghub
from maghub.cards import Card, parse_card
from maghub.mag import MAG
from tests.helpers.built import check_valid, columns
from tests.helpers.graphs import files_of

N = 40
TITLES = [f"thing {i}, “größe”" for i in range(N)]
KINDS = ["cup", "mug", "", "pot"] * (N // 4)
PAIRS = [(i, (7 * i + 3) % N) for i in range(N)] + [(i, i + 1) for i in range(N - 1)]
UNDIRECTED = sorted({(min(p), max(p)) for p in PAIRS if p[0] != p[1]})


def card(front: str = "") -> Card:
    text = f"""---
name: mine
pretty_name: Mine
summary: things
version: 1.0.0
hub_license: mit
licences: {{graph: MIT, text: MIT, images: MIT, embeddings: MIT}}
policy: {{graph: public, text: public, images: public, embeddings: public}}
language: [en]
upstream: [{{name: mine, revision: "1", licence: MIT}}]
citation: "-"
{front}
---
"""
    return parse_card(text)


def png(value: int) -> bytes:
    buffer = io.BytesIO()
    PIL.Image.new("RGB", (5, 4), (value, 0, 9)).save(buffer, "PNG")
    return buffer.getvalue()


def rows() -> list[dict[str, Any]]:
    return [{"id": f"k{i}", "text": TITLES[i], "label": KINDS[i]} for i in range(N)]


def links() -> list[dict[str, Any]]:
    return [{"src": f"k{a}", "dst": f"k{b}"} for a, b in PAIRS]


def write(path: Path, data: list[dict[str, Any]]) -> Path:
    """The rows in the format of the suffix."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(data), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n\n" for row in data), "utf-8")
    else:
        mark = "\t" if path.suffix == ".tsv" else ","
        cells = [list(data[0]), *(row.values() for row in data)]
        quoted = [mark.join('"' + str(c).replace('"', '""') + '"' for c in row) for row in cells]
        path.write_text("\r\n".join(quoted), "utf-8-sig")
    return path


def build(out: Path, source: Any, *, front: str = "", **more: Any) -> MAG:
    maghub.build_own("mine", out, source, card=card(front), **more)
    check_valid(out)
    return maghub.load(out)


def check_content(mag: MAG) -> None:
    assert mag.nodes["source_id"] == [f"k{i}" for i in range(N)]
    assert mag.nodes["text"] == TITLES
    assert mag.label_names == ["cup", "mug", "pot"]
    names = [*mag.label_names, ""]
    assert [names[code] for code in mag.labels] == KINDS
    assert list(map(tuple, mag.edge_index.T.tolist())) == UNDIRECTED


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_tables_of_every_format(tmp_path: Path, suffix: str) -> None:
    nodes, edges = write(tmp_path / f"n{suffix}", rows()), write(tmp_path / f"e{suffix}", links())
    mag = build(tmp_path / "out", nodes, edges=edges)
    check_content(mag)
    counts = Counter(zip(columns(mag.folder, "node-splits")["stratified"], KINDS, strict=True))
    assert counts == {
        **{(split, kind): n for kind in ("cup", "mug", "pot") for split, n in enumerate((6, 2, 2))},
        (3, ""): 10,
    }
    assert mag.spec.notes["edges given"] == len(PAIRS)
    assert mag.spec.notes["self loops dropped"] == sum(a == b for a, b in PAIRS)
    assert mag.spec.builder.sources["nodes"].startswith(f"n{suffix} sha256:")


def test_objects_give_what_files_give(tmp_path: Path) -> None:
    found = {name: [row[name] for row in rows()] for name in rows()[0]}
    check_content(build(tmp_path / "a", found, edges=pa.Table.from_pylist(links())))
    check_content(build(tmp_path / "b", pa.Table.from_pylist(rows()), edges=links_of_graph()))


def links_of_graph() -> networkx.Graph:
    graph = networkx.Graph()
    graph.add_edges_from((f"k{a}", f"k{b}") for a, b in PAIRS)
    return graph


def test_names_are_mapped_and_declared_columns_kept(tmp_path: Path) -> None:
    data = [
        {"sku": f"k{i}", "name": TITLES[i], "kind": KINDS[i], "zip": f"{i:05d}", "n": i, "x": ""}
        | {"price": f"{i}.5" if i else "", "junk": "-"}
        for i in range(N)
    ]
    edges = [
        {"from": f"k{a}", "to": f"k{b}", "how": "ab"[i % 2], "w": i} for i, (a, b) in
        enumerate(PAIRS)
    ]  # fmt: skip
    given = {"id": "sku", "text": "name", "label": "kind", "postcode": "zip"}
    given |= {"src": "from", "dst": "to", "relation": "how"}
    front = "columns: {nodes: {postcode: -, n: -, price: -, x: -}, edges: {w: weight}}"
    paths = write(tmp_path / "n.csv", data), write(tmp_path / "e.csv", edges)
    mag = build(tmp_path / "out", paths[0], edges=paths[1], columns=given, front=front)
    assert mag.nodes["postcode"][:2] == ["00000", "00001"]
    assert mag.nodes["n"] == list(range(N))
    assert mag.nodes["price"][:2] == [None, 1.5]
    assert mag.nodes["x"] == [""] * N
    assert mag.spec.notes["columns left out"] == ["junk"]
    assert mag.graph.key == ("src", "dst", "relation")
    stored = zip(*mag.edge_index.tolist(), mag.edges["relation"], mag.edges["w"], strict=True)
    first: dict[tuple[int, int, int], int] = {}
    for i, (a, b) in enumerate(PAIRS):
        if a != b:
            first.setdefault((min(a, b), max(a, b), i % 2), i)
    assert list(stored) == [(*key, first[key]) for key in sorted(first)]


def test_directed_loops_and_own_splits(tmp_path: Path) -> None:
    words = ["train", "Dev", "TEST", ""]
    nodes = [row | {"split": words[i % 4]} for i, row in enumerate(rows())]
    sides = {tuple(sorted(p)): words[i % 3] for i, p in enumerate(PAIRS)}
    edges = [
        row | {"edge_split": sides[tuple(sorted(p))]}
        for row, p in zip(links(), PAIRS, strict=True)
    ]  # fmt: skip
    paths = write(tmp_path / "n.csv", nodes), write(tmp_path / "e.csv", edges)
    options: dict[str, Any] = {"self_loops": True, "negatives": 7}
    mag = build(tmp_path / "out", paths[0], edges=paths[1], front="directed: true", **options)
    assert mag.graph.directed
    assert list(map(tuple, mag.edge_index.T.tolist())) == sorted(set(PAIRS))
    assert columns(mag.folder, "node-splits")["given"] == [i % 4 for i in range(N)]
    codes = [{"train": 0, "Dev": 1, "TEST": 2}[sides[tuple(sorted(p))]] for p in sorted(set(PAIRS))]
    assert columns(mag.folder, "edge-splits")["given-edges"] == codes
    assert mag.negatives("uniform")["test"]["neg"].shape[1] == 7


def test_pictures_by_column_by_id_and_as_bytes(tmp_path: Path) -> None:
    (tmp_path / "pics" / "deep").mkdir(parents=True)
    for i in range(N - 1):
        (tmp_path / "pics" / ("deep" if i % 2 else "") / f"k{i}.png").write_bytes(png(i))
    want = [png(i) for i in range(N - 1)] + [None]
    by_id = build(tmp_path / "a", write(tmp_path / "a.csv", rows()), images=tmp_path / "pics")
    names = [f"deep/k{i}.png" if i % 4 == 1 else f"k{i}.png" for i in range(N - 1)] + [""]
    data = [row | {"picture": name} for row, name in zip(rows(), names, strict=True)]
    given = {"image": "picture"}
    table = write(tmp_path / "b.csv", data)
    by_name = build(tmp_path / "b", table, images=tmp_path / "pics", columns=given, workers=2)
    raw = [row | {"image": {"bytes": b, "path": None}} for row, b in zip(rows(), want, strict=True)]
    as_bytes = build(tmp_path / "c", write(tmp_path / "c.parquet", raw))
    for mag in (by_id, by_name, as_bytes):
        stored = columns(mag.folder, "nodes")
        order = np.argsort(stored["node_id"])
        found = [stored["image"][i] for i in order]
        assert [image and image["bytes"] for image in found] == want
        assert mag.spec.images == {"kept": N - 1, "missing": 1}


def test_pyg_file_and_object(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch_geometric.data import Data

    labels = torch.tensor([i % 3 - 1 for i in range(N)])
    data = Data(edge_index=torch.tensor(PAIRS).T, y=labels, x=torch.rand(N, 8), raw_texts=TITLES)
    for at, mask in enumerate(("train_mask", "val_mask", "test_mask")):
        data[mask] = torch.arange(N) % 4 == at
    torch.save(data, tmp_path / "data.pt")
    for source in (data, tmp_path / "data.pt"):
        mag = build(tmp_path / "out", source, overwrite=True)
        assert mag.nodes["source_id"] == [str(i) for i in range(N)]
        assert mag.nodes["text"] == TITLES
        assert mag.labels.tolist() == labels.tolist()
        assert columns(mag.folder, "node-splits")["given"] == [i % 4 for i in range(N)]
        assert list(map(tuple, mag.edge_index.T.tolist())) == UNDIRECTED
        assert mag.spec.notes["columns left out"] == ["x"]


def test_a_pickle_is_not_executed(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "ran",))

    torch.save(Evil(), tmp_path / "data.pt")
    with pytest.raises(maghub.MaghubError, match=r"data\.pt: not a PyG Data"):
        build(tmp_path / "out", tmp_path / "data.pt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.pt"]


@pytest.mark.parametrize("kind", [networkx.Graph, networkx.DiGraph])
def test_networkx_file_and_object(tmp_path: Path, kind: type[networkx.Graph]) -> None:
    graph = kind()
    for row in rows():
        graph.add_node(row["id"], title=row["text"], **({"label": row["label"]} if row else {}))
    graph.add_edges_from((f"k{a}", f"k{b}") for a, b in PAIRS)
    networkx.write_graphml(graph, tmp_path / "g.graphml")
    for source in (graph, tmp_path / "g.graphml"):
        mag = build(tmp_path / "out", source, columns={"text": "title"}, overwrite=True)
        assert mag.nodes["text"] == TITLES
        assert mag.graph.directed == graph.is_directed()
        want = {p for p in PAIRS if p[0] != p[1]} if graph.is_directed() else UNDIRECTED
        assert list(map(tuple, mag.edge_index.T.tolist())) == sorted(want)


def test_an_edge_list_beside_a_table(tmp_path: Path) -> None:
    text = "# ours\n" + "".join(f"k{a} k{b}\n" for a, b in PAIRS)
    (tmp_path / "e.edgelist").write_text(text)
    nodes = write(tmp_path / "n.csv", rows())
    check_content(build(tmp_path / "out", nodes, edges=tmp_path / "e.edgelist"))


def test_dgl_file(tmp_path: Path) -> None:
    src, dst = np.array(PAIRS).T
    tensors = {"label": np.arange(N) % 3, "feat": np.zeros((N, 4), np.float32)}
    tensors |= {f"{m}_mask": np.arange(N) % 4 == i for i, m in enumerate(("train", "val", "test"))}
    dgl_writer.write_dgl(tmp_path / "g.bin", N, src, dst, node_tensors=tensors)
    mag = build(tmp_path / "out", tmp_path / "g.bin")
    assert mag.labels.tolist() == [i % 3 for i in range(N)]
    assert columns(mag.folder, "node-splits")["given"] == [i % 4 for i in range(N)]
    assert list(map(tuple, mag.edge_index.T.tolist())) == UNDIRECTED
    assert mag.spec.notes["columns left out"] == ["feat"]


def test_same_input_same_bytes_and_another_seed_another_split(tmp_path: Path) -> None:
    paths = write(tmp_path / "n.csv", rows()), write(tmp_path / "e.csv", links())
    for name, seed, workers in (("a", 0, 1), ("b", 0, 2), ("c", 1, 1)):
        build(tmp_path / name, paths[0], edges=paths[1], seed=seed, workers=workers)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    rule = "stratified"
    splits = [columns(tmp_path / name, "node-splits")[rule] for name in "ac"]
    assert splits[0] != splits[1]


def test_nodes_alone_and_a_graph_too_small_for_negatives(tmp_path: Path) -> None:
    alone = build(tmp_path / "a", {"id": ["x", "y"]})
    assert [config.name for config in alone.spec.configs] == ["nodes"]
    tiny = build(tmp_path / "b", {"id": [1, 2]}, edges={"src": [1], "dst": ["2"]})
    assert tiny.edge_index.tolist() == [[0], [1]]
    assert tiny.spec.negatives == ()
