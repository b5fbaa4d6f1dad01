"""Statistics of a graph as it stands in a folder: what cards and ``maghub info`` report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import ClassLabel, Image, LargeList, List, Value
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from maghub import layout
from maghub.reader import iter_groups, read_columns
from maghub.schema import features_from_dict
from maghub.spec import TABLE_KINDS, ConfigSpec, Statistics, TextLengths

PERCENTILES = (0, 50, 95, 100)
_WORD, _PROSE = r"[^\s\p{Z}]+", 3


def pair_keys(
    src: NDArray[np.int64], dst: NDArray[np.int64], num_nodes: int, *, directed: bool
) -> NDArray[np.int64]:
    """One int64 per edge that is equal for equal node pairs (either order where undirected)."""
    if directed:
        return src * np.int64(num_nodes) + dst
    return np.minimum(src, dst) * np.int64(num_nodes) + np.maximum(src, dst)


def unique_pairs(edges: NDArray[np.int64], num_nodes: int) -> NDArray[np.int64]:
    """int64 [2, M]: the distinct columns of ``edges`` [2, E], by source and then by target.

    What ``np.unique(edges, axis=1)`` gives; sorting one key per column takes a tenth of the time.
    """
    keys = np.sort(pair_keys(edges[0], edges[1], num_nodes, directed=True))
    new = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return np.stack(np.divmod(keys[new], np.int64(max(num_nodes, 1))))


def edge_keys(
    columns: Sequence[NDArray[np.int64]], num_nodes: int, *, directed: bool
) -> NDArray[np.int64]:
    """One int64 per edge that is equal for equal keys (src, dst[, relation, ...])."""
    src, dst, *others = columns
    keys = pair_keys(src, dst, num_nodes, directed=directed)
    for other in others:
        _, keys = np.unique(keys, return_inverse=True)
        _, codes = np.unique(other, return_inverse=True)
        keys = keys * np.int64(codes.max(initial=0) + 1) + codes
    return keys


def percentiles(values: NDArray[np.int64]) -> dict[str, int]:
    """Percentiles 0, 50, 95 and 100, as actual values of the data."""
    if not len(values):
        return {}
    points = np.percentile(values, PERCENTILES, method="nearest")
    return {f"p{q}": int(point) for q, point in zip(PERCENTILES, points, strict=True)}


def degree_classes(degree: NDArray[np.int64]) -> dict[str, int]:
    """Nodes by degree, in classes that double in width: 0, 1, 2-3, 4-7 and so on."""
    bits = np.zeros(len(degree), np.int64)
    bits[degree > 0] = np.floor(np.log2(degree[degree > 0])).astype(np.int64) + 1
    names = ["0", "1", *(f"{1 << low}-{(2 << low) - 1}" for low in range(1, 62))]
    return {names[i]: int(count) for i, count in enumerate(np.bincount(bits))}


class _NodeColumns(NamedTuple):
    classes: dict[str, int]
    labels: NDArray[np.int64] | None  # by node id, -1 where there is none
    chars: NDArray[np.int64]
    words: NDArray[np.int64]
    images: int
    sides: NDArray[np.int64]


def _node_columns(folder: Path, nodes: ConfigSpec) -> _NodeColumns:
    features = features_from_dict(nodes.features)
    label = features.get(layout.LABEL)
    has_image = isinstance(features.get(layout.IMAGE), Image)
    columns = [layout.NODE_ID, layout.TEXT]
    columns += [layout.LABEL] if label is not None else []
    columns += [layout.IMAGE] if has_image else []
    labels = np.full(nodes.rows, -1, np.int64) if isinstance(label, ClassLabel) else None
    chars, words, sides, images = [], [], [], 0
    for _, _, table in iter_groups(folder, nodes, columns):
        chars.append(_chars(table[layout.TEXT]))
        words.append(_words(table[layout.TEXT]))
        if labels is not None:
            ids = np.asarray(table[layout.NODE_ID].combine_chunks())
            labels[ids] = np.asarray(pc.fill_null(table[layout.LABEL], -1))
        if has_image:
            blobs = pc.struct_field(table[layout.IMAGE], "bytes").drop_null()
            images += len(blobs)
            sides.append(_sides(blob.as_buffer() for blob in blobs))
    counts: dict[str, int] = {}
    if labels is not None and isinstance(label, ClassLabel):
        bins = np.bincount(labels[labels >= 0], minlength=label.num_classes)
        counts = {name: int(bins[i]) for i, name in enumerate(label.names)}
    side = np.concatenate(sides) if sides else np.zeros(0, np.int64)
    return _NodeColumns(counts, labels, np.concatenate(chars), np.concatenate(words), images, side)


def _chars(texts: pa.ChunkedArray) -> NDArray[np.int64]:
    """Characters of each text."""
    return np.asarray(pc.utf8_length(texts)).astype(np.int64)


def _words(texts: pa.ChunkedArray) -> NDArray[np.int64]:
    """Words of each text: what stands between blanks of any script."""
    return np.asarray(pc.count_substring_regex(texts, _WORD)).astype(np.int64)


def measure_texts(folder: Path, configs: Iterable[ConfigSpec]) -> dict[str, TextLengths]:
    """Lengths of the texts of tables that are no part of a graph, by ``config.column``.

    Columns of strings or of lists of strings, unless no cell has more than two words: those are
    names and ids.
    """
    found = {}
    for config in configs:
        features = features_from_dict(config.features) if config.kind in TABLE_KINDS else {}
        for column in [name for name, kind in features.items() if _holds_text(kind)]:
            lengths = [
                (_chars(texts), _words(texts))
                for _, _, table in iter_groups(folder, config, [column])
                for texts in [_flat(table[column])]
            ]
            chars, words = (np.concatenate(part) for part in zip(*lengths, strict=True))
            if words.max(initial=0) < _PROSE:
                continue
            there = chars > 0
            found[f"{config.name}.{column}"] = TextLengths(
                texts=int(there.sum()),
                chars=percentiles(chars[there]),
                words=percentiles(words[there]),
            )
    return found


def _holds_text(feature: object) -> bool:
    inner = feature.feature if isinstance(feature, List | LargeList) else feature
    return isinstance(inner, Value) and inner.dtype in ("string", "large_string")


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The strings of a column, those of its lists one after the other, without nulls."""
    nested = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    nested = nested or pa.types.is_fixed_size_list(column.type)
    flat = pc.list_flatten(column) if nested else column
    return flat.drop_null()


