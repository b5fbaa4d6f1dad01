"""``maghub init``: the card is valid as written, the builder builds once it is filled in."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import maghub
from maghub.cards import read_card
from maghub.errors import MaghubError

NODES = """
    rows = (raw / "n.txt").read_text().split()
    return {"id": rows, "text": rows, "label": [row[0] for row in rows]}
"""
EDGES = """
    rows = (raw / "n.txt").read_text().split()
    return {"src": rows[:-1], "dst": rows[1:]}
"""


def test_the_card_reads_and_keeps_everything_here(tmp_path: Path) -> None:
    folder = maghub.init("my-graph", tmp_path / "new")
    names = ["__init__.py", "builder.py", "card.md", "pyproject.toml"]
    assert sorted(path.name for path in folder.iterdir()) == names
    card = read_card(folder / "card.md").spec
    assert card.name == "my-graph"
    assert set(card.policy.model_dump().values()) == {"local"}
    assert "@" not in (folder / "builder.py").read_text()
    (folder / "card.md").write_text("filled in")
    with pytest.raises(MaghubError, match="already exists"):
        maghub.init("my-graph", folder)
    assert (folder / "card.md").read_text() == "filled in"


@pytest.mark.parametrize("name", ["", "My Graph", "-x", "a/b", "é", "a\n", "a-"])
def test_names_that_are_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(MaghubError, match="cannot be the name of a dataset"):
        maghub.init(name, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["emoji", "markg", "toys"])
def test_names_of_datasets_that_are_there_are_taken(tmp_path: Path, name: str) -> None:
    with pytest.raises(MaghubError, match=f"'{name}' is the name of a dataset that maghub builds"):
        maghub.init(name, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    ["1", "2024-01-01", "0x10", "true", "null", "none", "path", "maghub-error", "own", "a--b"],
)
def test_a_name_that_yaml_or_python_takes_for_something_else(tmp_path: Path, name: str) -> None:
    folder = maghub.init(name, tmp_path / "new")
    assert read_card(folder / "card.md").spec.name == name
    made = runpy.run_path(str(folder / "builder.py"))
    (own,) = [v for v in made.values() if getattr(v, "card_path", None) == folder / "card.md"]
    with pytest.raises(MaghubError, match="read_nodes is not filled in"):
        own.SOURCE(None, 0)


@pytest.mark.integration
def test_the_stub_is_found_by_name_and_builds_once_filled_in(tmp_path: Path) -> None:
    folder, site = maghub.init("2-step", tmp_path / "new"), tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", site, folder], check=True, capture_output=True, timeout=200)

    def build() -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name("maghub")), "build", "2-step"]
        command += ["--raw-dir", str(tmp_path), "--out", str(tmp_path / "out")]
        env = {**os.environ, "PYTHONPATH": str(site)}
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=200)

    done = build()
    assert done.returncode == 1
    assert done.stderr.strip().endswith("read_nodes is not filled in")
    assert len(done.stderr.strip().splitlines()) == 1
    stub = site / "maghub_2_step" / "builder.py"
    code = stub.read_text()
    for name, body in (("read_nodes", NODES), ("read_edges", EDGES)):
        code = code.replace(
            f'    raise MaghubError("{name} is not filled in", where=__file__)', body
        )
    stub.write_text(code)
    (tmp_path / "n.txt").write_text(" ".join(f"{'ab'[i % 2]}{i}" for i in range(30)))
    done = build()
    assert done.returncode == 0, done.stderr
    assert maghub.validate(tmp_path / "out").problems == []
    mag = maghub.load(tmp_path / "out")
    assert mag.edge_index.shape == (2, 29)
    assert (mag.spec.builder.name, mag.spec.name) == ("2-step", "2-step")
    assert [rule.name for rule in mag.spec.node_splits] == ["stratified"]
