"""Bad input of a user's own: one line with file, column and row; nothing half-written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import maghub
from maghub.errors import MaghubError
from tests.builders.test_own import card, png

NODES = 'id,text,label,image,split\na,"x\ny",u,,\nb,y,v,,test\nc,z,,,\n'
EDGES = "src,dst,relation\na,b,r\nb,c,r\n"
WIDE = 1_000_000


def refused(folder: Path, source: Any, front: str = "", **more: Any) -> str:
    """The line with which it is refused; no new file anywhere."""
    before = sorted(folder.rglob("*"))
    with pytest.raises(MaghubError) as caught:
        maghub.build_own("mine", folder / "out", source, card=card(front), **more)
    assert sorted(folder.rglob("*")) == before
    line = caught.value.line()
    assert "\n" not in line
    assert len(line) < 600
    return line.replace(f"{folder}/", "")


def table(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


CELLS: dict[str, tuple[str, str, str]] = {
    "twice": (
        NODES.replace("c,z", "a,z"),
        EDGES,
        "n.csv, column id, row 3: id 'a' is already in row 1",
    ),
    "no id": (NODES.replace("c,z", ",z"), EDGES, "n.csv, column id, row 3: no id"),
    "unknown": (
        NODES,
        EDGES.replace("b,c", "b,zz"),
        "e.csv, column dst, row 2: no node 'zz' in n.csv",
    ),
    "no end": (NODES, EDGES.replace("b,c", ",c"), "e.csv, column src, row 2: no id"),
    "no relation": (
        NODES,
        EDGES.replace("b,c,r", "b,c,"),
        "e.csv, column relation, row 2: no relation",
    ),
    "split": (
        NODES.replace("test", "tset"),
        EDGES,
        "n.csv, column split, row 2: 'tset' is no split",
    ),
    "ragged": (
        NODES.replace("b,y,v,,test", "b,y,v"),
        EDGES,
        "n.csv, column label, row 2: 3 cells, expected 5",
    ),
    "picture": (
        NODES.replace("b,y,v,", "b,y,v,b.png"),
        EDGES,
        "n.csv, column image, row 2: no picture 'b.png' in",
    ),
    "edge header": (
        NODES,
        EDGES.replace("src", "from"),
        "e.csv: no column is known to be the src. Name its column with --map src=COLUMN; "
        "there are: from, dst, relation",
    ),
    "empty": ("", EDGES, "n.csv: is empty"),
}


@pytest.mark.parametrize("name", CELLS)
def test_cells(tmp_path: Path, name: str) -> None:
    nodes, edges, wanted = CELLS[name]
    source = table(tmp_path / "n.csv", nodes)
    line = refused(tmp_path, source, edges=table(tmp_path / "e.csv", edges))
    assert line.startswith(wanted)


def test_a_cell_that_is_not_utf8_in_every_format(tmp_path: Path) -> None:
    bad = NODES.encode().replace(b"b,y,v", b"b,caf\xe9,v")
    line = refused(tmp_path, table(tmp_path / "n.csv", bad))
    assert line == "n.csv, column text, row 2: cell is not UTF-8. Save the file as UTF-8"
    lines = b'{"id": "a", "text": "ok"}\n{"id": "b", "text": "caf\xe9"}\n'
    line = refused(tmp_path, table(tmp_path / "n.jsonl", lines))
    assert line.startswith("n.jsonl, column text, row 2: cell is not UTF-8")
    text = pa.array([b"ok", b"ok", b"caf\xe9"]).view(pa.string())
    pq.write_table(pa.table({"id": ["a", "b", "c"], "text": text}), tmp_path / "n.parquet")
    line = refused(tmp_path, tmp_path / "n.parquet")
    assert line.startswith("n.parquet, column text, row 3: cell is not UTF-8")
    surrogate = table(tmp_path / "s.jsonl", '{"id": "a", "text": "\\ud800"}\n')
    assert refused(tmp_path, surrogate).startswith("s.jsonl, column text, row 1: half a character")


def test_a_million_columns(tmp_path: Path) -> None:
    header = ",".join(["id", *(f"c{i}" for i in range(WIDE - 1))])
    line = refused(tmp_path, table(tmp_path / "n.csv", header + "\n"))
    assert line.startswith("n.csv, column c9999, row 0: 1,000,000 columns, at most 10,000 are read")
    row = NODES + ",".join(["d"] * WIDE) + "\n"
    line = refused(tmp_path, table(tmp_path / "n.csv", row))
    assert line.startswith("n.csv, column split, row 4: 1000000 cells, expected 5")
    keys = ", ".join(f'"c{i}": 1' for i in range(WIDE))
    line = refused(tmp_path, table(tmp_path / "n.jsonl", f'{{"id": 1, {keys}}}\n'))
    assert line.startswith("n.jsonl, column c9999, row 0: 1,000,001 columns")
    pq.write_table(pa.table({f"c{i}": [1] for i in range(10_001)}), tmp_path / "n.parquet")
    line = refused(tmp_path, tmp_path / "n.parquet")
    assert line.startswith("n.parquet, column c10000, row 0: 10,001 columns")


def test_pictures(tmp_path: Path) -> None:
    source = table(tmp_path / "n.csv", NODES)
    plain = table(tmp_path / "p.csv", "id\na\nb\n")
    assert "nowhere: there is no such folder" in refused(
        tmp_path, plain, images=tmp_path / "nowhere"
    )
    for place in ("one", "two"):
        (tmp_path / "pics" / place).mkdir(parents=True)
        (tmp_path / "pics" / place / "b.png").write_bytes(png(3))
    given = table(tmp_path / "n.csv", NODES.replace("b,y,v,", "b,y,v,b"))
    line = refused(tmp_path, given, images=tmp_path / "pics")
    assert line.startswith("n.csv, column image, row 2: 'b' names 2 pictures")
    outside = table(tmp_path / "n.csv", NODES.replace("b,y,v,", "b,y,v,../n.csv"))
    assert "no picture '../n.csv'" in refused(tmp_path, outside, images=tmp_path / "pics")
    other = table(tmp_path / "o.csv", "id\nq\n")
    line = refused(tmp_path, other, images=tmp_path / "pics")
    assert line.startswith("pics: not one picture is named as a node's id (e.g. q.jpg)")
    assert source.exists()


def test_a_web_page_instead_of_a_picture_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("<html>404</html>")
    (tmp_path / "b.png").write_bytes(png(1))
    source = table(tmp_path / "n.csv", "id,image\na,a.png\nb,b.png\n")
    spec = maghub.build_own("mine", tmp_path / "out", source, card=card())
    assert spec.images == {"kept": 1, "refused: html": 1}


CALLS: dict[str, tuple[Callable[[Path], dict[str, Any]], str]] = {
    "unknown field": (
        lambda folder: {"columns": {"idd": "id"}},
        "unknown field of --map 'idd'. Did you mean id",
    ),
    "unknown column": (
        lambda folder: {"columns": {"text": "txt"}},
        "n.csv: unknown column 'txt'. Did you mean text?",
    ),
    "declared": (
        lambda folder: {"front": "columns: {nodes: {year: -}}"},
        "n.csv: no column year, which the card declares",
    ),
    "suffix": (
        lambda folder: {"edges": table(folder / "e.xlsx", "x")},
        "e.xlsx: not a table I can read",
    ),
    "no file": (
        lambda folder: {"edges": folder / "none.csv"},
        "none.csv: cannot be read or written (No such file",
    ),
    "object": (lambda folder: {"edges": 7}, "cannot read edges from a int"),
    "lengths": (
        lambda folder: {"edges": {"src": ["a"], "dst": []}},
        "edges: columns of different lengths",
    ),
    "parquet": (
        lambda folder: {"edges": table(folder / "e.parquet", "PAR1 no")},
        "e.parquet: not a whole Parquet file",
    ),
    "not JSON": (
        lambda folder: {"edges": table(folder / "e.jsonl", '{"src": "a", "dst": "b"}\n{"sr\n')},
        "e.jsonl, row 2: not JSON",
    ),
    "graphml": (
        lambda folder: {"edges": table(folder / "e.graphml", "<graphml><gra")},
        "e.graphml: not a graph I can read",
    ),
    "dgl": (lambda folder: {"edges": table(folder / "e.bin", b"\0" * 50)}, "e.bin"),
    "torn": (
        lambda folder: {
            "edges": {"src": ["a", "b"], "dst": ["b", "a"], "edge_split": ["train", "test"]},
            "front": "directed: true",
        },
        "edges, column edge_split, row 2: this pair of nodes stands in two splits",
    ),
    "types": (
        lambda folder: {
            "edges": {"src": ["a", "b"], "dst": ["b", "c"], "w": [1, "x"]},
            "front": "columns: {edges: {w: weight}}",
        },
        "edges, column w: cells of several types",
    ),
    "ends": (lambda folder: {"columns": {"src": "a"}}, "--map src=a is about edges, and none"),
    "negatives": (lambda folder: {"negatives": -1}, "own: option negatives is -1"),
    "loops": (lambda folder: {"self_loops": 3}, "own: option self_loops must be true or false"),
    "option": (lambda folder: {"negative": 3}, "unknown option of builder own 'negative'. Did you"),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(tmp_path: Path, name: str) -> None:
    make, wanted = CALLS[name]
    source = table(tmp_path / "n.csv", NODES)
    assert refused(tmp_path, source, **make(tmp_path)).startswith(wanted)


def test_a_card_of_another_dataset_and_masks_that_overlap(tmp_path: Path) -> None:
    with pytest.raises(MaghubError, match="is the card of 'mine', not of 'yours'"):
        maghub.build_own("yours", tmp_path / "out", {"id": [1]}, card=card())
    torch = pytest.importorskip("torch")
    from torch_geometric.data import Data

    data = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)
    for mask in ("train_mask", "val_mask", "test_mask"):
        data[mask] = torch.tensor([False, mask != "val_mask"])
    assert "node 1 is in two of train_mask" in refused(tmp_path, data)


def test_pictures_are_searched_for_in_a_named_folder_only(tmp_path: Path) -> None:
    """A table alone may name files by their path; nothing else near it is looked at."""
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "a.png").write_bytes(png(1))
    (tmp_path.parent / "outside.png").write_bytes(png(2))
    columns = {"image": "pic"}
    for name in ("a", "a.png", "er/a.png", "../outside.png", str(tmp_path.parent / "outside.png")):
        source = table(tmp_path / "n.csv", f"id,text,pic\na,x,{name}\n")
        assert "name the folder with --images" in refused(tmp_path, source, columns=columns)
    source = table(tmp_path / "n.csv", "id,text,pic\na,x,deep/er/a.png\n")
    spec = maghub.build_own("mine", tmp_path / "out", source, card=card(), columns=columns)
    assert spec.images["kept"] == 1
