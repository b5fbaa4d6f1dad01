"""Graph-to-text: the text of a node from its picture and its neighbours (OpenMAG, appendix D.2).

BLEU-4, ROUGE-L and CIDEr against the node's own text, or texts (``references``: a dataset may have
several captions of a picture); CLIP-score against its picture where an encoder is named.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from maghub import layout
from maghub.baselines.tasks._generation import (
    GenerationConfig,
    GenerationTask,
    Generator,
    Ints,
    blocks,
    image_vectors,
    loaded,
    text_vectors,
)
from maghub.baselines.tasks._generation_view import column_by_node
from maghub.errors import MaghubError, nearest
from maghub.metrics import bleu4, cider, clip_score, rouge_l


class GraphToTextConfig(GenerationConfig):
    """Settings of graph-to-text.

    Attributes:
        references: Columns of the nodes with the texts that are right.
    """

    references: tuple[str, ...] = Field(default=(layout.TEXT,), min_length=1)


class GraphToText(GenerationTask):
    """See the module; the folder needs texts, edges and node splits."""

    name = "graph-to-text"
    made = layout.TEXT
    Config = GraphToTextConfig
    config: GraphToTextConfig

    def references(self, nodes: Ints) -> list[list[str]]:
        """The right texts of each node."""
        known = self.mag.spec.config(layout.NODES).features
        for column in self.config.references:
            if column not in known:
                raise nearest(column, known, kind="column of the nodes")
        columns = [column_by_node(self.mag, name)[nodes] for name in self.config.references]
        several = [[text for text in row if text] for row in zip(*columns, strict=True)]
        if (empty := sum(not own for own in several)) > 0:
            raise MaghubError(
                f"{empty:,} test nodes have no text in {', '.join(self.config.references)}",
                fix=f"add the column they have: --set references=[{layout.TEXT}]",
            )
        return several

    def measure(self, generator: Generator) -> dict[str, float]:
        """BLEU-4, ROUGE-L, CIDEr and, if asked for, CLIP-score; in percent."""
        nodes = self.targets()
        right = self.references(nodes)
        written = [text for part in blocks(nodes) for text in generator.texts(self.view, part)]
        metrics = {"bleu4": bleu4(written, right), "rouge_l": rouge_l(written, right)}
        if len(nodes) > 1:
            metrics["cider"] = cider(written, right)
        if self.config.clip is not None:
            metrics["clip_score"] = self._clip_score(nodes, written)
        return metrics

    def _clip_score(self, nodes: Ints, written: list[str]) -> float:
        """CLIP-score of what was written with the pictures of the nodes that have one."""
        model = loaded(self.config.clip or "", self.config.clip_path, self.device)
        texts, images = [], []
        for part, start in zip(blocks(nodes), range(0, len(nodes), 256), strict=True):
            shown = self.view.pictures(part)
            there = [i for i, picture in enumerate(shown) if picture is not None]
            images += image_vectors(model, [p for p in shown if p is not None])
            texts += text_vectors(model, [written[start + i] for i in there])
        if not images:
            raise MaghubError(
                "no test node has a picture, which CLIP-score needs", fix="leave clip out"
            )
        return clip_score(np.concatenate(images), np.concatenate(texts))
