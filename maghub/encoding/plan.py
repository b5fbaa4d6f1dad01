"""What is encoded together: shards of consecutive rows, batches of rows of like length.

The plan is a pure function of the inputs (their checksums), the encoder and the batch size, so that
every engine and every resumed run puts the same rows into the same batch: that is what makes their
vectors equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maghub.encoding.base import EncoderSpec
from maghub.spec import Model

SHARD_ROWS = 1024
BATCHES_PER_SHARD = 32


class Shard(NamedTuple):
    """Rows ``start..stop`` of the inputs: the unit of work that is finished or not begun."""

    number: int
    start: int
    stop: int


class Plan(Model):
    """Everything that the bytes of an embedding config depend on.

    Attributes:
        config: The config that is made.
        inputs: Checksums of the files that the inputs come from, in stored order.
        rows: Number of inputs.
        shard_rows: Inputs per shard.
        batch_size: Inputs per batch.
        auto: Whether the batch size was left to maghub.
        modalities: What is encoded, in the order of the columns.
        encoder: The encoder as it was loaded, its revision included.
        versions: Versions of the libraries that compute the vectors.
        device: Kind of device that computes them.
        threads: CPU threads of the arithmetic; convolutions of some shapes depend on it.
        projection: What is done to the vectors afterwards, in words.
    """

    config: str
    inputs: tuple[str, ...]
    rows: int
    shard_rows: int
    batch_size: int
    auto: bool
    modalities: tuple[str, ...]
    encoder: EncoderSpec
    versions: dict[str, str]
    device: str
    threads: int
    projection: str | None = None

    @property
    def num_shards(self) -> int:
        """Number of shards."""
        return -(-self.rows // self.shard_rows)

    def shard(self, number: int) -> Shard:
        """The shard of that number."""
        start = number * self.shard_rows
        return Shard(number, start, min(start + self.shard_rows, self.rows))

    def shards(self) -> Iterator[Shard]:
        """All shards, in stored order."""
        return (self.shard(number) for number in range(self.num_shards))

    def describe(self) -> str:
        """The plan in one sentence, for the provenance."""
        return (
            f"shards of {self.shard_rows:,} rows in stored order; within a shard texts sorted by "
            f"tokens, images in order; batches of {self.batch_size:,}"
        )


def shard_rows(batch_size: int) -> int:
    """Rows of a shard: enough batches for lengths to be alike, few enough to lose little."""
    return max(SHARD_ROWS, BATCHES_PER_SHARD * batch_size)


def batches(lengths: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    """Positions of the rows of each batch: rows of like length, short ones first.

    Args:
        lengths: Length of each row in tokens.
        size: Most rows in a batch.
    """
    order = np.argsort(lengths, kind="stable")
    for start in range(0, len(order), size):
        yield order[start : start + size]
