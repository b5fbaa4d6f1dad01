"""Export of a MAG to networkx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datasets import ClassLabel, Features, Value

from maghub import layout
from maghub.reader import read_columns
from maghub.schema import features_from_dict

if TYPE_CHECKING:
    import networkx

    from maghub.mag import MAG


def _scalar_columns(features: Features) -> list[str]:
    return [name for name, f in features.items() if isinstance(f, (Value, ClassLabel))]


def _rows(mag: MAG, name: str) -> list[dict[str, Any]]:
    """Rows of the scalar columns of a config, class labels by name."""
    config = mag.config(name)
    features = features_from_dict(config.features)
    columns = _scalar_columns(features)
    rows = read_columns(mag.folder, config, columns).to_pylist()
    for name in columns:
        if isinstance(features[name], ClassLabel):
            names = features[name].names
            for row in rows:
                row[name] = None if row[name] is None else names[row[name]]
    return rows


def to_graph(mag: MAG) -> networkx.Graph:
    """See ``MAG.to_networkx``. A pair with several relations needs a multigraph too."""
    import networkx

    parallel = mag.graph.multi_edges or mag.graph.unique_pairs < mag.graph.num_edges
    kinds = {
        (False, False): networkx.Graph,
        (False, True): networkx.MultiGraph,
        (True, False): networkx.DiGraph,
        (True, True): networkx.MultiDiGraph,
    }
    graph = kinds[mag.graph.directed, parallel](name=mag.spec.name)
    nodes = sorted(
        _rows(mag, mag.spec.of_kind("nodes")[0].name), key=lambda row: row[layout.NODE_ID]
    )
    graph.add_nodes_from((row.pop(layout.NODE_ID), row) for row in nodes)
    if mag.spec.has(layout.EDGES):
        edges = _rows(mag, layout.EDGES)
        graph.add_edges_from((row.pop(layout.SRC), row.pop(layout.DST), row) for row in edges)
    return graph
