"""PyramidTNT: transformers in a transformer, in four stages (Han et al. 2022, arXiv 2201.00978).

Each 8 x 8 patch of the image is a sentence (outer token) of 4 x 4 words (inner tokens). A block
lets the words of a sentence attend to each other, adds them projected to their sentence, and lets
the sentences attend to each other with a learned relative position (TNT, arXiv 2103.00112).
Between stages a strided convolution merges 2 x 2 sentences, and the words in them, into one; keys
and values of the first two stages are pooled. The vector is the mean of the sentences after the
last norm, the input of the authors' classifier.

Written from the papers; names of the weights follow the authors' code (Apache-2.0,
github.com/huawei-noah/Efficient-AI-Backbones), so their checkpoints should load. That could not be
checked where this was written. (The released OpenMAG code fine-tunes timm's plain TNT instead.)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from maghub import layout
from maghub.encoding.own_module import OwnModule
from maghub.spec import Model

SIDE = 4  # words per side of a sentence
WORDS = SIDE * SIDE
MULTIPLES = (1, 2, 4, 4)  # of width and heads, by stage
POOLED = (4, 2, 1, 1)  # keys and values of the sentences, per side, by stage


class PyramidTNTConfig(Model):
    """Size of a PyramidTNT; the default is B (Ti: 80/5, S: 128/8, M: 192/12, B: 256/16)."""

    image_size: int = 256
    depths: tuple[int, int, int, int] = (2, 10, 6, 2)
    outer: int = 256
    inner: int = 16
    outer_heads: int = 4
    inner_heads: int = 2


class Attention(nn.Module):
    """Multi-head attention; keys and values may be pooled over the grid that tokens lie on."""

    def __init__(self, width: int, heads: int, pooled: int = 1) -> None:
        super().__init__()
        self.heads, self.pooled = heads, pooled
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * width, bias=False)
        self.proj = nn.Linear(width, width)
        if pooled > 1:
            self.linear = nn.Linear(width, width)
            self.norm = nn.LayerNorm(width)

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)

    def forward(self, x: torch.Tensor, position: torch.Tensor | None = None) -> torch.Tensor:
        """[B, N, C] to the same; ``position`` [1, heads, N, keys] is added to the scores."""
        source = x
        if self.pooled > 1:
            side = int(x.shape[1] ** 0.5)
            grid = x.transpose(1, 2).unflatten(2, (side, side))
            grid = F.avg_pool2d(grid, self.pooled)
            source = self.norm(self.linear(grid.flatten(2).transpose(1, 2)))
        keys, values = self.kv(source).chunk(2, -1)
        out = F.scaled_dot_product_attention(
            self._split(self.q(x)), self._split(keys), self._split(values), attn_mask=position
        )
        return self.proj(out.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    """Two linear layers with GELU between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., C] to the same."""
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    """A TNT block; without words it is a plain transformer block over the sentences."""

    def __init__(
        self, outer: int, inner: int, outer_heads: int, inner_heads: int, pooled: int
    ) -> None:
        super().__init__()
        self.has_words = inner > 0
        if self.has_words:
            self.inner_norm1 = nn.LayerNorm(WORDS * inner)
            self.inner_attn = Attention(inner, inner_heads)
            self.inner_norm2 = nn.LayerNorm(WORDS * inner)
            self.inner_mlp = Mlp(inner)
            self.proj_norm1 = nn.LayerNorm(WORDS * inner)
            self.proj = nn.Linear(WORDS * inner, outer, bias=False)
            self.proj_norm2 = nn.LayerNorm(outer)
        self.outer_norm1 = nn.LayerNorm(outer)
        self.outer_attn = Attention(outer, outer_heads, pooled)
        self.outer_norm2 = nn.LayerNorm(outer)
        self.outer_mlp = Mlp(outer)

    def forward(
        self, words: torch.Tensor, sentences: torch.Tensor, position: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Words [B, N, 16, c] and sentences [B, N, C] to the same."""
        if self.has_words:
            inner = words.flatten(0, 1)
            normed = self.inner_norm1(words.flatten(2)).reshape(inner.shape)
            inner = inner + self.inner_attn(normed)
            words = inner.reshape(words.shape)
            words = words + self.inner_mlp(self.inner_norm2(words.flatten(2)).reshape(words.shape))
            said = self.proj(self.proj_norm1(words.flatten(2)))
            sentences = sentences + self.proj_norm2(said)
        sentences = sentences + self.outer_attn(self.outer_norm1(sentences), position)
        return words, sentences + self.outer_mlp(self.outer_norm2(sentences))


