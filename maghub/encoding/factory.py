"""What the registry holds for an encoder: its spec, and how to load it, without importing torch."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from maghub.encoding.base import Encoder, EncoderSpec
from maghub.encoding.weights import require


@dataclass(frozen=True)
class EncoderFactory:
    """Loads an encoder when called.

    Args:
        spec: What it computes.
        adapter: ``module:class`` of the ``TorchEncoder`` that computes it.
    """

    spec: EncoderSpec
    adapter: str

    def __call__(
        self,
        device: str = "cpu",
        *,
        dtype: str | None = None,
        model_path: str | Path | None = None,
    ) -> Encoder:
        """The loaded encoder.

        Args:
            device: torch device.
            dtype: Precision to compute in; None takes the spec's.
            model_path: Local folder with the model's files; None takes the Hub or its cache.

        Raises:
            MaghubError: A package is missing, or the weights cannot be had or do not fit.
        """
        require(("torch",))
        module, _, name = self.adapter.partition(":")
        adapter = getattr(importlib.import_module(module), name)
        encoder: Encoder = adapter(self.spec, device, dtype=dtype, model_path=model_path)
        return encoder
