"""Tars, their parts, zips and folders: read in order and by name, and what is refused."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from mutants import check_survives

from maghub.builders._formats.archives import Limits, open_archive, parent
from maghub.builders._formats.parts import find_parts
from maghub.errors import MaghubError

FILES = {
    "XImages/3.jpg": b"three" * 300, "XImages/0.jpg": b"", "XImages/10.jpg": b"ten" * 200,
    "XImages/" + "long/" * 40 + "1.jpg": b"one", "XImages/é漢.png": b"accent",
}  # fmt: skip


def tar_bytes(mode: str = "w", form: int = tarfile.GNU_FORMAT, **odd: object) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=form) as tar:
        folder = tarfile.TarInfo("XImages")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, data in FILES.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        if odd:
            info = tarfile.TarInfo()
            for key, value in odd.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    return out.getvalue()


def zip_bytes(kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind) as archive:
        archive.mkdir("XImages")
        for name, data in FILES.items():
            archive.writestr(name, data)
    return out.getvalue()


def unpack(folder: Path) -> Path:
    for name, data in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def put(tmp_path: Path, name: str, data: bytes) -> Path:
    (tmp_path / name).write_bytes(data)
    return tmp_path / name


@pytest.fixture(
    params=[
        "gnu.tar",
        "pax.tar",
        "tar.gz",
        "tar.gz in parts",
        "tar in parts",
        "zip",
        "stored",
        "folder",
    ]
)
def archive(request, tmp_path):
    """The same files in each kind of archive."""
    packed = tar_bytes("w:gz", tarfile.PAX_FORMAT)
    match request.param:
        case "gnu.tar":
            return put(tmp_path, "x.tar", tar_bytes())
        case "pax.tar":
            return put(tmp_path, "x.bin", tar_bytes(form=tarfile.PAX_FORMAT))
        case "tar.gz":
            return put(tmp_path, "x.tar.gz", packed)
        case "zip":
            return put(tmp_path, "x.zip", zip_bytes())
        case "stored":
            return put(tmp_path, "x.zip", zip_bytes(zipfile.ZIP_STORED))
        case "folder":
            return unpack(tmp_path / "x")
        case other:
            whole = packed if "gz" in other else tar_bytes()
            third = len(whole) // 3 + 1
            for at, letter in enumerate("abc"):
                put(tmp_path, f"XImages_part{letter}", whole[at * third : (at + 1) * third])
            return find_parts(tmp_path, "XImages.tar.gz")


def test_in_order(archive):
    with open_archive(archive) as opened:
        found = list(opened.members())
        assert dict(found) == FILES or (isinstance(archive, Path) and archive.is_dir())
        if not isinstance(archive, Path) or not archive.is_dir():
            assert [name for name, _ in found] == list(FILES)
        assert list(opened.members()) == found  # and again


def test_by_name(archive):
    with open_archive(archive) as opened:
        index = opened.index()
        assert set(index) == {"0", "1", "3", "10", "é漢"}
        assert [index.read(key) for key in ("10", "0", "1", "é漢", "11")] == [
            FILES["XImages/10.jpg"], b"", b"one", b"accent", None,
        ]  # fmt: skip
        assert set(opened.index(suffixes=(".png",))) == {"é漢"}
        steps = opened.members()  # reading by name in between does not disturb
        first = next(steps)
        assert index.read("10") == FILES["XImages/10.jpg"]
        assert len([first, *steps]) == len(FILES)


def test_nothing_is_left_behind(archive, tmp_path):
    spool = tmp_path / "spool"
    spool.mkdir()
    with open_archive(archive, spool=spool) as opened:
        opened.index().read("3")
        assert list(spool.iterdir()) == []  # unnamed
    assert list(spool.iterdir()) == []


def test_several_files_of_one_key(tmp_path):
    for name in ("Q1/b.png", "Q1/a.jpg", "Q2/1.name.jpg.png"):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name).write_bytes(name.encode())
    with open_archive(tmp_path / "images") as opened:
        index = opened.index(key=parent)
        assert index.names("Q1") == ["Q1/a.jpg", "Q1/b.png"]
        assert [index.read("Q1", which) for which in range(3)] == [b"Q1/a.jpg", b"Q1/b.png", None]
        assert (len(index), index.shared) == (2, 1)


def test_the_later_of_two_members_of_one_name_holds(tmp_path):
    path = put(tmp_path, "x.tar", tar_bytes(name="./XImages//3.jpg", size=2))
    with open_archive(path) as opened:
        assert opened.index().read("3") == b"\0\0"


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../x.jpg",
        "a/../../x.jpg",
        "..",
        "\\x.jpg",
        "a\\..\\..\\x.jpg",
        "C:\\x.jpg",
        "C:x.jpg",
        ".",
    ],
)
@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_members_that_would_leave_the_folder_are_refused(tmp_path, name, kind):
    if kind == "zip":
        out = io.BytesIO(zip_bytes())
        with zipfile.ZipFile(out, "a") as archive:
            archive.writestr(zipfile.ZipInfo(name), b"x")
        data = out.getvalue()
    else:
        data = tar_bytes("w:gz" if kind == "tar.gz" else "w", name=name, size=1)
    path = put(tmp_path, f"x.{kind}", data)
    with open_archive(path) as opened:
        for use in (lambda: list(opened.members()), opened.index):
            with pytest.raises(MaghubError, match="would leave its folder: refused") as caught:
                use()
            assert str(path) in caught.value.line()


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.SYMTYPE, "a symbolic link"), (tarfile.LNKTYPE, "a hard link"),
        (tarfile.CHRTYPE, "a device"), (tarfile.BLKTYPE, "a device"), (tarfile.FIFOTYPE, "a pipe"),
        (tarfile.GNUTYPE_SPARSE, "a sparse file"),
    ],
)  # fmt: skip
def test_links_and_devices_in_tars_are_refused(tmp_path, kind, what):
    path = put(tmp_path, "x.tar", tar_bytes(name="a.jpg", type=kind, linkname="/etc/passwd"))
    with open_archive(path) as opened, pytest.raises(MaghubError, match=f"{what}: refused"):
        list(opened.members())


def test_links_in_zips_and_folders_are_refused(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        link = zipfile.ZipInfo("a.jpg")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    path = put(tmp_path, "x.zip", out.getvalue())
    with open_archive(path) as opened, pytest.raises(MaghubError, match="a link or a device"):
        list(opened.members())

    for target in ("/etc", "/etc/passwd"):
        folder = tmp_path / target.strip("/").replace("/", "-")
        folder.mkdir()
        os.symlink(target, folder / "a")
        with open_archive(folder) as opened, pytest.raises(MaghubError, match="symbolic link"):
            list(opened.members())
    with open_archive(unpack(tmp_path / "late")) as opened:
        index = opened.index()
        (tmp_path / "late" / "XImages" / "3.jpg").unlink()
        os.symlink("/etc/passwd", tmp_path / "late" / "XImages" / "3.jpg")
        with pytest.raises(MaghubError, match="cannot be read"):
            index.read("3")


def test_truncated_archives(tmp_path):
    for name, data in (("x.tar", tar_bytes()), ("x.tar.gz", tar_bytes("w:gz"))):
        for size in range(700 if name == "x.tar" else 20, len(data) - 1, 97):
            whole = data.rstrip(b"\0") if name == "x.tar" else data
            if size >= len(whole):
                break
            path = put(tmp_path, name, data[:size])
            with open_archive(path) as opened:
                with pytest.raises(MaghubError):
                    list(opened.members())
                with pytest.raises(MaghubError):
                    opened.index()


def test_a_wrong_checksum_at_the_end_of_a_gzip(tmp_path):
    data = bytearray(tar_bytes("w:gz"))
    data[-6] ^= 1
    with open_archive(put(tmp_path, "x.tar.gz", bytes(data))) as opened:
        with pytest.raises(MaghubError, match="CRC"):
            list(opened.members())
        with pytest.raises(MaghubError, match="CRC"):
            opened.index()


def test_bombs_are_refused(tmp_path):
    small = Limits(members=10, member_bytes=1 << 20, ratio=10, free_bytes=1 << 16)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for at in range(8):
            info = tarfile.TarInfo(f"{at}.jpg")
            info.size = 1 << 19
            tar.addfile(info, io.BytesIO(bytes(1 << 19)))
    with open_archive(put(tmp_path, "x.tar.gz", out.getvalue()), small) as opened:
        with pytest.raises(MaghubError, match="unpacks to more than"):
            list(opened.members())
        with pytest.raises(MaghubError, match="unpacks to more than"):
            opened.index()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.jpg", bytes(1 << 19))
    bomb = put(tmp_path, "x.zip", out.getvalue())
    with (
        open_archive(bomb, small) as opened,
        pytest.raises(MaghubError, match="unpacks to too much"),
    ):
        opened.index()
    large = put(tmp_path, "x.tar", tar_bytes(name="big.jpg", size=(1 << 20) + 1))
    with open_archive(large, small) as opened, pytest.raises(MaghubError, match="bytes: refused"):
        opened.index()
    many = Limits(members=3)
    with (
        open_archive(large, many) as opened,
        pytest.raises(MaghubError, match="more than 3 members"),
    ):
        opened.index()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a tar"),
        (b"<html>404</html>", "this is an HTML page"),
        (b"\x89PNG", "not one"),
    ],
)
def test_what_is_no_archive(tmp_path, data, message):
    with pytest.raises(MaghubError, match=message):
        open_archive(put(tmp_path, "x.tar.gz", data))
    with pytest.raises(MaghubError, match="there is no such file"):
        open_archive(tmp_path / "none.tar")


def test_parts(tmp_path):
    for letter in "abd":
        put(tmp_path, f"RedditMImages_part{letter}", b"x")
    with pytest.raises(MaghubError, match=r"part 3 of RedditMImages\.tar\.gz is missing"):
        find_parts(tmp_path, "RedditMImages.tar.gz")
    put(tmp_path, "RedditMImages_partc", b"x")
    found = find_parts(tmp_path, "RedditMImages.tar.gz")
    assert [path.name[-1] for path in found] == ["a", "b", "c", "d"]
    assert find_parts(tmp_path, "Other.tar.gz") == []
    assert find_parts(tmp_path / "none", "Other.tar.gz") == []
    put(tmp_path, "RedditMImages.tar.gz", b"x")
    assert find_parts(tmp_path, "RedditMImages.tar.gz") == [tmp_path / "RedditMImages.tar.gz"]
    for number in ("01", "02", "10"):
        put(tmp_path, f"b.tar.part{number}", b"x")
    with pytest.raises(MaghubError, match="part 3 of"):
        find_parts(tmp_path, "b.tar")


def test_a_large_archive_is_indexed_in_little_memory(tmp_path):
    import tracemalloc

    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as tar:
        for at in range(3000):
            info = tarfile.TarInfo(f"images/{at}.jpg")
            info.size = 2000
            tar.addfile(info, io.BytesIO(bytes(2000)))
    with open_archive(path) as opened:
        tracemalloc.start()
        index = opened.index()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        order = np.random.default_rng(0).permutation(3000)
        assert all(index.read(str(at)) == bytes(2000) for at in order[:50])
    assert peak < 3000 * 1200


def read_both_ways(path: Path) -> None:
    with open_archive(path) as opened:
        list(opened.members())
    with open_archive(path) as opened:
        index = opened.index()
        for key in index:
            index.read(key)


@pytest.mark.parametrize("kind", ["gnu", "pax", "gz", "zip"])
def test_mutants(tmp_path, kind):
    data = {
        "gnu": tar_bytes, "pax": lambda: tar_bytes(form=tarfile.PAX_FORMAT),
        "gz": lambda: gzip.compress(tar_bytes()), "zip": zip_bytes,
    }[kind]()  # fmt: skip
    if kind in ("gnu", "pax"):
        data = data.rstrip(b"\0") + bytes(1024 + -len(data.rstrip(b"\0")) % 512)
    refused = check_survives(read_both_ways, data, tmp_path / "x.tar", count=1000, seed=12)
    assert refused > 150
