"""A small made-up graph with every kind of table, written by the real writer."""

from __future__ import annotations

import dataclasses
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pyarrow as pa
from datasets import ClassLabel, Value

from maghub import layout, schema
from maghub.cards import Card, CardSpec
from maghub.seeding import child_rng
from maghub.spec import BuilderInfo, FolderSpec, NegativesRule, SplitRule
from maghub.splits import edge_split, fixed_negatives, split_counts
from maghub.tables import Facts, Table, in_memory
from maghub.writing import write_folder

LABELS = ("cat 猫", "dog", "none of both")
RELATIONS = ("likes", "knows")
TEXTS = (
    "",
    "plain",
    "猫と魚",
    "🧑‍🚒🏽 firefighter",
    "naïve café\nsecond line",
    '"quotes", commas\t',
)
RULES = ("public", "random-0")
ENCODER, NEGATIVES = "toy-encoder", 3


def png(value: int, mode: str = "RGB") -> bytes:
    """A tiny picture that differs for every value."""
    image = PIL.Image.new(mode, (2 + value % 3, 2), value % 200)
    image.putpixel((0, 0), (value % 256,) * len(image.getbands()) if mode != "L" else value % 256)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


@dataclass
class Toy:
    """What the tables are made of; None leaves a column or a table out."""

    texts: list[str]
    labels: list[int | None] | None
    images: list[bytes | None] | None
    edges: list[tuple[int, int, int]]  # src, dst, relation
    codes: list[int] | None = None  # node split (index into layout.SPLITS)
    vectors: dict[str, np.ndarray] = field(default_factory=dict)
    negatives: int | None = NEGATIVES
    directed: bool = False
    self_loops: bool = False
    seed: int = 0

    @property
    def n(self) -> int:
        return len(self.texts)


