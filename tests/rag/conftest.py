"""A small benchmark with pictures and the vectors of a stand-in encoder."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("faiss")

import maghub
from maghub import registry
from maghub.mkg import write_benchmark
from tests.helpers.kgrag import BUILDER, own_card, picture, small_records
from tests.helpers.stand_in import StandIn


@pytest.fixture(scope="session")
def rag_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 triplets (12 multimodal), 96 questions; leave it as it is."""
    folder = tmp_path_factory.mktemp("rag") / "small"
    write_benchmark(small_records(), own_card(), folder, builder=BUILDER, pictures=picture)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "get", lambda group, name: StandIn)
        maghub.encode(folder, "stand-in")
    return folder


@pytest.fixture(scope="session")
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its text-only half, without any vectors."""
    from tests.helpers.kgrag import parts

    made = parts()
    kept = {
        "triplets": [one for one in made["triplets"] if one.id.startswith("text")],
        "queries": [one for one in made["queries"] if one.id.startswith("text")],
        "qrels": [one for one in made["qrels"] if one.query_id.startswith("text")],
    }
    folder = tmp_path_factory.mktemp("rag") / "texts"
    write_benchmark(small_records(**kept), own_card(), folder, builder=BUILDER, pictures=picture)
    return folder
