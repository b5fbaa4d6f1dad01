"""Export of a MAG to PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from maghub import layout
from maghub.errors import MissingExtra

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from maghub.mag import MAG

MASKS = {layout.TRAIN: "train_mask", layout.VALIDATION: "val_mask", layout.TEST: "test_mask"}
EDGES = {layout.TRAIN: "train", layout.VALIDATION: "val", layout.TEST: "test"}


def to_data(
    mag: MAG,
    encoders: Mapping[str, str],
    task: str,
    node_rule: str | None,
    edge_rule: str | None,
) -> Data:
    """See ``MAG.to_pyg``."""
    try:
        import torch
        from torch_geometric.data import Data
    except ImportError as error:
        raise MissingExtra(error.name or "torch_geometric", "baselines") from None
    edges = torch.from_numpy(mag.message_edges(task, edge_rule))  # type: ignore[arg-type]
    data = Data(edge_index=edges, num_nodes=mag.num_nodes)
    tensors = [mag.features(encoder, modality).torch() for modality, encoder in encoders.items()]
    for modality, tensor in zip(encoders, tensors, strict=True):
        data[f"x_{modality}"] = tensor
    if tensors:
        data.x = tensors[0] if len(tensors) == 1 else torch.cat(tensors, dim=1)
    if task == "node_classification":
        data.y = torch.from_numpy(mag.labels)
        splits = mag.splits(node_rule)
        for split, name in MASKS.items():
            mask = np.zeros(mag.num_nodes, bool)
            mask[splits.get(split, [])] = True
            data[name] = torch.from_numpy(mask)
    else:
        for split, ids in mag.edge_splits(edge_rule).items():
            if split in EDGES:
                data[f"{EDGES[split]}_edge_index"] = torch.from_numpy(mag.edge_index[:, ids])
    return data
