"""Maps and PyG objects."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from maghub.clegr.draw import draw_graph
from maghub.clegr.generate import SetConfig, generate_part, make_graph
from maghub.clegr.labels import LabelPlaces
from maghub.errors import MaghubError, MissingExtra

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("domain", ["subway", "computer-networks"])
def test_maps_show_every_name_and_are_reproducible(domain: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    graph, _ = make_graph(SetConfig(domain), 0)
    svg, png = draw_graph(graph, tmp_path / "map")
    assert png.read_bytes().startswith(b"\x89PNG")
    first = svg.read_bytes()
    texts = {text.text for text in ElementTree.fromstring(first).iter(f"{SVG}text")}
    assert texts >= {*graph.names, *graph.lines["name"]}
    assert draw_graph(graph, tmp_path / "again" / "map.svg")[0].read_bytes() == first
    for color in {"red": b"#cc2936", "Encrypted": b"#2e8b57"}.values():
        assert color in first or domain == "subway"


def test_labels_do_not_overlap() -> None:
    rng = np.random.default_rng(0)
    nodes = rng.uniform(100, 1900, size=(150, 2))
    places = LabelPlaces(nodes, 5.0, np.empty((0, 2)), (2000.0, 2000.0))
    boxes = []
    for node in nodes:
        half = np.array([rng.uniform(20, 60), 8.0])
        center, _ = places.place(node, half)
        boxes.append((*(center - half), *(center + half)))
        assert min(boxes[-1]) >= 0
        assert max(boxes[-1]) <= 2000
    for number, a in enumerate(boxes):
        for b in boxes[:number]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_unwritable_maps_are_one_line(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    graph, _ = make_graph(SetConfig(), 0)
    with pytest.raises(MaghubError, match="'pdf' maps are not drawn"):
        draw_graph(graph, tmp_path / "map.pdf")
    (tmp_path / "file").write_text("")
    with pytest.raises(MaghubError, match="cannot be written"):
        draw_graph(graph, tmp_path / "file" / "map.svg")


def test_missing_extras_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graph, _ = make_graph(SetConfig(), 0)
    for name in ("matplotlib", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"maghub\[plot\]"):
        draw_graph(graph, tmp_path / "map.svg")
    from maghub.clegr.pyg import ClegrPyG

    with pytest.raises(MissingExtra, match=r"maghub\[torch\]"):
        ClegrPyG([], [])


def test_importing_needs_neither_torch_nor_matplotlib() -> None:
    modules = ["audit", "draw", "generate", "pyg", "rows", "scorer"]
    code = "".join(f"import maghub.clegr.{name}\n" for name in modules)
    lazy = {"torch", "matplotlib", "datasets", "sklearn"}
    code += f"import sys\nassert not {lazy} & set(sys.modules)"
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root, timeout=60)


def test_pyg_objects_share_their_graph() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    from maghub.clegr.pyg import ClegrPyG

    part = generate_part(SetConfig(graphs=2), 0)
    graphs, questions = part.graphs.to_pylist(), part.questions.to_pylist()
    rng = np.random.default_rng(0)
    vectors = {
        row["graph_id"]: tuple(
            rng.normal(size=(len(row[kind]), 8)).astype(np.float32) for kind in ("nodes", "edges")
        )
        for row in graphs
    }
    data = ClegrPyG(graphs, questions, vectors)
    assert len(data) == 88
    one, two, other = data[0], data[43], data[-1]
    for name in ("x", "edge_index", "edge_attr"):
        assert one[name].data_ptr() == two[name].data_ptr()
        assert one[name].data_ptr() != other[name].data_ptr()
    nodes, edges = vectors[one.graph_id]
    assert one.x.shape == nodes.shape
    assert one.x.data_ptr() == nodes.ctypes.data, "embeddings are not copied either"
    assert one.edge_index.shape == (2, 2 * len(edges))
    assert one.edge_index[:, 0].tolist() == one.edge_index[:, 1].flip(0).tolist()
    assert (one.edge_attr[0] == one.edge_attr[1]).all()
    assert one.label == questions[0]["answer"]
    assert (one.question_type, one.question_group) == ("StationPropertyCleanliness", "FactBased")
    assert one.validate()
    assert [item.question_id for item in data] == [row["question_id"] for row in questions]
    bare = ClegrPyG(graphs, questions)[0]
    assert bare.num_nodes == len(graphs[0]["nodes"])
    with pytest.raises(MaghubError, match="unknown graph"):
        ClegrPyG(graphs[:1], questions)
    short = {key: (nodes[:-1], edges) for key, (nodes, edges) in vectors.items()}
    with pytest.raises(MaghubError, match="node embeddings for"):
        ClegrPyG(graphs, questions, short)
