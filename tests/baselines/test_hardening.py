"""What was found by trying to break runs: each kind of mistake, by a whole run where it can."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from maghub import registry
from maghub.baselines.features import Features
from maghub.baselines.models._stack import BatchNorm
from maghub.baselines.noise import Noise
from maghub.baselines.tasks import node_classification
from maghub.baselines.tasks.link_prediction import LinkPrediction
from maghub.baselines.tasks.node_classification import NodeClassification, NodeClassificationConfig
from maghub.baselines.training import loop
from maghub.baselines.training.distributed import local_device
from maghub.errors import MaghubError
from maghub.loading import load
from maghub.results import read_records
from maghub.running import run
from tests.helpers.graphs import random_toy, write_toy
from tests.helpers.planted import ENCODER, communities, planted

SHORT = {"epochs": 2, "hidden": 8, "layers": 2}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hardening") / "toy"
    planted(folder, n=60)
    return folder


def line(*arguments: object, **options: object) -> str:
    """The one line that a run ends with."""
    with pytest.raises(MaghubError) as caught:
        run(*arguments, **{"seeds": 1, "settings": SHORT, **options})  # type: ignore[arg-type]
    text = caught.value.line()
    assert "\n" not in text
    assert len(text) < 400
    return text


@pytest.mark.parametrize("name", ["nonsense", "meta", "cuda:99", ""])
def test_a_device_that_is_none_is_one_line(toy: Path, name: str) -> None:
    text = line("mlp", toy, device=name)
    assert f"device '{name}' cannot be used" in text
    assert "--device auto" in text


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_where_there_is_none_is_one_line(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "device 'cuda' cannot be used" in line("mlp", toy, device="cuda")
    assert local_device("auto") == torch.device("cpu")
    monkeypatch.setenv("LOCAL_RANK", "3")
    with pytest.raises(MaghubError, match="device 'cuda' cannot be used"):
        local_device("cuda")


@pytest.mark.parametrize("option", ["out", "work"])
def test_a_place_that_cannot_be_written_is_named_before_training(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    def trained(*_: object, **__: object) -> None:
        raise AssertionError("it was trained")

    monkeypatch.setattr(loop, "_epoch", trained)
    (tmp_path / "file").write_text("no folder")
    text = line("mlp", toy, **{option: tmp_path / "file" / "below"})
    assert "file" in text
    assert "cannot be read or written" in text
    if option == "out":
        assert "cannot be read or written" in line("mlp", toy, out=tmp_path)
    with pytest.raises(AssertionError, match="it was trained"):
        run("mlp", toy, seeds=1, settings=SHORT, out=tmp_path / "new" / "r.jsonl")
    assert list((tmp_path / "new").iterdir()) == []  # the attempt leaves nothing


def test_seeds_are_not_counted_out_in_memory(toy: Path, tmp_path: Path) -> None:
    assert "no seed to run" in line("mlp", toy, seeds=0)
    from maghub.running import iter_runs

    many = iter_runs(
        *("mlp", toy, None),
        **dict.fromkeys(("encoder", "modalities", "preset", "noise", "out", "work")),  # type: ignore[arg-type]
        **{"seeds": 10**12, "settings": SHORT, "device": "cpu", "resume": True},  # type: ignore[arg-type]
    )
    assert [next(many).seed, next(many).seed] == [0, 1]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("held", [0, 1 << 30])
def test_a_vector_that_is_not_finite_is_named(tmp_path: Path, value: float, held: int) -> None:
    broken = communities(60)
    broken.vectors["image"][7, 2] = value
    write_toy(broken, tmp_path / "toy")
    assert "the vector of image of node 7 is not finite" in line("mlp", tmp_path / "toy")
    noise = Noise({"image": 1.0}, ["text", "image"], 0)  # shuffled: the stored row is named
    with pytest.raises(MaghubError, match="of image of node 7 is not finite"):
        Features(load(tmp_path / "toy"), ENCODER, noise, in_memory=held)()


def test_standardised_rows_are_those_that_are_shown_shuffled_or_not(tmp_path: Path) -> None:
    """Mean 0 and deviation 1 over the nodes that have the modality, after noise has moved rows."""
    part = random_toy(50)
    part.vectors["image"][::3] = 0  # no pictures
    write_toy(part, tmp_path / "toy")
    noise = Noise({"image": 0.6}, ["text", "image"], 1)
    features = Features(load(tmp_path / "toy"), ENCODER, noise, "standard")
    there = features.has("image", torch.arange(50))
    shown = features()["image"][there].double()
    assert int(there.sum()) == 50 - len(range(0, 50, 3))
    assert shown.mean(dim=0).abs().max() < 1e-5
    assert (shown.std(dim=0, correction=0) - 1).abs().max() < 1e-4


@pytest.mark.parametrize(
    "task", ["link-prediction", "node-clustering", "modality-matching", "modality-retrieval"]
)
def test_label_noise_where_no_label_is_learnt_is_refused(toy: Path, task: str) -> None:
    assert "learns from no labels" in line("gcn", toy, task, noise={"labels": 0.5})


def test_endless_spurious_edges_are_refused(toy: Path) -> None:
    assert "edges=inf is no share" in line("gcn", toy, noise={"edges": float("inf")})


def test_spurious_edges_are_a_share_of_the_edges_that_carry_messages(tmp_path: Path) -> None:
    """Held-out edges do not count, so that nothing of them is told by how many there are."""
    mag = planted(tmp_path / "toy")
    clean = LinkPrediction(mag, ENCODER)
    noisy = LinkPrediction(mag, ENCODER, noise={"edges": 0.5})
    real, shown = clean.edge_index.shape[1], noisy.edge_index.shape[1]
    assert 1.4 * real < shown <= 1.5 * real + 1  # a few of the pairs drawn are edges already


def test_a_batch_of_one_node_trains_with_batch_norm(toy: Path) -> None:
    mag = load(toy)
    count = len(NodeClassification(mag, ENCODER).ids["train"])
    settings = {**SHORT, "norm": "batch", "batch_size": count - 1}
    (record,) = run("mlp", toy, seeds=1, settings=settings)
    assert record.epochs == 2


def test_batch_norm_of_one_row_takes_the_running_statistics_and_leaves_them() -> None:
    norm, x = BatchNorm(3), torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    twin = torch.nn.BatchNorm1d(3)
    assert torch.equal(norm(x), twin(x))
    before = norm.running_mean.clone()
    single = norm(x[:1])
    assert torch.equal(norm.running_mean, before)
    assert torch.equal(single, twin.eval()(x[:1]))


@pytest.mark.parametrize("name", ["hidden", "batch_size", "contrasted"])
def test_numbers_that_no_size_can_hold_are_refused(toy: Path, name: str) -> None:
    text = line("mlp", toy, settings={**SHORT, name: 10**30})
    assert f"setting {name}=1" in text
    assert "is too large" in text


def test_scores_of_many_classes_are_made_in_parts(
    toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = run("gcn", toy, seeds=1, settings=SHORT)
    monkeypatch.setattr(node_classification, "_SCORED_AT_ONCE", 6)  # two nodes of three classes
    (parts,) = run("gcn", toy, seeds=1, settings=SHORT)
    assert parts.metrics == whole.metrics


def test_an_empty_test_split_says_so(tmp_path: Path) -> None:
    untested = communities(60)
    untested.codes = [i % 2 for i in range(60)]
    write_toy(untested, tmp_path / "toy")
    (record,) = run("mlp", tmp_path / "toy", seeds=1, settings=SHORT, out=tmp_path / "r.jsonl")
    assert record.metrics == {}
    assert record.notes == ["test has nothing that could be measured"]
    assert read_records([tmp_path / "r.jsonl"]) == [record]


# -- resuming ----------------------------------------------------------------------------------


class Stop(Exception):
    """Stands for a kill."""


def left(toy: Path, work: Path, monkeypatch: pytest.MonkeyPatch, **options: object) -> str:
    """The checkpoint that a run killed after its first epoch leaves."""
    with monkeypatch.context() as patch:
        patch.setattr(loop, "write_log", lambda *_: (_ for _ in ()).throw(Stop))
        before = set(work.glob("*.checkpoint"))
        common = {"seeds": 1, "settings": SHORT, "work": work, "resume": False}
        with pytest.raises(Stop):
            run("mlp", toy, **{**common, **options})  # type: ignore[arg-type]
    after = set(work.glob("*.checkpoint"))
    return (after - before or before).pop().name


def test_only_the_same_run_on_the_same_data_goes_on(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    first = left(toy, work, monkeypatch)
    assert left(toy, work, monkeypatch) == first
    assert left(toy, work, monkeypatch, out=tmp_path / "r.jsonl") == first
    assert left(toy, work, monkeypatch, preset="openmag") == first  # the same settings
    assert left(toy, work, monkeypatch, settings={**SHORT, "lr": 0.005}) == first  # the default
    others = [
        left(toy, work, monkeypatch, settings={**SHORT, "lr": 0.004}),
        left(toy, work, monkeypatch, noise={"labels": 0.1}),
        left(toy, work, monkeypatch, seeds=[1]),
        left(toy, work, monkeypatch, modalities=["text"]),
        left(toy, work, monkeypatch, encoder=dict(reversed(ENCODER.items()))),  # order of fusion
    ]
    with monkeypatch.context() as patch:  # a later version of maghub has another default
        field = NodeClassificationConfig.model_fields["temperature"]
        patch.setattr(field, "default", 0.5)
        NodeClassificationConfig.model_rebuild(force=True)
        others.append(left(toy, work, monkeypatch))
    NodeClassificationConfig.model_rebuild(force=True)
    planted(tmp_path / "other" / "toy", n=60, seed=1)
    others.append(left(tmp_path / "other" / "toy", work, monkeypatch))
    assert len({first, *others}) == 1 + len(others)
    (record,) = run("mlp", toy, seeds=1, settings=SHORT, work=work)
    log = (work / first).with_suffix(".csv").read_text().splitlines()
    assert record.epochs == len(log) - 1 == 2
    assert not (work / first).exists()


# -- third parties -----------------------------------------------------------------------------

PARTY = """
import torch
from maghub.baselines._model import EarlyFusion, Model, Output
from maghub.baselines.tasks.node_classification import NodeClassification

