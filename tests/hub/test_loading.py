"""``maghub.load`` of a repo on the Hub: config by config, from the cache, as a stream."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import maghub as package
from maghub import layout, schema
from maghub.errors import MaghubError
from maghub.hub.opening import is_hub_id
from maghub.hub.push import push
from maghub.loading import resolve, sample_path
from maghub.spec import BuilderInfo, read_spec
from maghub.tables import Facts, in_memory
from maghub.writing import write_folder
from tests.helpers.folders import EMBEDDINGS
from tests.helpers.graphs import ENCODER, toy_card, vectors_table
from tests.helpers.reports import one_line
from tests.hub.client import in_process, result
from tests.hub.folders import add_embedding, contents
from tests.hub.server import HubServer

REPO = "maghub/toy"
pytestmark = pytest.mark.integration


def downloads(hub: HubServer) -> dict[str, int]:
    """Files that were downloaded, and the bytes of each."""
    found: dict[str, int] = {}
    for entry in hub.requests("GET", "/resolve/"):
        path = entry.path.partition("/resolve/")[2].partition("/")[2]
        found[path] = found.get(path, 0) + entry.sent
    return found


def paths(folder: Path, *configs: str) -> set[str]:
    spec = read_spec(folder)
    return {entry.path for name in configs for entry in spec.config(name).files}


def test_every_method_gives_what_the_local_folder_gives(client: HubServer, toy: Path) -> None:
    client.put_folder(REPO, toy)
    hub, mine = package.load(REPO), package.load(toy)
    assert repr(hub) == repr(mine)
    assert (hub.edge_index == mine.edge_index).all()
    assert (hub.labels == mine.labels).all()
    assert hub.nodes["text"][:] == mine.nodes["text"][:]
    assert hub.edges.to_dict() == mine.edges.to_dict()
    for rule in ("public", "random-0"):
        assert _equal(hub.splits(rule), mine.splits(rule))
    assert _equal(hub.edge_splits(), mine.edge_splits())
    assert _equal(hub.negatives()["test"], mine.negatives()["test"])
    for modality in layout.MODALITIES:
        assert (hub.features(ENCODER, modality) == mine.features(ENCODER, modality)).all()
        assert (hub.has(ENCODER, modality) == mine.has(ENCODER, modality)).all()
    ours, theirs = hub.to_networkx(), mine.to_networkx()
    assert dict(ours.nodes) == dict(theirs.nodes)
    assert sorted(ours.edges(data="relation")) == sorted(theirs.edges(data="relation"))


def _equal(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all((a[key] == b[key]).all() for key in a)


def test_only_what_is_asked_for_is_downloaded_and_once(client: HubServer, toy: Path) -> None:
    client.put_folder(REPO, toy)
    mag = package.load(REPO)
    assert set(downloads(client)) == {"maghub.json", "card.md"}
    assert mag.label_names
    assert mag.num_nodes == 40
    assert set(downloads(client)) == {"maghub.json", "card.md"}
    assert mag.edge_index.shape[0] == 2
    mag.features(ENCODER, "text")
    package.load(REPO).features(ENCODER, "image")
    wanted = {"maghub.json", "card.md"} | paths(toy, layout.EDGES, EMBEDDINGS)
    sizes = {path: len(data) for path, data in contents(toy).items()}
    assert downloads(client) == {path: sizes[path] for path in wanted}


def test_a_revision_is_a_tag_a_branch_or_a_commit(client: HubServer, toy: Path) -> None:
    first = push(toy, REPO)
    add_embedding(toy)
    push(toy, REPO)
    assert package.load(REPO).spec.has("embeddings-fake")
    for revision in ("v1.0.0", first.commit):
        mag = package.load(f"{REPO}@{revision}")
        assert not mag.spec.has("embeddings-fake")
        assert len(mag.edges) == mag.graph.num_edges
    with pytest.raises(MaghubError, match="has no such revision"):
        package.load(f"{REPO}@v9")


NODES = """
import maghub
try:
    maghub.load("maghub/toy").nodes
except maghub.MaghubError as error:
    show(str(error))
