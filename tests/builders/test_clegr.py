"""clegr and clegr-compat as published: counts, splits, bytes, cards, and the datasets route."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import maghub
from maghub import registry
from maghub.builders import clegr
from maghub.builders.clegr import Clegr, ClegrCompat, ClegrSource
from maghub.clegr.generate import PART_GRAPHS, SetConfig, generate
from maghub.clegr.rows import QUESTION_SCHEMA
from maghub.errors import MaghubError
from maghub.spec import FolderSpec, read_spec
from tests.helpers.clegr_card import losses, set_sizes
from tests.helpers.graphs import files_of

SETS = (
    "subway-facts",
    "subway-reasoning",
    "subway-large-facts",
    "subway-large-reasoning",
    "computer-networks-facts",
    "computer-networks-reasoning",
)
GRAPHS = 30  # two parts; the second holds rows of validation and test
PAPER = {  # nodes, edges and lines of the paper's Tables 5 and 10
    "subway-facts": ((26.54, 5.41), (28.32, 6.37), (6.02, 1.23)),
    "subway-large-facts": ((73.17, 13.55), (78.87, 16.41), (9.97, 2.02)),
    "computer-networks-facts": ((21.64, 3.93), (28.61, 5.30)),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clegr") / "clegr"
    maghub.build("clegr", folder, graphs=GRAPHS, seed=3)
    return folder


def read(folder: Path, config: str, split: str = "*") -> pa.Table:
    files = sorted(
        folder.glob(f"{config}/{split}-*.parquet"),
        key=lambda file: ("train", "validation", "test").index(file.name.split("-")[0]),
    )
    return pa.concat_tables(pq.read_table(file) for file in files)


def test_configs_and_their_order(small: Path) -> None:
    spec = read_spec(small)
    names = [config.name for config in spec.configs]
    assert names == [*SETS, *(f"{name}-graphs" for name in SETS)]
    for config in spec.configs:
        graphs = config.name.endswith("-graphs")
        assert config.kind == "table"
        assert config.target == (None if graphs else f"{config.name}-graphs")
        assert list(config.splits) == ["train", "validation", "test"]
    assert spec.config("subway-facts-graphs").splits == {"train": 18, "validation": 6, "test": 6}
    assert spec.config("subway-facts").splits == {"train": 792, "validation": 264, "test": 264}
    assert spec.graph is None
    report = maghub.validate(small)
    assert report.ok, report.problems[:3]


@pytest.mark.parametrize("name", SETS)
def test_rows_are_what_the_generator_gives_and_splits_go_by_graph(small: Path, name: str) -> None:
    (config,) = (one for one in ClegrSource(seed=3, graphs=GRAPHS).sets if one.name == name)
    parts = list(generate(config))
    for suffix, made in (
        ("", pa.concat_tables(part.questions for part in parts)),
        ("-graphs", pa.concat_tables(part.graphs for part in parts)),
    ):
        stored = read(small, name + suffix)
        assert stored.column_names == made.column_names
        assert stored.to_pylist() == made.to_pylist()
    owners: dict[str, str] = {}
    for split in ("train", "validation", "test"):
        ids = set(read(small, f"{name}-graphs", split)["graph_id"].to_pylist())
        assert ids == set(read(small, name, split)["graph_id"].to_pylist())
        for graph_id in ids:
            assert owners.setdefault(graph_id, split) == split
    assert len(owners) == GRAPHS


def test_facts_and_reasoning_are_independent_and_variants_share_graphs(
    small: Path, tmp_path: Path
) -> None:
    spec = maghub.build("clegr-compat", tmp_path / "compat", graphs=GRAPHS, seed=3)
    assert spec.notes["variant"] == "compat"
    assert read_spec(small).notes["variant"] == "well_posed"
    for name in SETS:
        graphs = f"{name}-graphs"
        assert read(small, graphs).equals(read(tmp_path / "compat", graphs))
    facts, reasoning = (read(small, f"subway-{kind}-graphs") for kind in ("facts", "reasoning"))
    assert facts["nodes"].to_pylist()[0] != reasoning["nodes"].to_pylist()[0]


def test_draws_are_counted_in_the_spec_and_the_readme(small: Path) -> None:
    spec = read_spec(small)
    readme = (small / "README.md").read_text("utf-8")
    for config in spec.configs[: len(SETS)]:
        counts = spec.notes["draws_by_template"][config.name]
        assert config.rows == sum(row["instances"] - row["lost"] for row in counts.values())
        assert all(row["instances"] == 2 * GRAPHS for row in counts.values())
        for name, row in [("all", None), *counts.items()]:
            numbers = [
                sum(c[key] for c in counts.values()) if row is None else row[key]
                for key in ("instances", "draws", "discarded", "lost")
            ]
            cells = " | ".join(f"{number:,}" for number in numbers)
            assert f"| `{config.name}` | {name} | {cells} |" in readme


def test_every_config_loads_with_datasets(small: Path, tmp_path: Path) -> None:
    first = datasets.load_dataset(str(small), cache_dir=str(tmp_path))
    assert first["train"].column_names == QUESTION_SCHEMA.names
    assert first["train"][0]["question_id"].startswith("subway-facts-small-00000-")
    mag = maghub.load(small)
    for config in mag.spec.configs:
        loaded = datasets.load_dataset(str(small), config.name, cache_dir=str(tmp_path))
        assert {split: len(rows) for split, rows in loaded.items()} == config.splits
        assert loaded["test"].features == datasets.Features.from_dict(config.features)
    assert len(mag.table("computer-networks-facts")) == 18 * GRAPHS
    with pytest.raises(MaghubError, match="Did you mean subway-facts"):
        mag.table("subway-fact")


@pytest.mark.parametrize("config", [None, "subway-reasoning", "computer-networks-facts-graphs"])
def test_builder_route_gives_the_same_tables(
    small: Path, config: str | None, tmp_path: Path
) -> None:
    options = {} if config is None else {"config_name": config}
    builder = Clegr(cache_dir=str(tmp_path), graphs=GRAPHS, seed=3, **options)
    builder.download_and_prepare()
    made = builder.as_dataset()
    assert list(made) == ["train", "validation", "test"]
    for split, rows in made.items():
        stored = read(small, config or "subway-facts", split)
        assert rows.with_format("arrow")[:].to_pylist() == stored.to_pylist()


def test_builder_route_options_processes_and_unknown_names(tmp_path: Path) -> None:
    places = {
        kind(cache_dir=str(tmp_path), graphs=graphs, seed=seed).cache_dir
        for kind in (Clegr, ClegrCompat)
        for graphs in (60, 61)
        for seed in (0, 1)
    }
    assert len(places) == 8
    rows = []
    for number, processes in enumerate((None, 2)):
        cache = str(tmp_path / str(number))
        builder = Clegr(cache_dir=cache, graphs=60, domain="subway", size="small")
        builder.download_and_prepare(num_proc=processes)
        rows.append(builder.as_dataset(split="train")["question_id"][:])
    assert rows[0] == rows[1]
    assert len(rows[0]) == 36 * 44
    with pytest.raises(MaghubError, match="unknown config 'nodes'"):
        Clegr(config_name="nodes", cache_dir=str(tmp_path)).download_and_prepare()


@pytest.mark.integration
@pytest.mark.parametrize("name", ["clegr", "clegr-compat"])
def test_same_bytes_whatever_the_workers(name: str, tmp_path: Path) -> None:
    for workers in (1, 2):
        maghub.build(name, tmp_path / str(workers), graphs=GRAPHS, seed=1, workers=workers)
    assert files_of(tmp_path / "1") == files_of(tmp_path / "2")
    maghub.build(name, tmp_path / "seed", graphs=GRAPHS, seed=2)
    ours, others = files_of(tmp_path / "1"), files_of(tmp_path / "seed")
    assert {file for file in ours if ours[file] == others.get(file)} == {"card.md"}


def test_every_part_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int]] = []

    def counting(config: SetConfig, part: int) -> Any:
        made.append((config.name, part))
        return original(config, part)

    original = clegr.generate_part
    monkeypatch.setattr(clegr, "generate_part", counting)
    graphs = 2 * PART_GRAPHS + 1
    maghub.build("clegr", tmp_path / "out", graphs=graphs, domain="computer-networks")
    assert made == [(name, part) for name in SETS[4:] for part in range(3)]
    made.clear()
    builder = Clegr(
        cache_dir=str(tmp_path), config_name=SETS[4], graphs=graphs, domain="computer-networks"
    )
    builder.download_and_prepare()
    assert len(made) <= 3 + 2, "at most one part per border between splits is made twice"


def test_other_sets_sizes_and_names(tmp_path: Path) -> None:
    spec = maghub.build("clegr", tmp_path / "a", graphs=3, domain="subway", size="mixed")
    assert [c.name for c in spec.configs][:2] == ["subway-mixed-facts", "subway-mixed-reasoning"]
    sizes = pc.list_value_length(read(tmp_path / "a", "subway-mixed-facts-graphs")["nodes"])
    assert sizes.to_pylist() == sorted(sizes.to_pylist())
    spec = maghub.build(
        "clegr", tmp_path / "b", graphs=1, question_set="facts", size="large", int_names=True
    )
    names = [c.name for c in spec.configs]
    assert names[:2] == ["subway-huge-facts", "computer-networks-huge-facts"]
    assert all(config.splits.keys() == {"train"} for config in spec.configs)
    nodes = read(tmp_path / "b", "subway-huge-facts-graphs")["nodes"].to_pylist()[0]
    assert all(node["name"] == node["id"] and node["name"].isdigit() for node in nodes)
    assert maghub.validate(tmp_path / "b").ok


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": "huge"}, "unknown size 'huge'"),
        ({"domain": "metro"}, "unknown domain 'metro'"),
        ({"question_set": "fact"}, "Did you mean facts"),
        ({"graphs": 0}, "0 graphs cannot be generated"),
        ({"graphs": "many"}, "many graphs cannot be generated"),
        ({"seed": -1}, "-1 is no seed"),
        ({"lines": 9}, "unknown option of builder clegr 'lines'"),
        ({"raw_dir": "."}, "reads no files. Leave raw_dir out"),
    ],
)
def test_impossible_settings_are_one_line(
    options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(MaghubError) as caught:
        maghub.build("clegr", tmp_path / "out", **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module", params=["clegr", "clegr-compat"])
def full(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, FolderSpec]:
    """A fresh default build."""
    folder = tmp_path_factory.mktemp("full") / request.param
    return request.param, folder, maghub.build(request.param, folder, workers=2)


@pytest.mark.integration
def test_the_card_states_what_a_fresh_build_measures(full: tuple[str, Path, FolderSpec]) -> None:
    name, folder, spec = full
    body = registry.card(name).body
    assert set_sizes(folder, spec) in body
    assert losses(spec) in body
    assert body.strip() in (folder / "README.md").read_text("utf-8")
    total = sum(config.rows for config in spec.configs if config.target)
    assert f"{total:,} questions over 3,000 graphs" in registry.card(name).spec.summary
    json.dumps(spec.notes)


@pytest.mark.integration
def test_counts_and_sizes_of_the_default_build(full: tuple[str, Path, FolderSpec]) -> None:
    name, folder, spec = full
    facts = {"train": 13_200, "validation": 4_400, "test": 4_400}
    for config in ("subway-facts", "subway-large-facts"):
        assert spec.config(config).splits == facts
    assert sum(row["lost"] for row in spec.notes["draws_by_template"]["subway-facts"].values()) == 0
    rows = spec.config("subway-reasoning").rows
    assert 32_000 <= rows <= (32_700 if name == "clegr-compat" else 34_000)
    for config in SETS:
        graphs = {"train": 300, "validation": 100, "test": 100}
        assert spec.config(f"{config}-graphs").splits == graphs
    for config, targets in PAPER.items():
        stored = read(folder, f"{config}-graphs")
        for column, (mean, spread) in zip(("nodes", "edges", "lines"), targets, strict=False):
            sizes = np.asarray(pc.list_value_length(stored[column]))
            assert abs(sizes.mean() - mean) < 3 * spread * (2 / 500) ** 0.5, (config, column)
