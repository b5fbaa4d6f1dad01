"""MLP and GCN on a graph whose answer is known: features or neighbours decide."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from maghub import layout, registry, schema
from maghub.errors import MaghubError
from maghub.loading import load
from maghub.spec import BuilderInfo, EncoderProvenance, SplitRule
from maghub.splits import split_counts, stratified_split
from maghub.tables import Facts, in_memory
from maghub.writing import write_folder
from tests.helpers.graphs import toy_card

NODES, CLASSES, WIDTH = 240, 3, 8
ENCODER = {"text": "planted"}


def planted(folder: Path, noise: float, shuffle: bool = False) -> Path:
    """Three communities, edges inside them only; features are one-hot classes plus noise."""
    rng = np.random.default_rng(0)
    labels = np.arange(NODES) % CLASSES
    src = np.repeat(np.arange(NODES), 4)
    dst = (src + CLASSES * rng.integers(1, 20, len(src))) % NODES
    pairs = np.unique(np.stack([np.minimum(src, dst), np.maximum(src, dst)]), axis=1)
    x = np.zeros((NODES, WIDTH), np.float32)
    x[np.arange(NODES), labels] = 1
    x += noise * rng.standard_normal(x.shape, dtype=np.float32)
    shown = rng.permutation(labels) if shuffle else labels
    codes = stratified_split(shown, (0.5, 0.25, 0.25), rng)
    nodes = {
        layout.NODE_ID: np.arange(NODES),
        layout.SOURCE_ID: [str(i) for i in range(NODES)],
        layout.TEXT: [""] * NODES,
        layout.LABEL: shown,
    }
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), WIDTH)
    tables = [
        in_memory(
            layout.NODES,
            "nodes",
            schema.nodes_features(["a", "b", "c"], image=False),
            nodes,
            split_names=layout.SPLITS,
            split_ids=codes,
        ),
        in_memory(
            layout.EDGES,
            "edges",
            schema.edges_features(),
            {"edge_id": np.arange(pairs.shape[1]), "src": pairs[0], "dst": pairs[1]},
        ),
        in_memory(
            layout.NODE_SPLITS,
            "node_splits",
            schema.splits_features(layout.NODE_ID, ["rule"]),
            {layout.NODE_ID: np.arange(NODES), "rule": codes},
        ),
        in_memory(
            layout.embeddings_config("planted"),
            "embeddings",
            schema.embeddings_features({"text": WIDTH}, "float32"),
            {layout.NODE_ID: np.arange(NODES), "text": vectors, "has_text": [True] * NODES},
            target=layout.NODES,
        ),
    ]
    rule = SplitRule(
        name="rule", of="nodes", origin="maghub", description="-", counts=split_counts(codes)
    )
    provenance = EncoderProvenance(
        encoder="planted",
        config=layout.embeddings_config("planted"),
        modalities=("text",),
        model_id="-",
        revision="-",
        library="-",
        licence="-",
        dim={"text": WIDTH},
        pooling="-",
        normalized=False,
        dtype="float32",
        missing={"text": 0},
    )
    facts = Facts(default_split="rule", node_splits=(rule,), encoders=(provenance,))
    card = toy_card()
    spec = card.spec.model_copy(update={"splits": {"rule": "-"}})
    builder = BuilderInfo(name="toy", version="1.0.0", seed=0)
    write_folder(folder, tables, facts, builder, card.model_copy(update={"spec": spec}))
    return folder


def accuracy(folder: Path, model: str, seed: int = 0) -> float:
    task = registry.get("tasks", "node-classification")(load(folder), ENCODER)
    return task.run(model, seed, hidden=16).test_accuracy


def test_mlp_reads_features_and_gcn_averages_noise_away(tmp_path: Path) -> None:
    clean, noisy = planted(tmp_path / "clean", 0.05), planted(tmp_path / "noisy", 1.5)
    assert accuracy(clean, "mlp") > 0.95
    assert accuracy(noisy, "gcn") > accuracy(noisy, "mlp") + 0.1


def test_shuffled_labels_stay_at_chance(tmp_path: Path) -> None:
    folder = planted(tmp_path / "shuffled", 0.05, shuffle=True)
    for model in ("mlp", "gcn"):
        assert accuracy(folder, model) < 0.6


def test_same_seed_same_result_and_everything_is_recorded(tmp_path: Path) -> None:
    folder = planted(tmp_path / "noisy", 1.5)
    task = registry.get("tasks", "node-classification")(load(folder), ENCODER)
    one, two = task.run("gcn", 3, hidden=8), task.run("gcn", 3, hidden=8)
    assert one.model_copy(update={"seconds": 0}) == two.model_copy(update={"seconds": 0})
    assert one.model_settings["hidden"] == 8
    assert one.encoders == ENCODER
    levels = task.baselines()
    assert levels["chance"] == pytest.approx(1 / 3)
    assert levels["majority"] == pytest.approx(1 / 3, abs=0.02)


def test_a_missing_encoder_names_the_command_that_makes_it(tmp_path: Path) -> None:
    folder = planted(tmp_path / "clean", 0.05)
    with pytest.raises(MaghubError, match="maghub encode") as caught:
        registry.get("tasks", "node-classification")(load(folder), {"text": "plantet"})
    assert "planted" in caught.value.line()
