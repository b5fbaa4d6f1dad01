"""A small retrieval benchmark in records, with pictures, for the tests of maghub.mkg."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from maghub import registry
from maghub.cards import Card
from maghub.mkg import Entity, Qrel, Query, Records, Relation, Triplet
from maghub.mkg.tables import Benchmark
from maghub.spec import BuilderInfo, FolderSpec
from maghub.tables import Table
from maghub.writing import write_folder
from tests.helpers.graphs import png

BUILDER = BuilderInfo(name="test", version="1.0.0", seed=0)
HEADS = 12


def picture(path: str) -> bytes | None:
    """A picture that differs for every path; one of them is gone, one broken."""
    if "gone" in path:
        return None
    return b"no picture" if "broken" in path else png(zlib.crc32(path.encode()) % 200)


def parts() -> dict[str, list]:
    """36 text triplets (1:3 forms) and 12 multimodal ones; a question on the tail and one on the
    relation of each head, two paraphrases each; the pictures of an entity."""
    triplets = [
        Triplet(
            f"text-{3 * h + k}", f"Q{h}", "P1", f"Q{h + k + 1}", f"n{h}", "near", f"n{h + k + 1}"
        )
        for h in range(HEADS)
        for k in range(3)
    ]
    triplets += [
        Triplet(f"mm-{h}", f"Q{h}", "P2", f"Q{h + 2}", f"n{h}", "has part", f"n{h + 2}", f"Q{h}/0")
        for h in range(HEADS)
    ]
    queries, qrels = [], []
    for h in range(HEADS):
        for kind in ("text", "mm"):
            image = f"asked/{h}" if kind == "mm" else None
            for number, masked in ((4 * h, "tail"), (4 * h + 2, "relation")):
                for paraphrase in (0, 1):
                    key = f"{kind}-{number + paraphrase}"
                    rel, tail = ("P1", f"Q{h + 1}") if kind == "text" else ("P2", f"Q{h + 2}")
                    known = {"rel_id": rel, "tail_id": None}
                    if masked == "relation":
                        known = {"rel_id": None, "tail_id": tail}
                    text = (
                        f"[Image] {masked} {paraphrase}?"
                        if image
                        else f"n{h}: {masked} {paraphrase}?"
                    )
                    queries.append(
                        Query(key, text, masked, f"Q{h}", **known, image_path=image, writer="rule")
                    )
                    wanted = [f"mm-{h}"] if image else [f"text-{3 * h}"]
                    if masked == "tail" and not image:
                        wanted = [f"text-{3 * h + k}" for k in range(3)]
                    qrels += [Qrel(key, one) for one in wanted]
    entities = [
        Entity(f"Q{h}", f"n{h}", f"about {h}", tuple(f"Q{h}/{k}" for k in range(h % 4)))
        for h in range(HEADS + 4)
    ]
    entities[5] = replace(entities[5], image_paths=("Q5/0", "Q5/broken", "Q5/gone"))
    relations = [Relation("P1", "near"), Relation("P2", "has part", "of a whole")]
    return {
        "triplets": triplets, "queries": queries, "qrels": qrels, "entities": entities,
        "relations": relations,
    }  # fmt: skip


def small_records(**changed: Sequence[object]) -> Records:
    """The records; whole kinds can be given instead."""
    return Records.of(**{**parts(), **changed})  # type: ignore[arg-type]


def own_card(name: str = "mkg-rag-bench-g") -> Card:
    """A card that declares both split rules."""
    return registry.card(name)


def write_tables_of(
    benchmark: Benchmark, out: Path, tables: Sequence[Table] | None = None
) -> FolderSpec:
    """Write a benchmark as it is, wrong or not."""
    chosen = benchmark.tables() if tables is None else tables
    return write_folder(out, chosen, benchmark.facts(), BUILDER, own_card())
