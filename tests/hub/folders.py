"""Published folders to push: one, the same with more, with less and with other contents."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from maghub import layout
from maghub.cards import read_card
from maghub.hub.policy import METADATA
from maghub.spec import Access, EncoderProvenance, read_spec
from maghub.writing import write_config, write_metadata
from tests.helpers.folders import write_valid
from tests.helpers.graphs import vectors_table
from tests.hub.server import HubServer

ENCODER = "fake"


def add_embedding(folder: Path, encoder: str = ENCODER, dim: int = 6, seed: int = 1) -> list[str]:
    """Write made-up text vectors of an encoder into a folder; the paths of the new files."""
    spec = read_spec(folder)
    rows = spec.config(layout.NODES).rows
    matrix = np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float16)
    config = write_config(folder, vectors_table({layout.TEXT: matrix}, encoder))
    assert config is not None
    provenance = EncoderProvenance(
        encoder=encoder,
        config=config.name,
        modalities=(layout.TEXT,),
        model_id="fake/model",
        revision="1",
        library="numpy",
        licence="MIT",
        dim={layout.TEXT: dim},
        pooling="none",
        normalized=False,
        dtype="float16",
        missing={layout.TEXT: 0},
    )
    configs, encoders = (*spec.configs, config), (*spec.encoders, provenance)
    spec = spec.model_copy(update={"configs": configs, "encoders": encoders})
    write_metadata(folder, read_card(folder / layout.CARD_SOURCE_FILE), spec)
    return [entry.path for entry in config.files]


def drop_negatives(folder: Path) -> None:
    """Take the negatives out of a folder."""
    spec = read_spec(folder)
    gone = [config.name for config in spec.of_kind("negatives")]
    for name in gone:
        shutil.rmtree(folder / name)
    configs = tuple(config for config in spec.configs if config.name not in gone)
    spec = spec.model_copy(update={"configs": configs, "negatives": ()})
    write_metadata(folder, read_card(folder / layout.CARD_SOURCE_FILE), spec)


def set_policy(folder: Path, **parts: Access) -> None:
    """Change the redistribution policy of some parts."""
    spec, card = read_spec(folder), read_card(folder / layout.CARD_SOURCE_FILE)
    policy = spec.policy.model_copy(update=parts)
    card_spec = card.spec.model_copy(update={"policy": policy})
    spec = spec.model_copy(update={"policy": policy})
    write_metadata(folder, card.model_copy(update={"spec": card_spec}), spec)


def make_variants(base: Path) -> dict[str, Path]:
    """Valid folders of one dataset that differ in every way."""
    folders = {name: base / name for name in ("plain", "more", "less", "other")}
    write_valid(folders["plain"])
    for name in ("more", "less"):
        shutil.copytree(folders["plain"], folders[name])
    add_embedding(folders["more"])
    drop_negatives(folders["less"])
    add_embedding(folders["less"], seed=2)
    write_valid(folders["other"], n=30, seed=5)
    return folders


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder that a push must bring to the Hub."""
    entries = [entry.path for config in read_spec(folder).configs for entry in config.files]
    return {path: (folder / path).read_bytes() for path in (*entries, *METADATA)}


def replace(folder: Path, by: Path) -> None:
    """Make a folder a copy of another one."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(by, folder)


def assert_equal(hub: HubServer, repo: str, folder: Path, **foreign: bytes) -> None:
    """The repo holds the folder, what others put there, and nothing else."""
    assert hub.repo(repo).files() == contents(folder) | foreign
