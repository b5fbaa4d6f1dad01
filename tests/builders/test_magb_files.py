"""Files of MAGB that come and go, lie elsewhere, are downloaded, damaged or disagree."""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dgl_writer import write_dgl
from upstream import write_magb

import maghub
from maghub.builders import _fetch
from maghub.builders._fetch import Remote
from maghub.builders.magb import MagbSource, RedditMSource, ToysSource
from tests.helpers.built import (
    check_valid,
    columns,
    refusal,
)

FEW = {"negatives": 5}  # 50 need more nodes than a fixture has
TEXT = "embeddings-magb-roberta-base-512-mean"


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(4))


def table_of(root: Path, stem: str) -> tuple[Path, list[dict[str, str]]]:
    path = root / f"{stem}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return path, list(csv.DictReader(file))


def rewrite(
    root: Path, change: Callable[[list[dict[str, str]]], object], stem: str = "Toys"
) -> None:
    path, rows = table_of(root, stem)
    change(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    write_magb(tmp_path / "raw", "Toys", rng())
    return tmp_path / "raw"


def test_columns_that_come_and_go(raw: Path, tmp_path: Path) -> None:
    """No column but id, text, class and label is needed; more columns do no harm."""

    def change(rows: list[dict[str, str]]) -> None:
        for row in rows:
            for column in ("category", "also_buy", "also_view", "imageURLHighRes", "title"):
                del row[column]
            row["text_length"] = "7"

    rewrite(raw, change)
    spec = maghub.build("toys", tmp_path / "out", raw, **FEW)
    assert set(columns(tmp_path / "out", "nodes")) == {
        "node_id", "source_id", "text", "image", "label",
    }  # fmt: skip
    assert "neighbours in the table" not in spec.notes


def test_a_table_that_disagrees_with_the_graph_on_edges_is_counted(
    raw: Path, tmp_path: Path
) -> None:
    def change(rows: list[dict[str, str]]) -> None:
        rows[0]["also_buy"], rows[0]["also_view"] = "[39, 1000, 0]", "['B0001']"
        rows[1]["also_buy"] = "[7"

    rewrite(raw, change)
    notes = maghub.build("toys", tmp_path / "out", raw, **FEW).notes
    assert notes["neighbours in the table"]["not in the graph"] == 1
    assert notes["neighbours in the table"]["only in the graph"] >= 3
    assert notes["unreadable lists of neighbours"] == 1


def test_unlabelled_and_half_texts(raw: Path, tmp_path: Path) -> None:
    def change(rows: list[dict[str, str]]) -> None:
        rows[9]["label"] = "-1"
        rows[10]["text"] = "Title: None; Description: about 10"

    rewrite(raw, change)
    graph = np.array([int(row["label"]) for row in table_of(raw, "Toys")[1]])
    src = np.array([0, 1])
    write_dgl(raw / "ToysGraph.pt", 40, src, src + 1, node_tensors={"label": graph})
    spec = maghub.build("toys", tmp_path / "out", raw, **FEW)
    nodes = columns(tmp_path / "out", "nodes")
    assert nodes["label"][9] is None
    assert nodes["text"][10] == "Title: None; Description: about 10"
    assert spec.node_splits[0].counts["unassigned"] == 1
    check_valid(tmp_path / "out")


def test_other_places_of_the_files(raw: Path, tmp_path: Path) -> None:
    """A copy of the whole repository, pictures unpacked, joined again, or left out."""
    wanted = maghub.build("toys", tmp_path / "a", raw, **FEW)
    shutil.unpack_archive(raw / "ToysImages.tar.gz", raw, filter="data")
    (raw / "ToysImages.tar.gz").unlink()
    (tmp_path / "hub").mkdir()
    raw.rename(tmp_path / "hub" / "Toys")
    again = maghub.build("toys", tmp_path / "b", tmp_path / "hub", **FEW)
    assert again.configs == wanted.configs
    shutil.rmtree(tmp_path / "hub" / "Toys" / "ToysImages")
    bare = maghub.build(
        "toys", tmp_path / "c", tmp_path / "hub", images=False, vectors="none", **FEW
    )
    assert "image" not in bare.config("nodes").features
    assert bare.encoders == ()
    check_valid(tmp_path / "c")


def test_some_of_the_vectors(raw: Path, tmp_path: Path) -> None:
    spec = maghub.build(
        "toys", tmp_path / "out", raw, vectors=TEXT.removeprefix("embeddings-"), **FEW
    )
    assert [encoder.config for encoder in spec.encoders] == [TEXT]
    line = refusal("toys", raw, tmp_path / "no", vectors="magb-roberta-base", **FEW)
    assert "Did you mean magb-roberta-base-512-mean" in line


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    line = refusal("toys", tmp_path / "raw", tmp_path / "out")
    for file in ("Toys.csv", "ToysGraph.pt", "ToysImages.tar.gz"):
        assert f"{file} (from hf://datasets/Sherirto/MAGB@main/Toys/{file})" in line
    assert "ToysImages" not in refusal("toys", tmp_path / "raw", tmp_path / "out", images=False)
    write_magb(tmp_path / "parts", "RedditM", rng(), parts=3)
    (tmp_path / "parts" / "RedditMImages_partb").unlink()
    assert "part 2 of" in refusal("reddit-m", tmp_path / "parts", tmp_path / "out", **FEW)


@pytest.mark.parametrize(("source", "folder"), [(ToysSource, "Toys"), (RedditMSource, "Reddit-M")])
def test_without_a_raw_folder_the_files_are_fetched(
    source: type[MagbSource], folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = 3 if source is RedditMSource else 1
    planted = write_magb(tmp_path / "hub", source.stem, rng(), parts=parts)
    asked = []

    def fetch(file: Remote) -> Path:
        asked.append(file.url)
        return planted.root / file.url.rpartition("/")[2]

    monkeypatch.setattr(_fetch, "_download", fetch)
    monkeypatch.setenv("MAGHUB_CACHE", str(tmp_path / "cache"))
    graph = source(None, 0, **FEW).graph
    assert graph.num_nodes == planted.num_nodes
    assert graph.encoders == ()
    assert len(asked) == 2 + parts
    assert all(url.startswith(f"hf://datasets/Sherirto/MAGB@main/{folder}/") for url in asked)


BAD: dict[str, tuple[Callable[[list[dict[str, str]]], object], str]] = {
    "id": (lambda rows: rows[4].update(id="5"), r"Toys\.csv, column id, row 5: is 5, expected 4"),
    "label": (
        lambda rows: rows[4].update(label="x"),
        r"column label, row 5: 'x' is not an integer",
    ),
    "other label": (lambda rows: rows[4].update(label="2"), r"column label, row "),
    "name": (lambda rows: rows[-1].update(second_category="New"), r"column label, row 40: label"),
    "list": (lambda rows: rows[3].update(category="[1"), r"column category, row 4: not a list"),
    "short": (lambda rows: rows.pop(), r"Toys\.csv: 39 rows for the 40 nodes"),
    "no column": (lambda rows: [row.pop("label") for row in rows], r"no column label; it has id"),
}


@pytest.mark.parametrize("what", [*BAD])
def test_a_bad_table_is_one_line_with_its_row(what: str, raw: Path, tmp_path: Path) -> None:
    change, message = BAD[what]
    rewrite(raw, change)
    line = refusal("toys", raw, tmp_path / "out", **FEW)
    assert re.search(message, line), line


@pytest.mark.parametrize(
    "file",
    ["Toys.csv", "ToysGraph.pt", "ToysImages.tar.gz", "TextFeature/Toys_roberta_base_512_mean.npy"],
)
def test_cut_and_foreign_files_are_one_line(file: str, raw: Path, tmp_path: Path) -> None:
    whole = (raw / file).read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"<!DOCTYPE html><html>404</html>"):
        (raw / file).write_bytes(content)
        line = refusal("toys", raw, tmp_path / "out", **FEW)
        assert Path(file).name in line
    assert not list(tmp_path.glob(".*"))


def test_bad_options_are_one_line(raw: Path, tmp_path: Path) -> None:
    line = refusal("toys", raw, tmp_path / "out", negatives="many")
    assert "negatives is 'many'" in line
    assert "non-neighbours" in refusal("toys", raw, tmp_path / "out", negatives=50)
