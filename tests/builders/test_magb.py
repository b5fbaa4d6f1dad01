"""MAGB data sets, on files in upstream's format with its quirks planted in them."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from planted import Planted, picture
from typer.testing import CliRunner
from upstream import write_magb

import maghub
from maghub import registry
from maghub.builders._formats.text import parse_list
from maghub.builders.magb import MagbSource, Toys, ToysSource
from maghub.cli import app
from maghub.errors import MaghubError
from maghub.spec import FolderSpec
from tests.helpers.built import (
    check_builder_route,
    check_pictures,
    check_valid,
    check_workers,
    columns,
    pairs,
)

STEMS = {
    "movies": "Movies",
    "toys": "Toys",
    "grocery": "Grocery",
    "reddit-s": "RedditS",
    "reddit-m": "RedditM",
}
FEW = {"negatives": 5}  # 50 need more nodes than a fixture has
TEXT = "embeddings-magb-roberta-base-512-mean"
IMAGE = "embeddings-magb-openai-clip-vit-large-patch14"
Case = tuple[str, Planted, Path, FolderSpec]


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(4))


@pytest.fixture(scope="module", params=["toys", "reddit-m", "movies"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Amazon; Reddit with LF and pictures in three parts; a table with ``neighbors``."""
    name = request.param
    root = tmp_path_factory.mktemp(name)
    options = {"reddit-m": {"parts": 3, "line_end": "\n"}, "movies": {"neighbors": True}}
    planted = write_magb(root / "raw", STEMS[name], rng(), **options.get(name, {}))
    return name, planted, root / "out", maghub.build(name, root / "out", root / "raw", **FEW)


def test_folder_is_valid(case: Case) -> None:
    name, planted, folder, spec = case
    check_valid(folder)
    rule = "random-nodes" if name == "reddit-m" else "openmag"
    assert spec.default_split == rule
    assert spec.config("nodes").splits == {"train": 24, "validation": 8, "test": 8}
    assert [r.name for r in spec.node_splits] == [rule, "magb"]
    assert set(spec.builder.sources) == {f"{planted.name}.csv", f"{planted.name}Graph.pt"}


def test_texts_labels_and_class_names(case: Case) -> None:
    """None in both title and description is no text; CRLF, CJK, emoji, newlines come through."""
    _, planted, folder, spec = case
    nodes = columns(folder, "nodes")
    assert nodes["text"] == planted.texts
    assert nodes["text"][6] == ""
    assert "\n" in nodes["text"][3]
    assert nodes["source_id"] == [str(node) for node in range(planted.num_nodes)]
    assert nodes["label"] == planted.labels
    assert spec.config("nodes").features["label"]["names"] == planted.classes


def test_extra_columns(case: Case) -> None:
    name, planted, folder, _ = case
    nodes = columns(folder, "nodes")
    if name == "reddit-m":
        assert nodes["image_urls"][7] == ["https://i.redd.it/7.jpg"]
        assert "categories" not in nodes
    else:
        assert nodes["image_urls"][7] == ["https://x/7.jpg"]
        assert nodes["categories"][7] == ["Toys", planted.classes[planted.labels[7] or 0]]


def test_pictures(case: Case) -> None:
    """Whole RGB and grey files are upstream's bytes, odd ones encoded anew, no picture is null."""
    _, planted, folder, spec = case
    check_pictures(folder, spec, planted.images)
    images = columns(folder, "nodes")["image"]
    for node, outcome in enumerate(planted.images):
        if outcome == "kept":
            assert images[node]["bytes"] == picture(node)[0]
        elif outcome == "encoded":
            with PIL.Image.open(io.BytesIO(images[node]["bytes"])) as image:
                assert image.mode in ("RGB", "L")
                assert image.size == ((16, 24) if node == 4 else (24, 16))  # 4 lay on its side


def test_edges(case: Case) -> None:
    """Amazon keeps directions, Reddit does not; loops and repeats go and are counted."""
    name, planted, folder, spec = case
    proper = [edge for edge in planted.stored_edges if edge[0] != edge[1]]
    directed = name != "reddit-m"
    assert spec.graph is not None
    assert spec.graph.directed is directed
    assert pairs(folder) == sorted(set(proper) if directed else planted.edges)
    loops = len(planted.stored_edges) - len(proper)
    folded = "folded duplicates" if directed else "folded duplicates and reverses"
    assert spec.notes["edges"] == {
        "upstream edges": len(planted.stored_edges),
        folded: len(proper) - spec.graph.num_edges,
        "self loops dropped": loops,
    }
    assert loops > 1
    assert spec.notes["neighbours in the table"] == {
        "ordered pairs": len(set(proper)),
        "not in the graph": 0,
        "only in the graph": 0,
    }
    assert spec.statistics is not None
    assert spec.statistics.isolated_nodes == 1


