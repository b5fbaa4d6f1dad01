"""Graph-to-text and graph-to-image: what may be seen, what is copied, how it is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import BaseModel
from typer.testing import CliRunner

from maghub import layout
from maghub.baselines.models.copy_neighbour import CopyNeighbour, CopyNeighbourConfig
from maghub.baselines.tasks._generation import Generator
from maghub.baselines.tasks._generation_view import GraphView, draw_neighbours
from maghub.baselines.tasks.graph_to_image import GraphToImage, GraphToImageConfig
from maghub.baselines.tasks.graph_to_text import GraphToText, GraphToTextConfig
from maghub.cli.app import app
from maghub.errors import MaghubError
from maghub.loading import load
from maghub.mag import MAG
from maghub.metrics import bleu4, cider, clip_score_of, dinov2_score_of, rouge_l
from maghub.running import run
from tests.helpers.graphs import Toy, png, write_toy
from tests.helpers.planted import ENCODER, communities
from tests.helpers.tiny_encoders import tiny

CLIP, DINO = "clip-vit-base-patch32", "dinov2-large"
WORDS = ("red", "green", "blue", "small", "round", "old", "new", "tall")


def described(n: int = 60) -> Toy:
    """Communities whose nodes have sentences and pictures; a few lack one of them."""
    toy = communities(n=n, degree=2)
    rng = np.random.default_rng(5)
    toy.texts = [f"a {' '.join(rng.choice(WORDS, 4))} thing of kind {i % 3}" for i in range(n)]
    toy.texts[7] = ""
    toy.vectors["text"][7] = 0
    toy.images = [png(i) for i in range(n)]
    toy.images[11] = None
    toy.vectors["image"][11] = 0
    toy.negatives = None
    return toy


@pytest.fixture(scope="module")
def mag(tmp_path_factory: pytest.TempPathFactory) -> MAG:
    folder = tmp_path_factory.mktemp("described") / "toy"
    write_toy(described(), folder)
    return load(folder)


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny CLIP and DINOv2 in the layout of the real ones."""
    root = tmp_path_factory.mktemp("judges")
    return {name: tiny(name, root / name) for name in (CLIP, DINO)}


def text_task(mag: MAG, seed: int = 0, **config: Any) -> GraphToText:
    return GraphToText(mag, ENCODER, GraphToTextConfig(**config), seed=seed)


def image_task(mag: MAG, **config: Any) -> GraphToImage:
    return GraphToImage(mag, ENCODER, GraphToImageConfig(**config))


def neighbours_of(mag: MAG) -> dict[int, set[int]]:
    near: dict[int, set[int]] = {node: set() for node in range(mag.num_nodes)}
    for a, b in mag.edge_index.T.tolist():
        near[a].add(b)
        near[b].add(a)
    return near


def test_neighbours_are_drawn_from_those_that_have_the_modality(mag: MAG) -> None:
    near, view = neighbours_of(mag), text_task(mag).view
    for modality, without in (("text", 7), ("image", 11)):
        table = view.neighbours[modality]
        assert table.shape == (60, 4)
        for node, row in enumerate(table.tolist()):
            found = [other for other in row if other >= 0]
            able = near[node] - {without}
            assert set(found) <= able
            assert len(found) == len(set(found)) == min(4, len(able))
    other = text_task(mag, seed=1).view.neighbours["text"]
    assert not np.array_equal(other, view.neighbours["text"])
    assert np.array_equal(text_task(mag).view.neighbours["text"], view.neighbours["text"])
    assert text_task(mag, neighbours=0).view.neighbours["text"].shape == (60, 0)


def test_every_neighbour_is_equally_likely() -> None:
    edges = np.array([[1, 2, 3, 4, 5, 1], [0, 0, 0, 0, 0, 0]])  # one of them twice
    usable = np.ones(6, bool)
    rng = np.random.default_rng(0)
    drawn = [draw_neighbours(edges, usable, 2, rng)[0].tolist() for _ in range(2000)]
    counts = np.bincount(np.ravel(drawn), minlength=6)
    assert counts[0] == 0
    # 800 of each are expected; the deviation is sqrt(2000 * 0.4 * 0.6) = 22
    assert np.abs(counts[1:] - 800).max() < 5 * 22


def test_the_context_of_a_target(mag: MAG) -> None:
    task = text_task(mag)
    node = int(task.targets()[0])
    seen = task.view.context(node)
    assert seen.text is None  # it is to be written
    assert seen.image is not None
    assert seen.texts == [mag.nodes[i]["text"] for i in seen.text_ids.tolist()]
    assert len(seen.images) == len(seen.image_ids)
    assert np.asarray(seen.images[0]).tolist() == _pixels(mag, int(seen.image_ids[0]))
    others = set(seen.text_ids.tolist()) | set(seen.image_ids.tolist())
    assert seen.star_ids[0] == node
    assert set(seen.star_ids[1:].tolist()) == others
    assert seen.star.tolist() == [list(range(1, len(others) + 1)), [0] * len(others)]
    seen = image_task(mag).view.context(node)
    assert seen.image is None
    assert seen.text == mag.nodes[node]["text"]


