"""The whole chain with the real client: build, push, load from a fresh cache, add, push, load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maghub.hub.policy import METADATA
from maghub.spec import read_spec
from tests.hub.client import maghub, result
from tests.hub.folders import add_embedding, assert_equal, contents
from tests.hub.server import HubServer

pytestmark = pytest.mark.integration

COMPARE = """
import sys, datasets, maghub
from datasets import load_dataset
def arrow(parts):
    return {name: part.with_format("arrow")[:] for name, part in parts.items()}
def count(stream):
    return sum(len(next(iter(batch.values()))) for batch in stream.iter(500))
found = {}
for repo, folder in zip(sys.argv[1::2], sys.argv[2::2]):
    hub, mine = maghub.load(repo), maghub.load(folder)
    assert str(hub.folder) != folder
    names = datasets.get_dataset_config_names(repo)
    found[repo] = {"configs": names, "default": list(load_dataset(repo))}
    for name in names:
        there, here = load_dataset(repo, name), load_dataset(folder, name)
        streams = load_dataset(repo, name, streaming=True)
        rows = {split: len(part) for split, part in here.items()}
        found[repo][name] = [
            arrow(there) == arrow(here),
            there[next(iter(here))].features == here[next(iter(here))].features,
            arrow({"": hub.table(name)}) == arrow({"": mine.table(name)}),
            {split: count(stream) for split, stream in streams.items()} == rows,
            count(hub.stream(name)) == sum(rows.values()),
        ]
show(found)
"""
FEATURES = """
import sys, hashlib, maghub, numpy as np
mag, mine = maghub.load(sys.argv[1]), maghub.load(sys.argv[2])
show([bool((mag.features("fake", "text") == mine.features("fake", "text")).all()),
      str(mag.features("fake", "text").dtype), list(mag.features("fake", "text").shape)])
"""


def _push(hub: HubServer, home: Path, folder: Path, repo: str) -> dict[str, object]:
    done = maghub(hub, home, "push", folder, repo, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return dict(json.loads(done.stdout))


def _build(hub: HubServer, home: Path, *args: object) -> None:
    done = maghub(hub, home, *args)
    assert done.returncode == 0, done.stderr


def _file(path: str) -> str:
    return path.partition("/resolve/")[2].partition("/")[2]


def test_build_push_load_add_push_load(hub: HubServer, tmp_path: Path) -> None:
    emoji, clegr, home = tmp_path / "emoji", tmp_path / "clegr", tmp_path / "home"
    _build(hub, home, "build", "emoji", "--out", emoji)
    _build(hub, home, "clegr", "generate", "--out", clegr, "--graphs", 6)
    repos = {"maghub/emoji": emoji, "maghub/clegr": clegr}
    for repo, folder in repos.items():
        assert _push(hub, home, folder, repo)["visibility"] == "public"
        assert_equal(hub, repo, folder)
    pairs = [text for pair in repos.items() for text in pair]
    found = result(hub, tmp_path / "fresh", COMPARE, *pairs, token=None)
    assert found["maghub/emoji"]["default"] == ["train", "validation", "test"]
    for repo, folder in repos.items():
        names = [config.name for config in read_spec(folder).configs]
        assert sorted(found[repo]["configs"]) == sorted(names)
        assert {name: found[repo][name] for name in names} == dict.fromkeys(names, [True] * 5)

    new = add_embedding(emoji)
    hub.log.clear()
    _push(hub, home, emoji, "maghub/emoji")
    assert_equal(hub, "maghub/emoji", emoji)
    files = {path: len(data) for path, data in contents(emoji).items()}
    put = hub.requests("PUT")
    assert len(put) == len(new) == 1
    assert sum(entry.received for entry in put) == files[new[0]]
    metadata = sum(files[path] for path in METADATA)
    assert sum(entry.received for entry in hub.log) < files[new[0]] + 4 * metadata
    assert len(hub.log) < 40

    hub.log.clear()
    same, kind, shape = result(hub, tmp_path / "new", FEATURES, "maghub/emoji", emoji, token=None)
    assert (same, kind, shape) == (True, "float16", [1911, 6])
    got = {_file(e.path): e.sent for e in hub.requests("GET", "/resolve/")}
    assert got == {path: files[path] for path in ("maghub.json", "card.md", *new)}
