"""Modality alignment: phrases and boxes of the Flickr30k fixture, encoded by a tiny real CLIP."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import maghub
from maghub import layout, registry
from maghub.baselines.tasks import modality_alignment
from maghub.baselines.tasks._modality_regions import (
    Grounding,
    RegionVectors,
    crops,
    read_grounding,
)
from maghub.baselines.tasks.modality_alignment import ModalityAlignment, ModalityAlignmentConfig
from maghub.baselines.training import loop
from maghub.baselines.training.loop import fit
from maghub.errors import MaghubError
from maghub.loading import load
from maghub.mag import MAG
from maghub.metrics import clip_score
from maghub.running import run
from tests.baselines.models.cases import CONVENTIONAL, build
from tests.baselines.test_permutation import renumbered
from tests.helpers.graphs import write_toy
from tests.helpers.paired import HIDDEN, WIDTHS, pairs_toy
from tests.helpers.planted import ENCODER, planted
from tests.helpers.tiny_encoders import tiny

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fixtures"))
from upstream import Flickr30k, write_flickr30k

TASK, CLIP = "modality-alignment", "clip-vit-base-patch32"
FEW = {"epochs": 3, "hidden": 16, "batch_size": None}
Case = tuple[Flickr30k, MAG, Path]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """What was planted, the published folder with vectors, and the encoder's files."""
    root = tmp_path_factory.mktemp("flickr")
    made = write_flickr30k(root / "raw", "F", np.random.default_rng(4))
    maghub.build("flickr30k", root / "f", root / "raw", max_uses=30, negatives=0)
    model = tiny(CLIP, root / "clip")
    maghub.encode(root / "f", CLIP, model_path=model, batch_size=16)
    return made, load(root / "f"), model


def task_of(case: Case, **config: Any) -> ModalityAlignment:
    _, mag, model = case
    chosen = ModalityAlignmentConfig(model_path=str(model), **config)
    return ModalityAlignment(mag, {"text": CLIP, "image": CLIP}, chosen)


@pytest.mark.parametrize("model", CONVENTIONAL)
def test_all_conventional_models_run(case: Case, model: str) -> None:
    _, mag, path = case
    settings = {**FEW, "model_path": str(path), "layers": 2}
    (record,) = run(model, mag.folder, TASK, seeds=1, settings=settings)
    assert 0 <= record.metrics["clip_score"] <= 100
    text, image = (side.numpy() for side in task_of(case).shown()[1])
    assert record.controls["input_clip_score"] == pytest.approx(clip_score(image, text), abs=1e-4)
    assert {"nodes", "entities", f"embeddings-{CLIP}"} <= set(record.dataset.checksums)
    assert any("pairs of phrase and box on" in note for note in record.notes)


def test_pairs_are_every_phrase_with_every_box_of_its_thing(case: Case) -> None:
    made, mag, _ = case
    nodes = np.array([0, 3, 20])
    found = read_grounding(mag, nodes)
    wanted = {
        (node, phrase[3], tuple(corner - 1 for corner in box))  # upstream counts from 1
        for node in nodes.tolist()
        for phrase in made.phrases[made.image_ids[node]]
        for chain, box in made.boxes[made.image_ids[node]]
        if chain == phrase[1]
    }
    rows = list(zip(found.node.tolist(), found.phrase.tolist(), found.box.tolist(), strict=True))
    assert len(rows) == len({(n, p, tuple(b)) for n, p, b in rows})
    assert {(n, p, tuple(b)) for n, p, b in rows} == wanted
    assert found.node.tolist() == sorted(found.node.tolist())
    assert len(read_grounding(mag, np.array([], np.int64))) == 0


@pytest.mark.parametrize("what", ["a null box", "a box with a null", "a null phrase", "words"])
def test_what_is_no_phrase_or_box_is_one_line(case: Case, tmp_path: Path, what: str) -> None:
    folder = Path(shutil.copytree(case[1].folder, tmp_path / "copy"))
    (path,) = (folder / "entities").glob("*.parquet")
    table = pq.read_table(path)
    column = "boxes" if "box" in what else "phrases"
    cells, kind = table[column].to_pylist(), table.schema.field(column).type
    if what == "words":  # in the file and in maghub.json alike
        cells, kind = ["one thing"] * len(cells), pa.string()
    else:
        first = [None, 1, 2, 3] if what == "a box with a null" else None
        cells[0] = [first, *cells[0]]
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, pa.array(cells, kind)), path)
    spec = case[1].spec
    if what == "words":
        config = spec.config("entities")
        features = {**config.features, column: {"dtype": "string", "_type": "Value"}}
        changed = config.model_copy(update={"features": features})
        configs = [changed if one.name == "entities" else one for one in spec.configs]
        spec = spec.model_copy(update={"configs": tuple(configs)})
    with pytest.raises(MaghubError) as error:
        read_grounding(MAG(folder, spec), np.arange(spec.graph.num_nodes))  # type: ignore[union-attr]
    wanted = "holds no lists of texts" if what == "words" else "are null"
    assert f"entities, column {column}: " in error.value.line()
    assert wanted in error.value.line()
    assert "\n" not in error.value.line()


