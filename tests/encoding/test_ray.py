"""The Ray engine on a real local Ray: the bytes of the local engine, one line for every error."""

from __future__ import annotations

import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import maghub
from maghub import registry
from maghub.encoding import plan
from maghub.encoding.engine import Recipe, open_engine
from maghub.errors import MaghubError, MissingExtra
from tests.helpers.graphs import files_of, random_toy, write_toy
from tests.helpers.stand_in import StandIn

pytestmark = pytest.mark.integration

NODES = 100


class Fails(StandIn):
    """Gives a vector that is not finite, in whatever process it runs."""

    def encode_texts(self, texts: list[str]) -> np.ndarray:
        return np.full((len(texts), 8), np.inf, np.float32)


@pytest.fixture(scope="module")
def two_cpus() -> Iterator[None]:
    """A local Ray that has two CPUs whatever the machine has."""
    ray = pytest.importorskip("ray")
    import logging

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    yield
    ray.shutdown()


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Several shards of few nodes."""
    monkeypatch.setattr(plan, "SHARD_ROWS", 32)
    monkeypatch.setattr(plan, "BATCHES_PER_SHARD", 1)
    made = random_toy(NODES, seed=4)
    made.vectors = {}
    write_toy(made, tmp_path / "toy")
    return tmp_path / "toy"


def stand_in(monkeypatch: pytest.MonkeyPatch, encoder: type[StandIn] = StandIn) -> None:
    monkeypatch.setattr(registry, "get", lambda group, name: encoder)


def test_two_actors_give_the_bytes_of_the_local_engine(
    two_cpus: None, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one thread each there is room for two; the real encoder below takes both CPUs."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        stand_in(monkeypatch)
        other = Path(shutil.copytree(toy, toy.parent / "other"))
        maghub.encode(toy, "stand-in")
        spec = maghub.encode(other, "stand-in", engine="ray")
    finally:
        torch.set_num_threads(before)
    assert spec.encoders[-1].device == "cpu, 1 threads"
    assert files_of(other) == files_of(toy)
    assert maghub.validate(other).ok


def test_ray_finishes_what_the_local_engine_began(
    two_cpus: None, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch)
    other = Path(shutil.copytree(toy, toy.parent / "other"))
    maghub.encode(toy, "stand-in")
    calls = {"n": 0}
    real = StandIn.encode_texts

    def breaks(self: StandIn, texts: list[str]) -> np.ndarray:
        calls["n"] += 1
        if calls["n"] == 8:
            raise KeyboardInterrupt
        return real(self, texts)

    with monkeypatch.context() as patch:
        patch.setattr(StandIn, "encode_texts", breaks)
        with pytest.raises(KeyboardInterrupt):
            maghub.encode(other, "stand-in")
    assert 1 <= len(list(other.glob(".encode-stand-in/*/*.arrow"))) < 4
    maghub.encode(other, "stand-in", engine="ray")
    assert files_of(other) == files_of(toy)


def test_real_encoder_gives_the_same_bytes(two_cpus: None, toy: Path) -> None:
    other = Path(shutil.copytree(toy, toy.parent / "other"))
    maghub.encode(toy, "efficientnet-lite0", batch_size=16)
    maghub.encode(other, "efficientnet-lite0", batch_size=16, engine="ray")
    assert files_of(other) == files_of(toy)


def test_an_error_in_an_actor_is_one_line(
    two_cpus: None, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, Fails)
    before = files_of(toy)
    with pytest.raises(MaghubError, match="not finite") as caught:
        maghub.encode(toy, "stand-in", engine="ray")
    assert str(caught.value.where).startswith("node ")
    assert "\n" not in caught.value.line()
    assert files_of(toy) == before


def test_an_encoder_that_cannot_be_loaded_is_one_line(
    two_cpus: None, toy: Path, tmp_path: Path
) -> None:
    with pytest.raises(MaghubError, match="no such folder"):
        maghub.encode(toy, "efficientnet-lite0", model_path=tmp_path / "none", engine="ray")


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(MissingExtra, match=r"maghub\[ray\]"),
        open_engine("ray", Recipe(StandIn)),
    ):
        pass


def test_an_address_without_a_cluster_is_one_line_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    begin = time.monotonic()
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(MaghubError, match="no Ray cluster answers") as caught:
        open_engine("ray", Recipe(StandIn), f"127.0.0.1:{port}").__enter__()
    assert time.monotonic() - begin < 15
    assert "\n" not in caught.value.line()


def test_a_cluster_that_refuses_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")

    def refuses(**_: object) -> None:
        raise RuntimeError("InvalidAuthToken: token is missing\nmore")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuses)
    with pytest.raises(MaghubError, match=r"cannot join .*InvalidAuthToken") as caught:
        open_engine("ray", Recipe(StandIn)).__enter__()
    assert "authentication" in caught.value.line()
