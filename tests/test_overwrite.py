"""Nothing but a published folder is ever replaced."""

from pathlib import Path

import pytest

from maghub.errors import MaghubError
from maghub.files import staged_folder
from maghub.spec import FileEntry, parse_spec
from tests.helpers.graphs import random_toy, write_toy


def attempt(out: Path) -> None:
    with staged_folder(out, overwrite=True) as staging:
        (staging / "new").write_text("new")


def test_a_folder_of_something_else_is_kept(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(MaghubError, match="is not overwritten"):
        attempt(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_file_and_a_link_are_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    write_toy(random_toy(20), tmp_path / "toy")
    (tmp_path / "link").symlink_to(tmp_path / "toy")
    for name in ("file", "link"):
        with pytest.raises(MaghubError, match="a file or a link"):
            attempt(tmp_path / name)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "toy" / "maghub.json").is_file()


def test_the_current_folder_and_no_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for out in (Path("."), Path(""), tmp_path / "here", tmp_path):
        with pytest.raises(MaghubError, match="where you stand"):
            attempt(out)


def test_whoever_comes_second_is_refused(tmp_path: Path) -> None:
    slow = staged_folder(tmp_path / "toy")
    (slow.__enter__() / "slow").write_text("slow")
    write_toy(random_toy(20), tmp_path / "toy")
    with pytest.raises(MaghubError, match="already exists"):
        slow.__exit__(None, None, None)
    assert (tmp_path / "toy" / "maghub.json").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]


@pytest.mark.parametrize("path", ["/etc/passwd", "../x.parquet", "nodes/../../x", "a\\b"])
def test_a_path_that_leaves_the_folder_is_no_spec(path: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="leads out of the folder"):
        FileEntry(path=path, split="full", rows=1, bytes=1, sha256="0" * 64)
    text = (
        write_toy(random_toy(20), tmp_path / "t"),
        (tmp_path / "t" / "maghub.json").read_text(),
    )[1]
    first = text.index('"path": "') + len('"path": "')
    changed = text[:first] + path.replace("\\", "\\\\") + text[text.index('"', first) :]
    with pytest.raises(MaghubError, match="leads out of the folder"):
        parse_spec(changed, "maghub.json")
