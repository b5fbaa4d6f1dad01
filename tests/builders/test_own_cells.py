"""Odd cells, columns and tensors of a user's own: kept as they are meant, or refused by name."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch_geometric.data import Data

import maghub
from tests.builders.test_own import card, png
from tests.builders.test_own_bad import refused

NO_TEXT: dict[str, tuple[Any, str]] = {
    "list": (["p", "q"], "a list is not one value"),
    "object": ({"p": 1}, "a dict is not one value"),
    "array": (np.zeros(3), "a ndarray is not one value"),
    "bytes": (b"caf\xe9", "cell is not UTF-8"),
    "digits": (10**5000, "Exceeds the limit (4300 digits)"),
}


@pytest.mark.parametrize("name", NO_TEXT)
@pytest.mark.parametrize("column", ["id", "text", "label", "split", "image"])
def test_a_cell_that_is_no_text(tmp_path: Path, column: str, name: str) -> None:
    cell, wanted = NO_TEXT[name]
    if column == "image" and isinstance(cell, bytes | dict):
        pytest.skip("a picture may be bytes, or an object that holds them")
    nodes = {"id": ["a", "b"]} | {column: ["z", cell] if column == "id" else ["", cell]}
    assert refused(tmp_path, nodes).startswith(f"nodes, column {column}, row 2: {wanted}")


@pytest.mark.parametrize("cell", [pandas.NA, pandas.NaT, Decimal("sNaN"), float("nan"), None])
def test_whatever_a_library_calls_missing_is_an_empty_cell(tmp_path: Path, cell: object) -> None:
    nodes = {"id": ["a", "b"], "text": ["x", cell], "label": ["u", cell]}
    maghub.build_own("mine", tmp_path / "out", nodes, card=card())
    mag = maghub.load(tmp_path / "out")
    assert mag.nodes["text"][:] == ["x", ""]
    assert mag.labels.tolist() == [0, -1]


def test_names_and_bytes_that_are_text(tmp_path: Path) -> None:
    nodes = {"id": [b"a", bytearray(b"b")], "\ud800": [1, 2], "label": ["9" * 5000, "10"]}
    maghub.build_own("mine", tmp_path / "out", nodes, card=card())
    mag = maghub.load(tmp_path / "out")
    assert mag.nodes["source_id"][:] == ["a", "b"]
    assert mag.label_names == ["10", "9" * 5000]
    assert mag.spec.notes["columns left out"] == ["?"]


@pytest.mark.parametrize(
    "cell", [{"path": "b.png"}, {"bytes": None, "path": "b.png"}, {"bytes": "b.png"}]
)
@pytest.mark.parametrize("arrow", [False, True])
def test_a_picture_that_is_only_named_is_looked_for(
    tmp_path: Path, cell: dict[str, Any], arrow: bool
) -> None:
    (tmp_path / "pics").mkdir()
    images = pa.chunked_array([[None, cell]]) if arrow else [None, cell]
    nodes = {"id": ["a", "b"], "image": images}
    line = refused(tmp_path, nodes, images=tmp_path / "pics")
    assert line.startswith("nodes, column image, row 2: no picture 'b.png' in pics")
    (tmp_path / "pics" / "b.png").write_bytes(png(3))
    spec = maghub.build_own("mine", tmp_path / "out", nodes, card=card(), images=tmp_path / "pics")
    assert spec.images == {"kept": 1, "missing": 1}
    nodes["image"] = pa.chunked_array([[None, 5]]) if arrow else [None, {"data": b"x"}]
    assert "nodes, column image, row 2: no picture" in refused(
        tmp_path, nodes, images=tmp_path / "pics"
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["1_0", "2"], ["1_0", "2"]),  # Python would read 10
        (["1e999", "2"], ["1e999", "2"]),  # ... and infinity
        (["007", "2"], ["007", "2"]),
        (["9" * 30, "2"], ["9" * 30, "2"]),
        (["1.5", "2"], [1.5, 2.0]),
        (["10", ""], [10, None]),
    ],
)
def test_text_becomes_a_number_only_where_it_says_no_more(
    tmp_path: Path, given: list[str], kept: list[Any]
) -> None:
    nodes = {"id": ["a", "b"], "year": given}
    front = card("columns: {nodes: {year: -}}")
    maghub.build_own("mine", tmp_path / "out", nodes, card=front)
    assert maghub.load(tmp_path / "out").nodes["year"][:] == kept


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        ([2**70, 1], "a number is beyond 64 bits"),
        ([{}, {}], "holds objects without a single field"),
        ([[{}], []], "holds objects without a single field"),
    ],
)
def test_a_declared_column_that_no_table_can_hold(
    tmp_path: Path, cells: list[Any], wanted: str
) -> None:
    nodes = {"id": ["a", "b"], "year": cells}
    line = refused(tmp_path, nodes, "columns: {nodes: {year: -}}")
    assert line.startswith(f"nodes, column year: {wanted}")


def test_a_column_that_stands_twice(tmp_path: Path) -> None:
    twice = pa.table([["a", "b"], ["c", "d"]], names=["id", "id"])
    pq.write_table(twice, tmp_path / "n.parquet")
    assert refused(tmp_path, tmp_path / "n.parquet") == "n.parquet: two columns are called 'id'"
    assert refused(tmp_path, twice) == "nodes: two columns are called 'id'"


@pytest.mark.filterwarnings("ignore")  # of torch, about sparse and quantised tensors
@pytest.mark.parametrize("save", [False, True])
def test_pyg_data_of_every_kind(tmp_path: Path, save: bool) -> None:
    def given(**values: Any) -> Any:
        data = Data(**{"edge_index": edges, "num_nodes": 3, **values})
        if save:
            torch.save(data, tmp_path / "d.pt")
        return tmp_path / "d.pt" if save else data

    edges = torch.tensor([[0, 1], [1, 2]])
    half = torch.tensor([1, -1, 0], dtype=torch.bfloat16)
    sparse = {"x": torch.eye(3).to_sparse(), "z": torch.eye(3).to_sparse_csr()}
    quantised = torch.quantize_per_tensor(torch.zeros(3), 1.0, 0, torch.qint8)
    source = given(y=half, q=quantised, **sparse)
    spec = maghub.build_own("mine", tmp_path / "out", source, card=card())
    assert spec.notes["columns left out"] == ["q", "x", "z"]
    assert maghub.load(tmp_path / "out").labels.tolist() == [1, -1, 0]
    source = given(y=torch.tensor([float("inf"), 0, 1]))
    maghub.build_own("mine", tmp_path / "inf", source, card=card())
    assert maghub.load(tmp_path / "inf").label_names == ["0", "1", "inf"]
    for index in (edges[0], edges.float(), torch.zeros(3, 2).long(), [[0], [1]]):
        assert "edge_index is no tensor of two rows of whole numbers" in refused(
            tmp_path, given(edge_index=index)
        )
    assert "does not say how many nodes it has" in refused(tmp_path, given(num_nodes="3"))


def test_the_case_of_a_suffix_does_not_matter(tmp_path: Path) -> None:
    networkx.write_graphml(networkx.path_graph(3), tmp_path / "g.GraphML")
    spec = maghub.build_own("mine", tmp_path / "out", tmp_path / "g.GraphML", card=card())
    assert spec.graph is not None
    assert spec.graph.num_edges == 2
