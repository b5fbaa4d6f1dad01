"""Retrieval benchmarks made from a multimodal knowledge graph (MKG-RAG-Bench and its like).

The builder of the released files and the construction pipeline both end in ``Records``; one place
turns these into a published folder::

    from maghub.mkg import Entity, Qrel, Query, Records, Relation, Triplet, write_benchmark

    records = Records.of(triplets=..., queries=..., qrels=..., entities=..., relations=...)
    write_benchmark(records, card, out, builder=BuilderInfo(...), pictures=read, notes=...)

- Ids of triplets and queries are ``text-N`` and ``mm-N`` (``record_id``), both starting at 0; the
  beginning says which retrieval setting a record belongs to. A multimodal query calls its head
  ``[Image]``.
- ``Query.masked`` is ``tail`` or ``relation``; that one of ``rel_id`` and ``tail_id`` is None.
- ``image_path`` of a triplet (the picture of its head) and of a query, and ``image_paths`` of an
  entity, are keys; ``pictures(key)`` gives the bytes or None and is picklable. Augmented question
  pictures have keys of their own.
- Gold answers (``qa``) are derived through the qrels, never given.
- Splits: ``released_split`` and ``group_split`` of ``maghub.mkg.splits``, index into its
  ``SPLITS``; ``leaks`` says what test queries share with training queries, ``leak_sentence`` says
  so in words for a card.
- ``maghub.mkg.defects.sound`` names what is wrong with records; ``Records.places`` says where a row
  came from, so that messages can name file and line.
- ``notes`` of the form ``{config: {row: {column: number}}}`` become tables in the README.
- ``maghub.mkg.benchmark.KGRag`` is what ``maghub.load`` gives for such a folder.
"""

from maghub.mkg.records import (
    QA,
    Entity,
    Mask,
    Picture,
    Qrel,
    Query,
    Records,
    Relation,
    Triplet,
    record_id,
    record_table,
    records_of,
)
from maghub.mkg.tables import Benchmark, write_benchmark

__all__ = [
    "QA",
    "Benchmark",
    "Entity",
    "Mask",
    "Picture",
    "Qrel",
    "Query",
    "Records",
    "Relation",
    "Triplet",
    "record_id",
    "record_table",
    "records_of",
    "write_benchmark",
]
