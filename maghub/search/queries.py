"""``maghub.find``: the nodes of a published folder that are nearest to a text or a picture.

The query goes through the encoder that made the vectors, in the same revision. A text finds
pictures, and a picture texts, where one model projects both into one space (CLIP and its kind).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maghub import layout, registry
from maghub.encoding.base import Encoder, EncoderSpec
from maghub.encoding.engine import Recipe, absolute
from maghub.errors import MaghubError
from maghub.files import os_errors
from maghub.images import decode
from maghub.loading import load
from maghub.mag import MAG
from maghub.reader import iter_groups
from maghub.search.approximate import Kind
from maghub.search.backend import Floats, faiss_device
from maghub.search.folders import Column, columns, find_column, open_index
from maghub.search.index import Metric
from maghub.spec import EncoderProvenance

if TYPE_CHECKING:
    from PIL.Image import Image

SHARED_SPACE = "projection"
"""Pooling of the encoders whose texts and images lie in one space."""
_FAMILIES = {"timm": "timm", "sentence-transformers": "st", "open_clip": "open_clip"}


@dataclass(frozen=True)
class Hit:
    """One result.

    Attributes:
        rank: 1 is the best.
        score: Cosine (or inner product) with the query.
        id: The node, or the row of another table such as ``corpus``.
        source_id: What upstream calls the node, or the ``id`` of the other table's row.
        text: Its text; "" where it has none.
    """

    rank: int
    score: float
    id: int
    source_id: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def find(
    folder: str | Path,
    text: str | None = None,
    *,
    image: str | Path | None = None,
    encoder: str | None = None,
    modality: str | None = None,
    k: int = 10,
    kind: Kind | None = None,
    metric: Metric = "cosine",
    index: str | Path | None = None,
    device: str = "auto",
    model_path: str | Path | None = None,
) -> list[Hit]:
    """The ``k`` nodes nearest to a text or a picture, best first.

    Args:
        folder: A folder, a bundled sample by its name, or a repo on the Hub.
        text: What to look for; either this or ``image``.
        image: A picture file.
        encoder: Whose vectors are searched; None: the first that can take the query.
        modality: Which vectors are searched; None: those of the query's kind, else the other.
        k: How many, at most the number of nodes with a vector.
        kind: Which kept index to use; None: whichever there is, else an exact search without one.
        metric: ``cosine`` or ``ip``.
        index: Folder of an index that is kept elsewhere.
        device: torch device of the encoder; ``auto`` takes a GPU where there is one.
        model_path: Local folder with the encoder's files.

    Raises:
        MaghubError: Nothing to look for, a file that is no picture, vectors that the query cannot
            be compared with, an encoder of another revision, or what ``Index.search`` raises.
    """
    if (text is None) == (image is None):
        raise MaghubError("one query is needed", fix="give a text or an image")
    if text is not None and not text.strip():
        raise MaghubError("the query is an empty text", fix="say what to look for")
    picture = None if image is None else _picture(Path(image))
    mag = load(folder)
    asked = layout.TEXT if text is not None else layout.IMAGE
    column = _column(mag, asked, encoder, modality)
    opened = open_index(
        mag, column.config.name, column.modality, kind=kind, metric=metric, index=index
    )
    opened.check_k(k)
    model = _encoder(column, asked, device, model_path)
    vector = model.encode_texts([str(text)]) if picture is None else model.encode_images([picture])
    scores, ids = opened.search(vector, k, device=faiss_device(device))
    return _hits(column, scores[0], ids[0])


def _picture(path: Path) -> Image:
    with os_errors(path):
        data = path.read_bytes()
    found = decode(data)
    if found is None:
        raise MaghubError("is not a picture that can be read", where=path, fix="give a PNG or JPEG")
    return found


def _column(mag: MAG, asked: str, encoder: str | None, modality: str | None) -> Column:
    """The vectors to search: of the query's kind first, those that can take it first."""
    if modality is None:
        for one in columns(mag):
            if one.modality == asked and encoder in (None, one.encoder, one.config.name):
                return one
    return find_column(mag, encoder, modality)