def test_vectors_are_those_of_the_words_and_of_the_cut_picture(case: Case) -> None:
    _, mag, path = case
    pairs = task_of(case).grounding()
    text, image = RegionVectors(mag, CLIP, str(path), "cpu")(pairs)
    encoder = registry.get("encoders", CLIP)(model_path=path)
    for at in (0, 7, len(pairs) - 1):
        picture = mag.nodes[int(pairs.node[at])][layout.IMAGE].convert("RGB")
        left, top, right, bottom = pairs.box[at].tolist()
        cut = picture.crop((left, top, right + 1, bottom + 1))
        np.testing.assert_allclose(image[at], encoder.encode_images([cut])[0], atol=2e-3)
        word = str(pairs.phrase[at])
        np.testing.assert_allclose(text[at], encoder.encode_texts([word])[0], atol=2e-3)


def test_boxes_that_reach_beyond_are_cut_and_those_outside_are_left_out(case: Case) -> None:
    _, mag, path = case
    task = task_of(case)
    node = int(task.grounding().node[0])
    width, height = mag.nodes[node][layout.IMAGE].size
    spots = np.array([[node, -5, -5, 2, 3], [node, width, 0, width + 9, 5], [node, 0, 0, 999, 999]])
    sizes = [None if part is None else part.size for part in crops(mag, spots)]
    assert sizes == [(3, 4), None, (width, height)]
    found = Grounding(spots[:, 0], np.array(["a", "b", "c"]), spots[:, 1:])
    _, image = RegionVectors(mag, CLIP, str(path), "cpu")(found)
    assert np.isnan(image).any(axis=1).tolist() == [False, True, False]
    task.grounding = lambda: found  # type: ignore[method-assign]
    assert task.shown()[0].phrase.tolist() == ["a", "c"]
    assert "1 pairs left out: the box is outside" in task.notes[-1]


