"""Vision GNN (ViG): an image as a graph of patches (Han et al., NeurIPS 2022, arXiv 2206.00272).

Isotropic ViG, section 3 of the paper. 14 x 14 patches; every block joins each patch to its K
nearest patches in feature space (K grows from 9 to 18, with dilation), takes the max-relative graph
convolution ``x'_i = W [x_i, max_j (x_j - x_i)]`` with four heads between two linear layers, and
then a feed-forward network. The vector is the mean over patches, the input of the authors'
classifier.

Written from the paper; names of the weights follow the authors' code (Apache-2.0,
github.com/huawei-noah/Efficient-AI-Backbones), so their checkpoints should load. That could not be
checked where this was written.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from maghub import layout
from maghub.encoding.own_module import OwnModule
from maghub.spec import Model

HEADS = 4


class ViGConfig(Model):
    """Size of a ViG; the default is ViG-B (Ti: 192 x 12, S: 320 x 16, B: 640 x 16)."""

    channels: int = 640
    blocks: int = 16
    neighbours: int = 9
    grid: int = 14


def nearest_patches(x: torch.Tensor, count: int, dilation: int) -> torch.Tensor:
    """Indices [B, N, count] of every ``dilation``-th of the nearest patches of each patch.

    Args:
        x: Features [B, N, C]; the distance is Euclidean between unit vectors.
        count: Neighbours per patch; a patch is its own first one.
        dilation: Step through the sorted neighbours.
    """
    with torch.no_grad():
        unit = F.normalize(x, dim=-1)
        squares = (unit * unit).sum(-1, keepdim=True)
        distance = squares - 2 * unit @ unit.transpose(1, 2) + squares.transpose(1, 2)
        return distance.topk(count * dilation, largest=False).indices[..., ::dilation]


def _linear(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1), nn.BatchNorm2d(outputs))


class MaxRelative(nn.Module):
    """Max-relative graph convolution over the nearest patches, with a grouped linear layer."""

    def __init__(self, channels: int, count: int, dilation: int) -> None:
        super().__init__()
        self.count, self.dilation = count, dilation
        width = 2 * channels
        layers = nn.Sequential(
            nn.Conv2d(width, width, 1, groups=HEADS), nn.BatchNorm2d(width), nn.GELU()
        )
        self.gconv = nn.ModuleDict({"nn": layers})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, C, H, W] to [B, 2C, H, W]."""
        batch, _, height, width = x.shape
        patches = x.flatten(2).transpose(1, 2)
        index = nearest_patches(patches, self.count, self.dilation)
        rows = torch.arange(batch, device=x.device)[:, None, None]
        relative = (patches[rows, index] - patches.unsqueeze(2)).amax(2)
        # The two halves alternate channel by channel, so that each head sees both.
        both = torch.stack([patches, relative], dim=-1).flatten(2)
        return self.gconv["nn"](both.transpose(1, 2).reshape(batch, -1, height, width))


class Grapher(nn.Module):
    """Linear layer, graph convolution, linear layer, with a residual."""

    def __init__(self, channels: int, count: int, dilation: int) -> None:
        super().__init__()
        self.fc1 = _linear(channels, channels)
        self.graph_conv = MaxRelative(channels, count, dilation)
        self.fc2 = _linear(2 * channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, C, H, W] to the same."""
        return self.fc2(self.graph_conv(self.fc1(x))) + x


class FeedForward(nn.Module):
    """Two linear layers with GELU between them, and a residual."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1 = _linear(channels, 4 * channels)
        self.fc2 = _linear(4 * channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, C, H, W] to the same."""
        return self.fc2(F.gelu(self.fc1(x))) + x


class Stem(nn.Module):
    """Five 3 x 3 convolutions from the image to a grid of patches, a sixteenth of its side."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        widths = [3, channels // 8, channels // 4, channels // 2, channels, channels]
        layers: list[nn.Module] = []
        for i, (inputs, outputs) in enumerate(pairwise(widths)):
            stride = 2 if i < 4 else 1
            layers += [nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs)]
            layers += [nn.GELU()] if i < 4 else []
        self.convs = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, 3, H, W] to [B, C, H/16, W/16]."""
        return self.convs(x)


class ViG(nn.Module):
    """Isotropic ViG without its classifier: [B, 3, 224, 224] to [B, C]."""

    def __init__(self, config: ViGConfig) -> None:
        super().__init__()
        channels, grid = config.channels, config.grid
        self.stem = Stem(channels)
        self.pos_embed = nn.Parameter(torch.zeros(1, channels, grid, grid))
        k = config.neighbours
        counts = torch.linspace(k, 2 * k, config.blocks, device="cpu").tolist()
        most = max(1, grid * grid // int(max(counts)))
        self.backbone = nn.Sequential(
            *(
                nn.Sequential(
                    Grapher(channels, int(count), min(i // 4 + 1, most)), FeedForward(channels)
                )
                for i, count in enumerate(counts)
            )
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Mean over the patches of the last block."""
        return self.backbone(self.stem(images) + self.pos_embed).mean((2, 3))


class ViGEncoder(OwnModule):
    """ViG as an encoder of images; trainable from scratch or from the authors' checkpoint."""

    CONFIG = ViGConfig
    IGNORED = ("prediction.",)

    def build(self, config: Any) -> nn.Module:
        """The module of a configuration."""
        return ViG(config)

    def widths(self) -> dict[str, int]:
        """Channels of the last block."""
        config: Any = self.config
        return {layout.IMAGE: config.channels}
