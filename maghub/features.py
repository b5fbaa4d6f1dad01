"""Feature matrices without copies: one memory-mapped array per (file contents, column).

``datasets`` keeps vectors in chunks of 1,000 rows and turns float16 into float32; a Parquet file
cannot be mapped at all. So the first use streams the column into one ``.npy`` file in maghub's
cache folder (named by the contents of the Parquet files), and every use maps that file
copy-on-write: pages are shared between processes, writing to the array never reaches the disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from maghub import layout
from maghub.errors import MaghubError, place
from maghub.files import os_errors, write_text
from maghub.progress import track
from maghub.reader import iter_groups
from maghub.schema import features_from_dict, vector_columns
from maghub.spec import ConfigSpec, FileEntry, FolderSpec

if TYPE_CHECKING:
    import torch

CACHE_VARIABLE = "MAGHUB_CACHE"
_BLOCK = 1 << 22


def cache_folder() -> Path:
    """Where derived files live: ``$MAGHUB_CACHE``, else ``maghub`` in the user's cache folder."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "maghub"


class FeatureView(np.memmap):
    """A memory-mapped matrix [rows, D] in its stored dtype; ``torch()`` shares the memory."""

    def torch(self) -> torch.Tensor:
        """A torch tensor over the same memory, float16 kept.

        Raises:
            MissingExtra: torch is not installed.
        """
        try:
            import torch
        except ImportError:
            from maghub.errors import MissingExtra

            raise MissingExtra("torch", "torch") from None
        return torch.from_numpy(self.view(np.ndarray))


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def known_sha256(path: Path) -> str:
    """SHA-256 of a file, remembered in the cache for as long as nobody has touched the file.

    The change time is part of that: unlike the modification time it cannot be set back.
    """
    info = path.stat()
    times = f"{info.st_mtime_ns}\0{info.st_ctime_ns}"
    state = f"{os.path.realpath(path)}\0{info.st_ino}\0{info.st_size}\0{times}"
    note = cache_folder() / "sha256" / hashlib.sha256(state.encode()).hexdigest()
    if note.is_file():
        return note.read_text("ascii")
    digest = file_sha256(path)
    note.parent.mkdir(parents=True, exist_ok=True)
    write_text(note, digest)
    return digest


def verify_file(folder: Path, entry: FileEntry) -> None:
    """Check a shard against its recorded checksum.

    Raises:
        MaghubError: The contents differ from what ``maghub.json`` records.
    """
    if known_sha256(folder / entry.path) != entry.sha256:
        raise MaghubError(
            "does not match its checksum in maghub.json",
            where=entry.path,
            fix="the file was changed or damaged: copy or build it again",
        )


def _vectors(folder: Path, config: ConfigSpec, column: str, width: int) -> Iterator[np.ndarray]:
    """The column's values row group by row group, [rows, width]; a null row is an error."""
    for file, row, table in iter_groups(folder, config, [column]):
        array = table[column].combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = array.chunk(0)
        if array.null_count:
            first = int(np.flatnonzero(np.asarray(array.is_null()))[0])
            raise MaghubError(
                "vector is null", where=place(file, column, row + first), fix="write zeros instead"
            )
        start = array.offset * width
        values = array.values.slice(start, len(array) * width)
        yield values.to_numpy(zero_copy_only=not values.null_count).reshape(-1, width)


def _build(path: Path, folder: Path, config: ConfigSpec, column: str) -> None:
    """Stream a vector column into one .npy file, in place only when complete."""
    features = features_from_dict(config.features)
    width = vector_columns(features)[column]
    dtype = np.dtype(features[column].feature.dtype)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".partial-", suffix=".npy", dir=path.parent)
    os.close(handle)
    try:
        with open(name, "wb") as file:
            header: dict[str, Any] = {
                "descr": np.lib.format.dtype_to_descr(dtype),
                "fortran_order": False,
                "shape": (config.rows, width),
            }
            np.lib.format.write_array_header_1_0(file, header)
            rows = 0
            blocks = _vectors(folder, config, column, width)
            for block in track(blocks, f"mapping {config.name}.{column}"):
                file.write(np.ascontiguousarray(block).data)
                rows += len(block)
            if rows != config.rows:
                raise MaghubError(
                    f"holds {rows:,} rows, maghub.json says {config.rows:,}",
                    where=config.name,
                    fix="build it again",
                )
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _open(path: Path, shape: tuple[int, int], dtype: np.dtype[Any]) -> np.ndarray | None:
    """The mapped array, or None where the file is absent or not whole."""
    try:
        array = np.load(path, mmap_mode="c")
    except (FileNotFoundError, ValueError, EOFError):
        return None
    return array if (array.shape, array.dtype) == (shape, dtype) else None


def feature_view(folder: Path, config: ConfigSpec, column: str) -> FeatureView:
    """Map one vector column of an embedding config; built in the cache on first use.

    Returns:
        [rows, D] in the stored dtype (float16 stays float16), rows in target order.

    Raises:
        MaghubError: No such column, a damaged file, or a full disk.
    """
    features = features_from_dict(config.features)
    widths = vector_columns(features)
    if column not in widths:
        raise MaghubError(
            f"config {config.name} holds no {column} vectors",
            fix=f"it has: {', '.join(widths) or 'none'}",
        )
    with os_errors(cache_folder()):
        for entry in config.files:
            verify_file(folder, entry)
        identity = json.dumps([[entry.sha256 for entry in config.files], column])
        key = hashlib.sha256(identity.encode()).hexdigest()
        path = cache_folder() / "features" / f"{key}.npy"
        shape = (config.rows, widths[column])
        dtype = np.dtype(features[column].feature.dtype)
        array = _open(path, shape, dtype)
        if array is None:
            _build(path, folder, config, column)
            array = _open(path, shape, dtype)
    assert array is not None
    view = array.view(FeatureView)
    assert isinstance(view, FeatureView)
    return view


def no_vectors(spec: FolderSpec, where: object) -> MaghubError:
    """The error of a folder without vectors, with what can be done about it."""
    if spec.has(layout.TRIPLETS) and not spec.of_kind("corpus"):
        fix = f"make a benchmark of it with: maghub mkg build --kg {where} --out FOLDER"
        what = "is a knowledge graph, of which no vectors are made"
        return MaghubError(what, where=where, fix=fix)
    fix = f"make some with: maghub encode {where} --encoder all-minilm-l6-v2"
    return MaghubError("holds no vectors", where=where, fix=fix)