def test_vectors_are_made_once_and_made_again_if_damaged(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, mag, path = case
    monkeypatch.setenv("MAGHUB_CACHE", str(tmp_path))
    pairs = task_of(case).grounding().take(np.arange(3))
    first = RegionVectors(mag, CLIP, str(path), "cpu")(pairs)
    (kept,) = (tmp_path / "regions").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(RegionVectors, "_loaded", lambda self: pytest.fail("loaded again"))
        again = RegionVectors(mag, CLIP, str(path), "cpu")(pairs)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    kept.write_bytes(kept.read_bytes()[:100])
    again = RegionVectors(mag, CLIP, str(path), "cpu")(pairs)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("model", ["gcn", "gat", "mlp"])
def test_the_vectors_of_a_pair_take_the_place_of_the_nodes_own(case: Case, model: str) -> None:
    task = task_of(case)
    node = int(task.grounding().node[0])
    task.ids[layout.TEST] = torch.tensor([node])  # alone in its split: no neighbour changes
    step = task.step(build(model, task.features.dims, out=16)).eval()
    pairs, (text, image) = task.shown()
    found = task.aligned(step)
    assert len(pairs) > 2
    with torch.no_grad():
        for at in range(len(pairs)):
            x = {name: value.clone() for name, value in task.features().items()}
            x["text"][node], x["image"][node] = text[at], image[at]
            sides, _ = step.sides(x, task.edge_index)
            for one, side in zip(found, sides, strict=True):
                torch.testing.assert_close(one[at], side[node])


def test_scores_are_those_of_the_metric(case: Case) -> None:
    task = task_of(case)
    rng = np.random.default_rng(0)
    text, image = rng.standard_normal((2, len(task.shown()[0]), 5))
    scores = task.scores((torch.from_numpy(text), torch.from_numpy(image)))
    assert scores["clip_score"] == pytest.approx(clip_score(image, text))
    foreign = task.foreign().numpy()
    node = task.shown()[0].node
    assert (node[foreign] != node).all()
    assert scores["shuffled_clip_score"] == pytest.approx(clip_score(image[foreign], text))
    assert set(node[foreign].tolist()) == set(node.tolist())
    limited = task_of(case, pairs=5)
    assert len(limited.grounding()) == 5


def planted_task(folder: Path, noise: dict[str, float], patch: pytest.MonkeyPatch) -> Any:
    """Pairs whose vectors are made as those of nodes are: text = z A, image = z B."""
    write_toy(pairs_toy(), folder)
    mag = load(folder)
    patch.setattr(modality_alignment, "has_regions", lambda mag: True)
    config = ModalityAlignmentConfig(epochs=40, batch_size=None, lr=0.01)
    task = ModalityAlignment(mag, ENCODER, config, noise=noise)
    rng = np.random.default_rng(0)
    rng.standard_normal((180, HIDDEN))  # the nodes' own hidden vectors come first
    nodes = np.repeat(task.ids[layout.TEST].numpy(), 3)
    hidden = np.random.default_rng(9).standard_normal((len(nodes), HIDDEN))
    sides = []
    for width in WIDTHS.values():
        sides.append(torch.from_numpy(hidden @ rng.standard_normal((HIDDEN, width))).float())
        rng.standard_normal((180, width))
    words, boxes = np.array(["w"] * len(nodes)), np.zeros((len(nodes), 4), np.int64)
    task._shown = Grounding(nodes, words, boxes), (sides[0], sides[1])
    return task


def test_true_pairs_score_higher_and_after_training_on_shuffled_ones_they_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a tie between text and image, the gap is noise.

    Cosines lie in [0, 1] here (representations are not negative), so the mean over 135 pairs of a
    difference deviates by at most 1 / sqrt(135) = 0.086, i.e. 8.6 points; four are allowed. True
    pairs are at least that far above.
    """
    gaps = []
    for noise in ({}, {"text": 1.0}):
        task = planted_task(tmp_path / f"toy{len(noise)}", noise, monkeypatch)
        step = task.step(build("mlp", task.features.dims, out=16, hidden=16, layers=1, dropout=0))
        fit(task, step)
        scores = task.evaluate(step, layout.TEST)
        gaps.append(scores["clip_score"] - scores["shuffled_clip_score"])
        if not noise:
            assert scores["mrr"] > 0.5
    assert gaps[0] > 4 * 8.6
    assert abs(gaps[1]) < 4 * 8.6


@pytest.mark.parametrize("model", ["mlp", "gcn", "graphsage"])
def test_a_permutation_of_node_ids_changes_no_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    """Which foreign region a phrase is compared with goes by number, so that score is left out."""
    one = planted_task(tmp_path / "one", {}, monkeypatch)
    order = np.random.default_rng(2).permutation(180)
    write_toy(renumbered(replace(pairs_toy(), negatives=None), order), tmp_path / "two")
    two = ModalityAlignment(load(tmp_path / "two"), ENCODER, one.config)
    pairs, sides = one.shown()
    node = np.argsort(order)[pairs.node]
    moved = np.argsort(node, kind="stable")
    shown = Grounding(node[moved], pairs.phrase[moved], pairs.box[moved])
    two._shown = shown, (sides[0][moved], sides[1][moved])
    steps = [task.step(build(model, task.features.dims, out=16, dropout=0)) for task in (one, two)]
    found = [t.evaluate(s, layout.TEST) for t, s in zip((one, two), steps, strict=True)]
    for scores in found:
        scores.pop("shuffled_clip_score")
    assert found[0] == pytest.approx(found[1], abs=1e-4)


def test_bad_input_is_one_line_and_said_before_training(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, mag, _ = case
    monkeypatch.setattr(loop, "_epoch", None)  # training would end in a TypeError
    planted(tmp_path / "toy", n=60)
    with pytest.raises(MaghubError, match=r"needs phrases and boxes.*maghub build flickr30k"):
        run("mlp", tmp_path / "toy", TASK, seeds=1)
    with pytest.raises(MaghubError, match=r"one joint encoder, not a and b.*maghub encode "):
        check_joint(mag)
    with pytest.raises(MaghubError, match=r"those of image are missing.*maghub encode "):
        run("mlp", mag.folder, TASK, encoder=CLIP, modalities=["text"], seeds=1)
    with pytest.raises(MaghubError, match="takes the input as it is"):
        task_of(case, scale="standard")
    other = tiny(CLIP, tmp_path / "other", seed=1)
    settings = {**FEW, "model_path": str(other)}
    with pytest.raises(MaghubError, match=r"vectors were made by.*this is it at.*maghub encode"):
        run("mlp", mag.folder, TASK, seeds=1, settings=settings)
    settings["model_path"] = str(tmp_path / "nowhere")
    with pytest.raises(MaghubError, match="no such folder"):
        run("mlp", mag.folder, TASK, seeds=1, settings=settings)
    task = task_of(case)
    task.ids[layout.TEST] = task.ids[layout.TEST][:0]
    with pytest.raises(MaghubError, match="no test node of split rule 'random-nodes' has a phrase"):
        task.shown()


def check_joint(mag: MAG) -> None:
    """The task with the same vectors under two names."""
    known = mag.spec.config(f"embeddings-{CLIP}")
    copies = [known.model_copy(update={"name": f"embeddings-{name}"}) for name in "ab"]
    spec = mag.spec.model_copy(update={"configs": (*mag.spec.configs, *copies)})
    ModalityAlignment(MAG(mag.folder, spec), {"text": "a", "image": "b"})
