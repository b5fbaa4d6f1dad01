"""ImageBind: the image and text towers (Girdhar et al., CVPR 2023, arXiv 2305.05665).

Both towers are those of OpenCLIP ViT-H, kept frozen while the other modalities were bound to them
(section 3): a ViT-H/14 whose patch convolution reads the image as a video of two equal frames, and
a causal text transformer whose vector is that of the end token. Each is projected to 1024
dimensions and normalised; the learned temperature of the text is left out, as it changes no
direction. Audio, depth, thermal and IMU are not built.

Written from the paper and the published sizes; names of the weights follow the authors' checkpoint
(``imagebind_huge.pth``, CC-BY-NC-SA-4.0), so it should load. That could not be checked where this
was written. Texts are cut by CLIP's tokenizer, which comes with open_clip.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from maghub import layout
from maghub.encoding.own_module import OwnModule
from maghub.encoding.weights import require
from maghub.spec import Model

if TYPE_CHECKING:
    from maghub.encoding.torch_encoder import Batch

EPSILON = 1e-6
FRAMES = 2


class TowerConfig(Model):
    """Width, blocks and heads of a transformer."""

    width: int
    blocks: int
    heads: int


class ImageBindConfig(Model):
    """Size of the two towers; the default is ImageBind-Huge."""

    vision: TowerConfig = TowerConfig(width=1280, blocks=32, heads=16)
    text: TowerConfig = TowerConfig(width=1024, blocks=24, heads=16)
    out: int = 1024
    image_size: int = 224
    patch: int = 14
    context: int = 77
    vocabulary: int = 49408


class Block(nn.Module):
    """Pre-norm transformer block with exact GELU."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm_1 = nn.LayerNorm(width, EPSILON)
        self.mlp = nn.ModuleDict(
            {"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)}
        )
        self.norm_2 = nn.LayerNorm(width, EPSILON)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """[B, T, C] to the same."""
        normed = self.norm_1(x)
        x = x + self.attn(normed, normed, normed, need_weights=False, attn_mask=mask)[0]
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm_2(x))))


class Trunk(nn.Module):
    """The blocks of a tower, with a norm before them in the image tower."""

    def __init__(self, config: TowerConfig, normed: bool) -> None:
        super().__init__()
        first = nn.LayerNorm(config.width, EPSILON) if normed else nn.Identity()
        self.pre_transformer_layer = nn.Sequential(first)
        self.blocks = nn.ModuleList(Block(config.width, config.heads) for _ in range(config.blocks))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """[B, T, C] to the same."""
        x = self.pre_transformer_layer(x)
        for block in self.blocks:
            x = block(x, mask)
        return x


