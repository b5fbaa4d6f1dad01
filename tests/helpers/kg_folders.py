"""Small published knowledge graphs, and an independent check of what is built from one."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import ClassLabel, Features, Image, List, Value

from maghub.cards import Card, CardSpec
from maghub.spec import BuilderInfo
from maghub.tables import Facts, in_memory
from maghub.writing import write_folder

Triple = tuple[str, str, str]
STRING = Value("string")
IMAGE = pa.struct({"bytes": pa.binary(), "path": pa.string()})


@dataclass
class Graph:
    """A knowledge graph in plain Python: id -> name, and the pictures of some entities."""

    triplets: list[Triple]
    entities: dict[str, str]
    relations: dict[str, str]
    descriptions: dict[str, str] = field(default_factory=dict)
    images: Mapping[str, Sequence[bytes | None]] = field(default_factory=dict)
    picture_entities: set[str] = field(default_factory=set)


def card(name: str) -> Card:
    public = dict.fromkeys(("graph", "text", "images", "embeddings"), "public")
    spec = CardSpec.model_validate(
        {
            "name": name,
            "pretty_name": "A small graph",
            "summary": "A made-up knowledge graph.",
            "version": "1.0.0",
            "hub_license": "cc0-1.0",
            "licences": dict.fromkeys(public, "CC0"),
            "policy": public,
            "language": ["en"],
            "upstream": [{"name": "made up", "revision": "1", "licence": "CC0"}],
            "citation": "none",
        }
    )
    return Card(spec=spec, body="## About\n\nMade up.\n")


def write_graph(graph: Graph, out: Path, *, several: bool = True, name: str = "small-kg") -> Path:
    """Write it as a published folder; pictures as a list per entity, or the first of each."""
    rows = graph.triplets
    texts = [
        [graph.entities[h] for h, _, _ in rows],
        [graph.relations[r] for _, r, _ in rows],
        [graph.entities[t] for _, _, t in rows],
    ]
    columns: dict[str, Any] = {
        **{key: [row[i] for row in rows] for i, key in enumerate(("head_id", "rel_id", "tail_id"))},
        **dict(zip(("head_text", "rel_text", "tail_text"), texts, strict=True)),
    }
    triplets = in_memory(
        "triplets", "table", Features(dict.fromkeys(columns, STRING)), pa.table(columns)
    )
    tables = [triplets, _entities(graph, several), _relations(graph)]
    builder = BuilderInfo(name="test", version="1", seed=0)
    write_folder(out, tables, Facts(), builder, card(name))
    return out


def _entities(graph: Graph, several: bool) -> Any:
    ids = list(graph.entities)
    features: dict[str, Any] = {"entity_id": STRING, "name": STRING, "description": STRING}
    columns: dict[str, Any] = {
        "entity_id": ids,
        "name": list(graph.entities.values()),
        "description": [graph.descriptions.get(key, "") for key in ids],
    }
    if graph.picture_entities:
        features["kind"] = ClassLabel(names=["concept", "image"])
        columns["kind"] = [int(key in graph.picture_entities) for key in ids]
    if graph.images:
        cells = [[{"bytes": one} for one in graph.images.get(key, [])] for key in ids]
        if several:
            features["images"] = List(Image())
            columns["images"] = pa.array(cells, pa.list_(IMAGE))
        else:
            features["image"] = Image()
            columns["image"] = pa.array([one[0] if one else None for one in cells], IMAGE)
    return in_memory("entities", "table", Features(features), pa.table(columns))


def _relations(graph: Graph) -> Any:
    ids = list(graph.relations)
    columns = {
        "rel_id": ids,
        "name": list(graph.relations.values()),
        "description": [graph.descriptions.get(key, "") for key in ids],
    }
    return in_memory("relations", "table", Features(dict.fromkeys(columns, STRING)), columns)


# -- the independent check -------------------------------------------------------------------------


def rows_of(folder: Path, config: str, split: str = "*") -> list[dict[str, Any]]:
    """All rows of a config, pictures as bytes, straight from the Parquet files."""
    found: list[dict[str, Any]] = []
    for path in sorted((folder / config).glob(f"{split}-*.parquet")):
        found += pq.read_table(path).to_pylist()
    return found


def words(text: str) -> list[str]:
    """Its words; what separates them is anything but letters, marks and digits."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return re.findall(r"[^\W_]+", folded)


