"""The bundled emoji graph: counts, rules, rebuilding, and the two ways to read it."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import maghub
from maghub.builders.emoji import DATA_PACKAGE, Emoji, EmojiSource
from maghub.errors import MaghubError
from maghub.loading import sample_path
from maghub.mag import MAG
from tests.helpers.graphs import files_of

RAW_VARIABLE = "MAGHUB_EMOJI_RAW"
PACKAGES = ("emojibase-data-17.0.0.tgz", "emoji-datasource-google-16.0.0.tgz")
NODES, EDGES, COMPOSITION, SHARED_TAG = 1_911, 13_471, 514, 12_957
Pair = tuple[int, int]


@pytest.fixture(scope="module")
def sample() -> Path:
    path = sample_path("emoji")
    assert path is not None
    return path


@pytest.fixture(scope="module")
def mag(sample: Path) -> MAG:
    return maghub.load(sample)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but the two npm packages."""
    given = Path(os.environ.get(RAW_VARIABLE, ""))
    if RAW_VARIABLE not in os.environ or not all((given / name).is_file() for name in PACKAGES):
        pytest.skip(f"set {RAW_VARIABLE} to the folder with {' and '.join(PACKAGES)}")
    folder = tmp_path_factory.mktemp("raw")
    for name in PACKAGES:
        (folder / name).symlink_to((given / name).resolve())
    return folder


@pytest.fixture(scope="module")
def stored(sample: Path) -> dict[str, list[Any]]:
    """Columns of the nodes in node_id order, read with pyarrow alone."""
    parts = [pq.read_table(path) for path in (sample / "nodes").glob("*.parquet")]
    return pa.concat_tables(parts).sort_by("node_id").to_pydict()


def edges_of(sample: Path, relation: int) -> set[Pair]:
    (path,) = (sample / "edges").glob("*.parquet")
    rows = pq.read_table(path).to_pydict()
    found = zip(rows["src"], rows["dst"], rows["relation"], strict=True)
    return {(src, dst) for src, dst, kind in found if kind == relation}


def plain(hexcode: str) -> tuple[str, ...]:
    return tuple(point for point in hexcode.upper().split("-") if point != "FE0F")


def joined_parts(hexcodes: list[str]) -> set[Pair]:
    """The composition rule, by splitting code points at the joiner."""
    nodes = {plain(hexcode): node for node, hexcode in enumerate(hexcodes)}
    found = set()
    for node, hexcode in enumerate(hexcodes):
        points = list(plain(hexcode))
        while "200D" in points:
            at = points.index("200D")
            part, points = tuple(points[:at]), points[at + 1 :]
            found.add((node, nodes.get(part)))
        if len(found) and "200D" in plain(hexcode):
            found.add((node, nodes.get(tuple(points))))
    return {(min(a, b), max(a, b)) for a, b in found if b is not None and a != b}


def sharing_tags(tags: list[set[str]]) -> set[Pair]:
    """The shared-tag rule, pair by pair."""
    uses = Counter(tag for own in tags for tag in own)
    kept = [{tag for tag in own if 2 <= uses[tag] <= 20} for own in tags]
    pairs = itertools.combinations(range(len(tags)), 2)
    return {(a, b) for a, b in pairs if not kept[a].isdisjoint(kept[b])}


def test_counts_of_the_sample(sample: Path, mag: MAG, stored: dict[str, list[Any]]) -> None:
    assert len(stored["node_id"]) == mag.num_nodes == NODES
    assert stored["node_id"] == list(range(NODES))
    assert len(mag.label_names) == len(set(stored["label"])) == 10
    assert len(set(stored["subgroup"])) == 99
    assert len(set(stored["source_id"])) == len(set(stored["emoji"])) == NODES
    assert mag.graph.num_edges == EDGES
    assert len(edges_of(sample, 0)) == COMPOSITION
    assert len(edges_of(sample, 1)) == SHARED_TAG
    assert sum(path.stat().st_size for path in sample.rglob("*") if path.is_file()) < 8e6


