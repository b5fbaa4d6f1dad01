"""The nine NineRec domains, on files in upstream's format with its quirks planted in them."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from mutants import check_survives
from upstream import NineRec, write_ninerec

import maghub
from maghub import registry
from maghub.builders.ninerec import BiliFood, BiliFoodSource, QbSource, read_items
from maghub.errors import MaghubError
from maghub.spec import FolderSpec
from tests.helpers.built import (
    check_builder_route,
    check_pictures,
    check_valid,
    check_workers,
    columns,
    pairs,
    refusal,
)

DOMAINS = {
    "bili-cartoon": "Bili_Cartoon",
    "bili-dance": "Bili_Dance",
    "bili-food": "Bili_Food",
    "bili-movie": "Bili_Movie",
    "bili-music": "Bili_Music",
    "dy": "DY",
    "ku": "KU",
    "qb": "QB",
    "tn": "TN",
}
FEW = {"negatives": 3}  # 50 need more nodes than a fixture has


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(4))


def counted(planted: NineRec) -> dict[tuple[int, int], int]:
    """How often two items are adjacent in one user's order, in either direction."""
    return Counter((min(e), max(e)) for e in planted.stored_edges if e[0] != e[1])


@pytest.fixture(scope="module", params=["bili-food", "dy", "qb"])
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, NineRec, Path, FolderSpec]:
    """Item first, user first, and without times."""
    root = tmp_path_factory.mktemp(request.param)
    planted = write_ninerec(
        root / "raw", DOMAINS[request.param], rng(), user_first=request.param == "dy"
    )
    spec = maghub.build(request.param, root / "out", root / "raw", **FEW)
    return request.param, planted, root / "out", spec


Case = tuple[str, NineRec, Path, FolderSpec]


def test_folder_is_valid(case: Case) -> None:
    name, planted, folder, spec = case
    check_valid(folder)
    assert [c.name for c in spec.configs] == ["nodes", "edges", "edge-splits", "negatives-uniform"]
    assert spec.config("nodes").splits == {"full": planted.num_nodes}
    assert (spec.default_split, spec.node_splits) == (None, ())
    assert spec.policy.model_dump() == dict.fromkeys(spec.policy.model_dump(), "local")
    assert spec.name == spec.builder.name == name
    assert spec.builder.options["edges"] == spec.notes["edge rule"] == "maghub-v1"


def test_nodes_follow_item_ids_with_both_texts_and_covers(case: Case) -> None:
    _, planted, folder, spec = case
    nodes = columns(folder, "nodes")
    assert nodes["source_id"] == planted.item_ids  # ascending; the file is shuffled
    assert nodes["text"] == nodes["text_en"] == planted.texts
    assert nodes["text_cn"] == planted.chinese
    assert "label" not in nodes
    check_pictures(folder, spec, planted.images)
    assert spec.notes["covers of no item"] == 1


def test_edges_are_those_of_the_rule(case: Case) -> None:
    name, planted, folder, spec = case
    found = pairs(folder)
    assert found == sorted(planted.edges)  # no self loop, no pair twice
    weights = columns(folder, "edges")["weight"]
    assert dict(zip(found, weights, strict=True)) == counted(planted)
    notes = spec.notes
    assert notes["users"] == len(planted.sequences)
    assert notes["users with fewer than 5 interactions, left out"] == 1
    # one interaction of each user is with an item that has no text
    assert notes["interactions with items that have no text, dropped"] == len(planted.sequences)
    known = sum(map(len, planted.sequences.values()))
    assert notes["interactions"] == known + len(planted.sequences)
    order = {"bili-food": "item, user, time", "dy": "user, item, time", "qb": None}[name]
    assert notes.get("columns of the pair file") == order


def test_edge_split_is_60_20_20_with_negatives(case: Case) -> None:
    _, planted, folder, spec = case
    (rule,) = spec.edge_splits
    total = len(planted.edges)
    assert rule.seed == 0
    for part, share in (("train", 0.6), ("validation", 0.2), ("test", 0.2)):
        assert abs(rule.counts[part] - share * total) < 1
    rows = columns(folder, "negatives-uniform")
    assert len(rows["neg"]) == total - rule.counts["train"]
    for query, others in zip(rows["query"], rows["neg"], strict=True):
        assert len(set(others)) == 3
        assert all((min(query, o), max(query, o)) not in planted.edges for o in others)


