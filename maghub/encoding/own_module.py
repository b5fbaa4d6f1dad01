"""What our own modules (ViG, PyramidTNT, ImageBind) share: a sized module from a folder.

A folder holds the authors' checkpoint and, for any but the size of the spec, a ``config.json`` with
the fields of the module's configuration. Loading the authors' checkpoints could not be checked
where this was written; names and shapes of the weights follow their code, and what does not fit is
refused by name.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from maghub.encoding.base import EncoderSpec
from maghub.encoding.pixels import pixel_transform
from maghub.encoding.torch_encoder import TorchEncoder
from maghub.encoding.weights import load_state
from maghub.errors import MaghubError
from maghub.spec import Model

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

    from maghub.encoding.torch_encoder import Batch

CONFIG_FILE = "config.json"


class OwnModule(TorchEncoder):
    """An encoder of images whose module is ours.

    ``untrained`` makes one with random weights, to be trained from scratch; nothing else does.
    """

    PACKAGES: tuple[str, ...] = ("torchvision",)
    DISTRIBUTIONS: tuple[str, ...] = ("torchvision", "pillow")
    CONFIG: ClassVar[type[Model]]
    IGNORED: tuple[str, ...] = ()

    @abstractmethod
    def build(self, config: Any) -> torch.nn.Module:
        """The module of a configuration, its weights not yet loaded."""

    def load(self, folder: Path) -> torch.nn.Module:
        """The module with the weights of the folder, and its preprocessing."""
        path = folder / CONFIG_FILE
        fields = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        module = self._prepared(self.CONFIG(**fields))
        load_state(module, folder, self.IGNORED)
        return module

    def _prepared(self, config: Model) -> torch.nn.Module:
        self.config = config
        if self.spec.pixels is None:
            raise MaghubError(f"the spec of {self.spec.name} states no preprocessing")
        self._transform = pixel_transform(self.spec.pixels)
        return self.build(config)

    @classmethod
    def untrained(
        cls, spec: EncoderSpec, seed: int, device: str = "cpu", config: Model | None = None
    ) -> OwnModule:
        """An encoder with random weights, for training; its spec says that they are random.

        Args:
            spec: The spec of the encoder.
            seed: Seed of the weights.
            device: torch device.
            config: Another size than the spec's.
        """
        import torch

        self = cls.__new__(cls)
        self.spec = spec.model_copy(update={"revision": f"random weights, seed {seed}"})
        self.device, self.dtype = torch.device(device), torch.float32
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.module = self._prepared(config or cls.CONFIG()).to(self.device)
        return self

    def image_batch(self, images: Sequence[Image]) -> Batch:
        """Pixels after the transform of the spec."""
        import torch

        return self.to_device({"x": torch.stack([self._transform(image) for image in images])})

    def embed_images(self, batch: Batch) -> torch.Tensor:
        """The module's vector of each image."""
        return self.module(batch["x"])
