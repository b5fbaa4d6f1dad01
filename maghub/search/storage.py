"""An index on disk: FAISS's own file, arrays beside it, and ``index.json`` with their checksums.

``index.json`` is written last and removed first, so that a folder with one is whole; readers wait
while it is written. The vectors of
a flat index are stored as they are (float16 in FAISS's scalar quantiser, bit for bit), with their
lengths beside them; FAISS reads the file as an inner-product index. Files are memory-mapped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationError, model_validator

from maghub.errors import MaghubError
from maghub.features import file_sha256, known_sha256
from maghub.files import fsync_folder, locked, os_errors, write_text
from maghub.search.approximate import Approximate, Kind, Options, configure
from maghub.search.backend import library
from maghub.search.blocks import Matrix, blocks
from maghub.search.exact import Exact
from maghub.search.index import Index, Metric
from maghub.spec import Model

RECORD, VECTORS, NORMS, IDS = "index.json", "index.faiss", "norms.npy", "ids.npy"
BUILD_AGAIN = "build it again with: maghub search build"


class Origin(Model):
    """Which vectors of which published folder an index was made of.

    ``files`` are the SHA-256 of the embedding config's Parquet files.
    """

    dataset: str
    encoder: str
    config: str
    column: str
    files: tuple[str, ...]


class Record(Model):
    """The whole of ``index.json``; ``files`` maps each file to its SHA-256."""

    format: Literal["maghub-index 1"] = "maghub-index 1"
    kind: Kind
    metric: Metric
    dim: int = Field(ge=1)
    rows: int = Field(ge=1)
    vectors: int = Field(ge=1)
    dtype: Literal["float16", "float32"]
    options: Options
    seed: int
    faiss: str
    origin: Origin | None = None
    files: dict[str, str]

    @model_validator(mode="after")
    def _whole(self) -> Record:
        needed = {VECTORS, NORMS} if self.kind == "flat" else {VECTORS}
        if missing := sorted(needed - self.files.keys()):
            raise ValueError(f"a {self.kind} index has a file {missing[0]}")
        if self.kind == "ivf" and self.options.nprobe is None:
            raise ValueError("an ivf index has a number of lists to search (nprobe)")
        return self


def save(index: Index, folder: Path, origin: Origin | None = None) -> Path:
    """Write an index, replacing the one that was there; who else writes it waits.

    Raises:
        MaghubError: Another thing is in the folder, or the disk refuses.
    """
    with os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _held(folder):
            _save(index, folder, origin)
    return folder


@contextmanager
def _held(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """The lock of an index: who writes it is alone, who reads it waits for that."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        raise MaghubError("holds no index", where=folder, fix=BUILD_AGAIN) from None
    try:
        with locked(handle, shared=shared):
            yield
    finally:
        os.close(handle)


def _save(index: Index, folder: Path, origin: Origin | None) -> None:
    engine = index.engine
    _claim(folder)
    arrays: dict[str, Any] = {} if index.ids is None else {IDS: index.ids}
    if isinstance(engine, Exact):
        arrays[NORMS] = engine.norms
        stored, rows, dtype = _flat(engine.matrix), len(engine.matrix), engine.matrix.dtype
    else:
        stored, rows = engine.index, engine.size
        dtype = np.dtype(np.float16 if _is_half(stored) else np.float32)
    _write_faiss(stored, folder / VECTORS)
    for name, array in arrays.items():
        _write_array(array, folder / name)
    record = Record(
        kind=index.kind,
        metric=index.metric,
        dim=index.dim,
        rows=rows,
        vectors=len(index),
        dtype="float16" if dtype == np.float16 else "float32",
        options=index.options,
        seed=index.seed,
        faiss=library().__version__,
        origin=origin,
        files={name: file_sha256(folder / name) for name in (VECTORS, *arrays)},
    )
    text = json.dumps(record.model_dump(mode="json"), indent=2, ensure_ascii=False)
    write_text(folder / RECORD, text + "\n")
    fsync_folder(folder)


def _claim(folder: Path) -> None:
    """Empty a folder that holds an index and nothing else."""
    own = {RECORD, VECTORS, NORMS, IDS}
    half = f".{RECORD}.partial-"  # what ``write_text`` leaves if it is killed
    found = sorted(path.name for path in folder.iterdir())
    known = [n for n in found if n.removesuffix(".partial") in own or n.startswith(half)]
    foreign = sorted(set(found) - set(known))
    if foreign:
        raise MaghubError(
            f"holds {foreign[0]}, which is no index", where=folder, fix="name another"
        )
    for name in sorted(found, key=lambda name: name != RECORD):
        (folder / name).unlink()


def _is_half(index: Any) -> bool:
    faiss = library()
    storage = faiss.downcast_index(index.storage) if hasattr(index, "storage") else index
    return hasattr(storage, "sq")


