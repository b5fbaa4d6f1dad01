"""Opens a setting of a benchmark, S1 to S5: what retrievers see, and what they must find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maghub import layout
from maghub.baselines.rag._data import (
    Corpus,
    EntityPictures,
    Ints,
    Opened,
    Questions,
    Vectors,
    VectorSource,
)
from maghub.errors import MaghubError
from maghub.mag import MAG
from maghub.mkg.benchmark import KGRag
from maghub.mkg.records import rows_of

SETTINGS: Mapping[str, tuple[bool | None, bool | None]] = {
    "S1": (None, None),
    "S2": (False, False),
    "S3": (False, None),
    "S4": (True, True),
    "S5": (True, None),
}
"""Setting -> which questions and which triplets (paper, 4.1): multimodal, text-only or all."""
_KINDS = {True: "multimodal", False: "text-only", None: "any"}


def benchmark(mag: MAG, where: object) -> KGRag:
    """The dataset, if it is a retrieval benchmark.

    Raises:
        MaghubError: It is a graph.
    """
    if not isinstance(mag, KGRag):
        raise MaghubError(
            f"{mag.spec.name} is no retrieval benchmark: it has no queries and no corpus",
            where=where,
            fix="make one of a knowledge graph with: maghub mkg build --kg KG --out FOLDER",
        )
    return mag


def open_setting(
    rag: KGRag,
    setting: str = "S1",
    split: str = layout.TEST,
    rule: str = layout.RELEASED_RULE,
    encoders: Mapping[str, str] | None = None,
    limit: int | None = None,
) -> Opened:
    """Questions, triplets and judgements of a setting.

    Args:
        rag: The benchmark.
        setting: ``S1`` to ``S5``, see ``SETTINGS``.
        split: ``train``, ``validation`` or ``test``.
        rule: ``released`` or ``group_split``.
        encoders: modality -> encoder whose vectors are read.
        limit: Take the first so many questions only.

    Raises:
        MaghubError: Unknown setting, split or rule, or nothing of the kind in this folder.
    """
    if setting not in SETTINGS:
        raise MaghubError(f"there is no setting '{setting}'", fix=f"known: {', '.join(SETTINGS)}")
    asked, found = SETTINGS[setting]
    query_rows = _questions(rag, setting, split, rule, asked)[:limit]
    corpus_rows = rag.corpus_rows(found)
    if not len(corpus_rows):
        raise _none(rag, setting, "triplets", _KINDS[found])
    query, triplet = rag.relevant(split, rule)
    at_query, at_triplet = _places(query, query_rows), _places(triplet, corpus_rows)
    own = at_query >= 0
    reached = own & (at_triplet >= 0)
    read = dict(encoders or {})
    return Opened(
        _seen_questions(rag, query_rows, read),
        _seen_corpus(rag, corpus_rows, read),
        at_query[reached],
        at_triplet[reached],
        query_rows,
        at_query[own & (at_triplet < 0)],
    )


def _questions(rag: KGRag, setting: str, split: str, rule: str, asked: bool | None) -> Ints:
    """Rows of ``queries`` that a setting asks."""
    table = rag.queries(split, rule)
    rows = rag.query_rows(split, rule)
    if asked is not None:
        rows = rows[np.asarray(pc.equal(table[layout.IS_MULTIMODAL], asked))]
    if not len(rows):
        raise _none(rag, setting, f"{split} queries", _KINDS[asked])
    return rows


def _none(rag: KGRag, setting: str, what: str, kind: str) -> MaghubError:
    return MaghubError(
        f"setting {setting} needs {kind} {what}, of which {rag.spec.name} has none",
        where=rag.folder,
        fix="choose S2 (text only) or S1 (all)" if kind == "multimodal" else "choose S1 (all)",
    )


def _places(values: Ints, rows: Ints) -> Ints:
    """int64: where each value stands in ``rows``; -1 where it does not."""
    order = np.argsort(rows, kind="stable")
    at = np.searchsorted(rows[order], values)
    at[at == len(rows)] = 0
    found = order[at]
    return np.where(rows[found] == values, found, -1)


def _seen_questions(rag: KGRag, rows: Ints, encoders: Mapping[str, str]) -> Questions:
    table = rag.queries().select([layout.ID, layout.TEXT]).take(pa.array(rows))

    def pictures() -> Iterator[bytes | None]:
        return _picked(rag, layout.QUERIES, rows)

    return Questions(
        table[layout.ID].to_pylist(),
        table[layout.TEXT].to_pylist(),
        _source(rag, layout.QUERIES, rows, encoders),
        pictures,
    )


def _seen_corpus(rag: KGRag, rows: Ints, encoders: Mapping[str, str]) -> Corpus:
    table = rag.corpus.take(pa.array(rows))
    ends = [table[layout.HEAD_ID].combine_chunks(), table[layout.TAIL_ID].combine_chunks()]
    names = [table[layout.HEAD_TEXT].combine_chunks(), table[layout.TAIL_TEXT].combine_chunks()]
    codes, entities, ids = _coded(pa.concat_arrays(ends), pa.concat_arrays(names))
    relation, relations, _ = _coded(
        table[layout.REL_ID].combine_chunks(), table[layout.REL_TEXT].combine_chunks()
    )
    head, tail = codes[: len(rows)], codes[len(rows) :]
    vectors = _source(rag, layout.CORPUS, rows, encoders)

    def shown() -> EntityPictures:
        return _entity_pictures(rag, vectors, encoders, head, ids)

    def pictures() -> Iterator[bytes | None]:
        return _picked(rag, layout.CORPUS, rows)

    keys = table[layout.ID].to_pylist()
    return Corpus(
        keys, head, relation, tail, entities, relations, vectors, shown, pictures, encoders
    )


def _coded(ids: pa.Array, names: pa.Array) -> tuple[Ints, list[str], pa.Array]:
    """Codes of ids, the name and the id of each code."""
    coded = ids.dictionary_encode()
    codes = np.asarray(coded.indices).astype(np.int64)
    _, first = np.unique(codes, return_index=True)
    return codes, names.take(pa.array(first)).to_pylist(), coded.dictionary


def _source(rag: KGRag, target: str, rows: Ints, encoders: Mapping[str, str]) -> VectorSource:
    """Published vectors of some rows of a target, read once each."""
    known: dict[str, Vectors] = {}

    def vectors(modality: str) -> Vectors:
        if modality not in known:
            encoder = _encoder(rag, modality, encoders)
            whole = Vectors(
                rag.features(encoder, target, modality), rag.has(encoder, target, modality)
            )
            every = np.array_equal(rows, np.arange(len(whole.has)))
            known[modality] = whole if every else whole.take(rows)
        return known[modality]

    return vectors


def _encoder(rag: KGRag, modality: str, encoders: Mapping[str, str]) -> str:
    if modality in encoders:
        return encoders[modality]
    example = "all-minilm-l6-v2" if modality == layout.TEXT else "clip-vit-base-patch32"
    raise MaghubError(
        f"the {modality} vectors that this retriever needs are not in this folder",
        where=rag.folder,
        fix=f"make them with: maghub encode {rag.folder} --encoder {example}",
    )


def _entity_pictures(
    rag: KGRag, vectors: VectorSource, encoders: Mapping[str, str], head: Ints, ids: pa.Array
) -> EntityPictures:
    """Pictures of the entities of these triplets."""
    encoder = _encoder(rag, layout.IMAGE, encoders)
    config = layout.set_embeddings_config(encoder, layout.ENTITIES)
    if not rag.spec.has(config):
        own = vectors(layout.IMAGE)
        _, first = np.unique(np.where(own.has, head, -1), return_index=True)
        first = first[own.has[first]]
        return EntityPictures(own.take(first), head[first])
    shown = rag.entities[layout.ID].take(pa.array(rag.picture_rows(encoder)))
    entity = rows_of(shown, pa.chunked_array([ids]))
    has = rag.has(encoder, layout.ENTITIES, layout.IMAGE) & (entity >= 0)
    kept = np.flatnonzero(has)
    features = rag.features(encoder, layout.ENTITIES, layout.IMAGE)
    return EntityPictures(Vectors(features[kept], has[kept]), entity[kept])


def _picked(rag: KGRag, config: str, rows: Ints) -> Iterator[bytes | None]:
    """Pictures of some rows in their order; the file is read once, from the first to the last."""
    if not any(name in rag.config(config).features for name in (layout.IMAGE, layout.IMAGES)):
        yield from (None for _ in rows)
        return
    if not len(rows):
        return
    if (np.diff(rows) > 0).all():
        yield from (picture for _, picture in _among(rag, config, rows))
        return
    held = dict(_among(rag, config, np.unique(rows)))  # the group-safe split has another order
    yield from (held[row] for row in rows.tolist())


def _among(rag: KGRag, config: str, rows: Ints) -> Iterator[tuple[int, bytes | None]]:
    """(row, picture) of ascending rows."""
    first, last = int(rows[0]), int(rows[-1]) + 1
    wanted = set(rows.tolist())
    for row, found in enumerate(rag.pictures(config, first, last), first):
        if row in wanted:
            yield row, found if isinstance(found, bytes) else None
