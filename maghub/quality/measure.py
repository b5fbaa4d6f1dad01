"""``maghub quality``: measures the embedding configs of a folder, one after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from maghub import layout
from maghub.errors import nearest
from maghub.features import feature_view, no_vectors
from maghub.loading import load
from maghub.mag import MAG
from maghub.progress import track
from maghub.quality import numbers
from maghub.quality.report import Alignment, ColumnQuality, EncoderQuality
from maghub.reader import read_columns
from maghub.schema import features_from_dict, vector_columns
from maghub.seeding import DEFAULT_SEED, child_rng
from maghub.spec import VECTOR_KINDS, ConfigSpec

SAMPLE_ROWS = 20_000
K = 5
SPECTRUM = 256


def quality(
    folder: str | Path,
    encoder: str | None = None,
    *,
    seed: int = DEFAULT_SEED,
    sample_rows: int = SAMPLE_ROWS,
    k: int = K,
) -> list[EncoderQuality]:
    """Measure the vectors of a published folder.

    Rows without a vector and rows of zeros are counted over all rows. Everything else is exact up
    to ``sample_rows`` rows with a vector, and taken from a seeded sample of so many above that.

    Args:
        folder: A folder, a bundled sample by its name, or a repo on the Hub.
        encoder: One encoder; None takes all.
        seed: Seed of samples and of shuffled pairs.
        sample_rows: Most rows that are compared with each other.
        k: Neighbours for label agreement.

    Raises:
        MaghubError: The folder has no vectors, or none of that encoder.
    """
    mag = load(folder)
    configs = [c for c in mag.spec.configs if c.kind in VECTOR_KINDS]
    names = {c.name: _encoder_of(mag, c) for c in configs}
    if encoder is not None:
        configs = [c for c in configs if encoder in (names[c.name], c.name)]
    if not configs:
        if encoder is not None and names:
            raise nearest(encoder, names.values(), kind="encoder of this folder")
        raise no_vectors(mag.spec, mag.folder)
    return [
        _Measured(mag, mag.config(config.name), seed, sample_rows, k).report(names[config.name])
        for config in track(configs, "measuring vectors")
    ]


def _encoder_of(mag: MAG, config: ConfigSpec) -> str:
    declared = {facts.config: facts.encoder for facts in mag.spec.encoders}
    return declared.get(config.name, config.name.removeprefix(layout.EMBEDDINGS_PREFIX))


class _Measured:
    """One embedding config, measured."""

    def __init__(self, mag: MAG, config: ConfigSpec, seed: int, sample_rows: int, k: int) -> None:
        self.mag, self.config, self.seed = mag, config, seed
        self.sample_rows, self.k = sample_rows, k
        self.widths = vector_columns(features_from_dict(config.features))

    def report(self, encoder: str) -> EncoderQuality:
        """All that is measured."""
        return EncoderQuality(
            dataset=self.mag.spec.name,
            encoder=encoder,
            config=self.config.name,
            seed=self.seed,
            sample_rows=self.sample_rows,
            columns=tuple(self._column(modality) for modality in self.widths),
            alignment=self._alignment(),
        )

    def _matrix(self, modality: str) -> NDArray[np.floating]:
        return np.asarray(feature_view(self.mag.folder, self.config, modality))

    def _present(self, modality: str) -> NDArray[np.bool_]:
        flag = layout.has_column(modality)
        if flag not in self.config.features:
            return np.ones(self.config.rows, bool)
        column = read_columns(self.mag.folder, self.config, [flag])[flag].combine_chunks()
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=bool)

    def _sample(self, rows: NDArray[np.int64], purpose: str) -> NDArray[np.int64]:
        """The rows, or a sorted seeded sample where there are too many."""
        if len(rows) <= self.sample_rows:
            return rows
        rng = child_rng(self.seed, "quality", self.config.name, purpose)
        return np.sort(rng.choice(rows, self.sample_rows, replace=False, shuffle=False))

    def _column(self, modality: str) -> ColumnQuality:
        matrix, present = self._matrix(modality), self._present(modality)
        zero = numbers.zero_rows(matrix) & present
        vectors = np.flatnonzero(present & ~zero)
        rows = self._sample(vectors, modality)
        chosen = matrix[rows]
        lengths = numbers.norms(chosen)
        values = numbers.singular_values(chosen)
        same, group = numbers.duplicates(chosen)
        shares = values / values.sum() if values.sum() > 0 else values
        return ColumnQuality(
            modality=modality,
            width=self.widths[modality],
            rows=self.config.rows,
            without=int((~present).sum()),
            zeros=int(zero.sum()),
            measured=len(rows),
            sampled=len(rows) < len(vectors),
            norms=_percentiles(lengths),
            norm_histogram=numbers.histogram(lengths),
            duplicates=same,
            largest_group=group,
            effective_rank=round(numbers.effective_rank(values), 3),
            spectrum=tuple(float(share) for share in shares[:SPECTRUM].round(8)),
            neighbours=self._neighbours(chosen, rows),
        )

    def _neighbours(
        self, chosen: NDArray[np.floating], rows: NDArray[np.int64]
    ) -> numbers.Neighbours | None:
        if self.config.kind != "embeddings" or self.config.target not in (None, layout.NODES):
            return None
        if not self.mag.label_names:
            return None
        labels = self.mag.labels[rows]
        known = labels >= 0
        return numbers.neighbours(numbers.unit(chosen[known]), labels[known], self.k)

    def _alignment(self) -> Alignment | None:
        """Text against image, where both are there and equally wide."""
        if not set(layout.MODALITIES) <= set(self.widths) or len(set(self.widths.values())) != 1:
            return None
        both = self._present(layout.TEXT) & self._present(layout.IMAGE)
        rows = self._sample(np.flatnonzero(both), "alignment")
        texts, images = (numbers.unit(self._matrix(m)[rows]) for m in layout.MODALITIES)
        rng = child_rng(self.seed, "quality", self.config.name, "shuffled")
        return numbers.alignment(texts, images, rng)


def _percentiles(lengths: NDArray[np.float64]) -> dict[str, float]:
    if not len(lengths):
        return {}
    found = {f"p{q}": float(np.percentile(lengths, q)) for q in (0, 5, 50, 95, 100)}
    return {name: round(v, 6) for name, v in (found | {"mean": float(lengths.mean())}).items()}
