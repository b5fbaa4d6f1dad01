"""What the binary readers share: a read-only map of a file, an error naming file and byte."""

from __future__ import annotations

import mmap
import os
import zipfile
from pathlib import Path

import numpy as np

from maghub.errors import MaghubError


def fail(path: object, what: str, offset: int | None = None, fix: str | None = None) -> MaghubError:
    """The error for a bad file: which file, at which byte, what is wrong with it."""
    where = str(path) if offset is None else f"{path}, byte {offset}"
    return MaghubError(what, where=where, fix=fix)


def cannot_open(path: object, error: OSError) -> MaghubError:
    """The error for a file that is not there or that may not be read."""
    if isinstance(error, FileNotFoundError):
        return fail(path, "there is no such file")
    return fail(path, f"cannot be read ({error.strerror or type(error).__name__})")


def map_file(path: str | os.PathLike[str]) -> memoryview:
    """The bytes of a file as a read-only memory map, open for as long as views of it live."""
    try:
        with Path(path).open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise cannot_open(path, error) from None


def give_back(array: np.ndarray) -> None:
    """Let go of the pages of a mapped file that were read so far; they can be read again.

    A process that passes over a large file once would else be charged for all of it.
    """
    base: object = array
    while hasattr(base, "base"):  # an array, or what as_strided puts between two
        base = base.base
    mapped = base.obj if isinstance(base, memoryview) else None
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def unzipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """One member of a zip file, read in chunks: a single read would allocate what it says it is."""
    with archive.open(info) as member:
        return b"".join(iter(lambda: member.read(1 << 20), b""))