def says(text: str, name: str) -> bool:
    """Whether the words of ``name`` stand one after the other in ``text``."""
    said, wanted = words(text), words(name)
    if not wanted:
        return bool(name) and name in text
    return any(said[i : i + len(wanted)] == wanted for i in range(len(said) - len(wanted) + 1))


def check_benchmark(
    folder: Path,
    triplets: Sequence[Triple],
    entities: Mapping[str, str],
    relations: Mapping[str, str],
) -> dict[str, int]:
    """Check a built benchmark against the triplets it was made from; gives its counts.

    Every query's qrels are all triplets of the graph with its masked form; gold answers are their
    masked sides; no question says an answer (or, about a picture, its head); no masked form stands
    on two sides of the group split; sizes are 8:1:1.
    """
    by_form: dict[tuple[str, str | None, str | None], set[Triple]] = defaultdict(set)
    for h, r, t in triplets:
        by_form[h, r, None].add((h, r, t))
        by_form[h, None, t].add((h, r, t))
    corpus = {row["id"]: row for row in rows_of(folder, "corpus")}
    assert len({tuple(row[k] for k in KEYS) for row in corpus.values()}) == len(corpus)
    relevant: dict[str, set[Triple]] = defaultdict(set)
    qrels = rows_of(folder, "qrels")
    for row in qrels:
        document = corpus[row["corpus-id"]]
        relevant[row["query-id"]].add(tuple(document[key] for key in KEYS))  # type: ignore[arg-type]
        assert row["score"] == 1
    assert len(qrels) == sum(map(len, relevant.values()))  # none twice
    queries = rows_of(folder, "queries")
    answers = {row["query-id"]: row for row in rows_of(folder, "qa")}
    assert set(relevant) == set(answers) == {row["id"] for row in queries}
    for row in queries:
        _check_query(row, by_form, relevant[row["id"]], answers[row["id"]], entities, relations)
    forms = [(row["head_id"], row["rel_id"], row["tail_id"]) for row in queries]
    assert len(set(forms)) == len(forms)
    _check_splits(folder, len(queries))
    return {"queries": len(queries), "qrels": len(qrels), "triplets": len(corpus)}


KEYS = ("head_id", "rel_id", "tail_id")


def _check_query(
    row: dict[str, Any],
    by_form: Mapping[tuple[str, str | None, str | None], set[Triple]],
    relevant: set[Triple],
    qa: dict[str, Any],
    entities: Mapping[str, str],
    relations: Mapping[str, str],
) -> None:
    head, relation, tail = (row[key] for key in KEYS)
    assert (relation is None) != (tail is None)
    assert row["masked"] == (1 if relation is None else 0)
    assert relevant == by_form[head, relation, tail], row
    gold = {relations[r] if relation is None else entities[t] for _, r, t in relevant}
    assert set(qa["answers"]) == gold
    assert qa["question"] == row["text"]
    assert row["writer"]
    for answer in gold:
        assert answer
        assert not says(row["text"].replace("[Image]", " "), answer), (row["text"], answer)
    if row["is_multimodal"]:
        assert "[Image]" in row["text"]
        assert not says(row["text"].replace("[Image]", " "), entities[head])


def _check_splits(folder: Path, total: int) -> None:
    """8:1:1; under the group rule whole groups, so that sizes differ by less than the largest."""
    for prefix in ("", "group-"):
        sizes: list[int] = []
        sides: dict[tuple[str, str | None, int], set[str]] = defaultdict(set)
        groups: Counter[tuple[str, str | None, int]] = Counter()
        for split in ("train", "validation", "test"):
            rows = rows_of(folder, f"{prefix}queries", split)
            sizes.append(len(rows))
            for row in rows:
                group = (row["head_id"], row["rel_id"], row["masked"])
                sides[group].add(split)
                groups[group] += 1
        assert sum(sizes) == total
        slack = 1 if not prefix else max(groups.values())
        for size, share in zip(sizes, (0.8, 0.1, 0.1), strict=True):
            assert abs(size - share * total) <= slack
        if prefix:
            assert all(len(where) == 1 for where in sides.values())