@pytest.mark.parametrize("name", sorted(set(DOMAINS) - {"bili-food", "dy", "qb"}))
def test_other_domains(name: str, tmp_path: Path) -> None:
    planted = write_ninerec(
        tmp_path / "raw" / "Downstream_datasets", DOMAINS[name], rng(), items=30
    )
    maghub.build(name, tmp_path / "out", tmp_path / "raw", **FEW)
    check_valid(tmp_path / "out")
    assert pairs(tmp_path / "out") == sorted(planted.edges)


def test_all_cards_state_table_7() -> None:
    table = {
        "bili-cartoon": (4724, 18660), "bili-dance": (2307, 9127), "bili-food": (1579, 6544),
        "bili-movie": (3509, 11618), "bili-music": (6038, 21592), "dy": (8299, 35627),
        "ku": (5370, 22052), "qb": (6121, 24145), "tn": (3334, 13344),
    }  # fmt: skip
    for name, numbers in table.items():
        card = registry.card(name).spec
        (paper,) = card.paper
        assert (paper.nodes, paper.edges, paper.classes) == (*numbers, None)
        assert registry.get("builders", name).SOURCE.name == card.name == name


def source(raw: Path, **options: object) -> BiliFoodSource:
    return BiliFoodSource(raw, 0, **{"negatives": 0, **options})  # type: ignore[arg-type]


def edges_of(raw: Path, **options: object) -> set[tuple[int, int]]:
    graph = source(raw, **options).graph
    return set(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))


def test_options_of_the_rule(tmp_path: Path) -> None:
    planted = write_ninerec(tmp_path, "Bili_Food", rng())
    node = {item: at for at, item in enumerate(planted.item_ids)}
    for least, window in ((4, 1), (5, 3), (9, 2)):
        wanted = {
            tuple(sorted((node[a], node[b])))
            for items in planted.sequences.values()
            if len(items) >= least
            for at, a in enumerate(items)
            for b in items[at + 1 : at + 1 + window]
            if a != b
        }
        assert edges_of(tmp_path, min_interactions=least, window=window) == wanted
    english, chinese = (source(tmp_path, text=t).graph.read_nodes for t in ("english", "chinese"))
    assert english.columns["text"].to_pylist() == planted.texts
    assert chinese.columns["text"].to_pylist() == planted.chinese


def test_files_may_lie_in_the_raw_folder_itself(tmp_path: Path) -> None:
    planted = write_ninerec(tmp_path, "Bili_Food", rng())
    assert edges_of(tmp_path / "Bili_Food") == planted.edges


@pytest.mark.parametrize("user_first", [False, True])
def test_columns_are_told_apart_where_ids_overlap(tmp_path: Path, user_first: bool) -> None:
    """Users are numbered like items: many user ids are ids of items too."""
    planted = write_ninerec(tmp_path, "Bili_Food", rng())
    path = tmp_path / "Bili_Food" / "Bili_Food_pair.csv"
    rows = [line.split(",") for line in path.read_text().splitlines()]
    users = {user: planted.item_ids[at] for at, user in enumerate(planted.sequences)}
    users[next(iter(users))] = "123456"
    renamed = [[item, users[user], time] for item, user, time in rows]
    lines = [
        ",".join([row[at] for at in ((1, 0, 2) if user_first else (0, 1, 2))]) for row in renamed
    ]
    path.write_text("\n".join(lines) + "\n")
    graph = source(tmp_path).graph
    assert set(zip(graph.src.tolist(), graph.dst.tolist(), strict=True)) == planted.edges
    known = graph.notes["of these in the item table"]
    assert sorted(known)[0] == 11  # type: ignore[call-overload]
    order = "user, item, time" if user_first else "item, user, time"
    assert graph.notes["columns of the pair file"] == order


