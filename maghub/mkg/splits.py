"""How queries are split: the released rule, a rule that leaks no masked form, and what leaks.

Released rule (../shared/specs/mkg_rag_bench.md): the two query sets are merged (text qids offset by
max multimodal qid + 1), sorted by sha1("markg_v1::{qid}") in hex, and cut 8:1:1. Neighbouring qids
are paraphrases of one masked triplet, so that forms stand on both sides. ``group_split`` cuts whole
groups in the same style.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from maghub import layout
from maghub.errors import MaghubError
from maghub.mkg.records import Ints, Records

SPLITS = (layout.TRAIN, layout.VALIDATION, layout.TEST)
RELEASED_HASH, GROUP_HASH = "markg_v1", "group_v1"
Codes = NDArray[np.int8]
_CUTS = (8, 9)
_OF = 10


def _hash(prefix: str, key: object) -> str:
    return hashlib.sha1(f"{prefix}::{key}".encode(), usedforsecurity=False).hexdigest()


def merged_qids(ids: pa.ChunkedArray | Sequence[str]) -> Ints:
    """int64 [Q]: one number space for both query sets, text qids after the multimodal ones.

    Args:
        ids: Published ids, ``text-12`` or ``mm-7``.

    Raises:
        MaghubError: An id is of neither form.
    """
    column = ids if isinstance(ids, pa.ChunkedArray) else pa.chunked_array([list(ids)], pa.string())
    parts = pc.extract_regex(
        column, rf"^(?P<kind>{layout.TEXT_ID}|{layout.MM_ID})(?P<n>\d{{1,18}})$"
    )
    odd = np.flatnonzero(np.asarray(parts.is_null()))
    if len(odd):
        what = f"query id '{column[int(odd[0])]}' is neither {layout.TEXT_ID}N nor {layout.MM_ID}N"
        raise MaghubError(what, where=f"{layout.QUERIES}, row {odd[0]}")
    numbers = np.asarray(pc.struct_field(parts, "n").cast(pa.int64()), dtype=np.int64)
    text = np.asarray(pc.equal(pc.struct_field(parts, "kind"), layout.TEXT_ID))
    multimodal = numbers[~text]
    return np.where(text, numbers + (multimodal.max() + 1 if len(multimodal) else 0), numbers)


def _cut(order: Ints, sizes: Ints) -> Codes:
    """Split codes of units in hash order: a unit is of the split in which its first query falls."""
    starts = np.cumsum(sizes[order]) - sizes[order]
    bounds = [int(sizes.sum()) * cut // _OF for cut in _CUTS]
    codes = np.zeros(len(order), np.int8)
    codes[order] = np.searchsorted(bounds, starts, side="right")
    return codes


def released_split(ids: pa.ChunkedArray | Sequence[str]) -> Codes:
    """int8 [Q], index into ``SPLITS``: the released rule.

    Example:
        >>> [SPLITS[code] for code in released_split(["mm-0", "mm-1", "text-0"])]
        ['test', 'train', 'train']
    """
    hashes = [_hash(RELEASED_HASH, qid) for qid in merged_qids(ids)]
    order = np.asarray(sorted(range(len(hashes)), key=hashes.__getitem__), dtype=np.int64)
    return _cut(order, np.ones(len(hashes), np.int64))


def _codes(columns: Sequence[pa.ChunkedArray]) -> tuple[Ints, list[str]]:
    """A number per distinct row of some columns, in order of appearance, and its key in words."""
    texts = [pc.fill_null(column.cast(pa.string()), "") for column in columns]
    keys = pc.binary_join_element_wise(*texts, "\t").combine_chunks()
    encoded = keys.dictionary_encode()
    return np.asarray(encoded.indices, dtype=np.int64), encoded.dictionary.to_pylist()


def _known_relation(queries: pa.Table) -> pa.ChunkedArray:
    """Relation ids, none where the relation is what is asked for."""
    masked = pc.equal(queries[layout.MASKED], layout.MASKS.index(layout.MASK_RELATION))
    return pc.if_else(masked, pa.scalar(None, pa.string()), queries[layout.REL_ID])


def _known_tail(queries: pa.Table) -> pa.ChunkedArray:
    masked = pc.equal(queries[layout.MASKED], layout.MASKS.index(layout.MASK_TAIL))
    return pc.if_else(masked, pa.scalar(None, pa.string()), queries[layout.TAIL_ID])


def form_codes(queries: pa.Table) -> Ints:
    """int64 [Q]: queries of one masked form, (h, r, ?) or (h, ?, t), have one number."""
    columns = (queries[layout.HEAD_ID], _known_relation(queries), _known_tail(queries))
    return _codes([*columns, queries[layout.MASKED]])[0]


def group_codes(queries: pa.Table) -> tuple[Ints, list[str]]:
    """int64 [Q] number of each query's (head, relation, masked part), and these in words.

    Where the relation is masked it is unknown: all relation questions on a head are one group,
    whichever tail they name. A masked form lies within one group.
    """
    return _codes([queries[layout.HEAD_ID], _known_relation(queries), queries[layout.MASKED]])


def group_split(queries: pa.Table) -> Codes:
    """int8 [Q], index into ``SPLITS``: whole groups, sorted by sha1("group_v1::{group}"), 8:1:1.

    A group belongs to the split in which its first query falls, so sizes differ from 8:1:1 by less
    than the largest group.
    """
    codes, keys = group_codes(queries)
    hashes = [_hash(GROUP_HASH, key) for key in keys]
    order = np.asarray(sorted(range(len(keys)), key=hashes.__getitem__), dtype=np.int64)
    return _cut(order, np.bincount(codes, minlength=len(keys)))[codes]


def leaks(records: Records, split: Codes) -> dict[str, dict[str, int]]:
    """What validation and test queries share with training queries under a split.

    Returns:
        Split -> counts of its queries: all of them, those whose masked form or whose group (head,
        relation, masked part) is also asked in train, and those with a relevant triplet that a
        training query has too.
    """
    train = split == SPLITS.index(layout.TRAIN)
    shared = {
        "masked form in train": _seen(form_codes(records.queries), train),
        "group in train": _seen(group_codes(records.queries)[0], train),
        "relevant triplet in train": _sharing(records, train),
    }
    found = {}
    for name in (layout.VALIDATION, layout.TEST):
        own = split == SPLITS.index(name)
        counts = {"queries": int(own.sum())}
        found[name] = counts | {what: int((mask & own).sum()) for what, mask in shared.items()}
    return found


def leak_sentence(counted: dict[str, dict[str, dict[str, int]]]) -> str:
    """What ``leaks`` counted of the test queries under each rule, in words for a card."""
    parts = []
    for rule, counts in counted.items():
        test = counts[layout.TEST]
        parts.append(
            f"under `{rule}` {test['masked form in train']:,} of {test['queries']:,} test "
            "questions ask for a masked form that a training question asks for too, and "
            f"{test['relevant triplet in train']:,} have a relevant triplet in common with one"
        )
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _seen(codes: Ints, train: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows have a code that a training row has."""
    known = np.zeros(codes.max(initial=-1) + 1, bool)
    known[codes[train]] = True
    return known[codes]


def _sharing(records: Records, train: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which queries have a relevant triplet, by its ids, in common with a training query."""
    query, triplet = records.qrel_rows()
    known = (query >= 0) & (triplet >= 0)
    query, triplet = query[known], triplet[known]
    names = (layout.HEAD_ID, layout.REL_ID, layout.TAIL_ID)
    same = _codes([records.triplets[name] for name in names])[0]  # in words and with a picture
    found = np.zeros(len(train), bool)
    found[query[_seen(same[triplet], train[query])]] = True
    return found
