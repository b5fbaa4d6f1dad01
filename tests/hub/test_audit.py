"""``maghub audit`` of a repo on the Hub says what it says of the folder, published by us or not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import maghub
from maghub.audit import run, write_html
from tests.helpers import foreign
from tests.helpers.foreign import MAPPING, VECTORS
from tests.hub.client import maghub as command
from tests.hub.server import HubServer

pytestmark = pytest.mark.integration


def test_a_repo_is_audited_like_a_folder(client: HubServer, toy: Path, tmp_path: Path) -> None:
    client.put_folder("maghub/toy", toy)
    report = run("maghub/toy")
    assert report == run(toy)
    write_html(report, "maghub/toy", tmp_path / "hub.html")
    write_html(report, toy, tmp_path / "local.html")
    page = (tmp_path / "hub.html").read_text("utf-8")
    assert page == (tmp_path / "local.html").read_text("utf-8")
    assert "data:image/png" in page


def without_ends(mapping: dict[str, str]) -> dict[str, str]:
    return {field: own for field, own in mapping.items() if field not in ("src", "dst")}


def audit(hub: HubServer, home: Path, name: str, *options: str) -> dict[str, dict[str, object]]:
    """The checks of ``maghub audit --json`` by name."""
    mapping = MAPPING if "--edges" in options else without_ends(MAPPING)
    maps = [part for field, own in mapping.items() for part in ("--map", f"{field}={own}")]
    vectors = [part for pair in VECTORS for part in ("--vectors", "=".join(pair))]
    done = command(hub, home, "audit", name, *options, *maps, *vectors, "--json")
    assert done.returncode in (0, 1), done.stderr[-3000:]
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_a_repo_of_somebody_else_is_audited_by_mapping_its_columns(
    hub: HubServer, toy: Path, tmp_path: Path
) -> None:
    count = maghub.load(toy).num_nodes
    rng = np.random.default_rng(0)
    vectors = {modality: rng.standard_normal((count, 8)) for modality, _ in VECTORS}
    local = foreign.as_repo(toy, tmp_path / "theirs", vectors)
    first = hub.put_folder("someone/things", local).oid
    hub.put("someone/things", {"README.md": b"# Nothing is said here any more"})
    tables = ("--nodes", "items", "--edges", "links")
    wanted = audit(hub, tmp_path, str(local), *tables)
    found = audit(hub, tmp_path, f"someone/things@{first}", *tables)
    assert found == wanted
    assert found["equal texts across splits"]["verdict"] != "skipped"
    assert "embeddings-emb text 100.0%" in str(found["modalities alive"]["summary"])
    part = audit(hub, tmp_path, "someone/things", "--nodes", "data/items-train.parquet")
    assert part["equal texts across splits"]["summary"] == "nodes are not split"


def test_a_repo_without_maghub_json_is_told_to_be_mapped(hub: HubServer, tmp_path: Path) -> None:
    hub.put("someone/things", {"README.md": b"# Things", "a.csv": b"x\n1\n"})
    done = command(hub, tmp_path, "audit", "someone/things")
    assert done.returncode == 1
    assert "--nodes CONFIG --edges CONFIG" in done.stderr.strip().splitlines()[-1]


def test_a_repo_or_config_that_is_not_there_is_one_line(
    hub: HubServer, toy: Path, tmp_path: Path
) -> None:
    hub.put_folder("maghub/toy", toy)
    for name in ("someone/none", "maghub/toy"):
        done = command(hub, tmp_path, "audit", name, "--nodes", "items")
        assert done.returncode == 1
        *_, line = done.stderr.strip().splitlines()
        assert f"{name}, items: cannot be read as a dataset" in line
        assert "Traceback" not in done.stderr
