"""Random computer networks: scattered nodes, merged hubs, nearest-neighbour links (paper C.5)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.spatial import cKDTree

from maghub.clegr.draws import Draws
from maghub.clegr.graph import Column, Graph, components
from maghub.clegr.layout import Floats, merge_near, noisy_count
from maghub.clegr.names import system_name
from maghub.clegr.schema import LINK_VALUES, NETWORK, NETWORK_SIZES, SYSTEM_VALUES
from maghub.clegr.subway import integer_names, random_columns

_FEWEST_NODES = 3


def network_graph(rng: np.random.Generator, graph_id: str, size: str, int_names: bool) -> Graph:
    """Draw one computer network.

    Args:
        rng: The graph's own Generator.
        graph_id: Name of the graph.
        size: ``small``, ``medium`` or ``large``.
        int_names: Call nodes by integers, ids included.

    Returns:
        A connected network of at least three nodes.
    """
    base = NETWORK_SIZES[size]
    draws = Draws(rng)
    while True:
        count = noisy_count(rng, base.nodes)
        points = rng.uniform(-base.radius, base.radius, size=(count, 2))
        order = rng.permutation(count)
        master = merge_near(points, order, base.merge_distance, base.merge_rounds)
        kept = np.unique(master)
        if len(kept) >= _FEWEST_NODES:
            break
    points = points[kept]
    source, target = _nearest_links(points, base.degree)
    _connect(draws, len(kept), source, target)
    names: dict[str, None] = {}
    while len(names) < len(kept):
        names[system_name(draws, names)] = None
    ids = [f"n{index}" for index in kept.tolist()]
    if int_names:
        ids = integer_names(rng, len(kept))
        names = dict.fromkeys(ids)
    nodes: dict[str, Column] = random_columns(rng, SYSTEM_VALUES, len(kept))
    edges: dict[str, Column] = random_columns(rng, LINK_VALUES, len(source))
    return Graph(
        graph_id=graph_id,
        domain=NETWORK,
        ids=ids,
        names=list(names),
        x=points[:, 0].tolist(),
        y=points[:, 1].tolist(),
        nodes=nodes,
        source=source,
        target=target,
        edges=edges,
    )


def _nearest_links(points: Floats, degree: int) -> tuple[list[int], list[int]]:
    """Link each node with its ``degree`` nearest ones, once per pair."""
    size = len(points)
    near = cKDTree(points).query(points, k=min(degree + 1, size))[1]
    links: dict[tuple[int, int], None] = {}
    for node, others in enumerate(near.tolist()):
        for other in others:
            if other != node:
                links[(node, other) if node < other else (other, node)] = None
    return [u for u, _ in links], [v for _, v in links]


def _connect(draws: Draws, size: int, source: list[int], target: list[int]) -> None:
    """Join component after component by a link between random nodes."""
    groups = components(size, source, target)
    for here, there in pairwise(groups):
        source.append(draws.pick(here))
        target.append(draws.pick(there))