def test_characters_match_their_source_ids(stored: dict[str, list[Any]]) -> None:
    for hexcode, character in zip(stored["source_id"], stored["emoji"], strict=True):
        points = tuple(f"{ord(char):04X}" for char in character)
        assert plain("-".join(points)) == plain(hexcode)
    fire = stored["text"][stored["emoji"].index("🧑‍🚒")]
    assert fire.startswith("firefighter: ")


def test_edges_follow_both_rules(sample: Path, stored: dict[str, list[Any]]) -> None:
    assert edges_of(sample, 0) == joined_parts(stored["source_id"])
    texts = [text.rpartition(": ")[2] for text in stored["text"]]
    assert edges_of(sample, 1) == sharing_tags([set(text.split(", ")) for text in texts])


def test_node_split_is_stratified(mag: MAG) -> None:
    splits = mag.splits()
    assert sorted(np.concatenate(list(splits.values())).tolist()) == list(range(NODES))
    for group in range(10):
        sizes = [int((mag.labels[ids] == group).sum()) for ids in splits.values()]
        total = sum(sizes)
        for size, share in zip(sizes, (0.6, 0.2, 0.2), strict=True):
            assert abs(size - share * total) < 1


def test_edge_split_keeps_both_relations_of_a_pair_together(mag: MAG) -> None:
    side: dict[Pair, str] = {}
    twice = 0
    for name, ids in mag.edge_splits().items():
        for src, dst in mag.edge_index[:, ids].T.tolist():
            twice += (src, dst) in side
            assert side.setdefault((src, dst), name) == name
    assert twice == EDGES - mag.graph.unique_pairs > 100
    shares = Counter(side.values())
    for name, share in (("train", 0.7), ("validation", 0.1), ("test", 0.2)):
        assert abs(shares[name] - share * len(side)) < 1


def test_negatives_are_no_edges_and_distinct(mag: MAG) -> None:
    edges = {frozenset(edge) for edge in mag.edge_index.T.tolist()}
    splits, flipped = mag.edge_splits(), 0
    for name, part in mag.negatives().items():
        assert part["edge_id"].tolist() == splits[name].tolist()
        for edge, query, positive, neg in zip(*part.values(), strict=True):
            assert {query, positive} == set(mag.edge_index[:, edge].tolist())
            flipped += query > positive
            assert len(set(neg.tolist()) - {query}) == 50
            assert not any(frozenset((query, node)) in edges for node in neg.tolist())
    held_out = sum(len(splits[name]) for name in ("validation", "test"))
    assert 0.4 < flipped / held_out < 0.6


def test_every_config_loads_with_datasets(sample: Path, mag: MAG, tmp_path: Path) -> None:
    loaded = datasets.load_dataset(str(sample), cache_dir=str(tmp_path))
    assert {name: len(part) for name, part in loaded.items()} == {
        "train": 1_146,
        "validation": 383,
        "test": 382,
    }
    for part in loaded.values():
        for row in part.select(range(0, len(part), 40)):
            assert max(row["image"].size) == 64
            row["image"].load()
    for config in mag.spec.configs:
        part = datasets.load_dataset(str(sample), config.name, cache_dir=str(tmp_path))
        assert {split: len(rows) for split, rows in part.items()} == config.splits
        assert next(iter(part.values())).features == datasets.Features.from_dict(config.features)


@pytest.mark.parametrize("config", [None, *EmojiSource.configs])
def test_builder_route_gives_the_same_tables(
    sample: Path, config: str | None, tmp_path: Path
) -> None:
    options = {} if config is None else {"config_name": config}
    builder = Emoji(cache_dir=str(tmp_path / "a"), **options)
    builder.download_and_prepare()
    made = builder.as_dataset()
    read = datasets.load_dataset(str(sample), config, cache_dir=str(tmp_path / "b"))
    assert list(made) == list(read)
    for split in made:
        assert made[split].features == read[split].features
        tables = [part.with_format("arrow")[:] for part in (made[split], read[split])]
        assert tables[0].to_pylist() == tables[1].to_pylist()


