"""The typed contract: what ``maghub.json`` may say, and how other versions are met."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pydantic
import pytest

from maghub.errors import MaghubError
from maghub.spec import (
    SCHEMA_VERSION,
    BuilderInfo,
    ConfigSpec,
    FileEntry,
    FolderSpec,
    GraphSpec,
    Policy,
    Statistics,
    parse_spec,
    read_spec,
)

MAJOR, MINOR = (int(part) for part in SCHEMA_VERSION.split("."))


def example() -> FolderSpec:
    config = ConfigSpec(
        name="nodes",
        kind="nodes",
        features={"node_id": {"dtype": "int64", "_type": "Value"}},
        splits={"train": 2, "test": 1},
        num_bytes={"train": 16, "test": 8},
        files=(
            FileEntry(path="nodes/a.parquet", split="train", rows=2, bytes=9, sha256="0" * 64),
            FileEntry(path="nodes/b.parquet", split="test", rows=1, bytes=9, sha256="f" * 64),
        ),
    )
    return FolderSpec(
        name="toy",
        dataset_version="1.0.0",
        builder=BuilderInfo(name="toy", version="1.0.0", seed=3, options={"deep": True}),
        policy=Policy(graph="public", text="gated", images="local", embeddings="public"),
        graph=GraphSpec(directed=False, num_nodes=3, num_edges=0, unique_pairs=0),
        statistics=Statistics(
            self_loops=0,
            duplicate_edges=0,
            isolated_nodes=3,
            components=3,
            largest_component=1,
            mean_degree=0.0,
            max_degree=0,
            classes={"猫": 2, "🐶": 1},
        ),
        notes={"anything": [1, {"nested": None}]},
        configs=(config,),
    )


def changed(path: tuple[str | int, ...], value: object, version: str | None = None) -> str:
    """The example's JSON with one value put in at ``path`` (and another schema version)."""
    data: Any = json.loads(example().to_json())
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    if version is not None:
        data["schema_version"] = version
    return json.dumps(data)


UNKNOWN = [
    ("surprise",),
    ("graph", "surprise"),
    ("builder", "surprise"),
    ("statistics", "surprise"),
    ("configs", 0, "surprise"),
    ("configs", 0, "files", 1, "surprise"),
]


def test_round_trip_is_exact_and_readable() -> None:
    spec = example()
    assert parse_spec(spec.to_json(), "here") == spec
    assert parse_spec(spec.to_json(), "here").to_json() == spec.to_json()
    assert "猫" in spec.to_json()
    assert "🐶" in spec.to_json()


@pytest.mark.parametrize("path", UNKNOWN, ids=lambda path: ".".join(map(str, path)))
def test_unknown_field_of_the_same_version_is_refused_by_its_place(
    path: tuple[str | int, ...],
) -> None:
    with pytest.raises(MaghubError) as caught:
        parse_spec(changed(path, 1), "folder/maghub.json")
    assert caught.value.where == "folder/maghub.json"
    assert f"field {'.'.join(map(str, path))}:" in str(caught.value)


@pytest.mark.parametrize("path", UNKNOWN, ids=lambda path: ".".join(map(str, path)))
def test_unknown_field_of_a_newer_minor_version_is_ignored(path: tuple[str | int, ...]) -> None:
    newer = f"{MAJOR}.{MINOR + 1}"
    read = parse_spec(changed(path, {"new": True}, newer), "here")
    assert read.schema_version == newer
    assert read.model_copy(update={"schema_version": SCHEMA_VERSION}) == example()


def test_wrong_value_of_a_newer_minor_version_is_still_refused() -> None:
    with pytest.raises(MaghubError, match=r"field graph\.num_nodes"):
        parse_spec(changed(("graph", "num_nodes"), "many", f"{MAJOR}.{MINOR + 1}"), "here")


@pytest.mark.parametrize("version", [f"{MAJOR + 1}.0", "0.9", "1", "", "one.two", "1.0.0", None, 7])
def test_another_major_version_is_refused(version: object) -> None:
    with pytest.raises(MaghubError, match="schema version") as caught:
        parse_spec(changed(("schema_version",), version), "here")
    assert f"reads {MAJOR}.x" in str(caught.value)
    assert caught.value.fix


def test_a_spec_with_unknown_fields_cannot_be_made_or_changed() -> None:
    with pytest.raises(pydantic.ValidationError, match="surprise"):
        FolderSpec(**{**example().model_dump(), "surprise": 1})
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        example().name = "other"  # type: ignore[misc]
    with pytest.raises(pydantic.ValidationError, match="sha256"):
        FileEntry(path="a", split="full", rows=1, bytes=1, sha256="short")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[1, 2]", "schema version"),
        ('"text"', "schema version"),
        (f'{{"schema_version": "{SCHEMA_VERSION}"}}', r"field name: .* \(and 4 more\)"),
        ("[" * 100_000, "is not JSON"),
    ],
    ids=["empty", "cut", "list", "string", "nothing else", "deep"],
)
def test_other_text_gives_one_line(text: str, message: str) -> None:
    with pytest.raises(MaghubError, match=message) as caught:
        parse_spec(text, "folder/maghub.json")
    assert str(caught.value).startswith("folder/maghub.json: ")
    assert "\n" not in str(caught.value)


def test_missing_folder_missing_file_and_bad_bytes(tmp_path: Path) -> None:
    with pytest.raises(MaghubError, match="is not a folder"):
        read_spec(tmp_path / "none")
    with pytest.raises(MaghubError, match="not a published folder"):
        read_spec(tmp_path)
    (tmp_path / "maghub.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(MaghubError, match="is not UTF-8"):
        read_spec(tmp_path)
    (tmp_path / "maghub.json").write_text(example().to_json(), "utf-8")
    assert read_spec(tmp_path) == example()


def test_configs_by_name_and_kind() -> None:
    spec = example()
    assert spec.config("nodes").rows == 3
    assert spec.has("nodes")
    assert not spec.has("edges")
    assert [config.name for config in spec.of_kind("nodes")] == ["nodes"]
    assert spec.of_kind("edges") == []
    with pytest.raises(MaghubError, match=r"unknown config 'node'\. Did you mean nodes\?"):
        spec.config("node")