def random_toy(n: int = 40, seed: int = 0, *, directed: bool = False, loops: int = 0) -> Toy:
    """A random graph on which everything is present, with missing labels and images."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, n, (3 * n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    pairs = pairs if directed else np.sort(pairs, axis=1)
    edges = {(int(a), int(b), int(rng.integers(2))) for a, b in pairs}
    edges |= {(int(a), int(b), 1 - r) for a, b, r in sorted(edges)[:5]}
    edges |= {(node, node, 0) for node in range(loops)}
    vectors = {
        layout.TEXT: rng.standard_normal((n, 8)).astype(np.float16),
        layout.IMAGE: rng.standard_normal((n, 4)).astype(np.float16),
    }
    return Toy(
        texts=[TEXTS[i % len(TEXTS)] + str(i) * (i % 7 > 0) for i in range(n)],
        labels=[None if i % 9 == 4 else int(rng.integers(len(LABELS))) for i in range(n)],
        images=[None if i % 5 == 3 else png(i) for i in range(n)],
        edges=sorted(edges),
        codes=rng.permutation([i % 4 for i in range(n)]).tolist(),
        vectors=vectors,
        directed=directed,
        self_loops=loops > 0,
        seed=seed,
    )


def _nodes(toy: Toy) -> Table:
    columns: dict[str, Any] = {
        layout.NODE_ID: np.arange(toy.n),
        layout.SOURCE_ID: [f"id {i}" for i in range(toy.n)],
        layout.TEXT: pa.array(toy.texts, pa.string()),
        "year": pa.array([None if i % 2 else i for i in range(toy.n)], pa.int64()),
    }
    if toy.labels is not None:
        columns[layout.LABEL] = pa.array(toy.labels, pa.int64())
    if toy.images is not None:
        images = [None if b is None else {"bytes": b, "path": None} for b in toy.images]
        kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
        columns[layout.IMAGE] = pa.array(images, kind)
    features = schema.nodes_features(
        LABELS if toy.labels is not None else None,
        {"year": Value("int64")},
        image=toy.images is not None,
    )
    split = {} if toy.codes is None else {"split_names": layout.SPLITS}
    codes = None if toy.codes is None else np.asarray(toy.codes, np.int8)
    table = in_memory(layout.NODES, "nodes", features, columns, split_ids=codes, **split)
    return dataclasses.replace(table, part_size=7, parallel=True)


def _negatives(toy: Toy, edge_codes: np.ndarray, rng: np.random.Generator) -> Table:
    src, dst, _ = np.asarray(toy.edges, np.int64).reshape(-1, 3).T
    edge = np.flatnonzero(edge_codes > 0)
    drawn = fixed_negatives(src, dst, toy.n, src[edge], toy.negatives, rng)
    columns: dict[str, Any] = {"edge_id": edge, "query": src[edge], "positive": dst[edge]}
    columns["neg"] = pa.FixedSizeListArray.from_arrays(pa.array(drawn.ravel()), toy.negatives)
    return in_memory(
        layout.negatives_config(RULES[0]),
        "negatives",
        schema.negatives_features(toy.negatives),
        columns,
        split_names=layout.SPLITS,
        split_ids=edge_codes[edge],
        target=layout.EDGES,
    )


def toy_tables(toy: Toy) -> tuple[list[Table], Facts]:
    """All tables (some may be empty) and the facts beside them."""
    src, dst, relation = np.asarray(toy.edges, np.int64).reshape(-1, 3).T
    edge_ids = np.arange(len(src))
    rng = child_rng(toy.seed, "toy")
    edge_codes = edge_split(src, dst, toy.n, (0.6, 0.2, 0.2), rng)
    tables = [
        _nodes(toy),
        in_memory(
            layout.EDGES,
            "edges",
            schema.edges_features({layout.RELATION: ClassLabel(names=list(RELATIONS))}),
            {"edge_id": edge_ids, "src": src, "dst": dst, "relation": relation},
        ),
        in_memory(
            layout.EDGE_SPLITS,
            "edge_splits",
            schema.splits_features(layout.EDGE_ID, [RULES[0]]),
            {"edge_id": edge_ids, RULES[0]: edge_codes},
            target=layout.EDGES,
        ),
    ]
    node_rules: tuple[SplitRule, ...] = ()
    if toy.codes is not None:
        both = {rule: np.roll(toy.codes, i).astype(np.int64) for i, rule in enumerate(RULES)}
        ids = {layout.NODE_ID: np.arange(toy.n)}
        features = schema.splits_features(layout.NODE_ID, RULES)
        tables.append(
            in_memory(layout.NODE_SPLITS, "node_splits", features, {**ids, **both}, target="nodes")
        )
        node_rules = tuple(
            SplitRule(
                name=r, of="nodes", origin="upstream", description="d", counts=split_counts(c)
            )
            for r, c in both.items()
        )
    if toy.negatives is not None:
        tables.append(_negatives(toy, edge_codes, rng))
    if toy.vectors:
        tables.append(vectors_table(toy.vectors))
    edge_rule = SplitRule(
        name=RULES[0], of="edges", origin="maghub", description="d", counts=split_counts(edge_codes)
    )
    rule = {"name": RULES[0], "edge_split": RULES[0], "origin": "maghub", "description": "d"}
    negatives = [NegativesRule(**rule, k=toy.negatives)] if toy.negatives is not None else []
    facts = Facts(
        directed=toy.directed,
        self_loops=toy.self_loops,
        edge_key=(layout.SRC, layout.DST, layout.RELATION),
        default_split=RULES[0] if node_rules else None,
        node_splits=node_rules,
        edge_splits=(edge_rule,),
        negatives=tuple(negatives),
    )
    return tables, facts


def vectors_table(vectors: dict[str, np.ndarray], encoder: str = ENCODER) -> Table:
    """An embedding config of the given matrices; a row of zeros counts as missing."""
    any_matrix = next(iter(vectors.values()))
    columns: dict[str, Any] = {layout.NODE_ID: np.arange(len(any_matrix))}
    for modality, matrix in vectors.items():
        flat = pa.array(matrix.ravel())
        columns[modality] = pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])
        columns[layout.has_column(modality)] = matrix.any(axis=1)
    dims = {modality: matrix.shape[1] for modality, matrix in vectors.items()}
    features = schema.embeddings_features(dims, str(any_matrix.dtype))
    name = layout.embeddings_config(encoder)
    return in_memory(name, "embeddings", features, columns, target=layout.NODES)


def toy_card() -> Card:
    """A card that declares what the toy's tables hold."""
    spec = CardSpec.model_validate(
        {
            "name": "toy",
            "pretty_name": "Toy 猫",
            "summary": "a made-up graph",
            "version": "1.0.0",
            "hub_license": "mit",
            "licences": dict.fromkeys(("graph", "text", "images", "embeddings"), "MIT"),
            "policy": dict.fromkeys(("graph", "text", "images", "embeddings"), "public"),
            "language": ["en"],
            "upstream": [],
            "columns": {"nodes": {"year": "of birth"}, "edges": {"relation": "kind"}},
            "splits": dict.fromkeys(RULES, "made up"),
            "citation": "none",
        }
    )
    return Card(spec=spec, body="Made up.\n")


def write_toy(toy: Toy, out: Path, workers: int = 1, *, overwrite: bool = False) -> FolderSpec:
    """Write the toy as a published folder."""
    tables, facts = toy_tables(toy)
    builder = BuilderInfo(name="toy", version="1.0.0", seed=toy.seed)
    return write_folder(
        out, tables, facts, builder, toy_card(), workers=workers, overwrite=overwrite
    )


def files_of(folder: Path) -> dict[str, bytes]:
    """Relative path -> bytes of every file below a folder."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}
