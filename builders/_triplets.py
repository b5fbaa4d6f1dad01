"""The configs of a knowledge graph: triplets, entities (some with a picture), relations.

Column names are those of MKG-RAG-Bench, which is made from these graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from datasets import Features, Image, Value

from maghub import layout
from maghub.builders._graph import NodeReader
from maghub.builders._source import Table, in_memory
from maghub.errors import MaghubError

TRIPLETS, ENTITIES, RELATIONS = "triplets", "entities", "relations"
STRING = Value("string")
PICTURES_AT_ONCE = 128

Triplet = tuple[str, str, str]


@dataclass(frozen=True)
class Names:
    """Id -> name, in upstream's order, and how a description is found."""

    names: Mapping[str, str]
    descriptions: Mapping[str, str]

    def columns(self, key: str) -> dict[str, object]:
        """The columns of a table with one row per id."""
        ids = list(self.names)
        return {
            key: ids,
            "name": [self.names[one] for one in ids],
            "description": [self.descriptions.get(one, "") for one in ids],
        }


def distinct(found: Sequence[Triplet], where: object) -> tuple[list[Triplet], dict[str, int]]:
    """Each triplet once, in order of first appearance, and counts for the notes."""
    if not found:
        raise MaghubError("holds no triplet", where=where, fix="get it again")
    kept = list(dict.fromkeys(found))
    loops = sum(head == tail for head, _, tail in kept)
    return kept, {"upstream": len(found), "repeated": len(found) - len(kept), "self loops": loops}


def unused(known: Sequence[str], used: Sequence[str]) -> int:
    """How many ids are in no triplet."""
    return len(set(known) - set(used))


def triplet_table(
    triplets: Sequence[Triplet], entities: Mapping[str, str], relations: Mapping[str, str]
) -> Table:
    """Ids and names; ``text`` is head, relation and tail in words."""
    heads, rels, tails = zip(*triplets, strict=True)
    texts = [
        [entities[head] for head in heads],
        [relations[rel] for rel in rels],
        [entities[tail] for tail in tails],
    ]
    columns: dict[str, object] = {
        "triplet_id": np.arange(len(triplets)),
        "head_id": list(heads),
        "rel_id": list(rels),
        "tail_id": list(tails),
        "head_text": texts[0],
        "rel_text": texts[1],
        "tail_text": texts[2],
        layout.TEXT: [" ".join(parts) for parts in zip(*texts, strict=True)],
    }
    features = Features(dict.fromkeys(columns, STRING) | {"triplet_id": Value("int64")})
    return in_memory(TRIPLETS, "table", features, columns)


def entity_table(
    columns: Mapping[str, object],
    types: Mapping[str, object],
    picture: Callable[[int], bytes | None] | None,
) -> Table:
    """One row per entity; with a column ``image`` where pictures are given."""
    rows = pa.table(dict(columns))
    images = {layout.IMAGE: Image()} if picture is not None else {}
    return Table(
        config=ENTITIES,
        kind="table",
        features=Features({**types, **images}),
        num_rows=rows.num_rows,
        read=NodeReader(rows, picture),
        part_size=PICTURES_AT_ONCE if picture is not None else max(1, rows.num_rows),
        parallel=picture is not None,
    )