def _pixels(mag: MAG, node: int) -> list[Any]:
    return np.asarray(mag.nodes[node][layout.IMAGE].convert("RGB")).tolist()


def test_answers_of_test_nodes_are_out_of_reach(mag: MAG) -> None:
    task = text_task(mag)
    train, test = task.ids[layout.TRAIN], task.ids[layout.TEST]
    assert task.view.answers(train) == [mag.nodes[i]["text"] for i in train.tolist()]
    with pytest.raises(MaghubError, match="asked for the answer of a test node"):
        task.view.answers(np.concatenate([train, test[:1]]))
    assert not task.view.vectors("text", test).any()
    assert task.view.vectors("text", train).any(dim=1).all()
    assert task.view.vectors("image", test).any()
    assert 7 not in np.concatenate(list(task.ids.values()))  # it has no text to be compared with


class Spy(Generator):
    """Writes what it is told."""

    Config = CopyNeighbourConfig

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.written: dict[int, str] = {}

    def fit(self, view: GraphView, train: np.ndarray, validation: np.ndarray) -> None:
        self.seen = train, validation

    def texts(self, view: GraphView, nodes: np.ndarray) -> list[str]:
        return [self.written[node] for node in nodes.tolist()]


def spy() -> Spy:
    return Spy(CopyNeighbourConfig(), 0, torch.device("cpu"))


def test_text_metrics_are_those_of_the_metrics_package(mag: MAG) -> None:
    task, writer = text_task(mag), spy()
    nodes = task.targets().tolist()
    right = [mag.nodes[node]["text"] for node in nodes]
    rng = np.random.default_rng(0)
    writer.written = {
        node: " ".join(w for w in text.split() if rng.random() < 0.8)
        for node, text in zip(nodes, right, strict=True)
    }
    written = list(writer.written.values())
    found = task.measure(writer)
    assert found["bleu4"] == bleu4(written, right)
    assert found["rouge_l"] == rouge_l(written, right)
    assert found["cider"] == cider(written, right)
    writer.written = dict(zip(nodes, right, strict=True))
    assert task.measure(writer)["bleu4"] == pytest.approx(100)
    assert task.measure(writer)["rouge_l"] == pytest.approx(100)


def test_several_references(mag: MAG) -> None:
    task, writer = text_task(mag, references=("source_id", "text")), spy()
    nodes = task.targets().tolist()
    writer.written = {node: mag.nodes[node]["source_id" if node % 2 else "text"] for node in nodes}
    assert task.measure(writer)["rouge_l"] == pytest.approx(100)
    with pytest.raises(MaghubError, match=r"unknown column of the nodes 'texts'.*text"):
        text_task(mag, references=("texts",)).measure(writer)


def test_copies_come_from_the_neighbour_that_looks_most_alike(mag: MAG) -> None:
    task = text_task(mag)
    nodes = task.targets()
    copier = CopyNeighbour(CopyNeighbourConfig(), 0, torch.device("cpu"))
    copier.fit(task.view, task.ids[layout.TRAIN], task.ids[layout.VALIDATION])
    image = np.asarray(mag.features("toy-encoder", "image"), np.float64)
    for node, chosen in zip(nodes.tolist(), copier.source(task.view, nodes).tolist(), strict=True):
        near = [i for i in task.view.neighbours["text"][node].tolist() if i >= 0]
        assert node not in near
        if not near:
            assert chosen in task.ids[layout.TRAIN]
            continue
        cosines = {i: _cosine(image[node], image[i]) for i in near}
        assert cosines[chosen] == pytest.approx(max(cosines.values()))


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    length = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / length) if length else 0.0


def test_lonely_nodes_get_the_text_of_a_training_node(tmp_path: Path) -> None:
    toy = described()
    toy.edges = toy.edges[:3]
    write_toy(toy, tmp_path / "sparse")
    (record,) = run(
        "copy-neighbour", tmp_path / "sparse", "graph-to-text", encoder=ENCODER, seeds=1
    )
    assert any("had no neighbour: a training node's" in note for note in record.notes)
    assert record.metrics["bleu4"] > 0


