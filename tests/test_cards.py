"""Cards: typed front matter, one-line errors, and the README that the Hub and datasets read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from datasets import Features, List, Value
from huggingface_hub import DatasetCard
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub import layout, registry, schema
from maghub.cards import Card, CardSpec, card_problems, parse_card, read_card
from maghub.errors import MaghubError
from maghub.rendering import render_readme, table
from maghub.spec import (
    BuilderInfo,
    ConfigSpec,
    FileEntry,
    FolderSpec,
    GraphSpec,
    SplitRule,
    Statistics,
)

FRONT = """\
name: toy
pretty_name: Toy
summary: three nodes
version: 1.0.0
hub_license: mit
licences: {graph: MIT, text: MIT, images: MIT, embeddings: MIT}
policy: {graph: public, text: public, images: gated, embeddings: local}
language: [en]
upstream:
  - {name: toy.zip, revision: "1", licence: MIT}
citation: "@misc{toy}"
"""


def text_of(front: str = FRONT, body: str = "## About\n\nText.\n") -> str:
    return f"---\n{front}---\n\n{body}"


def with_line(line: str) -> str:
    """A card whose front matter holds ``line`` instead of that of the same field."""
    field = line.split(":")[0]
    kept = [old for old in FRONT.splitlines() if old.split(":")[0] != field]
    return text_of("\n".join([*kept, line]) + "\n")


def test_card_parses_to_typed_values() -> None:
    card = parse_card(text_of())
    assert card.spec.policy.images == "gated"
    assert card.spec.upstream[0].revision == "1"
    assert card.spec.status == "buildable"
    assert card.body == "## About\n\nText.\n"


TEXTS = st.one_of(
    st.text(max_size=30),
    st.text(st.sampled_from("ab-:#|'\"\n {}[]>&*!%@`\\\t猫🧑‍🚒\x85\u2028é"), max_size=30),
    st.sampled_from(["---", "a\n---\nb", "null", "yes", "1.0", "2024-13-45", "- x", "# no"]),
)


@settings(max_examples=150, deadline=None)
@given(texts=st.lists(TEXTS, min_size=6, max_size=6), body=TEXTS)
def test_any_text_survives_writing_and_reading(texts: list[str], body: str) -> None:
    spec = parse_card(text_of()).spec.model_dump()
    pretty, citation, quirk, meaning, edge_rule, contact = texts
    spec |= {"pretty_name": pretty, "citation": citation, "quirks": [quirk], "contact": contact}
    spec |= {"columns": {"nodes": {meaning: meaning}}, "edge_rule": edge_rule}
    card = Card(spec=CardSpec.model_validate(spec), body=body)
    once = parse_card(card.to_markdown())
    assert once.spec == card.spec
    assert once.body.strip() == body.replace("\r\n", "\n").strip()
    assert parse_card(once.to_markdown()) == once


BAD = {
    "": "no YAML front matter",
    "# Title\n": "no YAML front matter",
    "---\nname: toy\n": "no YAML front matter",
    "---\n- a\n- b\n---\n": "front matter is not a mapping",
    "---\n---\n": "front matter is not a mapping",
    text_of("name: [toy\npretty_name: x\n"): "line 3: front matter is not YAML",
    text_of("name: toy\n\tversion: 1\n"): "line 3: front matter is not YAML",
    text_of("name: toy\nname: toy: x\n"): "line 3: front matter is not YAML",
    text_of(FRONT.replace("version: 1.0.0\n", "")): "version: Field required",
    with_line("version: 1.0"): "version: Input should be a valid string",
    with_line("version: one"): "version: String should match",
    with_line("name: Toy Land"): "name: String should match",
    with_line("surprise: 1"): "surprise: Extra inputs are not permitted",
    with_line("language: en"): "language: Input should be a valid tuple",
    with_line("summary: |\n  two\n  lines"): "summary: Value error, must be one line",
    with_line("status: maybe"): "status: Input should be 'buildable'",
    with_line("policy: {graph: public}"): "policy.text: Field required",
    with_line("contact: 2024-13-45"): "front matter is not YAML",
    with_line("contact: !!int x"): "front matter is not YAML",
    with_line("contact: !!python/object/apply:os.getcwd []"): "front matter is not YAML",
    with_line("contact: " + "[" * 5000): "front matter is not YAML",
    with_line("7: x"): "7: ",
    text_of("name: a\x00b\n"): "front matter is not YAML",
}


@pytest.mark.parametrize("text", BAD, ids=list(map(str, range(len(BAD)))))
def test_bad_front_matter_gives_one_line_with_its_place(text: str, tmp_path: Path) -> None:
    path = tmp_path / "toy.md"
    path.write_text(text, "utf-8")
    with pytest.raises(MaghubError) as caught:
        read_card(path)
    line = str(caught.value)
    assert line.startswith(f"{path}")
    assert BAD[text] in line
    assert "\n" not in line
    assert len(line) < 1000


def test_every_problem_of_a_card_is_named_at_once() -> None:
    front = FRONT.replace("1.0.0", "x").replace("language: [en]\n", "").replace("gated", "secret")
    with pytest.raises(MaghubError) as caught:
        parse_card(text_of(front))
    assert all(field in str(caught.value) for field in ("version:", "language:", "policy.images:"))


def test_card_that_is_missing_or_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(MaghubError, match="No such file"):
        read_card(tmp_path / "none.md")
    (tmp_path / "bad.md").write_bytes(b"---\nname: \xff\n---\n")
    with pytest.raises(MaghubError, match=r"bad\.md: is not UTF-8 \(byte 10\)"):
        read_card(tmp_path / "bad.md")


def test_windows_line_ends_and_a_byte_order_mark() -> None:
    assert parse_card("\ufeff" + text_of().replace("\n", "\r\n")) == parse_card(text_of())


def test_undeclared_columns_and_rules_are_named() -> None:
    card = parse_card(with_line("columns: {nodes: {year: when}}"))
    configs = {"nodes": ["node_id", "year", "colour"], "edges": ["src", "relation"], "other": ["x"]}
    assert card_problems(card, configs, ["random"]) == [
        "column nodes.colour is not declared in the card",
        "column edges.relation is not declared in the card",
        "split rule random is not declared in the card",
    ]


def config_of(name: str, features: Features, splits: dict[str, int]) -> ConfigSpec:
    files = [
        FileEntry(path=layout.data_file(name, s, 0, 1), split=s, rows=n, bytes=10, sha256="0" * 64)
        for s, n in splits.items()
    ]
    kind = "nodes" if name == "nodes" else "table"
    return ConfigSpec(
        name=name,
        kind=kind,
        features=features.to_dict(),
        splits=splits,
        num_bytes=dict.fromkeys(splits, 8),
        files=tuple(files),
    )


NODES = schema.nodes_features(["ca|t", "dög", "yes", "1"], {"words": List(Value("string"))})
VECTORS = schema.embeddings_features({"text": 8, "image": 4})


def folder_spec(rows: int = 3) -> FolderSpec:
    return FolderSpec(
        name="toy",
        dataset_version="1.0.0",
        builder=BuilderInfo(name="toy", version="1.0.0", seed=0),
        policy=parse_card(text_of()).spec.policy,
        default_split="random",
        node_splits=(
            SplitRule(name="random", of="nodes", origin="maghub", description="x", counts={}),
        ),
        graph=GraphSpec(directed=True, num_nodes=rows, num_edges=7, unique_pairs=5),
        statistics=Statistics(
            self_loops=1,
            duplicate_edges=2,
            isolated_nodes=0,
            components=1,
            largest_component=rows,
            mean_degree=1.5,
            max_degree=3,
            classes={"ca|t": 1, "dög": 2},
            unlabelled=4,
        ),
        configs=(
            config_of("nodes", NODES, {"train": rows - 1, "test": 1}),
            config_of("embeddings-toy", VECTORS, {"full": rows}),
        ),
    )


def test_readme_is_a_dataset_card_with_the_right_yaml() -> None:
    text = render_readme(parse_card(with_line("tags: [graph, toys]")), folder_spec())
    data = DatasetCard(text).data.to_dict()
    assert (data["license"], data["pretty_name"], data["language"]) == ("mit", "Toy", ["en"])
    assert data["size_categories"] == ["n<1K"]
    assert len(data["tags"]) == len(set(data["tags"]))
    assert {"graph", "toys", "multimodal-attributed-graph"} <= set(data["tags"])
    nodes, vectors = data["configs"]
    assert nodes["config_name"] == "nodes"
    assert nodes["default"] is True
    assert nodes["data_files"] == [
        {"split": "train", "path": "nodes/train-*.parquet"},
        {"split": "test", "path": "nodes/test-*.parquet"},
    ]
    assert "default" not in vectors
    infos = {info["config_name"]: info for info in data["dataset_info"]}
    assert infos["nodes"]["splits"] == [
        {"name": "train", "num_bytes": 8, "num_examples": 2},
        {"name": "test", "num_bytes": 8, "num_examples": 1},
    ]
    for name, features in (("nodes", NODES), ("embeddings-toy", VECTORS)):
        assert Features._from_yaml_list(infos[name]["features"]) == features


def test_readme_tells_what_was_measured() -> None:
    card = parse_card(with_line("quirks: [odd thing]"))
    text = render_readme(card, folder_spec())
    assert text == render_readme(card, folder_spec())
    for part in ("odd thing", "## About", "directed", "4 nodes have no label", "ca\\|t", "gated"):
        assert part in text
    assert "`random` (default)" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in rows[:4]}
    assert len(widths) == 1


@pytest.mark.parametrize(
    ("rows", "size"),
    [
        (999, "n<1K"),
        (1000, "1K<n<10K"),
        (999_999, "100K<n<1M"),
        (10**6, "1M<n<10M"),
        (5 * 10**8, "100M<n<1B"),
        (10**13, "n>1T"),
    ],
)
def test_size_category_is_one_the_hub_knows(rows: int, size: str) -> None:
    data = DatasetCard(render_readme(parse_card(text_of()), folder_spec(rows))).data.to_dict()
    assert data["size_categories"] == [size]


def test_markdown_table_cells_stay_on_their_line() -> None:
    assert table(["a"], [["x|y\nz"]]) == "| a |\n| --- |\n| x\\|y z |"


@pytest.mark.parametrize("name", registry.names("builders"))
def test_card_of_every_registered_dataset_survives_a_round_trip(name: str) -> None:
    card = registry.card(name)
    assert card.spec.name == name
    assert parse_card(card.to_markdown()) == card
    front = yaml.safe_load(card.to_markdown().split("---\n")[1])
    assert list(front)[:2] == ["name", "pretty_name"]
