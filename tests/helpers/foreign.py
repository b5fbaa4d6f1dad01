"""A published folder as somebody else would keep it: other names, no maghub.json."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

import maghub
from maghub.audit import Columns

MAPPING = {
    "id": "pk", "text": "title", "image": "pic", "label": "cat", "src": "from", "dst": "to",
    "relation": "kind",
}  # fmt: skip
VECTORS = (("text", "emb"), ("image", "look"))
REPO = Columns("items", "links", MAPPING, VECTORS)
FILES = Columns("nodes.parquet", "edges.parquet", MAPPING | {"split": "fold"}, VECTORS)


def _nodes(folder: Path, vectors: dict[str, np.ndarray]) -> pa.Table:
    """All nodes by id, with the split as a column ``fold``."""
    paths = sorted((folder / "nodes").glob("*.parquet"))
    tables = []
    for path in paths:
        table = pq.read_table(path)
        tables.append(table.append_column("fold", [[path.name.split("-")[0]] * len(table)]))
    table = pa.concat_tables(tables).sort_by("node_id")
    names = maghub.load(folder).label_names
    plain = {
        "pk": table["source_id"],
        "title": table["text"],
        "pic": table["image"],
        "cat": pa.array(
            [None if code is None else names[code] for code in table["label"].to_pylist()]
        ),
        "fold": table["fold"],
    }
    for modality, column in VECTORS:
        plain[column] = pa.array(vectors[modality].astype(np.float32).tolist())
    return pa.table(plain)


def _edges(folder: Path, nodes: pa.Table) -> pa.Table:
    mag = maghub.load(folder)
    keys = np.asarray(nodes["pk"].to_pylist(), object)
    src, dst = mag.edge_index
    (rule,) = [rule.name for rule in mag.spec.edge_splits]
    sides = np.full(len(src), "unassigned", object)
    for split, ids in mag.edge_splits(rule).items():
        sides[ids] = split
    kinds = [f"k{kind}" for kind in mag.edges["relation"]]
    return pa.table({"from": keys[src], "to": keys[dst], "kind": kinds, "fold": sides})


def as_files(folder: Path, out: Path, vectors: dict[str, np.ndarray]) -> Path:
    """Two Parquet files, nothing else."""
    out.mkdir()
    nodes = _nodes(folder, vectors)
    pq.write_table(nodes, out / "nodes.parquet")
    edges = _edges(folder, nodes)
    pq.write_table(edges.rename_columns(["from", "to", "kind", "edge_split"]), out / FILES.edges)
    return out


def as_repo(folder: Path, out: Path, vectors: dict[str, np.ndarray]) -> Path:
    """A repo of ``datasets`` with a file per split; only the files tell the split."""
    nodes = _nodes(folder, vectors)
    configs = []
    for name, table in (("items", nodes), ("links", _edges(folder, nodes))):
        files = []
        for split in sorted(set(table["fold"].to_pylist())):
            part = table.filter(pc.equal(table["fold"], split)).drop_columns("fold")
            path = out / "data" / f"{name}-{split}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(part, path)
            files.append({"split": split, "path": f"data/{path.name}"})
        configs.append({"config_name": name, "data_files": files})
    (out / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': configs})}---\n# Things\n")
    return out
