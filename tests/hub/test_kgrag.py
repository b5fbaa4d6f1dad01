"""A retrieval benchmark on the Hub: a KGRag, fetched config by config; local parts never leave."""

from __future__ import annotations

from pathlib import Path

import pytest

import maghub as package
from maghub.errors import MaghubError
from maghub.hub.push import push
from maghub.mkg import write_benchmark
from maghub.mkg.benchmark import KGRag
from tests.helpers.kgrag import BUILDER, own_card, picture, small_records
from tests.hub.server import HubServer
from tests.hub.test_loading import downloads, paths

REPO = "maghub/rag"
pytestmark = pytest.mark.integration


@pytest.fixture
def rag(tmp_path: Path) -> Path:
    """The small benchmark as a folder."""
    out = tmp_path / "rag"
    write_benchmark(small_records(), own_card(), out, builder=BUILDER, pictures=picture)
    return out


def test_only_the_configs_that_are_read_are_downloaded(client: HubServer, rag: Path) -> None:
    client.put_folder(REPO, rag)
    hub, mine = package.load(REPO), package.load(rag)
    assert isinstance(hub, KGRag)
    assert isinstance(mine, KGRag)
    assert repr(hub) == repr(mine)
    assert hub.queries("test").equals(mine.queries("test"))
    assert set(downloads(client)) == {"maghub.json", "card.md"} | paths(rag, "queries")
    assert (hub.relevant("test")[1] == mine.relevant("test")[1]).all()
    wanted = {"maghub.json", "card.md"} | paths(rag, "queries", "qrels", "corpus")
    assert set(downloads(client)) == wanted
    assert hub.corpus.equals(mine.corpus)
    assert list(hub.pictures("entities", 2, 4)) == list(mine.pictures("entities", 2, 4))


def test_the_released_benchmark_is_never_pushed(client: HubServer, rag: Path) -> None:
    with pytest.raises(MaghubError, match="policy of its graph is local, so it cannot be pushed"):
        push(rag, REPO)


def test_a_benchmark_of_open_parts_is_pushed_without_its_pictures(
    client: HubServer, tmp_path: Path
) -> None:
    """As what is made from MarKG: graph and text public, pictures of third parties local."""
    card = own_card()
    policy = card.spec.policy.model_copy(update={"graph": "public", "text": "public"})
    card = card.model_copy(update={"spec": card.spec.model_copy(update={"policy": policy})})
    out = tmp_path / "rag"
    write_benchmark(small_records(), card, out, builder=BUILDER, pictures=picture)
    push(out, REPO)
    hub = package.load(REPO)
    assert isinstance(hub, KGRag)
    assert hub.queries().num_rows == 96
    assert not any(hub.pictures("corpus"))
    assert not any(one for row in hub.pictures("entities") for one in row)  # type: ignore[attr-defined]