def _sides(blobs: Iterable[object]) -> NDArray[np.int64]:
    """Longer side in pixels of each image, from its header."""
    import io

    import PIL.Image

    sides = []
    for blob in blobs:
        with PIL.Image.open(io.BytesIO(blob)) as image:  # type: ignore[arg-type]
            sides.append(max(image.size))
    return np.asarray(sides, dtype=np.int64)


def measure(
    folder: Path,
    nodes: ConfigSpec,
    edges: ConfigSpec | None,
    *,
    directed: bool,
    key: tuple[str, ...],
) -> tuple[Statistics, int]:
    """Measure a graph; returns the statistics and the number of distinct node pairs."""
    own = _node_columns(folder, nodes)
    labels = own.labels
    n = nodes.rows
    src = dst = np.zeros(0, np.int64)
    duplicates = 0
    if edges is not None:
        columns = read_edge_key(folder, edges, key)
        src, dst = columns[:2]
        keys = edge_keys(columns, n, directed=directed)
        duplicates = len(keys) - len(np.unique(keys))
    pairs = np.unique(pair_keys(src, dst, n, directed=directed))
    low, high = pairs // n, pairs % n
    proper = low != high
    degree = np.bincount(low[proper], minlength=n) + np.bincount(high[proper], minlength=n)
    matrix = coo_array((np.ones(len(low), np.int8), (low, high)), shape=(n, n))
    components, member = connected_components(matrix, directed=False)
    homophily = None
    if labels is not None and proper.any():
        known = proper & (labels[low] >= 0) & (labels[high] >= 0)
        if known.any():
            homophily = round(float((labels[low] == labels[high])[known].mean()), 4)
    return (
        Statistics(
            self_loops=int((src == dst).sum()),
            duplicate_edges=duplicates,
            isolated_nodes=int((degree == 0).sum()),
            components=int(components),
            largest_component=int(np.bincount(member).max()),
            mean_degree=round(float(degree.mean()), 4),
            max_degree=int(degree.max()),
            degrees=degree_classes(degree),
            homophily=homophily,
            classes=own.classes,
            unlabelled=int((labels < 0).sum()) if labels is not None else 0,
            with_text=int((own.chars > 0).sum()),
            with_image=own.images,
            text_chars=percentiles(own.chars),
            text_words=percentiles(own.words),
            image_pixels=percentiles(own.sides),
        ),
        len(pairs),
    )


def read_edge_key(folder: Path, edges: ConfigSpec, key: Sequence[str]) -> list[NDArray[np.int64]]:
    """The key columns of the edges as int64 arrays, src and dst first; strings become codes."""
    names = [layout.SRC, layout.DST, *(n for n in key if n not in (layout.SRC, layout.DST))]
    table = read_columns(folder, edges, names)
    arrays = []
    for name in names:
        column = table[name].combine_chunks()
        if not pa.types.is_integer(column.type):
            column = column.dictionary_encode().indices
        arrays.append(np.asarray(pc.fill_null(column, -1), dtype=np.int64))
    return arrays