def test_builder_route_with_processes_seeds_and_unknown_names(tmp_path: Path) -> None:
    two = Emoji(config_name="edges", cache_dir=str(tmp_path / "two"))
    two.download_and_prepare(num_proc=2)
    assert two.as_dataset(split="full")["edge_id"][:] == list(range(EDGES))
    orders = []
    for seed in (0, 1):
        other = Emoji(config_name="node-splits", cache_dir=str(tmp_path / "s"), seed=seed)
        other.download_and_prepare()
        orders.append(other.as_dataset(split="full")["stratified"][:])
    assert orders[0] != orders[1]
    with pytest.raises(MaghubError, match=r"unknown config 'edge'\. Did you mean edges"):
        Emoji(config_name="edge", cache_dir=str(tmp_path))


def test_a_changed_raw_folder_or_version_is_another_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def place() -> str:
        return Emoji(cache_dir=str(tmp_path / "cache"), raw_dir=tmp_path / "raw").cache_dir

    (tmp_path / "raw").mkdir()
    places = [place(), place()]
    (tmp_path / "raw" / "file").write_bytes(b"1")
    places.append(place())
    monkeypatch.setattr(EmojiSource, "version", "9.9.9")
    places.append(place())
    assert places[0] == places[1]
    assert len(set(places)) == 3


def test_rebuilt_from_the_sample_byte_for_byte(sample: Path, tmp_path: Path) -> None:
    maghub.build("emoji", tmp_path / "again")
    assert files_of(tmp_path / "again") == files_of(sample)


def test_another_seed_changes_splits_and_negatives_alone(sample: Path, tmp_path: Path) -> None:
    maghub.build("emoji", tmp_path / "other", seed=1)
    before, after = files_of(sample), files_of(tmp_path / "other")
    same = {name.split("/")[0] for name in before if before[name] == after.get(name)}
    assert same == {"edges", "card.md", "statistics.svg"}


@pytest.mark.integration
def test_rebuilt_from_the_npm_packages_byte_for_byte(
    sample: Path, raw: Path, tmp_path: Path
) -> None:
    maghub.build("emoji", tmp_path / "again", raw)
    assert files_of(tmp_path / "again") == files_of(sample)


@pytest.mark.integration
def test_rules_recomputed_from_the_npm_packages(
    sample: Path, raw: Path, stored: dict[str, list[Any]]
) -> None:
    def read(package: str, name: str) -> bytes:
        with gzip.open(raw / package) as file, tarfile.open(fileobj=file) as tar:
            stream = tar.extractfile(f"package/{name}")
            assert stream is not None
            return stream.read()

    entries = {e["hexcode"]: e for e in json.loads(read(PACKAGES[0], "en/data.json"))}
    pictures = {
        plain(item["unified"]): item["image"]
        for item in json.loads(read(PACKAGES[1], "emoji.json"))
        if item["has_img_google"]
    }
    kept = [h for h, e in entries.items() if "group" in e and plain(h) in pictures]
    kept.sort(key=lambda hexcode: entries[hexcode]["order"])
    assert len(entries) - len(kept) == 38
    assert kept == stored["source_id"]
    assert [entries[h]["group"] for h in kept] == stored["label"]
    assert edges_of(sample, 0) == joined_parts(kept)
    assert edges_of(sample, 1) == sharing_tags([set(entries[h].get("tags", ())) for h in kept])
    for node in (0, 700, NODES - 1):
        name = f"img/google/64/{pictures[plain(kept[node])]}"
        assert stored["image"][node]["bytes"] == read(PACKAGES[1], name)


