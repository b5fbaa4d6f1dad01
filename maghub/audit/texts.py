"""Texts that stand in two splits: equal after normalising, or nearly so.

Near duplicates share at least ``ALIKE`` of their five-character pieces (Jaccard). Candidates come
from MinHash signatures of 64 numbers in 16 bands of 4, which finds a pair at 0.8 with probability
0.9998 and one at 0.9 with 1 - 1e-7; every candidate is then measured exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from maghub.audit.report import Check, skipped
from maghub.audit.subject import UNASSIGNED, Bools, Ints, Keys, Rows, Subject
from maghub.audit.twins import Twins, check_of, equal_twins, keep_best
from maghub.seeding import child_rng

EXACT, NEAR = "equal texts across splits", "near-equal texts across splits"
WIDTH, ALIKE, MAX_CHARS = 5, 0.8, 5_000
EXACT_FAIL, NEAR_FAIL = 0.05, 0.2
_BANDS, _ROWS, _REACH, _BLOCK, _PAIRS = 16, 4, 16, 2_000, 100_000
_BASE = np.uint64(0x9E3779B97F4A7C15)


def shingles(texts: Sequence[str], width: int) -> tuple[Keys, Ints]:
    """Hashes of all pieces of ``width`` characters, text after text, and how many each has."""
    cut = [text[:MAX_CHARS] for text in texts]
    lengths = np.fromiter(map(len, cut), np.int64, len(cut))
    counts = np.maximum(lengths - width + 1, 0)
    data = "".join(cut).encode("utf-32-le", "surrogatepass")
    chars = np.frombuffer(data, np.uint32).astype(np.uint64)
    first = np.repeat(np.cumsum(lengths) - lengths - (np.cumsum(counts) - counts), counts)
    places = first + np.arange(counts.sum())
    hashes = np.zeros(len(places), np.uint64)
    for offset in range(width):
        hashes = hashes * _BASE + chars[places + offset]
    hashes ^= hashes >> np.uint64(29)
    return hashes * np.uint64(0xBF58476D1CE4E5B9), counts


def signatures(texts: Sequence[str], seed: int) -> NDArray[np.uint32]:
    """MinHash of each text, uint32 [n, 64]; texts shorter than a piece have none (all ones)."""
    rng = child_rng(seed, "audit", "minhash")
    size = _BANDS * _ROWS
    factors = rng.integers(1, 2**63, size, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    terms = rng.integers(0, 2**63, size, dtype=np.uint64)
    found = np.full((len(texts), size), np.iinfo(np.uint32).max, np.uint32)
    for start in range(0, len(texts), _BLOCK):
        hashes, counts = shingles(texts[start : start + _BLOCK], WIDTH)
        rows = np.flatnonzero(counts)
        if not len(rows):
            continue
        begins = (np.cumsum(counts) - counts)[rows]
        hashes = hashes ^ (hashes >> np.uint64(32))
        for k in range(size):
            mixed = ((hashes * factors[k] + terms[k]) >> np.uint64(32)).astype(np.uint32)
            found[start + rows, k] = np.minimum.reduceat(mixed, begins)
    return found


def candidates(found: NDArray[np.uint32], codes: NDArray[np.int8]) -> Ints:
    """Pairs [M, 2] in different splits that agree in a band of their signatures, and nearly enough
    in the whole of them: of texts made from one template, most agree in some band."""
    n = np.int64(len(found))
    unique = np.zeros(0, np.int64)
    for band in range(_BANDS):
        words = found[:, band * _ROWS : (band + 1) * _ROWS].astype(np.uint64)
        keys = words[:, 0]
        for other in range(1, _ROWS):
            keys = keys * _BASE + words[:, other]
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        pairs = [unique]
        for reach in range(1, min(_REACH, len(order) - 1) + 1):
            same = ordered[reach:] == ordered[:-reach]
            if not same.any():
                break
            left, right = order[:-reach][same], order[reach:][same]
            cross = codes[left] != codes[right]
            left, right = left[cross], right[cross]
            likely = _likely(found, left, right)
            pairs.append(left[likely] * n + right[likely])
        unique = np.unique(np.concatenate(pairs))
    return np.stack([unique // n, unique % n], axis=1) if n else np.zeros((0, 2), np.int64)


def _likely(found: NDArray[np.uint32], left: Ints, right: Ints) -> Bools:
    """Which pairs agree in so much of their signatures that they may be alike; block by block."""
    likely = np.empty(len(left), np.bool_)
    for start in range(0, len(left), _PAIRS):
        part = slice(start, start + _PAIRS)
        likely[part] = (found[left[part]] == found[right[part]]).mean(axis=1) >= ALIKE - 0.25
    return likely


def jaccard(subject: Rows, pairs: Ints) -> NDArray[np.float64]:
    """Exact share of common pieces of the texts of node pairs."""

    @lru_cache(4_096)
    def pieces(node: int) -> NDArray[np.uint64]:
        return np.unique(shingles([subject.texts[node]], WIDTH)[0])

    scores = np.empty(len(pairs))
    for i, (a, b) in enumerate(pairs.tolist()):
        one, other = pieces(a), pieces(b)
        common = len(np.intersect1d(one, other, assume_unique=True))
        scores[i] = common / (len(one) + len(other) - common)
    return scores


def _near_twins(subject: Rows) -> Twins:
    rows = np.flatnonzero(subject.has_text & (subject.codes != UNASSIGNED))
    rows = rows[[len(subject.texts[row]) >= WIDTH for row in rows]]
    # One of each text per split: equal texts are the other check's.
    both = np.stack([subject.text_keys[rows], subject.codes[rows].astype(np.uint64)], axis=1)
    _, first, member = np.unique(both, axis=0, return_index=True, return_inverse=True)
    kept = rows[first]
    found = signatures([subject.texts[row] for row in kept], subject.seed)
    local = candidates(found, subject.codes[kept])
    different = subject.text_keys[kept[local[:, 0]]] != subject.text_keys[kept[local[:, 1]]]
    pairs = kept[local[different]]
    scores = jaccard(subject, pairs)
    pairs, scores = pairs[scores >= ALIKE], scores[scores >= ALIKE]
    twins: Twins = {}
    keep_best(twins, pairs[:, 0], pairs[:, 1], scores, subject)
    for row, representative in zip(rows.tolist(), kept[member.ravel()].tolist(), strict=True):
        if representative in twins:
            twins[row] = twins[representative]
    return twins


def check_texts(subject: Subject) -> list[Check]:
    """The two checks of texts of nodes."""
    if subject.split_rule is None or not subject.has_text.any():
        why = "nodes are not split" if subject.split_rule is None else "no node has a text"
        return [skipped(EXACT, why), skipped(NEAR, why)]
    return compare_texts(subject)


def compare_texts(subject: Rows, suffix: str = "") -> list[Check]:
    """The two checks of texts of rows that are split; the suffix goes to their names."""

    def describe(node: int, twin: int, score: float) -> str:
        sides = f"{subject.side(node)} and {subject.side(twin)}"
        if score == 1.0 and subject.text_keys[node] == subject.text_keys[twin]:
            return f"{sides}: {subject.quoted(node)}"
        return f"{sides}: {subject.quoted(node)} ~ {subject.quoted(twin)}, {score:.2f} alike"

    what = "held-out texts {} stand in another split"
    equal = equal_twins(subject, subject.text_keys, subject.has_text)
    near, present = _near_twins(subject), subject.has_text
    return [
        check_of(
            subject, EXACT + suffix, equal, present, what.format("also"), EXACT_FAIL, describe
        ),
        check_of(subject, NEAR + suffix, near, present, what.format("nearly"), NEAR_FAIL, describe),
    ]
