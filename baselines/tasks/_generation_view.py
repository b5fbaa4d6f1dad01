"""What a generator may see of a graph: a target's other modality and some of its neighbours.

A target comes with at most four neighbours that have a text and four that have a picture, drawn
once per seed, as a star graph (OpenMAG's adapter, after MMGL). What is to be made of a target is in
no context and in no vector; a test node may still be seen as a neighbour of another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maghub import layout
from maghub.baselines.features import Features
from maghub.baselines.noise import Noise
from maghub.errors import MaghubError
from maghub.mag import MAG
from maghub.reader import read_columns
from maghub.seeding import child_rng

if TYPE_CHECKING:
    from PIL.Image import Image

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Context:
    """What a generator may see of one target.

    Attributes:
        node: Its id.
        text: Its text, None where that is to be written or where it has none.
        image: Its picture, None where that is to be made or where it has none.
        text_ids: int64 [<= neighbours] neighbours with a text.
        texts: Their texts.
        image_ids: int64 [<= neighbours] neighbours with a picture.
        images: Their pictures.
        star: int64 [2, k] edges from each distinct neighbour (1..k) to the target (0).
        star_ids: int64 [1 + k] the node at each place of the star.
    """

    node: int
    text: str | None
    image: Image | None
    text_ids: Ints
    texts: list[str]
    image_ids: Ints
    images: list[Image]
    star: Ints
    star_ids: Ints


class GraphView:
    """A dataset as a generator sees it.

    Args:
        mag: The dataset.
        features: Input vectors, with noise applied.
        edges: int64 [2, M] neighbours (row 0) of targets (row 1).
        made: The modality that is generated.
        test: int64 ids of the nodes that are measured.
        noise: Damage that also reaches the texts and pictures that are shown.
        neighbours: Most neighbours of each modality.
        seed: Seed of the neighbours that are drawn.
    """

    def __init__(
        self,
        mag: MAG,
        features: Features,
        edges: Ints,
        made: str,
        test: Ints,
        noise: Noise,
        neighbours: int,
        seed: int,
    ) -> None:
        self.mag, self.features, self.made = mag, features, made
        everyone = torch.arange(mag.num_nodes)
        self.has = {m: features.has(m, everyone).cpu().numpy() for m in features.dims}
        self.neighbours = {}
        for modality in layout.MODALITIES:
            rng = child_rng(seed, "neighbours", modality)
            usable = self.has.get(modality, np.zeros(mag.num_nodes, bool))
            table = draw_neighbours(edges, usable, neighbours, rng)
            self.neighbours[modality] = table
        self._rows = {m: noise.rows(m, mag.num_nodes) for m in features.dims}
        self._measured = np.zeros(mag.num_nodes, bool)
        self._measured[test] = True

    def texts(self, ids: Ints) -> list[str]:
        """Texts of nodes as they are shown, "" where there is none."""
        return self._texts_of(self._shown(layout.TEXT, ids))

    def images(self, ids: Ints) -> list[Image | None]:
        """Pictures of nodes as they are shown, RGB; None where there is none."""
        return self._images_of(self._shown(layout.IMAGE, ids))

    def pictures(self, ids: Ints) -> list[Image | None]:
        """The real pictures of nodes, RGB: for measuring only."""
        return self._images_of(ids)

    def _shown(self, modality: str, ids: Ints) -> Ints:
        """Whose text or picture stands for that of each node: its own, but for noise."""
        rows = self._rows.get(modality)
        return ids if rows is None else rows[ids]

    @cached_property
    def _texts(self) -> NDArray[np.object_]:
        return column_by_node(self.mag, layout.TEXT)

    def _texts_of(self, ids: Ints) -> list[str]:
        return [text or "" for text in self._texts[ids].tolist()]

    def _images_of(self, ids: Ints) -> list[Image | None]:
        if layout.IMAGE not in self.mag.spec.config(layout.NODES).features or not len(ids):
            return [None] * len(ids)
        rows = self.mag.nodes.select_columns([layout.IMAGE]).select(ids)
        pictures = [row[layout.IMAGE] for row in rows]
        return [None if picture is None else picture.convert("RGB") for picture in pictures]

    def answers(self, ids: Ints) -> list[Any]:
        """What ought to be generated for nodes, to learn from.

        Raises:
            MaghubError: One of them is measured.
        """
        if self._measured[ids].any():
            raise MaghubError("a generator asked for the answer of a test node")
        return self._texts_of(ids) if self.made == layout.TEXT else self._images_of(ids)

    def vectors(self, modality: str, ids: Ints) -> Tensor:
        """float32 [n, D] input vectors; zeros for what is to be made of a test node."""
        found = self.features(torch.from_numpy(ids))[modality].clone()
        if modality == self.made:
            found[torch.from_numpy(self._measured[ids]).to(found.device)] = 0
        return found

    def context(self, node: int) -> Context:
        """What may be seen of one target."""
        near = {m: table[node][table[node] >= 0] for m, table in self.neighbours.items()}
        others = np.unique(np.concatenate(list(near.values())))
        own = np.array([node])
        places = np.arange(1, 1 + len(others))
        return Context(
            node=node,
            text=None if self.made == layout.TEXT else self.texts(own)[0] or None,
            image=None if self.made == layout.IMAGE else self.images(own)[0],
            text_ids=near[layout.TEXT],
            texts=self.texts(near[layout.TEXT]),
            image_ids=near[layout.IMAGE],
            images=[i for i in self.images(near[layout.IMAGE]) if i is not None],
            star=np.stack([places, np.zeros_like(places)]),
            star_ids=np.concatenate([own, others]),
        )


def draw_neighbours(
    edges: Ints, usable: NDArray[np.bool_], most: int, rng: np.random.Generator
) -> Ints:
    """int64 [N, most]: distinct neighbours of each node, drawn uniformly, -1 where there are fewer.

    Args:
        edges: int64 [2, M] neighbours (row 0) of nodes (row 1); loops count for nothing.
        usable: bool [N], who may be drawn.
        most: How many at most.
        rng: Source of the draws.
    """
    src, dst = np.unique(edges[:, (edges[0] != edges[1]) & usable[edges[0]]], axis=1)
    order = np.lexsort((rng.random(len(src)), dst))
    src, dst = src[order], dst[order]
    place = np.arange(len(dst)) - np.searchsorted(dst, dst)
    kept = place < most
    table = np.full((len(usable), most), -1, np.int64)
    table[dst[kept], place[kept]] = src[kept]
    return table


def column_by_node(mag: MAG, column: str) -> NDArray[np.object_]:
    """Values of a column of the nodes, in the order of node ids."""
    nodes = mag.config(layout.NODES)
    table = read_columns(mag.folder, nodes, [layout.NODE_ID, column])
    values = np.empty(mag.num_nodes, object)
    values[np.asarray(table[layout.NODE_ID])] = table[column].to_pylist()
    return values
