"""Input features of a task: named modalities, memory-mapped, given as float32 rows on a device."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maghub.baselines.noise import Noise
from maghub.errors import MaghubError
from maghub.features import FeatureView
from maghub.mag import MAG

Scale = Literal["none", "standard", "row"]
_BLOCK = 1 << 14


class Features:
    """float32 rows of every modality of a dataset, with scaling and noise applied.

    Small matrices live on the device; larger ones stay memory-mapped in their stored dtype and only
    the rows asked for are read.

    Args:
        mag: The dataset.
        encoders: modality -> encoder whose published vectors are read.
        noise: Shuffled and missing rows.
        scale: ``none``; ``standard`` (each column to mean 0 and variance 1 over all nodes that have
            the modality); ``row`` (each row to an L1 norm of 1, as Kipf and Welling do).
        device: Where rows are wanted.
        in_memory: Matrices up to this many float32 bytes are held on the device.

    Raises:
        MaghubError: No modality, the folder holds no such vectors (with the command to make it), or
            one of them is not finite (when it is read).
    """

    def __init__(
        self,
        mag: MAG,
        encoders: Mapping[str, str],
        noise: Noise,
        scale: Scale = "none",
        device: torch.device | str = "cpu",
        in_memory: int = 1 << 30,
    ) -> None:
        if not encoders:
            raise MaghubError("no input", fix="name an encoder, e.g. --encoder all-minilm-l6-v2")
        self.device, self.num_nodes = torch.device(device), mag.num_nodes
        self._name = mag.spec.name
        self._views = {m: mag.features(encoder, m) for m, encoder in encoders.items()}
        self.dims = {m: int(view.shape[1]) for m, view in self._views.items()}
        self._has = {m: mag.has(encoder, m) for m, encoder in encoders.items()}
        self._rows = {m: noise.rows(m, mag.num_nodes) for m in encoders}
        for m in encoders:
            if (rows := self._rows[m]) is not None:
                self._has[m] = self._has[m][rows]
            self._has[m][noise.missing(m, mag.num_nodes)] = False
        self._scale = scale
        self._moments = {m: self._measure(m) for m in encoders} if scale == "standard" else {}
        held = 4 * mag.num_nodes * sum(self.dims.values()) <= in_memory
        self._held = {m: self._whole(m) for m in encoders} if held else None

    def has(self, modality: str, ids: Tensor) -> Tensor:
        """bool: which of the nodes ``ids`` really have the modality."""
        return torch.from_numpy(self._has[modality][ids.cpu().numpy()]).to(self.device)

    def __call__(self, ids: Tensor | None = None) -> dict[str, Tensor]:
        """modality -> float32 [len(ids), width] on the device; all nodes if None."""
        if self._held is not None:
            if ids is None:
                return dict(self._held)
            wanted = ids.to(self.device)
            return {m: x[wanted] for m, x in self._held.items()}
        if ids is None:
            return {m: self._whole(m) for m in self._views}
        return {m: self._gather(m, ids.cpu().numpy()).to(self.device) for m in self._views}

    def _gather(self, modality: str, ids: NDArray[np.int64]) -> Tensor:
        rows = self._rows[modality]
        own = ids if rows is None else rows[ids]
        values = np.asarray(self._views[modality][own], np.float32)
        if not np.isfinite(values).all():
            node = int(own[~np.isfinite(values).all(axis=1)][0])
            raise MaghubError(
                f"the vector of {modality} of node {node} is not finite",
                where=self._name,
                fix="see what is wrong: maghub validate FOLDER",
            )
        if self._scale == "standard":
            mean, deviation = self._moments[modality]
            values = (values - mean) / deviation
        elif self._scale == "row":
            values = values / np.maximum(np.abs(values).sum(axis=1, keepdims=True), 1e-12)
        values[~self._has[modality][ids]] = 0.0
        return torch.from_numpy(values)

    def _whole(self, modality: str) -> Tensor:
        """All rows, read block by block: no second copy of the matrix is ever made."""
        whole = torch.empty((self.num_nodes, self.dims[modality]), device=self.device)
        for start, ids in self._blocks():
            whole[start : start + len(ids)] = self._gather(modality, ids).to(self.device)
        _forget_pages(self._views[modality])
        return whole

    def _blocks(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        for start in range(0, self.num_nodes, _BLOCK):
            yield start, np.arange(start, min(start + _BLOCK, self.num_nodes))

    def _measure(self, modality: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Mean and standard deviation of each column over the nodes that have the modality."""
        view, rows, count = self._views[modality], self._rows[modality], 0
        total = np.zeros(self.dims[modality])
        squares = np.zeros(self.dims[modality])
        for _, ids in self._blocks():
            own = ids if rows is None else rows[ids]
            block = np.asarray(view[own], np.float64)[self._has[modality][ids]]
            count += len(block)
            total += block.sum(axis=0)
            squares += np.square(block).sum(axis=0)
        mean = total / max(count, 1)
        variance = np.maximum(squares / max(count, 1) - np.square(mean), 0.0)
        deviation = np.maximum(np.sqrt(variance), 1e-6)
        return mean.astype(np.float32), deviation.astype(np.float32)


def _forget_pages(view: FeatureView) -> None:
    """Give back the memory of mapped pages that were read once; they are on the disk.

    The mapping is a task's own and nothing is ever written to it.
    """
    mapped = getattr(view, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