"""


def test_what_is_cached_needs_no_hub(hub: HubServer, toy: Path, tmp_path: Path) -> None:
    hub.put_folder(REPO, toy)
    code = "import maghub, sys\nmag = maghub.load(sys.argv[1])\nshow(mag.edge_index.sum())"
    online = result(hub, tmp_path, code, REPO)
    url, hub.url = hub.url, "http://127.0.0.1:9"
    assert result(hub, tmp_path, code, REPO) == online
    hub.url = url
    assert result(hub, tmp_path, code, REPO, HF_HUB_OFFLINE="1") == online
    line = result(hub, tmp_path, NODES, HF_HUB_OFFLINE="1")
    assert "is not in the cache and the Hub cannot be reached" in line


def test_streams_store_nothing(hub: HubServer, toy: Path, tmp_path: Path) -> None:
    hub.put_folder(REPO, toy)
    code = """
import maghub, pathlib, os
mag = maghub.load("maghub/toy")
rows = [row["text"] for row in mag.stream("nodes")]
some = [row["node_id"] for row in mag.stream("nodes", "test")]
try:
    mag.stream("nodes", "tset")
except maghub.MaghubError as error:
    line = str(error)
cache = pathlib.Path(os.environ["HF_HOME"])
show([rows, some, line, [str(p) for p in cache.rglob("*.parquet")]])
"""
    rows, some, line, stored = result(hub, tmp_path, code)
    mine = package.load(toy)
    assert rows == list(mine.table("nodes")["text"])
    assert len(some) == read_spec(toy).config("nodes").splits["test"]
    assert "did you mean test" in line.lower()
    assert stored == []


def test_names_of_repos_and_of_folders(client: HubServer, toy: Path, tmp_path: Path) -> None:
    for name in ("maghub/toys", "a/b@v1.0", "a-b/c.d_e@refs/pr/1", "A/1"):
        assert is_hub_id(name)
    for name in ("toys", "./toys/x", "../a/b", "/a/b", "a/b/c", "~/b", "a/b@", "a b/c", str(toy)):
        assert not is_hub_id(name)
    with pytest.raises(MaghubError) as caught:
        package.load("data/toy")
    one_line(caught.value, "data/toy: is no folder here, and there is no such dataset on the Hub")
    client.add_repo("maghub/model", "model")
    with pytest.raises(MaghubError, match="is a model repo, not a dataset"):
        package.load("maghub/model")
    client.put("maghub/plain", {"data.csv": b"a,b"})
    with pytest.raises(MaghubError, match="has no file"):
        package.load("maghub/plain")
    client.put_folder(REPO, toy)
    assert set(contents(resolve(REPO))) == set(contents(toy))


def test_the_bundled_sample_stands_in_where_the_hub_has_none(
    client: HubServer, tmp_path: Path
) -> None:
    assert resolve("maghub/emoji") == sample_path("emoji")
    client.url = "http://127.0.0.1:9"
    with in_process(client, tmp_path / "other"):
        assert package.load("maghub/emoji").folder == sample_path("emoji")
        with pytest.raises(MaghubError, match="cannot be reached"):
            package.load("maghub/toys")


def test_a_gated_repo_is_for_those_with_access(hub: HubServer, toy: Path, tmp_path: Path) -> None:
    hub.put_folder(REPO, toy)
    hub.repo(REPO).gated = "auto"
    with in_process(hub, tmp_path / "with"):
        assert len(package.load(REPO).edges)
    with (
        in_process(hub, tmp_path / "without", token=None),
        pytest.raises(MaghubError, match="is gated and you have no access"),
    ):
        package.load(REPO)


def test_paths_that_lead_out_of_the_folder_are_refused(client: HubServer, toy: Path) -> None:
    spec = (toy / layout.SPEC_FILE).read_text("utf-8")
    evil = spec.replace("edges/full-00000-of-00001.parquet", "../../../evil.parquet")
    client.put_folder(REPO, toy)
    client.put(REPO, {layout.SPEC_FILE: evil.encode()})
    with pytest.raises(MaghubError, match="leads out of the folder"):
        package.load(REPO)


def _large(out: Path, nodes: int = 100_000) -> None:
    """A graph of so many nodes with a picture each, its edges and vectors."""
    rng = np.random.default_rng(0)
    pictures = [_noise(rng) for _ in range(50)]
    image = pa.array([{"bytes": b, "path": None} for b in pictures]).take(
        pa.array(np.arange(nodes) % len(pictures))
    )
    columns = {
        layout.NODE_ID: np.arange(nodes),
        layout.SOURCE_ID: pa.array(np.arange(nodes)).cast(pa.string()),
        layout.TEXT: pa.array(np.arange(nodes)).cast(pa.string()),
        layout.IMAGE: image,
    }
    pairs = np.unique(np.sort(rng.integers(0, nodes, (300_000, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    edges = {"edge_id": np.arange(len(pairs)), "src": pairs[:, 0], "dst": pairs[:, 1]}
    vectors = {layout.TEXT: rng.standard_normal((nodes, 8)).astype(np.float16)}
    tables = [
        in_memory(layout.NODES, "nodes", schema.nodes_features(), columns),
        in_memory(layout.EDGES, "edges", schema.edges_features(), edges),
        vectors_table(vectors),
    ]
    write_folder(out, tables, Facts(), BuilderInfo(name="toy", version="1", seed=0), toy_card())


def _noise(rng: np.random.Generator) -> bytes:
    import io

    import PIL.Image

    buffer = io.BytesIO()
    PIL.Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def test_edges_and_vectors_of_a_large_graph_come_without_its_pictures(
    hub: HubServer, tmp_path: Path
) -> None:
    _large(tmp_path / "large")
    hub.put_folder("maghub/large", tmp_path / "large")
    code = """