@pytest.mark.integration
def test_damaged_packages_give_one_line(raw: Path, tmp_path: Path) -> None:
    whole = (raw / PACKAGES[0]).read_bytes()
    middle = len(whole) // 2
    (tmp_path / PACKAGES[1]).symlink_to(raw / PACKAGES[1])
    for damaged in (
        b"",
        b"not a tgz",
        whole[: len(whole) // 10],
        whole[:100],
        whole[:middle] + bytes(50) + whole[middle + 50 :],
    ):
        (tmp_path / PACKAGES[0]).write_bytes(damaged)
        with pytest.raises(MaghubError) as caught:
            maghub.build("emoji", tmp_path / "out", tmp_path)
        assert PACKAGES[0] in str(caught.value)
        assert "npm pack" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "out").exists()


def test_missing_packages_are_all_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MaghubError) as caught:
        maghub.build("emoji", tmp_path / "out", tmp_path)
    line = str(caught.value)
    assert str(tmp_path) in line
    assert line.endswith("npm pack emojibase-data@17.0.0 emoji-datasource-google@16.0.0")
    (tmp_path / PACKAGES[0]).touch()
    with pytest.raises(MaghubError) as caught:
        maghub.build("emoji", tmp_path / "out", tmp_path)
    assert str(caught.value).endswith("npm pack emoji-datasource-google@16.0.0")
    with pytest.raises(MaghubError, match="nowhere"):
        maghub.build("emoji", tmp_path / "out", tmp_path / "nowhere")


def package_folder(raw_dir: Path, version: str) -> None:
    folder = raw_dir / "node_modules" / DATA_PACKAGE
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({"version": version}), "utf-8")


def test_packages_of_another_version_or_without_a_file(tmp_path: Path) -> None:
    (tmp_path / PACKAGES[1]).write_bytes(b"")
    package_folder(tmp_path, "16.0.0")
    with pytest.raises(MaghubError, match=r"is version 16\.0\.0, need 17\.0\.0"):
        maghub.build("emoji", tmp_path / "out", tmp_path)
    other = tmp_path / "other"
    package_folder(other, "17.0.0")
    (other / PACKAGES[1]).write_bytes(b"")
    with pytest.raises(MaghubError, match=r"data\.json"):
        maghub.build("emoji", tmp_path / "out", other)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz"):
        pass
    third = tmp_path / "third"
    third.mkdir()
    for name in PACKAGES:
        (third / name).write_bytes(buffer.getvalue())
    with pytest.raises(MaghubError, match=r"holds no en/data\.json"):
        maghub.build("emoji", tmp_path / "out", third)


@pytest.mark.parametrize("text", ["{", "{}", "[]", "[1]", "null", '[{"group": 0}]', "\\ud800"])
@pytest.mark.parametrize("name", ["en/data.json", "en/messages.json", "emoji.json"])
def test_json_of_another_kind_is_one_line(tmp_path: Path, name: str, text: str) -> None:
    messages = '{"groups": [{"key": "a", "order": 0}], "subgroups": [{"key": "b", "order": 0}]}'
    files = {
        "en/data.json": '[{"hexcode": "1F600", "emoji": "x", "label": "y", "group": 0}]',
        "en/messages.json": messages,
        "emoji.json": '[{"unified": "1F600", "image": "i.png", "has_img_google": true}]',
        name: text,
    }
    for package in PACKAGES:
        with tarfile.open(tmp_path / package, "w:gz") as tar:
            for path, content in files.items():
                member = tarfile.TarInfo(f"package/{path}")
                member.size = len(content.encode())
                tar.addfile(member, io.BytesIO(content.encode()))
    with pytest.raises(MaghubError) as caught:
        maghub.build("emoji", tmp_path / "out", tmp_path)
    assert any(words in str(caught.value) for words in ("npm pack", "every table is empty"))
    assert not (tmp_path / "out").exists()


def test_unknown_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MaghubError, match="builder emoji has no options, so not 'size'"):
        maghub.build("emoji", tmp_path / "out", size=72)