def _flat(matrix: Matrix) -> Any:
    """A FAISS index whose codes are the bytes of the matrix, copied block by block."""
    faiss = library()
    count, width = matrix.shape
    product = faiss.METRIC_INNER_PRODUCT
    if matrix.dtype == np.float16:
        index = faiss.IndexScalarQuantizer(width, faiss.ScalarQuantizer.QT_fp16, product)
    else:
        index = faiss.IndexFlatIP(width)
    size = matrix.dtype.itemsize * width
    index.codes.resize(count * size)
    codes = _view(index, matrix.dtype, count, width)
    for start, rows in blocks(matrix, "copying vectors"):
        codes[start : start + len(rows)] = rows
    index.ntotal = count
    return index


def _view(index: Any, dtype: np.dtype[Any], count: int, width: int) -> Matrix:
    """The codes of a flat index as a matrix over the same memory."""
    codes = library().rev_swig_ptr(index.codes.data(), count * width * dtype.itemsize)
    return np.asarray(codes.view(dtype)).reshape(count, width)


def _write_faiss(index: Any, path: Path) -> None:
    partial = path.with_name(path.name + ".partial")
    try:
        library().write_index(index, str(partial))
    except RuntimeError as error:
        reason = " ".join(str(error).split())[-120:]
        what = f"cannot be written ({reason})"
        partial.unlink(missing_ok=True)
        raise MaghubError(what, where=path, fix="free some disk space") from None
    _in_place(partial, path)


def _write_array(array: Any, path: Path) -> None:
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        np.save(file, array)
    _in_place(partial, path)


def _in_place(partial: Path, path: Path) -> None:
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(partial, path)


def kept(folder: Path) -> bool:
    """Whether a folder holds an index; one that is being written is waited for."""
    if not folder.is_dir():
        return False
    with os_errors(folder), _held(folder, shared=True):
        return (folder / RECORD).is_file()


def read_record(folder: Path) -> Record:
    """The ``index.json`` of a folder; one that is being written is waited for.

    Raises:
        MaghubError: There is no index, or its record cannot be read.
    """
    with os_errors(folder), _held(folder, shared=True):
        return _record(folder)


def _record(folder: Path) -> Record:
    path = folder / RECORD
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise MaghubError("holds no index", where=folder, fix=BUILD_AGAIN) from None
    except (OSError, UnicodeDecodeError) as error:
        raise MaghubError(f"cannot be read ({error})", where=path, fix=BUILD_AGAIN) from None
    try:
        return Record.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the text"
        what = f"is no record of an index ({field}: {first['msg']})"
        raise MaghubError(what, where=path, fix=BUILD_AGAIN) from None


def opened(folder: Path) -> Index:
    """The index of a folder, memory-mapped.

    Raises:
        MaghubError: There is none, a file is missing, or one is not what was saved.
    """
    with os_errors(folder), _held(folder, shared=True):
        record = _record(folder)
        for name, digest in record.files.items():
            path = folder / name
            own = name in (VECTORS, NORMS, IDS) and path.is_file()
            if not own or known_sha256(path) != digest:
                raise MaghubError(
                    f"does not match its checksum in {RECORD}",
                    where=path,
                    fix=f"it was changed or damaged: {BUILD_AGAIN}",
                )
        arrays = {
            name: np.load(folder / name, mmap_mode="r")
            for name in (NORMS, IDS)
            if name in record.files
        }
        stored = _read_faiss(folder / VECTORS)
    _check_stored(stored, arrays, record, folder / RECORD)
    cosine = record.metric == "cosine"
    engine: Exact | Approximate
    if record.kind == "flat":
        matrix = _view(stored, np.dtype(record.dtype), record.rows, record.dim)
        engine = Exact(matrix, arrays[NORMS], cosine=cosine)
        engine.owner = stored  # the mapping lives as long as this object
    else:
        configure(stored, record.options)
        engine = Approximate(stored, record.options, cosine=cosine)
    names = arrays.get(IDS)
    return Index(engine, names, record.kind, record.metric, record.dim, record.options, record.seed)


def _check_stored(stored: Any, arrays: dict[str, Any], record: Record, where: Path) -> None:
    """Raise unless the files are what the record says: memory is mapped by its word."""
    rows = record.rows if record.kind == "flat" else record.vectors
    for what, said, own in (
        ("kind", record.kind, _kind(stored)),
        ("dim", record.dim, stored.d),
        ("number of vectors", rows, stored.ntotal),
        ("dtype", record.dtype, "float16" if _is_half(stored) else "float32"),
        *((f"length of {name}", rows, len(array)) for name, array in arrays.items()),
    ):
        if said != own:
            raise MaghubError(
                f"{what} is {said}, the files have {own}", where=where, fix=BUILD_AGAIN
            )


def _kind(stored: Any) -> Kind:
    if hasattr(stored, "hnsw"):
        return "hnsw"
    return "ivf" if hasattr(stored, "nprobe") else "flat"


def _read_faiss(path: Path) -> Any:
    faiss = library()
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[-120:]
        what = f"cannot be read by FAISS {faiss.__version__} ({reason})"
        raise MaghubError(what, where=path, fix=BUILD_AGAIN) from None