def test_item_table_quirks(tmp_path: Path) -> None:
    path = tmp_path / "X_item.csv"
    text = '10,"乙, 二",b\n9,甲,stray, commas, here\n10,丙,again\nv2,,None\n'
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    items = read_items(path)
    assert items.ids == ["9", "10", "v2"]  # by prefix, then by number
    assert items.chinese == ["甲", "乙, 二", ""]
    assert items.english == ["stray, commas, here", "b", ""]
    assert items.notes == {
        "items listed again, first row kept": 1,
        "commas outside quotes, joined into the English text": 1,
    }


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        ("item.csv", lambda b: b + b"7,one", "column text_cn, row 41: 2 cells, expected 3"),
        ("item.csv", lambda b: b + b"x,\xff,y\n", "not utf-8"),
        ("item.csv", lambda b: b",no id,x\n" + b, "column item, row 1: is empty"),
        ("item.csv", lambda b: b"", "holds no items"),
        ("item.csv", lambda b: b[:-5], "row 40: broken quoting"),
        ("pair.csv", lambda b: b[: b.rindex(b",")], "row 107: 2 cells, expected 3"),
        ("pair.csv", lambda b: b.replace(b",16", b",x16", 1), "column time, row 1: 'x16"),
        ("pair.csv", lambda b: b"", "has 0 columns, expected 2 or 3"),
        ("pair.csv", lambda b: b"1,2,3,4\n" + b, "row 1: has 4 columns"),
        ("pair.csv", lambda b: b"x,y,1\n", "neither column holds ids of the item table"),
    ],
)  # fmt: skip
def test_bad_files_give_one_line(tmp_path: Path, file: str, change, words: str) -> None:
    write_ninerec(tmp_path / "raw", "Bili_Food", rng())
    path = tmp_path / "raw" / "Bili_Food" / f"Bili_Food_{file}"
    path.write_bytes(change(path.read_bytes()))
    line = refusal("bili-food", tmp_path / "raw", tmp_path / "out", **FEW)
    assert words in line
    assert path.name in line


def test_bad_behaviour_gives_one_line(tmp_path: Path) -> None:
    write_ninerec(tmp_path / "raw", "QB", rng())
    path = tmp_path / "raw" / "QB" / "QB_behaviour.tsv"
    whole = path.read_text()
    for text, words in (
        (whole + "u9 v1 v2\n", "row 13: expected a user, a tab and items"),
        (whole + "u9\t\n", "row 13: expected a user, a tab and items"),
        ("u1\tx y\n", "holds no id of the item table"),
    ):
        path.write_text(text)
        assert words in refusal("qb", tmp_path / "raw", tmp_path / "out", **FEW)


def test_missing_files_are_listed_at_once(tmp_path: Path) -> None:
    with pytest.raises(MaghubError) as caught:
        maghub.build("qb", tmp_path / "out")
    for name in ("QB/QB_item.csv", "QB/QB_behaviour.tsv", "QB/QB_cover", "drive.google.com"):
        assert name in str(caught.value)
    write_ninerec(tmp_path / "raw", "Bili_Food", rng())
    folder = tmp_path / "raw" / "Bili_Food"
    shutil.rmtree(folder / "Bili_Food_cover")
    (folder / "Bili_Food_pair.csv").unlink()
    line = refusal("bili-food", tmp_path / "raw", tmp_path / "out")
    assert "Bili_Food/Bili_Food_pair.csv" in line
    assert "Bili_Food/Bili_Food_cover" in line
    assert "Bili_Food_item.csv" not in line


def test_builder_route_and_workers(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    write_ninerec(raw, "Bili_Food", rng())
    check_workers("bili-food", raw, tmp_path / "out", **FEW)
    check_builder_route(BiliFood, tmp_path / "out" / "1", tmp_path / "cache", raw, **FEW)


@pytest.mark.parametrize("file", ["item.csv", "pair.csv"])
def test_mutated_files(tmp_path: Path, file: str) -> None:
    write_ninerec(tmp_path, "Bili_Food", rng())
    path = tmp_path / "Bili_Food" / f"Bili_Food_{file}"
    check_survives(lambda _: source(tmp_path).graph, path.read_bytes(), path, count=100, names="/")


def test_mutated_behaviour(tmp_path: Path) -> None:
    write_ninerec(tmp_path, "QB", rng())
    path = tmp_path / "QB" / "QB_behaviour.tsv"
    read = lambda _: QbSource(tmp_path, 0, negatives=0).graph  # noqa: E731
    check_survives(read, path.read_bytes(), path, count=100, names="/")


def test_stored_types(case: Case) -> None:
    _, _, folder, _ = case
    (file,) = (folder / "edges").glob("*.parquet")
    schema = pq.read_schema(file)
    assert [str(kind) for kind in schema.types] == ["int64", "int64", "int64", "float"]