def test_splits_are_upstreams_permutation_and_ours(case: Case) -> None:
    _, planted, folder, spec = case
    n = planted.num_nodes
    np.random.seed(42)  # as upstream's code does
    order = np.random.permutation(n)
    wanted = np.full(n, 2)
    wanted[order[: int(0.6 * n)]] = 0
    wanted[order[int(0.6 * n) : int(0.6 * n) + int(0.2 * n)]] = 1
    splits = columns(folder, "node-splits")
    assert splits["magb"] == wanted.tolist()
    ours, theirs = spec.node_splits
    assert (ours.origin, ours.seed, theirs.origin, theirs.seed) == ("maghub", 0, "upstream", 42)
    assert ours.counts == theirs.counts == {"train": 24, "validation": 8, "test": 8}


def test_vectors_are_upstreams_and_rows_without_numbers_are_absent(case: Case) -> None:
    _, planted, folder, spec = case
    stem = planted.name
    files = {
        TEXT: ("text", f"TextFeature/{stem}_roberta_base_512_mean.npy", "float32"),
        IMAGE: ("image", f"ImageFeature/{stem}_openai_clip-vit-large-patch14.npy", "float16"),
    }
    for config, (modality, file, dtype) in files.items():
        table = columns(folder, config)
        stored = np.load(planted.root / file)
        for row in planted.features[file]:
            assert not np.isfinite(stored[row]).all()
            stored[row] = 0
        assert np.asarray(table[modality]).astype(dtype).tobytes() == stored.tobytes()
        absent = [row for row, has in enumerate(table[f"has_{modality}"]) if not has]
        assert absent == planted.features[file] == [3, 5]
        encoder = next(e for e in spec.encoders if e.config == config)
        assert (encoder.origin, encoder.missing, encoder.dtype) == (
            "upstream",
            {modality: 2},
            dtype,
        )
    text, image = spec.encoders
    assert (text.model_id, text.pooling, text.max_length) == (
        "FacebookAI/roberta-base",
        "mean",
        512,
    )
    assert (image.model_id, image.pooling) == ("openai/clip-vit-large-patch14", "not recorded")


@pytest.mark.parametrize("name", [*STEMS])
def test_every_data_set_builds_and_explains_its_differences(name: str, tmp_path: Path) -> None:
    write_magb(tmp_path / "raw", STEMS[name], rng(), nodes=12, parts=3 if name == "reddit-m" else 1)
    spec = maghub.build(name, tmp_path / "out", tmp_path / "raw", negatives=0)
    assert spec.negatives == ()
    check_valid(tmp_path / "out")
    card = registry.card(name).spec
    shown = " ".join(CliRunner().invoke(app, ["info", str(tmp_path / "out")]).output.split())
    assert "measured" in shown
    for paper in card.paper:
        assert paper.source.split()[0] in shown
    assert card.differences
    for difference in card.differences:
        assert " ".join(difference.split()) in shown


def test_the_builder_route_and_workers(tmp_path: Path) -> None:
    """Three parts of nodes, so that there is work for two; the packed tar is shared."""
    raw = tmp_path / "raw"
    write_magb(raw, "Toys", rng(), nodes=600)
    (tmp_path / "built").mkdir()
    check_workers("toys", raw, tmp_path / "built", **FEW)
    configs = ["nodes", "edges", "node-splits", "edge-splits", "negatives-uniform", TEXT, IMAGE]
    folder = tmp_path / "built" / "1"
    check_builder_route(Toys, folder, tmp_path / "cache", raw, configs, **FEW)


WEBKB = Path(__file__).resolve().parents[3] / "shared" / "data" / "upstream" / "cstag_webkb"


@pytest.mark.parametrize("stem", ["Cornell", "Texas", "Washington"])
def test_real_files_of_the_family(stem: str) -> None:
    """CS-TAG WebKB: labels, names, texts and edges are those of the CSV, read by the csv module."""
    if not WEBKB.is_dir():
        pytest.skip("the real upstream files (../shared/data/upstream) are not there")

    class WebKb(MagbSource):
        name, folder, graph_file = stem.lower(), stem, "{}.pt"

    WebKb.stem = stem
    source = WebKb(WEBKB, 0, images=False, **FEW)
    nodes, edges = source.tables()[:2]
    with (WEBKB / f"{stem}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = nodes.read_typed(0, len(rows)).to_pydict()
    names = nodes.features["label"].names
    assert [names[label] for label in found["label"]] == [row["category"] for row in rows]
    assert found["label"] == [int(row["label"]) for row in rows]
    assert found["text"] == [row["raw_text"].strip() for row in rows]
    listed = {
        (node, other)
        for node, row in enumerate(rows)
        for other in parse_list(row["neighbor_ids"])
        if other != node
    }
    stored = edges.read_typed(0, edges.num_rows).to_pydict()
    assert set(zip(stored["src"], stored["dst"], strict=True)) == listed
    assert source.facts().notes["neighbours in the table"] == {
        "ordered pairs": len(listed),
        "not in the graph": 0,
        "only in the graph": 0,
    }
    if stem == "Cornell":
        with pytest.raises(MaghubError, match="ToysGraph"):
            ToysSource(WEBKB).tables()
