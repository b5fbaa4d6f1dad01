"""``maghub search`` as a user meets it: real processes, exit codes, one-line errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from tests.helpers.built import columns
from tests.helpers.searchable import write_encoded
from tests.test_cli import one_line, run

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Part of emoji with vectors."""
    return write_encoded(tmp_path_factory.mktemp("cli") / "part")


def test_search_by_text_without_and_with_an_index(part: Path, tmp_path: Path) -> None:
    text = columns(part, "nodes")["text"][25]
    shown = run("search", part, text, "-k", 3)
    assert shown.returncode == 0, shown.stderr
    assert "rank" in shown.stdout
    assert text.split(":")[0] in shown.stdout
    out = tmp_path / "index"
    built = run("search", "build", part, "--kind", "ivf", "--nlist", 2, "--out", out, "--json")
    assert built.returncode == 0, built.stderr
    record = json.loads(built.stdout)
    assert (record["kind"], record["vectors"], record["folder"]) == ("ivf", 58, str(out))
    hits = json.loads(run("search", part, text, "-k", 3, "--index", out, "--json").stdout)
    assert [hit["rank"] for hit in hits] == [1, 2, 3]
    assert (hits[0]["id"], hits[0]["text"]) == (25, text)
    index = out / "index.faiss"
    index.write_bytes(index.read_bytes()[:-1])
    damaged = run("search", part, text, "--index", out)
    assert damaged.returncode == 1
    assert "index.faiss: does not match its checksum" in one_line(damaged)


def test_search_by_picture_with_a_sheet(part: Path, tmp_path: Path) -> None:
    picture = tmp_path / "query.png"
    picture.write_bytes(columns(part, "nodes")["image"][30]["bytes"])
    done = run("search", part, "--image", picture, "-k", 6, "--sheet", tmp_path / "sheet.png")
    assert done.returncode == 0, done.stderr
    assert f"written: {tmp_path / 'sheet.png'}" in done.stdout
    assert Image.open(tmp_path / "sheet.png").size == (688, 316)
    fake = tmp_path / "fake.png"
    fake.write_text("no picture")
    bad = run("search", part, "--image", fake)
    assert bad.returncode == 1
    assert one_line(bad).endswith("fake.png: is not a picture that can be read. Give a PNG or JPEG")


def test_errors_are_one_line(part: Path, tmp_path: Path) -> None:
    for args, text in (
        ([part, "dog", "-k", 59], "give a k from 1 to 58"),
        ([part, "dog", "--modality", "image"], "no text can be compared with"),
        ([part, "dog", "--kind", "hnsw"], "maghub search build"),
        (["no-such-folder", "dog"], "no-such-folder"),
        (["./build", "dog"], "./build"),
        (["build", "no-such-folder"], "no-such-folder"),
        (["build", part, "--kind", "flatt"], "did you mean flat?"),
    ):
        done = run("search", *args, cwd=tmp_path)
        assert done.returncode == 1, args
        assert text.lower() in one_line(done).lower()
    assert not list(tmp_path.iterdir())


def test_usage(part: Path) -> None:
    for args in ([part], [part, "dog", "--image", "x.png"], [part, "dog", "-k", 0], ["build"]):
        assert run("search", *args).returncode == 2, args
    shown = run("search", "--help")
    assert shown.returncode == 0
    assert "build" in shown.stdout
    assert "maghub search FOLDER" in shown.stdout
    assert "--sheet" in run("search", "query", "--help").stdout