class Stage(nn.Module):
    """The blocks of one resolution; words take part in the first, in a deep stage in two."""

    def __init__(self, config: PyramidTNTConfig, index: int, depth: int, sentences: int) -> None:
        super().__init__()
        times, pooled = MULTIPLES[index], POOLED[index]
        heads = config.outer_heads * times
        with_words = 2 if depth > 6 else 1
        self.blocks = nn.ModuleList(
            Block(
                config.outer * times,
                config.inner * times if i < with_words else 0,
                heads,
                config.inner_heads * times,
                pooled,
            )
            for i in range(depth)
        )
        self.relative_pos = nn.Parameter(
            torch.randn(1, heads, sentences, sentences // pooled // pooled)
        )

    def forward(
        self, words: torch.Tensor, sentences: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Words and sentences through all blocks."""
        for block in self.blocks:
            words, sentences = block(words, sentences, self.relative_pos)
        return words, sentences


class Merge(nn.Module):
    """LayerNorm and a 3 x 3 convolution of stride 2 over a grid of tokens."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(inputs)
        self.conv = nn.Sequential(nn.Conv2d(inputs, outputs, 3, 2, 1))

    def forward(self, grid: torch.Tensor) -> torch.Tensor:
        """[B, H, W, C] to [B, H/2, W/2, C']."""
        return self.conv(self.norm(grid).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


def merged_words(merge: Merge, words: torch.Tensor, side: int) -> torch.Tensor:
    """Words [B, N, 16, c] of 2 x 2 neighbouring sentences to those of one, [B, N/4, 16, c'].

    The words of the four lie on one 8 x 8 grid, as they do in the image.
    """
    batch, _, _, width = words.shape
    half = side // 2
    grid = words.reshape(batch, half, 2, half, 2, SIDE, SIDE, width)
    grid = grid.permute(0, 1, 3, 2, 5, 4, 6, 7)
    out = merge(grid.reshape(batch * half * half, 2 * SIDE, 2 * SIDE, width))
    return out.reshape(batch, half * half, WORDS, -1)


def _convolution(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs), nn.ReLU()]


class Stem(nn.Module):
    """Convolutions from the image to words (half its side) and sentences (an eighth)."""

    def __init__(self, outer: int, inner: int) -> None:
        super().__init__()
        self.inner = inner
        self.common_conv = nn.Sequential(*_convolution(3, 2 * inner, 2))
        self.inner_convs = nn.Sequential(*_convolution(2 * inner, inner, 1))
        self.outer_convs = nn.Sequential(
            *_convolution(2 * inner, 4 * inner, 2),
            *_convolution(4 * inner, 8 * inner, 2),
            *_convolution(8 * inner, outer, 1),
        )

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[B, 3, S, S] to words [B, N, 16, c] and sentences [B, N, C]."""
        common = self.common_conv(images)
        words = F.unfold(self.inner_convs(common), SIDE, stride=SIDE).transpose(1, 2)
        words = words.unflatten(2, (self.inner, WORDS)).transpose(2, 3)
        return words, self.outer_convs(common).flatten(2).transpose(1, 2)


class PyramidTNT(nn.Module):
    """PyramidTNT without its classifier: [B, 3, S, S] to [B, 4 * outer]."""

    def __init__(self, config: PyramidTNTConfig) -> None:
        super().__init__()
        outer = [config.outer * times for times in MULTIPLES]
        inner = [config.inner * times for times in MULTIPLES]
        self.side = config.image_size // 8
        sentences = self.side * self.side
        self.patch_embed = Stem(outer[0], inner[0])
        self.outer_pos = nn.Parameter(torch.zeros(1, sentences, outer[0]))
        self.inner_pos = nn.Parameter(torch.zeros(1, WORDS, inner[0]))
        self.stages = nn.ModuleList(
            Stage(config, i, depth, sentences // 4**i) for i, depth in enumerate(config.depths)
        )
        self.word_merges = nn.ModuleList(map(Merge, inner, inner[1:]))
        self.sentence_merges = nn.ModuleList(map(Merge, outer, outer[1:]))
        self.norm = nn.LayerNorm(outer[-1])
        for position in (self.outer_pos, self.inner_pos):
            nn.init.trunc_normal_(position, std=0.02)
        self.apply(_initialise)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Mean of the sentences after the last norm."""
        words, sentences = self.patch_embed(images)
        words, sentences = words + self.inner_pos, sentences + self.outer_pos
        for i, stage in enumerate(self.stages):
            if i:
                side = self.side >> (i - 1)
                words = merged_words(self.word_merges[i - 1], words, side)  # type: ignore[arg-type]
                grid = sentences.unflatten(1, (side, side))
                sentences = self.sentence_merges[i - 1](grid).flatten(1, 2)
            words, sentences = stage(words, sentences)
        return self.norm(sentences).mean(1)


def _initialise(module: nn.Module) -> None:
    """Truncated normal weights of linear layers, fan-out normal ones of convolutions."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
    elif isinstance(module, nn.Conv2d):
        fan_out = module.kernel_size[0] * module.kernel_size[1] * module.out_channels
        nn.init.normal_(module.weight, 0, (2.0 / fan_out) ** 0.5)
    bias = getattr(module, "bias", None)
    if isinstance(bias, nn.Parameter):
        nn.init.zeros_(bias)


class PyramidTNTEncoder(OwnModule):
    """PyramidTNT as an encoder of images; trainable from scratch or from a checkpoint."""

    CONFIG = PyramidTNTConfig
    IGNORED = ("head.",)

    def build(self, config: Any) -> nn.Module:
        """The module of a configuration."""
        return PyramidTNT(config)

    def widths(self) -> dict[str, int]:
        """Width of the sentences of the last stage."""
        config: Any = self.config
        return {layout.IMAGE: config.outer * MULTIPLES[-1]}