def _check_comparable(column: Column, asked: str, spec: EncoderSpec) -> None:
    """Raise unless queries of the kind ``asked`` lie in the space of the vectors."""
    if not spec.dim:  # a model taken by name says so only when it is loaded
        return
    if asked in spec.dim and (asked == column.modality or spec.pooling == SHARED_SPACE):
        return
    raise MaghubError(
        f"{column.encoder} gives {column.modality} vectors that no {asked} can be compared with",
        fix=f"search by {column.modality}, or choose vectors of a joint encoder such as "
        f"clip-vit-base-patch32",
    )


def _encoder(column: Column, asked: str, device: str, model_path: str | Path | None) -> Encoder:
    """The loaded encoder of the vectors.

    Raises:
        MaghubError: Nobody recorded it, it is not known here, it is of another revision, or it
            cannot take the query.
    """
    facts = next((f for f in column.mag.spec.encoders if f.config == column.config.name), None)
    if facts is None or facts.origin != "maghub":
        raise MaghubError(
            f"config {column.config.name} came from upstream, so that no query can be encoded "
            f"the same way",
            fix="search vectors of an encoder of maghub",
        )
    name, width = _registered(facts, column.modality)
    factory = registry.get("encoders", name)
    if isinstance(known := getattr(factory, "spec", None), EncoderSpec):  # before it is loaded
        _check_comparable(column, asked, known)
    model = Recipe(factory, device, facts.compute, absolute(model_path), width).load()
    _check_comparable(column, asked, model.spec)
    for what, own, stored in (
        ("model", model.spec.model_id, facts.model_id),
        ("revision", model.spec.revision, facts.revision),
        ("projection", getattr(model, "projection", None), facts.projection),
    ):
        if own != stored:
            raise MaghubError(
                f"the vectors were made with {what} {stored}, the encoder here has {own}",
                where=column.config.name,
                fix=f"give its folder as the model path, or run: maghub encode {column.mag.folder} "
                f"--encoder {name}",
            )
    return model


def _registered(facts: EncoderProvenance, modality: str) -> tuple[str, int | None]:
    """Name of the encoder in the registry, and the width that its vectors were projected to."""
    name, width = facts.encoder, None
    if facts.projection is not None:
        width = facts.dim[modality]
        name = name.removesuffix(f"-proj{width}")
    if name not in registry.names("encoders") and facts.library in _FAMILIES:
        return f"{_FAMILIES[facts.library]}:{facts.model_id}", width
    return name, width


def _hits(column: Column, scores: Floats, ids: np.ndarray) -> list[Hit]:
    """The results with their texts; what an approximate index did not find is left out."""
    found = [(float(s), int(i)) for s, i in zip(scores, ids, strict=True) if i >= 0]
    names = (layout.SOURCE_ID, layout.ID, layout.TEXT)
    rows = table_rows(column, names, [i for _, i in found])
    hits = []
    for rank, (score, number) in enumerate(found, start=1):
        row = rows.get(number, {})
        called = row.get(layout.SOURCE_ID) or row.get(layout.ID) or ""
        hits.append(Hit(rank, score, number, called, row.get(layout.TEXT) or ""))
    return hits


def table_rows(
    column: Column, names: Sequence[str], ids: Sequence[int]
) -> dict[int, dict[str, Any]]:
    """Some rows of the table that the vectors belong to, with those of the columns that it has.

    Rows are named by ``node_id`` where the table has one, by their number otherwise. The table is
    read row group by row group.
    """
    target = column.config.target
    if target is None or column.config.kind != "embeddings":
        return {}
    config = column.mag.config(target)
    wanted = [name for name in names if name in config.features]
    keyed = [layout.NODE_ID] if layout.NODE_ID in config.features else []
    chosen = pa.array(ids, pa.int64())
    rows: dict[int, dict[str, Any]] = {}
    first = 0
    for _, _, table in iter_groups(column.mag.folder, config, [*keyed, *wanted]):
        keys = table[layout.NODE_ID] if keyed else pa.array(np.arange(first, first + len(table)))
        first += len(table)
        kept = pc.is_in(keys, value_set=chosen)
        found = table.select(wanted).filter(kept).to_pylist()
        rows |= dict(zip(keys.filter(kept).to_pylist(), found, strict=True))
    return rows
