"""Files of MM-Graph that are left out, downloaded, damaged or disagree."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from upstream import MmGraph, write_mmgraph

import maghub
from maghub.builders import _fetch
from maghub.builders._fetch import Remote
from maghub.builders._formats.features import open_features
from maghub.builders.mmgraph import ENCODERS, EleFashionSource
from tests.helpers.built import (
    check_valid,
    refusal,
)

torch = pytest.importorskip("torch")

RAW = {
    "ele-fashion": "ele-fashion",
    "goodreads-nc": "books-nc",
    "sports": "sports",
    "cloth": "cloth",
    "goodreads-lp": "books-lp",
}
LINKS = ("sports", "cloth", "goodreads-lp")
FEW = {"negatives": 5}  # 50 need more nodes than a fixture has
VECTORS = ("embeddings-mm-graph-clip", "embeddings-mm-graph-t5vit")


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(4))


def write(root: Path, name: str, **options: Any) -> MmGraph:
    task = "lp" if name in LINKS else "nc"
    return write_mmgraph(root, RAW[name], rng(), task=task, **options)


def test_without_vectors_pictures_or_negatives(tmp_path: Path) -> None:
    """The folder of the pictures may be unpacked, or not asked for."""
    write(tmp_path / "raw", "ele-fashion")
    archive = tmp_path / "raw" / "raw-data" / "ele-fashion-images.tar"
    wanted = maghub.build("ele-fashion", tmp_path / "a", tmp_path / "raw", **FEW)
    shutil.unpack_archive(archive, archive.with_suffix(""), filter="data")
    archive.unlink()
    again = maghub.build("ele-fashion", tmp_path / "b", tmp_path / "raw", **FEW)
    assert again.configs == wanted.configs
    shutil.rmtree(archive.with_suffix(""))
    bare = maghub.build(
        "ele-fashion", tmp_path / "c", tmp_path / "raw", images=False, vectors="none", negatives=0
    )
    assert [c.name for c in bare.configs] == ["nodes", "edges", "node-splits", "edge-splits"]
    check_valid(tmp_path / "c")
    one = maghub.build(
        "ele-fashion",
        tmp_path / "d",
        tmp_path / "raw",
        images=False,
        vectors="mm-graph-t5vit",
        **FEW,
    )
    assert [encoder.config for encoder in one.encoders] == [VECTORS[1]]


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    line = refusal("cloth", tmp_path / "raw", tmp_path / "out", vectors="mm-graph-clip")
    for file in ("lp-edge-split.pt", "node_mapping.pt", "clip_feat.pt"):
        assert f"hf://datasets/mm-graph-org/mm-graph@main/cloth-copurchase/{file}" in line
    for file in ("cloth-raw-text.jsonl", "cloth-images.tar"):
        assert f"hf://datasets/mm-graph-org/mm-graph@main/raw-data/{file}" in line
    line = refusal("cloth", tmp_path / "raw", tmp_path / "out", vectors="mm-clip")
    assert "Did you mean mm-graph-clip" in line


def test_without_a_raw_folder_the_files_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = write(tmp_path / "hub", "ele-fashion")
    asked = []

    def fetch(file: Remote) -> Path:
        asked.append(file.url.partition("@main/")[2])
        return planted.root / asked[-1]

    monkeypatch.setattr(_fetch, "_download", fetch)
    monkeypatch.setenv("MAGHUB_CACHE", str(tmp_path / "cache"))
    for vectors, count in (("mm-graph-clip", 1), ("present", 0)):
        graph = EleFashionSource(None, 0, vectors=vectors, **FEW).graph
        assert (graph.num_nodes, len(graph.encoders)) == (planted.num_nodes, count)
    files = ("node_mapping", "labels-w-missing", "nc_edges-nodeid", "split", "clip_feat")
    raw = {"raw-data/ele-fashion-raw-text.jsonl", "raw-data/ele-fashion-images.tar"}
    assert set(asked) == {f"ele-fashion/{file}.pt" for file in files} | raw
    assert set(ENCODERS) == {"clip", "imagebind", "t5vit", "t5dino"}


def save(root: Path, file: str, value: object) -> None:
    torch.save(value, root / file)


def lines(root: Path, change: Callable[[list[str]], object]) -> None:
    path = next((root / "raw-data").glob("*.jsonl"))
    found = path.read_text("utf-8").splitlines()
    change(found)
    path.write_text("\n".join(found) + "\n", encoding="utf-8")


BAD: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "edge": (
        "ele-fashion",
        lambda root: save(root, "ele-fashion/nc_edges-nodeid.pt", [[0, 1], [2, 40]]),
        r"nc_edges-nodeid\.pt: edges, row 1: not one of the 40 nodes",
    ),
    "split": (
        "ele-fashion",
        lambda root: save(root, "ele-fashion/split.pt", {"train_idx": [1], "val_idx": [2]}),
        r"split\.pt: has no test_idx",
    ),
    "mapping": (
        "ele-fashion",
        lambda root: save(root, "ele-fashion/node_mapping.pt", {"a": 0, "b": 99}),
        r"node_mapping\.pt: raw id 'b' maps to something that is not a node",
    ),
    "rows": (
        "ele-fashion",
        lambda root: save(root, "ele-fashion/clip_feat.pt", torch.zeros(39, 16)),
        r"clip_feat\.pt: 39 rows of features for 40 nodes",
    ),
    "odd": (
        "ele-fashion",
        lambda root: save(root, "ele-fashion/clip_feat.pt", torch.zeros(40, 15)),
        r"clip_feat\.pt: 15 columns do not split into a text and an image half",
    ),
    "not json": (
        "ele-fashion",
        lambda root: lines(root, lambda found: found.insert(2, "{")),
        r"raw-text\.jsonl, row 3: not JSON",
    ),
    "no texts": (
        "ele-fashion",
        lambda root: lines(root, lambda found: found.clear()),
        r"raw-text\.jsonl: none of its ids is in node_mapping\.pt",
    ),
    "lp": (
        "sports",
        lambda root: save(root, "sports-copurchase/lp-edge-split.pt", {"train": {}}),
        r"lp-edge-split\.pt: part 'train' has no source_node",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", [*BAD])
def test_bad_files_are_one_line(what: str, tmp_path: Path) -> None:
    name, change, message = BAD[what]
    write(tmp_path / "raw", name)
    change(tmp_path / "raw")
    line = refusal(name, tmp_path / "raw", tmp_path / "out", **FEW)
    assert re.search(message, line), line


def test_negatives_that_do_not_fit_are_one_line(tmp_path: Path) -> None:
    planted = write(tmp_path / "raw", "sports")
    parts: dict[str, dict[str, Any]] = {}
    for part, edges in planted.edge_split.items():
        src, dst = torch.tensor(edges).T.clone()
        parts["valid" if part == "validation" else part] = {"source_node": src, "target_node": dst}
    place = "sports-copurchase/lp-edge-split.pt"
    save(tmp_path / "raw", place, parts)
    spec = maghub.build("sports", tmp_path / "without", tmp_path / "raw")
    assert spec.negatives == ()
    for width, message in ((None, "none for test"), (3, "7 and 3 negatives per edge")):
        parts["valid"]["target_node_neg"] = torch.zeros(10, 7, dtype=torch.int64)
        if width:
            parts["test"]["target_node_neg"] = torch.zeros(20, width, dtype=torch.int64)
        save(tmp_path / "raw", place, parts)
        assert message in refusal("sports", tmp_path / "raw", tmp_path / "out")


@pytest.mark.parametrize(
    "file", ["*/labels-w-missing.pt", "*/clip_feat.pt", "*/*.jsonl", "*/*.tar"]
)
def test_cut_and_foreign_files_are_one_line(file: str, tmp_path: Path) -> None:
    write(tmp_path / "raw", "ele-fashion")
    path = next((tmp_path / "raw").glob(file))
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"<!DOCTYPE html><html>404</html>"):
        path.write_bytes(content)
        assert path.name in refusal("ele-fashion", tmp_path / "raw", tmp_path / "out", **FEW)


def test_a_record_without_text(tmp_path: Path) -> None:
    """That of an unknown id is passed over whatever is in it, that of a node is an error."""
    planted = write(tmp_path / "raw", "ele-fashion")
    lines(tmp_path / "raw", lambda found: found.insert(0, json.dumps({"asin": "B000"})))
    notes = maghub.build("ele-fashion", tmp_path / "out", tmp_path / "raw", **FEW).notes
    assert notes["texts of unknown ids"] == 2
    record = json.dumps({"asin": planted.raw_ids[8], "text": "?"})
    lines(tmp_path / "raw", lambda found: found.insert(0, record))
    line = refusal("ele-fashion", tmp_path / "raw", tmp_path / "no", **FEW)
    assert "raw-text.jsonl, column raw_text, row 1: no such key; it has asin, text" in line


def test_vectors_are_passed_over_without_keeping_them_in_memory(tmp_path: Path) -> None:
    """What a mapped file holds may be read again, but is not held."""
    status = Path("/proc/self/smaps")
    if not status.exists():
        pytest.skip("only Linux tells what is resident of a file")
    file = tmp_path / "clip_feat.pt"
    torch.save(torch.ones(40_000, 512), file)
    text, image = open_features(file).halves()
    for block, has in zip(text.blocks(), image.blocks(), strict=True):
        assert block[0].all()
        assert has[1].all()
    parts = status.read_text().split(str(file))[1:]
    assert len(parts) == 1
    resident = re.search(r"Rss:\s+(\d+) kB", parts[0])
    assert resident is not None
    assert int(resident[1]) < 40_000  # of 80,000