def function(): ...

class Foreign: ...

class Plain(EarlyFusion):
    def __init__(self, dims, out, config):
        super().__init__(dims, out, config)
        self.linear = torch.nn.Linear(self.width, out)

    def encode(self, x, edge_index, edge_weight):
        return self.linear(x)

class WithoutConfig(Plain):
    Config = None

class Weightless(Model):
    def forward(self, x, edge_index, edge_weight=None):
        return Output(x["text"][:, : self.out], {"text": x["text"], "image": x["image"]})

class Silent(Weightless):
    def forward(self, x, edge_index, edge_weight=None):
        return Output(x["text"][:, : self.out])

class DictTask(NodeClassification):
    Config = dict
"""
ENTRIES = """
[maghub.models]
function = party:function
foreign = party:Foreign
plain = party:Plain
without-config = party:WithoutConfig
weightless = party:Weightless
silent = party:Silent
broken = party_broken:Model

[maghub.tasks]
function-task = party:function
dict-task = party:DictTask
"""


@pytest.fixture
def party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another package that registers models and tasks, good and bad, as pip would install it."""
    info = tmp_path / "site" / "party-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: party\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "site" / "party.py").write_text(PARTY)
    (tmp_path / "site" / "party_broken.py").write_text("raise ValueError('boom')\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    importlib.invalidate_caches()
    registry._entries.cache_clear()
    yield
    registry._entries.cache_clear()
    for name in ("party", "party_broken"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("party")
def test_a_third_partys_model_runs_with_the_settings_all_models_have(toy: Path) -> None:
    (record,) = run("plain", toy, seeds=1, settings={"epochs": 2, "hidden": 8})
    assert record.model_settings == {"hidden": 8, "layers": 3, "dropout": 0.2}
    (record,) = run("weightless", toy, "modality-matching", seeds=1, settings={"epochs": 2})
    assert record.parameters == 0  # nothing to train is no error


@pytest.mark.usefixtures("party")
@pytest.mark.parametrize(
    ("model", "task", "said"),
    [
        ("function", None, "function is no encoder of graphs"),
        ("foreign", None, "foreign is no encoder of graphs"),
        ("function", "graph-to-text", "function generates nothing"),
        ("without-config", None, "Config of the model is None, no pydantic model"),
        ("broken", None, "model 'broken' cannot be imported (boom)"),
        ("silent", "modality-matching", "Silent gives no representation of text alone"),
        ("mlp", "function-task", "task 'function-task' is none: it has no run(request)"),
        ("mlp", "dict-task", "Config of the task is <class 'dict'>, no pydantic model"),
    ],
)
def test_a_third_party_that_breaks_the_contract_is_one_line(
    toy: Path, model: str, task: str | None, said: str
) -> None:
    assert said in line(model, toy, task, settings={})
