"""The dataset under audit: its columns by node id, read once."""

from __future__ import annotations

import hashlib
import sys
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from typing import Literal

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from maghub import layout
from maghub.mag import MAG
from maghub.reader import iter_groups, read_columns
from maghub.schema import features_from_dict, vector_columns
from maghub.spec import ConfigSpec

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Keys = NDArray[np.uint64]
UNASSIGNED = layout.SPLITS.index(layout.UNASSIGNED)


def normalised(text: str) -> str:
    """A text without case, punctuation, compatibility forms and repeated blanks."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.translate(_blanks()).split())


@cache
def _blanks() -> dict[int, str]:
    """A blank for punctuation, blanks and what is not seen. Marks stay, as they are letters of many
    scripts, and symbols, which tell C++ from C# and are all that some texts have."""
    unseen = [*range(0xFE00, 0xFE10)]  # variation selectors
    for code in range(sys.maxunicode + 1):
        kind = unicodedata.category(chr(code))
        if kind[0] in "PZ" or kind in ("Cc", "Cf"):
            unseen.append(code)
    return dict.fromkeys(unseen, " ")


def key_of(data: bytes) -> int:
    """64 bits that are equal for equal bytes."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def present(mag: MAG, config: ConfigSpec, modality: str) -> Bools:
    """Which rows of a config of vectors say that they have one."""
    flag = layout.has_column(modality)
    column = read_columns(mag.folder, config, [flag])[flag].combine_chunks()
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=bool)


def keys_of(texts: Sequence[str]) -> Keys:
    """64 bits per text that are equal for equal texts."""
    return np.asarray([key_of(text.encode("utf-8", "surrogatepass")) for text in texts], np.uint64)


class Rows(ABC):
    """Rows with a text each, perhaps in splits, and the settings of their audit.

    Args:
        mag: The opened dataset.
        seed: Seed of samples and hash functions.
        limit: Most examples that a check keeps.
    """

    of: Literal["nodes", "rows"] = "rows"
    """What examples call them."""

    def __init__(self, mag: MAG, seed: int, limit: int) -> None:
        self.mag, self.seed, self.limit = mag, seed, limit

    @cached_property
    @abstractmethod
    def texts(self) -> list[str]:
        """Normalised texts by row; an absent one is empty."""

    @cached_property
    @abstractmethod
    def codes(self) -> NDArray[np.int8]:
        """int8 [N] split of each row (index into ``layout.SPLITS``)."""

    @property
    def held_out(self) -> Bools:
        """Which rows are in validation or test."""
        return (self.codes > 0) & (self.codes != UNASSIGNED)

    @cached_property
    def text_keys(self) -> Keys:
        """64 bits per text, equal where normalised texts are."""
        return keys_of(self.texts)

    @cached_property
    def has_text(self) -> Bools:
        """Which rows have a text with a letter or digit in it."""
        return np.fromiter(map(bool, self.texts), bool, len(self.texts))

    def side(self, row: int) -> str:
        """A row with its split, for an example."""
        return f"{row} ({layout.SPLITS[self.codes[row]]})"

    def quoted(self, row: int, length: int = 60) -> str:
        """The beginning of a row's text, for an example."""
        text = self.texts[row]
        return f"'{text[:length]}{'...' if len(text) > length else ''}'"


class TextRows(Rows):
    """Rows that are no nodes.

    Args:
        mag, seed, limit: As of ``Rows``.
        texts: The text of each row.
        codes: The split of each row; None where that does not matter.
    """

    def __init__(
        self,
        mag: MAG,
        seed: int,
        limit: int,
        texts: Sequence[str],
        codes: NDArray[np.int8] | None = None,
    ) -> None:
        super().__init__(mag, seed, limit)
        self._given, self._codes = texts, codes

    @cached_property
    def texts(self) -> list[str]:
        """Normalised texts."""
        return [normalised(text or "") for text in self._given]

    @cached_property
    def codes(self) -> NDArray[np.int8]:
        """int8 [N] split of each row."""
        return np.zeros(len(self._given), np.int8) if self._codes is None else self._codes


class Subject(Rows):
    """The nodes of a dataset that is one graph."""

    of = "nodes"

    def __init__(self, mag: MAG, seed: int, limit: int) -> None:
        super().__init__(mag, seed, limit)
        (nodes,) = mag.spec.of_kind("nodes")[:1]
        self.nodes = mag.config(nodes.name)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.nodes.rows

    @property
    def has_images(self) -> bool:
        """Whether there is a column of images."""
        return layout.IMAGE in self.nodes.features

    @cached_property
    def split_rule(self) -> str | None:
        """The default node split, or the first; None where nodes are not split."""
        rules = [rule.name for rule in self.mag.spec.node_splits]
        return self.mag.spec.default_split or (rules[0] if rules else None)

    @cached_property
    def codes(self) -> NDArray[np.int8]:
        """int8 [N] split of each node (index into ``layout.SPLITS``)."""
        codes = np.full(self.n, UNASSIGNED, np.int8)
        if self.split_rule is not None:
            for name, ids in self.mag.splits(self.split_rule).items():
                codes[ids] = layout.SPLITS.index(name)
        return codes

    @cached_property
    def texts(self) -> list[str]:
        """Normalised texts by node id; an absent one is empty."""
        table = read_columns(self.mag.folder, self.nodes, [layout.NODE_ID, layout.TEXT])
        texts = [""] * self.n
        ids = table[layout.NODE_ID].to_pylist()
        for node, text in zip(ids, table[layout.TEXT].to_pylist(), strict=True):
            texts[node] = normalised(text or "")
        return texts

    def images(self) -> Iterator[tuple[int, bytes]]:
        """Node id and bytes of each image, in stored order, row group by row group."""
        columns = [layout.NODE_ID, layout.IMAGE]
        for _, _, table in iter_groups(self.mag.folder, self.nodes, columns):
            blobs = pc.struct_field(table[layout.IMAGE], "bytes")
            for node, blob in zip(table[layout.NODE_ID].to_pylist(), blobs, strict=True):
                if blob.is_valid:
                    yield node, blob.as_py()

    @cached_property
    def edge_splits(self) -> list[tuple[str, Ints, Ints]]:
        """For each rule that splits edges: how the names of its checks end, the edges that train,
        and those that are held out."""
        rules = [rule.name for rule in self.mag.spec.edge_splits]
        if not self.mag.spec.has(layout.EDGE_SPLITS):
            return []
        none, found = np.zeros(0, np.int64), []
        for rule in rules:
            splits = self.mag.edge_splits(rule)
            held = [splits.get(name, none) for name in (layout.VALIDATION, layout.TEST)]
            suffix = f" ({rule})" if len(rules) > 1 else ""
            found.append((suffix, splits.get(layout.TRAIN, none), np.concatenate(held)))
        return found

    def embeddings(self) -> list[tuple[ConfigSpec, str]]:
        """Embedding configs of the nodes and their vector columns."""
        return [
            (config, column)
            for config in self.mag.spec.of_kind("embeddings")
            if config.target in (None, self.nodes.name)
            for column in vector_columns(features_from_dict(config.features))
        ]

    def present(self, config: ConfigSpec, modality: str) -> Bools:
        """Which rows of an embedding config say that they have a vector."""
        return present(self.mag, config, modality)
