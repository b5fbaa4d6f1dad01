"""Graph-to-image: the picture of a node from its text and its neighbours (OpenMAG, appendix D.2).

CLIP-score of the made picture with the node's text, DINOv2-score with its real picture. Both
encoders' weights must be at hand; either may be left out (``clip=null``, ``dino=null``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maghub import layout
from maghub.baselines.tasks._generation import (
    GenerationConfig,
    GenerationTask,
    Generator,
    blocks,
    image_vectors,
    loaded,
    text_vectors,
)
from maghub.baselines.tasks._generation_view import column_by_node
from maghub.errors import MaghubError
from maghub.metrics import clip_score, dinov2_score
from maghub.metrics.generation import CLIP, DINO


class GraphToImageConfig(GenerationConfig):
    """Settings of graph-to-image.

    Attributes:
        dino: Encoder of DINOv2-score; None leaves it out.
        dino_path: Local folder with its files; None takes the Hub or its cache.
    """

    clip: str | None = CLIP
    dino: str | None = DINO
    dino_path: str | None = None


class GraphToImage(GenerationTask):
    """See the module; the folder needs pictures with vectors, edges and node splits."""

    name = "graph-to-image"
    made = layout.IMAGE
    Config = GraphToImageConfig
    config: GraphToImageConfig

    def measure(self, generator: Generator) -> dict[str, float]:
        """CLIP-score and DINOv2-score, in percent."""
        config = self.config
        if config.clip is None and config.dino is None:
            raise MaghubError("nothing to measure", fix="name an encoder: --set clip=NAME")
        clip = None if config.clip is None else loaded(config.clip, config.clip_path, self.device)
        dino = None if config.dino is None else loaded(config.dino, config.dino_path, self.device)
        found: dict[str, list[Any]] = {"seen": [], "text": [], "made": [], "real": []}
        known = column_by_node(self.mag, layout.TEXT)
        for part in blocks(self.targets()):
            made = generator.images(self.view, part)
            texts = [text or "" for text in known[part]]
            worded = [i for i, text in enumerate(texts) if text]
            if clip is not None and worded:
                found["seen"] += image_vectors(clip, [made[i] for i in worded])
                found["text"] += text_vectors(clip, [texts[i] for i in worded])
            if dino is not None:
                real = [picture for picture in self.view.pictures(part) if picture is not None]
                found["made"] += image_vectors(dino, made)
                found["real"] += image_vectors(dino, real)
        vectors = {name: np.concatenate(parts) for name, parts in found.items() if parts}
        metrics = {}
        if "text" in vectors:
            metrics["clip_score"] = clip_score(vectors["seen"], vectors["text"])
        if "real" in vectors:
            metrics["dinov2_score"] = dinov2_score(vectors["made"], vectors["real"])
        return metrics
