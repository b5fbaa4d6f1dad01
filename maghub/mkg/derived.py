"""What follows from records: gold answers through the qrels, and counts of each kind."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from maghub import layout
from maghub.mkg.records import Records


def answers_of(records: Records) -> tuple[list[list[str]], list[list[str]]]:
    """Gold answers of each query through its qrels: the masked sides of its relevant triplets.

    Returns:
        Texts and ids, [Q] lists; each id once, in the order of the qrels. Qrels with an unknown id
        give none.
    """
    query, triplet = records.qrel_rows()
    known = (query >= 0) & (triplet >= 0)
    query, triplet = query[known], triplet[known]
    at = pa.array(triplet)
    masked = np.asarray(records.queries[layout.MASKED])[query]
    relation = pa.array(masked == layout.MASKS.index(layout.MASK_RELATION))
    sides = [
        pc.if_else(relation, records.triplets[rel].take(at), records.triplets[tail].take(at))
        for rel, tail in (
            (layout.REL_TEXT, layout.TAIL_TEXT),
            (layout.REL_ID, layout.TAIL_ID),
        )
    ]
    texts: list[dict[str, str]] = [{} for _ in range(records.queries.num_rows)]
    for row, text, key in zip(query.tolist(), *(side.to_pylist() for side in sides), strict=True):
        texts[row].setdefault(key, text)
    return [list(one.values()) for one in texts], [list(one) for one in texts]


def qa_table(records: Records) -> pa.Table:
    """Question, gold answers, masked part and query id, a row per query."""
    answers, ids = answers_of(records)
    queries = records.queries
    columns = {
        layout.QUERY_ID: queries[layout.ID],
        layout.QUESTION: queries[layout.TEXT],
        layout.ANSWERS: pa.array(answers, pa.list_(pa.string())),
        layout.ANSWER_IDS: pa.array(ids, pa.list_(pa.string())),
        layout.MASKED: queries[layout.MASKED],
    }
    return pa.table(columns)


def record_counts(records: Records) -> dict[str, dict[str, dict[str, int]]]:
    """How many records of each kind there are, as the README shows it; who wrote the questions."""
    query, _ = records.qrel_rows()
    queries = records.queries
    shown = np.asarray(queries[layout.IS_MULTIMODAL])
    writers = queries[layout.WRITER].combine_chunks().dictionary_encode()
    masks = np.asarray(queries[layout.MASKED])
    by_mask = {f"{mask} masked": masks == i for i, mask in enumerate(layout.MASKS)}

    def of(multimodal: NDArray[np.bool_]) -> dict[str, int]:
        return {"text": int((~multimodal).sum()), "multimodal": int(multimodal.sum())}

    wrote = np.asarray(writers.indices)
    names = enumerate(writers.dictionary.to_pylist())
    return {
        layout.TRIPLETS: {"triplets": of(np.asarray(records.triplets[layout.IS_MULTIMODAL]))},
        layout.QUERIES: {name: of(shown[mask]) for name, mask in by_mask.items()},
        layout.QRELS: {"relevant triplets": of(shown[query])},
        "questions": {f"by {name or 'nobody named'}": of(shown[wrote == i]) for i, name in names},
    }
