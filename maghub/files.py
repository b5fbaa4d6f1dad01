"""Writing that never leaves half a thing: write beside, fsync, rename; one line for OS errors."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from maghub import layout
from maghub.errors import MaghubError

try:
    import fcntl
except ImportError:  # pragma: no cover  (no such locks on Windows)
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FIXES = {
    errno.ENOSPC: "free some disk space and run it again; nothing was left half-written",
    errno.EDQUOT: "free some disk quota and run it again; nothing was left half-written",
    errno.EACCES: "check the permissions of the folder",
    errno.EPERM: "check the permissions of the folder",
    errno.EROFS: "choose a folder on a writable disk",
    errno.ENOENT: "check the path",
    errno.EISDIR: "name a file",
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


@contextmanager
def locked(file: BinaryIO | int, *, shared: bool = False) -> Iterator[None]:
    """Wait until nobody else has the lock of an open file, or of an open folder by its handle;
    where there are no locks, go on. Readers share theirs and keep writers out."""
    if fcntl is None:
        yield
        return
    with suppress(OSError):  # some network disks have none
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)


def check_writable(path: Path) -> None:
    """Raise what would be raised if a file were written there, and leave none.

    Raises:
        MaghubError: It cannot be written, or is a folder.
    """
    with os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.open("ab").close()
            return
        try:
            tempfile.TemporaryFile(dir=path.parent).close()
        except OSError as error:
            error.filename = str(path)  # not that of the file we tried
            raise


def check_output(path: Path, endings: Sequence[str], inputs: Iterable[Path] = ()) -> None:
    """Raise unless a report may be written there: it must replace no data.

    Args:
        path: Where it would be written.
        endings: What the name of a file that may be replaced ends in, e.g. ``(".html", ".htm")``.
        inputs: Files that it is made of.

    Raises:
        MaghubError: A file with another ending is there, it is one of the inputs, or it lies in a
            published folder.
    """
    if path.is_file() and path.suffix.lower() not in endings:
        what = f"is there already, and may be another kind of file than {endings[0]}"
        raise MaghubError(what, where=path, fix=f"end the name in {endings[0]}")
    if any(path.resolve() == other.resolve() for other in inputs):
        raise MaghubError("is read, and would be replaced", where=path, fix="name another file")
    check_outside(path)


def check_outside(path: Path) -> None:
    """Raise where a file would lie in a published folder, which holds what maghub.json lists.

    Hidden folders in it, such as ``.search``, are nobody's business.
    """
    whole = path.resolve()
    for folder in whole.parents:
        if (folder / layout.SPEC_FILE).is_file():
            if not whole.relative_to(folder).parts[0].startswith("."):
                what = f"would lie in the published folder {folder.name}"
                raise MaghubError(what, where=path, fix="name a place outside it")
            return


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
    """Replace a file atomically; its contents are durable before it has its name.

    An OSError names the file, not the temporary one beside it.
    """
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.partial-", dir=path.parent)
        temporary = Path(name)
        with open(handle, "wb") as file:
            temporary.chmod(0o666 & ~_umask())
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is not None:
            error.filename = str(path)
        raise


@contextmanager
def staged_folder(out: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder beside ``out`` that takes its place when the block succeeds.

    On any error or kill signal raised inside the block it is removed and ``out`` stays as it was;
    what a writer that was killed outright has left is removed by the next one of the same ``out``.
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
        prefix = f".{out.name}.partial-"
        _sweep(out.parent, prefix)
        staging, handle = _claimed(out.parent, prefix)
        try:
            staging.chmod(0o777 & ~_umask())
            yield staging
            for folder in [staging, *(path for path in staging.iterdir() if path.is_dir())]:
                fsync_folder(folder)
            _refuse_to_replace(out, overwrite)  # somebody may have been faster
            _swap(staging, out)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            os.close(handle)


def _claimed(parent: Path, prefix: str) -> tuple[Path, int]:
    """A new folder and the handle that holds its lock for as long as this process lives."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            handle = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue  # swept away before it was locked
        if _lock(handle) is not False and folder.is_dir():
            return folder, handle
        os.close(handle)


def _lock(handle: int) -> bool | None:
    """Whether the lock of an open folder could be had; None where there are no such locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _sweep(parent: Path, prefix: str) -> None:
    """Remove what writers left that were killed: folders of that prefix that nobody has locked."""
    for folder in parent.iterdir():
        if not folder.name.startswith(prefix) or folder.is_symlink() or not folder.is_dir():
            continue
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            try:
                if _lock(handle):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


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
