"""A small part of the emoji sample as a folder of its own, to encode and search."""

from __future__ import annotations

from pathlib import Path

import maghub
from maghub.loading import sample_path
from maghub.spec import FolderSpec
from tests.helpers.built import columns
from tests.helpers.graphs import Toy, write_toy

TEXT_ENCODER, IMAGE_ENCODER = "all-minilm-l6-v2", "efficientnet-lite0"
NODES = 60


def write_part(folder: Path, nodes: int = NODES) -> FolderSpec:
    """Every thirtieth emoji with its text and picture; two have none, one has neither."""
    source = sample_path("emoji")
    assert source is not None
    table = columns(source, "nodes")
    chosen = range(0, 30 * nodes, 30)
    texts = [table["text"][i] for i in chosen]
    images: list[bytes | None] = [table["image"][i]["bytes"] for i in chosen]
    texts[7], images[9], texts[11], images[11] = "", None, "", None
    toy = Toy(
        texts=texts,
        labels=None,
        images=images,
        edges=[(i, i + 1, 0) for i in range(nodes - 1)],
        negatives=None,
    )
    return write_toy(toy, folder)


def write_encoded(folder: Path) -> Path:
    """The same with the vectors of both offline encoders."""
    write_part(folder)
    maghub.encode(folder, TEXT_ENCODER)
    maghub.encode(folder, IMAGE_ENCODER)
    return folder
