"""SemArt, on files in upstream's format with its quirks planted in them."""

from __future__ import annotations

import itertools
import shutil
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from mutants import check_survives
from upstream import SemArt as Planted
from upstream import write_semart

import maghub
from maghub import registry
from maghub.builders import _fetch
from maghub.builders.semart import URL, SemArt, SemArtSource, read_paintings
from maghub.spec import FolderSpec
from tests.helpers.built import (
    check_builder_route,
    check_pictures,
    check_valid,
    check_workers,
    columns,
    pairs,
    refusal,
)
from tests.helpers.neighbours import mutual_by_hand

FEW = {"negatives": 3}  # 50 need more nodes than a fixture has
AUTHOR, SCHOOL, TIMEFRAME, KNN = range(4)
Case = tuple[Planted, Path, FolderSpec]


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(4))


@pytest.fixture(scope="module", params=["folder", "zip"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    root = tmp_path_factory.mktemp(request.param)
    planted = write_semart(root / "raw", "SemArt", rng(), zipped=request.param == "zip")
    if request.param == "zip":
        shutil.rmtree(root / "raw" / "SemArt")
    return planted, root / "out", maghub.build("semart", root / "out", root / "raw", **FEW)


def by_relation(folder: Path) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for pair, relation in zip(pairs(folder), columns(folder, "edges")["relation"], strict=True):
        found.setdefault(relation, []).append(pair)
    return found


def test_folder_is_valid(case: Case) -> None:
    _, folder, spec = case
    check_valid(folder)
    names = ["nodes", "edges", "node-splits", "edge-splits", "negatives-uniform"]
    assert [config.name for config in spec.configs] == names
    assert spec.graph is not None
    assert spec.graph.key == ("src", "dst", "relation")


def test_nodes_with_accents_quotes_and_attributes(case: Case) -> None:
    planted, folder, spec = case
    nodes = columns(folder, "nodes")
    assert nodes["source_id"] == planted.files
    assert nodes["text"] == planted.texts
    assert nodes["text"][:4] == [
        "Painted for the Café de Flore",
        'The so-called "Night Watch" and a stray " quote',
        '"Begins with a quote" and goes on',
        "£5 and a naïve façade",
    ]
    for name, values in planted.columns.items():
        assert nodes[name.lower()] == values  # no carriage return in the last one
    check_pictures(folder, spec, planted.images)
    read_as = spec.notes["tables read as"]
    assert read_as["semart_train.csv"] == "cp1252, quotes are text"
    assert read_as["semart_test.csv"].endswith("quotes as in CSV")


def test_edges_join_same_authors(case: Case) -> None:
    planted, folder, spec = case
    assert by_relation(folder) == {AUTHOR: sorted(planted.edges)}
    assert "weight" not in columns(folder, "edges")
    assert spec.notes["edges by author"] == len(planted.edges)


def test_splits(case: Case) -> None:
    planted, folder, spec = case
    rows = columns(folder, "node-splits")
    for code, part in enumerate(("train", "validation", "test")):
        ids = [node for node, value in enumerate(rows["public"]) if value == code]
        assert ids == planted.splits["public"][part]
    assert spec.default_split == "random-nodes"
    assert spec.config("nodes").splits == {"train": 24, "validation": 8, "test": 8}
    ours, own = spec.node_splits
    assert (ours.origin, ours.seed, own.origin, own.seed) == ("maghub", 0, "upstream", None)
    (edges,) = spec.edge_splits
    for part, share in (("train", 0.6), ("validation", 0.2), ("test", 0.2)):
        assert abs(edges.counts[part] - share * len(planted.edges)) < 1


def test_card_states_table_7() -> None:
    (paper,) = registry.card("semart").spec.paper
    assert (paper.nodes, paper.edges, paper.classes) == (21_382, 1_216_432, None)


def rewrite(folder: Path, column: int, values: dict[int, str], header: str | None = None) -> None:
    """Put values into the rows of the train table; rename the column."""
    path = folder / "semart_train.csv"
    lines = [line.split("\t") for line in path.read_bytes().decode("latin-1").split("\r\n")]
    for row, value in values.items():
        lines[row + 1][column] = value
    if header is not None:
        lines[0][column] = header
    path.write_bytes("\r\n".join(map("\t".join, lines)).encode("latin-1"))


def test_capped_relations(tmp_path: Path) -> None:
    """Schools of 20, 4 and 15 paintings and one without; timeframes stay one group of 40."""
    planted = write_semart(tmp_path / "raw", "SemArt", rng())
    school = dict.fromkeys(range(20), "Dutch") | dict.fromkeys(range(20, 24), "Greek") | {24: ""}
    rewrite(tmp_path / "raw" / "SemArt", 7, school)
    options = {"edges": "timeframe+author+school", "cap": 3}
    spec = maghub.build("semart", tmp_path / "a", tmp_path / "raw", **options, **FEW)
    check_valid(tmp_path / "a")
    found = by_relation(tmp_path / "a")
    assert found[AUTHOR] == sorted(planted.edges)
    groups = [set(range(20)), set(range(20, 24)), set(range(25, 40))]
    for pair in found[SCHOOL]:
        assert any(set(pair) <= group for group in groups)
    assert set(found[SCHOOL]) >= set(itertools.combinations(range(20, 24), 2))  # 3 others: all
    for relation, nodes in ((SCHOOL, 39), (TIMEFRAME, 40)):
        degree = Counter(itertools.chain(*found[relation]))
        assert min(degree.values()) >= 3
        assert len(degree) == nodes
        assert len(set(found[relation])) == len(found[relation]) <= 3 * nodes
    assert spec.notes["nodes without school"] == 1
    assert spec.graph is not None
    assert spec.graph.unique_pairs < spec.graph.num_edges  # some pairs have several relations
    maghub.build("semart", tmp_path / "b", tmp_path / "raw", seed=1, **options, **FEW)
    other = by_relation(tmp_path / "b")
    assert other[AUTHOR] == found[AUTHOR]
    assert other[SCHOOL] != found[SCHOOL]


def test_the_rule_of_the_released_code(tmp_path: Path) -> None:
    planted = write_semart(tmp_path / "raw", "SemArt", rng())
    draw = np.random.default_rng(3)
    halves = {m: draw.normal(size=(planted.num_nodes, 6)).astype("<f4") for m in ("text", "image")}
    for name, array in halves.items():
        np.save(tmp_path / "raw" / f"{name}.npy", array)
    options = {"edges": "openmag-knn", "k": 5, "embeddings": "text.npy,image.npy"}
    spec = maghub.build("semart", tmp_path / "out", tmp_path / "raw", **options, **FEW)
    check_valid(tmp_path / "out")
    wanted = mutual_by_hand(halves["text"] + halves["image"], 5)
    found = by_relation(tmp_path / "out")
    assert found == {AUTHOR: sorted(planted.edges), KNN: sorted(wanted)}
    edges = columns(tmp_path / "out", "edges")
    for src, dst, kind, weight in zip(
        *map(edges.get, ("src", "dst", "relation", "weight")), strict=True
    ):  # type: ignore[arg-type]
        assert weight == pytest.approx(wanted[src, dst] if kind == KNN else 1, abs=1e-6)
    assert spec.notes["edge rule"] == "openmag-knn"


def test_table_quirks(tmp_path: Path) -> None:
    planted = write_semart(tmp_path, "SemArt", rng())
    folder = tmp_path / "SemArt"
    rewrite(folder, 1, {5: "a \x93dash\x94 \x96 here", 6: "None"})
    rewrite(folder, 0, {7: planted.files[8]})
    rewrite(folder, 2, {}, header="AUTHOR ")
    found = read_paintings(folder)
    assert found.texts[5:7] == ["a “dash” – here", ""]  # Windows-1252, not control characters
    assert found.notes["image files named by more than one row"] == 1
    assert found.attributes["author"] == planted.columns["AUTHOR"]
    path = folder / "semart_train.csv"
    path.write_bytes(path.read_bytes() + b"x.jpg\t\x81\tA\tT\tO\t1\tp\tF\t1\r\n")
    assert read_paintings(folder).texts[28] == "\x81"  # what Windows-1252 does not have: Latin-1


def test_columns_in_another_order_or_absent(tmp_path: Path) -> None:
    """The header decides; TECHNIQUE and DATE need not be there."""
    planted = write_semart(tmp_path, "SemArt", rng())
    for path in (tmp_path / "SemArt").glob("*.csv"):
        rows = [line.split("\t") for line in path.read_bytes().decode("latin-1").split("\r\n")]
        keep = [8, 7, 6, 3, 2, 1, 0]
        lines = ["\t".join(row[at] for at in keep) if len(row) > 1 else "" for row in rows]
        path.write_bytes("\r\n".join(lines).encode("latin-1"))
    found = read_paintings(tmp_path / "SemArt")
    assert found.files == planted.files
    assert found.attributes["timeframe"] == planted.columns["TIMEFRAME"]
    assert set(found.attributes["technique"]) == set(found.attributes["date"]) == {""}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda b: b[: b.rindex(b"\t")], "semart_test.csv, column SCHOOL, row 6: 8 cells"),
        (lambda b: b.replace(b"AUTHOR", b"ARTIST"), "semart_test.csv: no column AUTHOR; it has"),
        (lambda b: b.split(b"\r\n")[0], "semart_test.csv: holds no paintings"),
        (lambda b: b"", "semart_test.csv: is empty"),
        (lambda b: b + b"\t".join([b""] * 9), "column IMAGE_FILE, row 7: is empty"),
    ],
)  # fmt: skip
def test_bad_tables_give_one_line(tmp_path: Path, zipped: bool, change, words: str) -> None:
    raw = tmp_path / "raw"
    write_semart(raw, "SemArt", rng())
    path = raw / "SemArt" / "semart_test.csv"
    path.write_bytes(change(path.read_bytes()))
    if zipped:
        shutil.make_archive(str(raw / "SemArt"), "zip", raw, "SemArt")
        shutil.rmtree(raw / "SemArt")
    line = refusal("semart", raw, tmp_path / "out", **FEW)
    assert words in line
    assert line.startswith(str(raw / ("SemArt.zip" if zipped else "SemArt")))


