"""Tables that maghub did not publish, as a folder to audit: the user says what the columns are.

Any repo or folder that ``datasets`` can load will do. What is there is kept as it is (repeated
edges, a pair in two splits), and nothing is added: no split, no negatives.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from maghub import layout, schema
from maghub.building import build_own
from maghub.cards import PARTS, Card, CardSpec, read_card
from maghub.errors import MaghubError, nearest, root_cause
from maghub.features import CACHE_VARIABLE, cache_folder
from maghub.files import os_errors
from maghub.hub.opening import is_hub_id
from maghub.hub.remote import parse_id
from maghub.spec import EncoderProvenance, read_spec
from maghub.tables import in_memory
from maghub.writing import write_config, write_metadata

LOADERS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".csv": "csv", ".tsv": "csv"}
SIDES = {"train": layout.TRAIN, "val": layout.VALIDATION, "dev": layout.VALIDATION}
SIDES |= {"test": layout.TEST}
_NAMES = {"split": "split", "edge-split": "edge_split"}


@dataclass(frozen=True)
class Columns:
    """What is where in tables of somebody else.

    Attributes:
        nodes, edges: A config, or a file of the repo or folder; None is the default config, and no
            edges.
        columns: Field (id, text, label, image, split; src, dst, relation, edge-split) -> column,
            where it is not called so.
        vectors: Pairs of a modality (text or image) and a column of the nodes that holds vectors.
        directed: Whether an edge has a direction.
    """

    nodes: str | None = None
    edges: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    vectors: tuple[tuple[str, str], ...] = ()
    directed: bool = False


@contextmanager
def imported(name: str | Path, columns: Columns) -> Iterator[Path]:
    """A published folder with those tables, for as long as the block runs.

    Without a column of ids, nodes are called 0, 1, ... by row. Where a table comes in several
    splits and has no column of its own for them, their names are the split (what begins with none
    of train, val, dev and test is unassigned).

    Raises:
        MaghubError: There is no such dataset, config or column, or a cell does not fit.
    """
    title = re.sub(r"[^a-z0-9]+", "-", str(name).lower()).strip("-") or "tables"
    before = os.environ.get(CACHE_VARIABLE)
    base = cache_folder() / "audit"
    with os_errors(base):
        base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{title[:40]}-", dir=base) as work:
        os.environ[CACHE_VARIABLE] = f"{work}/cache"  # what is derived goes with the folder
        try:
            yield _written(str(name), title, columns, Path(work))
        finally:
            os.environ.pop(CACHE_VARIABLE)
            if before is not None:
                os.environ[CACHE_VARIABLE] = before


def _written(name: str, title: str, given: Columns, work: Path) -> Path:
    nodes = _Read(name, given.nodes, work)
    mapping = dict(given.columns)
    own = nodes.columns(mapping, "split")
    edges = None
    if given.edges is not None:
        edges = _Read(name, given.edges, work).columns(mapping, "edge-split")
    images = _picture_folder(name, own, mapping.get(layout.IMAGE, layout.IMAGE))
    matrices = [(modality, c, *nodes.matrix(modality, c)) for modality, c in given.vectors]
    folder = work / "folder"
    card = _card(title, given.directed)
    build_own(
        title, folder, own, card=card, edges=edges, images=images, columns=mapping, as_given=True,
        negatives=0,
    )  # fmt: skip
    for modality, column, matrix, present in matrices:
        _add_vectors(folder, modality, column, matrix, present)
    return folder


def _picture_folder(name: str, columns: dict[str, Any], image: str) -> Path | None:
    """The folder that the cells of the column of pictures name files in; None: they hold them."""
    cells = columns.get(image)
    if not isinstance(cells, pa.ChunkedArray) or cells.type not in (pa.string(), pa.large_string()):
        return None
    if not Path(name).is_dir():
        what = "holds names of pictures, not the pictures"
        fix = "download the repo and audit the folder"
        raise MaghubError(what, where=f"{name}, column {image}", fix=fix)
    columns[image] = cells.to_pylist()
    return Path(name)


class _Read:
    """One table, its splits one after the other, memory-mapped."""

    def __init__(self, name: str, part: str | None, work: Path) -> None:
        self.where = f"{name}, {part}" if part else name
        with os_errors(self.where):
            found = _open(name, part, str(work / "datasets"))
        self.features = next(iter(found.values())).features
        kept = {split: rows for split, rows in found.items() if rows.num_rows}
        if not kept:
            raise MaghubError("holds no rows", where=self.where)
        self.table = pa.concat_tables([rows.data.table for rows in kept.values()])
        self.sides: list[str] | None = None
        if len(found) > 1:
            self.sides = [_side(split) for split, rows in kept.items() for _ in range(len(rows))]

    def columns(self, mapping: Mapping[str, str], split: str) -> dict[str, Any]:
        """All columns by name, classes by their names; with the split where only files tell it."""
        found = {name: self._plain(name) for name in self.table.column_names}
        if self.sides is not None and split not in mapping and _NAMES[split] not in found:
            found[_NAMES[split]] = self.sides
        return found

    def _plain(self, name: str) -> Any:
        kind, column = self.features[name], self.table[name]
        if isinstance(kind, datasets.ClassLabel):
            codes = pc.if_else(pc.less(column, 0), None, column)
            return pc.take(pa.array(kind.names), codes)
        if isinstance(kind, datasets.Image):
            data = pc.struct_field(column, "bytes")
            if pc.all(pc.is_valid(data)).as_py() or not _paths(column):
                return data
            return [_bytes(cell) for cell in column.to_pylist()]  # files of an image folder
        return column

    def matrix(self, modality: str, name: str) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
        """The vectors of a column [rows, D] (zeros where there is none), and which are there.

        Raises:
            MaghubError: No such column, or its cells are no vectors of numbers of one width.
        """
        if modality not in layout.MODALITIES:
            raise nearest(modality, layout.MODALITIES, kind="modality of --vectors")
        if name not in self.table.column_names:
            raise MaghubError(
                nearest(name, self.table.column_names, kind="column").line(), where=self.where
            )
        column, where = self.table[name], f"{self.where}, column {name}"
        try:
            lengths = np.unique(pc.list_value_length(column).drop_null())
            flat = pc.list_flatten(column)
            values = np.asarray(flat.combine_chunks().to_numpy(zero_copy_only=False))
        except (pa.ArrowException, NotImplementedError):
            raise MaghubError(f"holds {column.type}, not vectors", where=where) from None
        if len(lengths) != 1 or values.dtype.kind not in "fiu" or not lengths[0]:
            what = f"vectors of {column.type} with lengths {lengths[:5].tolist()}"
            raise MaghubError(f"{what} cannot be compared", where=where)
        if not np.isfinite(values).all():
            raise MaghubError("a vector is not finite", where=where)
        present = np.asarray(pc.is_valid(column).combine_chunks().to_numpy(zero_copy_only=False))
        dtype = np.float16 if values.dtype == np.float16 else np.float32
        matrix = np.zeros((len(present), int(lengths[0])), dtype)
        with np.errstate(over="ignore"):
            matrix[present] = values.reshape(-1, int(lengths[0]))
        if not np.isfinite(matrix).all():
            raise MaghubError("a number is beyond float32", where=where)
        return matrix, present


def _side(split: str) -> str:
    return next((side for word, side in SIDES.items() if split.lower().startswith(word)), "")


def _paths(column: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.is_valid(pc.struct_field(column, "path"))).as_py())


def _bytes(cell: dict[str, Any] | None) -> Any:
    data, path = (cell["bytes"], cell["path"]) if cell is not None else (None, None)
    return data if data is not None or path is None else Path(path).read_bytes()


def _open(name: str, part: str | None, cache: str) -> datasets.DatasetDict:
    """The splits of a config or file."""
    place = Path(name)
    if not place.is_dir() and not is_hub_id(name):
        fix = "give a folder, or ORG/NAME of a repo on the Hub"
        raise MaghubError("there is no such folder", where=name, fix=fix)
    try:
        if part and (suffix := Path(part).suffix.lower()) in LOADERS:
            path = str(place / part) if place.is_dir() else f"hf://datasets/{name}/{part}"
            more = _exact(path, suffix) if LOADERS[suffix] == "csv" else {}
            found = datasets.load_dataset(LOADERS[suffix], data_files=path, cache_dir=cache, **more)
        elif part and (place / part).is_dir() and not (place / layout.CARD_FILE).is_file():
            found = datasets.load_dataset(str(place / part), cache_dir=cache)
        else:
            repo, revision = (name, None) if place.is_dir() else parse_id(name)
            found = datasets.load_dataset(repo, part, revision=revision, cache_dir=cache)
    except MaghubError:
        raise
    except Exception as error:  # datasets, pyarrow, pandas and the Hub each raise their own
        cause = root_cause(error)
        reason = " ".join(str(cause).split())[:300].rstrip(".") or type(cause).__name__
        where = f"{name}, {part}" if part else name
        fix = "name a config or a file with --nodes and --edges"
        raise MaghubError(f"cannot be read as a dataset ({reason})", where=where, fix=fix) from None
    assert isinstance(found, datasets.DatasetDict)
    return found


def _exact(path: str, suffix: str) -> dict[str, Any]:
    """Settings that leave the cells of a CSV or TSV file as they are written."""
    mark, encoding = "\t" if suffix == ".tsv" else ",", "utf-8-sig"
    header = pandas.read_csv(path, nrows=0, sep=mark, encoding=encoding).columns
    return {"sep": mark, "encoding": encoding, "converters": dict.fromkeys(header, str)}


def _card(title: str, directed: bool) -> Card:
    """A card that is never published."""
    spec = {
        "name": title,
        "pretty_name": title,
        "summary": "tables under audit",
        "version": "0.0.0",
        "hub_license": "other",
        "licences": dict.fromkeys(PARTS, "unknown"),
        "policy": dict.fromkeys(PARTS, "local"),
        "language": ["und"],
        "upstream": [{"name": title, "revision": "unknown", "licence": "unknown"}],
        "directed": directed,
        "citation": "-",
    }
    return Card(spec=CardSpec.model_validate(spec), body="")


def _add_vectors(
    folder: Path,
    modality: str,
    column: str,
    matrix: NDArray[np.generic],
    present: NDArray[np.bool_],
) -> None:
    """One embedding config of the nodes, named after its column (and, if need be, modality)."""
    spec, dtype = read_spec(folder), str(matrix.dtype)
    name = re.sub(r"[^\w.-]+", "-", column)
    while spec.has(layout.embeddings_config(name)):
        name += f"-{modality}"
    flat, width = pa.array(matrix.reshape(-1)), matrix.shape[1]
    values = {
        layout.NODE_ID: np.arange(len(matrix)),
        modality: pa.FixedSizeListArray.from_arrays(flat, width),
        layout.has_column(modality): present,
    }
    features = schema.embeddings_features({modality: width}, dtype)
    config_name = layout.embeddings_config(name)
    config = write_config(
        folder, in_memory(config_name, "embeddings", features, values, target=layout.NODES)
    )
    assert config is not None
    unknown = ("model_id", "revision", "library", "licence", "pooling")
    facts: dict[str, Any] = dict.fromkeys(unknown, "unknown") | {"modalities": (modality,)}
    facts |= {"dim": {modality: width}, "normalized": False, "dtype": dtype}
    missing = {modality: int((~present).sum())}
    provenance = EncoderProvenance(
        origin="upstream", encoder=name, config=config_name, missing=missing, **facts
    )
    update = {
        "configs": (*spec.configs, config),
        "encoders": (*spec.encoders, provenance),
    }
    card = read_card(folder / layout.CARD_SOURCE_FILE)
    write_metadata(folder, card, spec.model_copy(update=update))
