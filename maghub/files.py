"""Writing that never leaves half a thing: write beside, fsync, rename; one line for OS errors."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from maghub import layout
from maghub.errors import MaghubError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FIXES = {
    errno.ENOSPC: "free some disk space and run it again; nothing was left half-written",
    errno.EDQUOT: "free some disk quota and run it again; nothing was left half-written",
    errno.EACCES: "check the permissions of the folder",
    errno.EPERM: "check the permissions of the folder",
    errno.EROFS: "choose a folder on a writable disk",
    errno.ENOENT: "check the path",
}


@contextmanager
def os_errors(where: object) -> Iterator[None]:
    """Turn an OSError inside the block into a MaghubError that says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        place = error.filename if error.filename is not None else where
        fix = _FIXES.get(error.errno or 0)
        raise MaghubError(f"cannot be read or written ({reason})", where=place, fix=fix) from error


def fsync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Replace a text file (UTF-8, \\n) atomically, whoever else writes it at the same time."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: Buffer) -> None:
    """Replace a file atomically; its contents are durable before it has its name."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.partial-", dir=path.parent)
    temporary = Path(name)
    try:
        with open(handle, "wb") as file:
            temporary.chmod(0o666 & ~_umask())
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def staged_folder(out: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder beside ``out`` that takes its place when the block succeeds.

    On any error or kill signal raised inside the block it is removed and ``out`` stays as it was.
    Only a published folder (or an empty one) is ever replaced.

    Raises:
        MaghubError: ``out`` may not be replaced, or the OS refuses to write.
    """
    if not str(out).strip() or Path(os.path.abspath(out)) in (Path.cwd(), *Path.cwd().parents):
        raise MaghubError("cannot be made where you stand", where=out or "''", fix="name a folder")
    out = Path(os.path.abspath(out))
    with os_errors(out):
        _refuse_to_replace(out, overwrite)
        out.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{out.name}.partial-", dir=out.parent))
        try:
            staging.chmod(0o777 & ~_umask())
            yield staging
            for folder in [staging, *(path for path in staging.iterdir() if path.is_dir())]:
                fsync_folder(folder)
            _refuse_to_replace(out, overwrite)  # somebody may have been faster
            _swap(staging, out)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _refuse_to_replace(out: Path, overwrite: bool) -> None:
    """Raise unless ``out`` is free, empty, or a published folder that may be overwritten."""
    if out.is_symlink() or out.is_file():
        raise MaghubError("is a file or a link", where=out, fix="choose another folder")
    if not out.exists() or not any(out.iterdir()):
        return
    if not overwrite:
        fix = "choose another folder, or pass --overwrite"
        raise MaghubError("already exists", where=out, fix=fix)
    if not (out / layout.SPEC_FILE).is_file():
        raise MaghubError(
            f"holds no {layout.SPEC_FILE}: it is no published folder and is not overwritten",
            where=out,
            fix="choose another folder",
        )


def _swap(staging: Path, out: Path) -> None:
    """Rename ``staging`` to ``out``, keeping the old ``out`` until the new one stands."""
    backup = None
    try:
        if out.exists():
            backup = Path(tempfile.mkdtemp(prefix=f".{out.name}.old-", dir=out.parent))
            os.replace(out, backup / out.name)
        os.replace(staging, out)
    except BaseException:
        if backup is not None:
            if not out.exists():
                os.replace(backup / out.name, out)
            with suppress(OSError):  # it is empty now, unless the old folder could not go back
                backup.rmdir()
        raise
    fsync_folder(out.parent)
    if backup is not None:
        shutil.rmtree(backup, ignore_errors=True)


def _umask() -> int:
    value = os.umask(0)
    os.umask(value)
    return value
