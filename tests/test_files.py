"""A full disk, no permission, broken files: one clear line, nothing half-written."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maghub import parquet
from maghub.errors import MaghubError
from maghub.files import os_errors
from maghub.loading import load
from maghub.validation import validate
from tests.helpers.folders import data_path
from tests.helpers.graphs import files_of, random_toy, write_toy
from tests.helpers.reports import one_line

ROOT = Path(__file__).resolve().parents[1]


def child(code: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own, with the package and the helpers importable."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


# -- full disk -----------------------------------------------------------------------------------


class FullDisk:
    """Stands in for the open file of the Parquet writer: refuses after some bytes."""

    def __init__(self, room: int, code: int) -> None:
        self.room, self.code = room, code

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write = parquet._HashingFile.write

        def limited(file: Any, data: Any) -> int:
            self.room -= memoryview(data).nbytes
            if self.room < 0:
                raise OSError(self.code, os.strerror(self.code), str(file.path))
            return write(file, data)

        monkeypatch.setattr(parquet._HashingFile, "write", limited)


@pytest.mark.parametrize("room", [0, 10, 2_000, 9_000])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_fake_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, code: int
) -> None:
    FullDisk(room, code).install(monkeypatch)
    with pytest.raises(MaghubError) as error:
        write_toy(random_toy(), tmp_path / "toy")
    one_line(error.value, os.strerror(code))
    if code != errno.EIO:
        one_line(error.value, "nothing was left half-written")
    assert list(tmp_path.iterdir()) == []


def test_full_disk_keeps_the_existing_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_toy(random_toy(), tmp_path / "toy")
    before = files_of(tmp_path / "toy")
    FullDisk(3_000, errno.ENOSPC).install(monkeypatch)
    with pytest.raises(MaghubError):
        write_toy(random_toy(seed=1), tmp_path / "toy", overwrite=True)
    assert files_of(tmp_path / "toy") == before
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]


FILL = """
import ctypes, os, sys
from pathlib import Path
libc = ctypes.CDLL(None, use_errno=True)
place = Path(sys.argv[1])
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000
def check(value):
    if value:
        print("refused", os.strerror(ctypes.get_errno()))
        sys.exit(77)
check(libc.unshare(CLONE_NEWNS))
check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
check(libc.mount(b"none", os.fsencode(place), b"tmpfs", 0, b"size=300k"))
import numpy as np
from maghub import layout
from maghub.errors import MaghubError
from tests.helpers.graphs import files_of, random_toy, write_toy
write_toy(random_toy(12), place / "toy")
before = files_of(place / "toy")
big = random_toy(40)
big.vectors = {layout.TEXT: np.random.default_rng(0).standard_normal((40, 8192)).astype(np.float16)}
for out, overwrite in (("new", False), ("toy", True)):
    try:
        write_toy(big, place / out, overwrite=overwrite)
    except MaghubError as error:
        print(error.line())
    else:
        print("written")
assert files_of(place / "toy") == before
print(sorted(path.name for path in place.iterdir()))
"""


def test_real_full_disk(tmp_path: Path) -> None:
    """On a tmpfs of 300 kB in a mount namespace of the child, which vanishes with it."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root on Linux; the fake full disk covers it")
    result = child(FILL, tmp_path)
    if result.returncode == 77:
        pytest.skip(f"no mount allowed here: {result.stdout.strip()}")
    assert result.returncode == 0, result.stderr
    first, second, names = result.stdout.splitlines()
    for line in (first, second):
        assert "No space left on device" in line
        assert "nothing was left half-written" in line
    assert names == "['toy']"


# -- no permission -------------------------------------------------------------------------------

REFUSED = """
import os, sys
from pathlib import Path
from maghub.errors import MaghubError
from maghub.loading import load
from maghub.validation import validate
from tests.helpers.graphs import random_toy, write_toy
if os.geteuid() == 0:  # root may do everything: go on as nobody, the modules are loaded by now
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
closed, folder = Path(sys.argv[1]), Path(sys.argv[2])
for action in (
    lambda: write_toy(random_toy(12), closed / "toy"),
    lambda: validate(closed),
    lambda: load(folder),
    lambda: validate(folder),
):
    try:
        action()
        print("nothing raised")
    except MaghubError as error:
        print(error.line())
"""


def test_no_permission() -> None:
    base = Path(tempfile.mkdtemp(prefix="maghub-permission-"))
    base.chmod(0o755)  # another user may enter it, unlike pytest's own folders
    try:
        write_toy(random_toy(12), base / "toy")
        (base / "toy" / "maghub.json").chmod(0)
        (base / "closed").mkdir(mode=0o000)
        result = child(REFUSED, base / "closed", base / "toy")
        assert result.returncode == 0, result.stderr
        lines = result.stdout.splitlines()
        assert len(lines) == 4, result.stdout
        assert all("Permission denied" in line for line in lines), result.stdout
        assert str(base / "toy" / "maghub.json") in lines[3]
        assert list((base / "closed").iterdir()) == []
    finally:
        (base / "closed").chmod(0o700)
        shutil.rmtree(base)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EACCES, ["Permission denied", "Check the permissions"]),
        (errno.EROFS, ["Read-only file system", "Choose a folder on a writable disk"]),
        (errno.ENOENT, ["No such file", "Check the path"]),
        (errno.EMFILE, ["Too many open files"]),
    ],
)
def test_errors_of_the_system_say_where_and_what_to_do(code: int, words: list[str]) -> None:
    with pytest.raises(MaghubError) as error, os_errors("data/toy"):
        raise OSError(code, os.strerror(code))
    one_line(error.value, "data/toy", *words)
    with pytest.raises(MaghubError) as error, os_errors("data/toy"):
        raise OSError(code, os.strerror(code), "other/file")
    one_line(error.value, "other/file", *words)


# -- reading what is broken ----------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_truncated_parquet(folder: Path, share: float) -> None:
    path = data_path(folder, "edges")
    data = (folder / path).read_bytes()
    (folder / path).write_bytes(data[: int(len(data) * share)])
    with pytest.raises(MaghubError) as error:
        _ = load(folder).edge_index
    one_line(error.value, path, "is not a whole Parquet file")
    assert any(p.file == path and "not a whole" in p.message for p in validate(folder).problems)


@pytest.mark.parametrize("action", [load, validate])
def test_empty_folder(tmp_path: Path, action: Callable[[Path], object]) -> None:
    with pytest.raises(MaghubError) as error:
        action(tmp_path)
    one_line(error.value, str(tmp_path), "published folder", "maghub build")
    assert list(tmp_path.iterdir()) == []


def test_changed_vectors_are_refused(folder: Path) -> None:
    path = data_path(folder, "embeddings-toy-encoder")
    data = bytearray((folder / path).read_bytes())
    data[100] ^= 1
    (folder / path).write_bytes(data)
    with pytest.raises(MaghubError) as error:
        load(folder).features("toy-encoder", "text")
    one_line(error.value, path, "does not match its checksum")