class Twice(nn.Module):
    """An image as a video of two equal frames."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """[B, 3, H, W] to [B, 3, 2, H, W]."""
        return images.unsqueeze(2).expand(-1, -1, FRAMES, -1, -1)


class Patches(nn.Module):
    """Image patches with a class token and learned positions."""

    def __init__(self, config: ImageBindConfig) -> None:
        super().__init__()
        width, kernel = config.vision.width, (FRAMES, config.patch, config.patch)
        convolution = nn.Conv3d(3, width, kernel, kernel, bias=False)
        self.rgbt_stem = nn.ModuleDict({"proj": nn.Sequential(Twice(), convolution)})
        count = (config.image_size // config.patch) ** 2 + 1
        positions = torch.randn(1, count, width) * width**-0.5
        self.cls_token = nn.Parameter(torch.randn(1, 1, width) * width**-0.5)
        self.pos_embedding_helper = nn.ParameterDict({"pos_embed": positions})

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """[B, 3, H, W] to [B, 1 + patches, C]."""
        tokens = self.rgbt_stem["proj"](images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(len(tokens), -1, -1), tokens], dim=1)
        return tokens + self.pos_embedding_helper["pos_embed"]


class Tokens(nn.Module):
    """Token embeddings with learned positions; texts may be shorter than the context."""

    def __init__(self, config: ImageBindConfig) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(config.vocabulary, config.text.width)
        self.pos_embed = nn.Parameter(torch.randn(1, config.context, config.text.width) * 0.01)
        nn.init.normal_(self.token_embedding.weight, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """[B, T] ids to [B, T, C]."""
        return self.token_embedding(ids) + self.pos_embed[:, : ids.shape[1]]


class ImageBind(nn.Module):
    """The two towers; parts are grouped by kind, as in the authors' checkpoint."""

    def __init__(self, config: ImageBindConfig) -> None:
        super().__init__()
        vision, text = config.vision, config.text
        self.modality_preprocessors = nn.ModuleDict(
            {"vision": Patches(config), "text": Tokens(config)}
        )
        self.modality_trunks = nn.ModuleDict(
            {"vision": Trunk(vision, normed=True), "text": Trunk(text, normed=False)}
        )
        projection = nn.Linear(text.width, config.out, bias=False)
        head = nn.Sequential(nn.LayerNorm(text.width, EPSILON), projection)
        self.modality_heads = nn.ModuleDict(
            {
                "vision": nn.Sequential(
                    nn.LayerNorm(vision.width, EPSILON),
                    nn.Identity(),  # the authors take the class token here
                    nn.Linear(vision.width, config.out, bias=False),
                ),
                "text": nn.ModuleDict({"proj": head}),
            }
        )

    def images(self, pixels: torch.Tensor) -> torch.Tensor:
        """[B, 3, H, W] to [B, out]: the class token, projected."""
        tokens = self.modality_preprocessors["vision"](pixels)
        hidden = self.modality_trunks["vision"](tokens)
        return self.modality_heads["vision"](hidden[:, 0])

    def texts(self, ids: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """[B, T] ids and the place of each end token to [B, out]: that token, projected."""
        count = ids.shape[1]
        mask = torch.ones(count, count, dtype=torch.bool, device=ids.device).triu(1)
        tokens = self.modality_preprocessors["text"](ids)
        hidden = self.modality_trunks["text"](tokens, mask)
        chosen = hidden[torch.arange(len(ids), device=ids.device), ends]
        head: Any = self.modality_heads["text"]
        return head["proj"](chosen)


class ImageBindEncoder(OwnModule):
    """ImageBind as an encoder of images and texts."""

    PACKAGES = ("torchvision", "open_clip")
    DISTRIBUTIONS = ("torchvision", "pillow", "open_clip_torch")
    CONFIG = ImageBindConfig
    IGNORED = (
        *(
            f"modality_{part}.{modality}."
            for part in ("preprocessors", "trunks", "heads", "postprocessors")
            for modality in ("audio", "depth", "thermal", "imu")
        ),
        "modality_preprocessors.text.mask",
        "modality_postprocessors.text.",
    )

    def build(self, config: Any) -> nn.Module:
        """The module of a configuration, and CLIP's tokenizer."""
        require(("open_clip",))
        from open_clip.tokenizer import SimpleTokenizer

        self._tokenizer: Any = SimpleTokenizer()
        return ImageBind(config)

    def widths(self) -> dict[str, int]:
        """Width of the shared space."""
        config: Any = self.config
        return {layout.TEXT: config.out, layout.IMAGE: config.out}

    def _ids(self, text: str) -> list[int]:
        tokenizer = self._tokenizer
        return [tokenizer.sot_token_id, *tokenizer.encode(text), tokenizer.eot_token_id]

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Tokens of each text before truncation, start and end included."""
        return np.fromiter((len(self._ids(text)) for text in texts), np.int64, len(texts))

    def text_batch(self, texts: Sequence[str]) -> Batch:
        """Ids padded to the longest text, and where each text ends; a cut text keeps its end."""
        config: Any = self.config
        rows = [self._ids(text) for text in texts]
        rows = [r if len(r) <= config.context else [*r[: config.context - 1], r[-1]] for r in rows]
        ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
        ends = torch.tensor([len(row) - 1 for row in rows])
        return self.to_device({"ids": ids, "ends": ends})

    def embed_texts(self, batch: Batch) -> torch.Tensor:
        """The projected end token of each text."""
        module: Any = self.module
        return module.texts(batch["ids"], batch["ends"])

    def embed_images(self, batch: Batch) -> torch.Tensor:
        """The projected class token of each image."""
        module: Any = self.module
        return module.images(batch["x"])