def test_graph_to_text_by_the_command(mag: MAG, tmp_path: Path, judges: dict[str, Path]) -> None:
    out = tmp_path / "r.jsonl"
    command = ["run", "copy-neighbour", "--dataset", str(mag.folder), "--task", "graph-to-text"]
    command += ["--seeds", "1", "--out", str(out), "--json", "--set", f"clip={CLIP}"]
    command += ["--set", f"clip_path={judges[CLIP]}", "--set", "limit=6"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    record = json.loads(out.read_text())
    assert set(record["metrics"]) == {"bleu4", "rouge_l", "cider", "clip_score"}
    assert record["notes"][0] == "6 test nodes"
    assert record["dataset"]["split"] == "public"
    assert set(record["dataset"]["checksums"]) == {
        "nodes",
        "edges",
        "node-splits",
        "embeddings-toy-encoder",
    }


def test_graph_to_image_equals_the_metrics_on_the_pictures(
    mag: MAG, judges: dict[str, Path]
) -> None:
    config = {
        "clip": CLIP,
        "clip_path": str(judges[CLIP]),
        "dino": DINO,
        "dino_path": str(judges[DINO]),
        "limit": 5,
    }
    task = image_task(mag, **config)
    copier = CopyNeighbour(CopyNeighbourConfig(), 0, torch.device("cpu"))
    copier.fit(task.view, task.ids[layout.TRAIN], task.ids[layout.VALIDATION])
    found = task.measure(copier)
    from maghub import registry

    nodes = task.targets()
    made = [mag.nodes[i][layout.IMAGE].convert("RGB") for i in copier.source(task.view, nodes)]
    real = [mag.nodes[i][layout.IMAGE].convert("RGB") for i in nodes.tolist()]
    texts = [mag.nodes[i]["text"] for i in nodes.tolist()]
    clip = registry.get("encoders", CLIP)(model_path=judges[CLIP])
    dino = registry.get("encoders", DINO)(model_path=judges[DINO])
    assert found["clip_score"] == pytest.approx(clip_score_of(made, texts, clip), abs=1e-3)
    assert found["dinov2_score"] == pytest.approx(dinov2_score_of(made, real, dino), abs=1e-3)
    settings = {**config, "limit": 2}
    (record,) = run(
        "copy-neighbour", mag.folder, "graph-to-image", encoder=ENCODER, seeds=1, settings=settings
    )
    assert set(record.metrics) == {"clip_score", "dinov2_score"}


def test_noise_reaches_what_is_shown_and_not_what_is_right(mag: MAG) -> None:
    noise = {"text": 1.0, "missing-image": 0.5, "edges": 0.5}
    clean = text_task(mag)
    damaged = GraphToText(mag, ENCODER, GraphToTextConfig(), noise)
    train = damaged.ids[layout.TRAIN]
    assert damaged.view.texts(train) != clean.view.texts(train)
    assert sorted(damaged.view.texts(np.arange(60))) == sorted(clean.view.texts(np.arange(60)))
    assert damaged.view.answers(train) == clean.view.answers(train)
    targets = damaged.targets()
    assert damaged.references(targets) == clean.references(targets)
    assert (damaged.view.neighbours["image"] >= 0).sum() < (
        clean.view.neighbours["image"] >= 0
    ).sum()
    (record,) = run(
        "copy-neighbour", mag.folder, "graph-to-text", encoder=ENCODER, seeds=1, noise=noise
    )
    assert record.noise == noise


def test_bad_input_is_one_line(mag: MAG, tmp_path: Path) -> None:
    def asked(model: str, task: str, **settings: Any) -> None:
        run(model, mag.folder, task, encoder=ENCODER, seeds=1, settings=settings)

    with pytest.raises(MaghubError, match=r"gcn generates nothing.*copy-neighbour"):
        asked("gcn", "graph-to-text")
    with pytest.raises(MaghubError, match="copy-neighbour is no encoder of graphs"):
        asked("copy-neighbour", "node-classification")
    with pytest.raises(MaghubError, match="unknown setting 'limits'"):
        asked("copy-neighbour", "graph-to-text", limits=3)
    with pytest.raises(MaghubError, match="nothing to measure"):
        asked("copy-neighbour", "graph-to-image", clip=None, dino=None)
    with pytest.raises(MaghubError, match="unknown encoder 'klip'"):
        asked("copy-neighbour", "graph-to-text", clip="klip")
    with pytest.raises(MaghubError, match=r"vectors of the pictures.*maghub encode "):
        run("copy-neighbour", mag.folder, "graph-to-image", modalities=["text"], seeds=1)
    toy = described()
    toy.images = None
    write_toy(toy, tmp_path / "blind")
    with pytest.raises(MaghubError, match="graph-to-image needs nodes with image"):
        run("copy-neighbour", tmp_path / "blind", "graph-to-image", encoder=ENCODER, seeds=1)
    toy = described()
    toy.texts = [""] * 60
    write_toy(toy, tmp_path / "mute")
    with pytest.raises(MaghubError, match="no train node of split rule 'public' has text"):
        run("copy-neighbour", tmp_path / "mute", "graph-to-text", encoder=ENCODER, seeds=1)


def test_a_generator_says_what_it_cannot_make() -> None:
    class Mute(Spy):
        Config: type[BaseModel] = CopyNeighbourConfig
        texts = Generator.texts  # type: ignore[assignment]

    mute = Mute(CopyNeighbourConfig(), 0, torch.device("cpu"))
    with pytest.raises(MaghubError, match="Mute writes no texts"):
        mute.texts(None, np.arange(1))  # type: ignore[arg-type]
    with pytest.raises(MaghubError, match="Mute makes no pictures"):
        mute.images(None, np.arange(1))  # type: ignore[arg-type]