import maghub
mag = maghub.load("maghub/large")
show([list(mag.edge_index.shape), list(mag.features("toy-encoder", "text").shape), len(mag.edges)])
"""
    shape, vectors, edges = result(hub, tmp_path / "home", code)
    spec = read_spec(tmp_path / "large")
    assert (shape, vectors, edges) == ([2, spec.config("edges").rows], [100_000, 8], shape[1])
    wanted = {"maghub.json", "card.md"} | paths(tmp_path / "large", layout.EDGES, EMBEDDINGS)
    sizes = {path: len(data) for path, data in contents(tmp_path / "large").items()}
    assert downloads(hub) == {path: sizes[path] for path in wanted}
    pictures = sum(sizes[path] for path in paths(tmp_path / "large", layout.NODES))
    assert sum(downloads(hub).values()) < pictures / 10
    hub.log.clear()
    code = "import datasets\nshow(len(datasets.load_dataset('maghub/large', 'edges')['full']))"
    assert result(hub, tmp_path / "plain", code) == edges
    got = downloads(hub)
    assert set(got) == {"README.md"} | paths(tmp_path / "large", layout.EDGES)


def test_info_of_a_repo_is_that_of_the_folder(client: HubServer, toy: Path) -> None:
    client.put_folder(REPO, toy)
    assert package.info(REPO) == package.info(str(toy))
    assert not [path for path in downloads(client) if path.endswith(".parquet")]
    with pytest.raises(MaghubError, match="no such dataset"):
        package.info("maghub/none")


def test_all_seeds_of_a_run_read_the_same_commit(client: HubServer, toy: Path) -> None:
    """Somebody pushes between two seeds: the second one still reads what the first one has read."""
    pytest.importorskip("torch_geometric")
    from maghub.running import iter_runs

    client.put_folder(REPO, toy)
    before = package.load(REPO).revision
    records = iter_runs(
        *("mlp", REPO, None),
        **dict.fromkeys(("encoder", "modalities", "preset", "noise", "out", "work")),  # type: ignore[arg-type]
        **{"seeds": 2, "settings": {"epochs": 1}, "device": "cpu", "resume": True},  # type: ignore[arg-type]
    )
    first = next(records)
    (toy / "later.txt").write_text("pushed while it ran")
    client.put_folder(REPO, toy)
    assert package.load(REPO).revision != before
    second = next(records)
    assert first.dataset.revision == second.dataset.revision == before
    assert first.dataset == second.dataset