def test_bad_archives_give_one_line(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    write_semart(raw, "SemArt", rng(), zipped=True)
    shutil.rmtree(raw / "SemArt")
    whole = (raw / "SemArt.zip").read_bytes()
    for data, words in (
        (whole[: len(whole) // 2], "damaged zip"),
        (b"<html>", "this is an HTML page"),
        (b"", "expected a tar, a tar.gz or a zip"),
    ):
        (raw / "SemArt.zip").write_bytes(data)
        assert words in refusal("semart", raw, tmp_path / "out", **FEW)
    with zipfile.ZipFile(raw / "SemArt.zip", "w") as archive:
        archive.writestr("SemArt/semart_train.csv", "x")
    line = refusal("semart", raw, tmp_path / "out", **FEW)
    assert "holds no semart_val.csv, semart_test.csv" in line
    with zipfile.ZipFile(raw / "SemArt.zip", "w") as archive:
        archive.writestr("../semart_train.csv", "x")
    assert "would leave its folder" in refusal("semart", raw, tmp_path / "out", **FEW)
    assert not (tmp_path / "semart_train.csv").exists()


def test_missing_files_are_listed_at_once(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    line = refusal("semart", tmp_path / "raw", tmp_path / "out")
    assert f"SemArt.zip (from {URL})" in line
    write_semart(tmp_path / "raw", "SemArt", rng())
    (tmp_path / "raw" / "SemArt" / "semart_val.csv").unlink()
    shutil.rmtree(tmp_path / "raw" / "SemArt" / "Images")
    line = refusal("semart", tmp_path / "raw", tmp_path / "out")
    assert "SemArt/semart_val.csv" in line
    assert "SemArt/Images" in line
    assert "semart_test.csv" not in line


def test_without_raw_folder_the_zip_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = write_semart(tmp_path / "far", "SemArt", rng(), zipped=True)
    asked = []

    def download(file: _fetch.Remote) -> Path:
        asked.append(file.url)
        return tmp_path / "far" / "SemArt.zip"

    monkeypatch.setattr(_fetch, "_download", download)
    monkeypatch.setenv("MAGHUB_CACHE", str(tmp_path / "cache"))
    graph = SemArtSource(None, 0, negatives=0).graph
    assert set(zip(graph.src.tolist(), graph.dst.tolist(), strict=True)) == planted.edges
    assert asked == [URL]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"edges": "artist"}, "option edges names 'artist'; known: author, school, timeframe"),
        ({"edges": "author+"}, "option edges names ''"),
        ({"cap": 0}, "option cap is 0, must be a whole number of at least 1"),
        ({"edges": "openmag-knn"}, "mutual-knn edges need embeddings"),
        ({}, "no 50 negatives per edge"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, options: dict[str, object], words: str) -> None:
    write_semart(tmp_path / "raw", "SemArt", rng())
    assert words in refusal("semart", tmp_path / "raw", tmp_path / "out", **options)


def test_builder_route_and_workers(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    write_semart(raw, "SemArt", rng(), zipped=True)
    shutil.rmtree(raw / "SemArt")
    check_workers("semart", raw, tmp_path / "out", **FEW)
    check_builder_route(SemArt, tmp_path / "out" / "1", tmp_path / "cache", raw, **FEW)


def test_mutated_table(tmp_path: Path) -> None:
    write_semart(tmp_path, "SemArt", rng())
    path = tmp_path / "SemArt" / "semart_train.csv"

    read = lambda _: SemArtSource(tmp_path, 0, negatives=0).graph  # noqa: E731
    check_survives(read, path.read_bytes(), path, count=100, names="/")
