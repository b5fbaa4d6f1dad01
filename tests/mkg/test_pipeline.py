"""The whole construction on made-up graphs with pictures, and on MedMKG's schema."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import maghub
from maghub.errors import MaghubError
from maghub.mkg.augment import SETTING, plan
from maghub.mkg.pipeline import build_benchmark
from maghub.seeding import child_rng
from maghub.spec import FolderSpec
from tests.builders.test_medmkg import BASE, write
from tests.helpers.built import check_valid
from tests.helpers.graphs import files_of
from tests.helpers.kg_folders import Graph, check_benchmark, rows_of, write_graph

TOWNS, LANDS = 24, 5


def photo(*name: str | int) -> bytes:
    pixels = child_rng(0, "photo", *name).integers(0, 256, (6, 8, 3)).astype(np.uint8)
    image = PIL.Image.fromarray(pixels).resize((40, 30), PIL.Image.Resampling.BILINEAR)
    out = io.BytesIO()
    image.save(out, "JPEG")
    return out.getvalue()


def towns() -> Graph:
    """Towns in lands, some of them pictured; two of one name, one named after its land."""
    entities = {f"T{i}": f"Town{i}" for i in range(TOWNS)} | {f"L{i}": f"Land{i}" for i in range(5)}
    entities |= {"T1": "Springfield", "T2": "Springfield", "T3": "Land4 City", "G": "German"}
    relations = {
        "P17": "country",
        "P190": "twinned administrative body",
        "P37": "official language",
    }
    triplets = [(f"T{i}", "P17", f"L{i % LANDS}") for i in range(TOWNS)]
    triplets += [
        (f"T{i}", "P190", f"T{(i + step) % TOWNS}") for i in range(TOWNS) for step in (1, 5)
    ]
    triplets += [("T4", "P17", "L0"), ("L0", "P37", "G"), ("T3", "P17", "L4")]
    triplets = list(dict.fromkeys(triplets))
    images = {f"T{i}": [photo(i, n) for n in range(1 + i % 3)] for i in range(0, TOWNS, 2)}
    return Graph(triplets, entities, relations, {"P37": "language of the state"}, images)


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_graph(towns(), tmp_path_factory.mktemp("kg") / "towns")


@pytest.fixture(scope="module")
def built(kg: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FolderSpec]:
    out = tmp_path_factory.mktemp("bench") / "towns"
    return out, build_benchmark(kg, out).spec


def test_it_is_a_valid_benchmark_of_its_graph(built: tuple[Path, FolderSpec]) -> None:
    folder, spec = built
    check_valid(folder)
    graph = towns()
    counts = check_benchmark(folder, graph.triplets, graph.entities, graph.relations)
    rows = {config.name: config.rows for config in spec.configs}
    assert counts["queries"] == rows["queries"]
    readme = (folder / "README.md").read_text()
    said = "{queries:,} queries with {qrels:,} relevance judgements over a corpus of {triplets:,}"
    assert said.format(**counts) in " ".join(readme.split())
    assert "No language model took part" in readme
    assert {row["writer"] for row in rows_of(folder, "queries")} == {"rule"}
    assert repr(maghub.load(folder)).startswith("KGRag")


def test_a_form_with_many_answers_is_one_query(built: tuple[Path, FolderSpec]) -> None:
    folder, _ = built
    (query,) = [
        r for r in rows_of(folder, "queries") if r["head_id"] == "T4" and r["rel_id"] == "P17"
    ]
    (qa,) = [row for row in rows_of(folder, "qa") if row["query-id"] == query["id"]]
    assert sorted(qa["answer_ids"]) == ["L0", "L4"]


def test_what_cannot_be_asked_is_counted(built: tuple[Path, FolderSpec]) -> None:
    folder, spec = built
    asked = rows_of(folder, "queries")
    heads = Counter(row["head_id"] for row in asked if row["tail_id"] is None)
    assert heads["T1"] == 0  # two towns of one name; this one has no picture
    assert heads["T2"] == 2  # the other is told by its picture
    report = spec.notes["question_synthesis"]["masked forms"]
    graph = towns()
    nested = {("T3", "L4"), ("T1", "T2")}  # the two that the rules drop
    forms = {(h, r, None) for h, r, t in graph.triplets if (h, t) not in nested}
    forms |= {(h, None, t) for h, _, t in graph.triplets if (h, t) not in nested}
    assert sum(sum(row.values()) for row in report.values()) == len(forms)
    assert report["dropped: another masked form has the same words"]["text"] == 2
    assert report["questions"] == {
        "text": sum(not row["is_multimodal"] for row in rows_of(folder, "queries")),
        "multimodal": sum(row["is_multimodal"] for row in rows_of(folder, "queries")),
    }
    dropped = spec.notes["utility_filter"]["judged triplets"]
    assert dropped["dropped: one name contains the other"]["number"] == 2
    verdicts = rows_of(folder, "filter")
    assert len(verdicts) == len(towns().triplets)
    assert sum(not row["keep"] for row in verdicts) == 2


def test_pictured_heads_are_asked_about_in_pictures(built: tuple[Path, FolderSpec]) -> None:
    folder, _ = built
    images = towns().images
    queries = rows_of(folder, "queries")
    for row in queries:
        assert row["is_multimodal"] is (row["head_id"] in images)
        assert (row["image"] is not None) is row["is_multimodal"]
    for row in rows_of(folder, "corpus"):
        assert (row["image"] or {}).get("bytes") == images.get(row["head_id"], [None])[0]
    for row in rows_of(folder, "entities"):
        assert [one["bytes"] for one in row["images"]] == images.get(row["id"], [])
    operations = Counter()
    for split in ("train", "validation", "test"):
        for row in rows_of(folder, "queries", split):
            if row["is_multimodal"]:
                shown = row["image"]["bytes"]
                assert shown not in images[row["head_id"]]  # never the stored picture itself
                count = len(images[row["head_id"]])
                todo = plan(count, seed=0, setting=SETTING, split=split, qid=row["id"])
                operations[todo.operation] += 1
    assert len(operations) == 6


def test_the_bytes_depend_on_nothing_but_graph_and_seed(
    kg: Path, built: tuple[Path, FolderSpec], tmp_path: Path
) -> None:
    build_benchmark(kg, tmp_path / "two", workers=2)
    assert files_of(tmp_path / "two") == files_of(built[0])
    build_benchmark(kg, tmp_path / "other", seed=1)
    other, first = (rows_of(path, "queries") for path in (tmp_path / "other", built[0]))
    assert [row["id"] for row in other] == [row["id"] for row in first]
    assert [row["text"] for row in other] != [row["text"] for row in first]
    changed = [a["image"] != b["image"] for a, b in zip(other, first, strict=True) if a["image"]]
    assert all(changed)


def test_a_limit_draws_triplets_and_keeps_the_others_in_the_corpus(
    kg: Path, tmp_path: Path
) -> None:
    graph = towns()
    spec = build_benchmark(kg, tmp_path / "out", limit=10).spec
    check_valid(tmp_path / "out")
    counts = check_benchmark(tmp_path / "out", graph.triplets, graph.entities, graph.relations)
    assert 0 < counts["queries"] <= 20
    assert counts["triplets"] >= len(graph.triplets) - 1
    numbers = spec.notes["utility_filter"]
    assert sum(row["number"] for row in numbers["judged triplets"].values()) == 10
    assert numbers["corpus"]["not judged"]["number"] == len(graph.triplets) - 10
    assert sum(row["number"] for row in numbers["corpus"].values()) == counts["triplets"]
    again = build_benchmark(kg, tmp_path / "again", limit=10).spec
    assert again == spec
    assert build_benchmark(kg, tmp_path / "third", limit=10, seed=1).spec != spec


def test_medmkg(tmp_path: Path) -> None:
    """Studies are pictures: asked about in pictures where the picture is there, else not at all."""
    raw = write(tmp_path / "raw")
    (raw / BASE / "s50000001").mkdir(parents=True)
    (raw / BASE / "s50000001/a.jpg").write_bytes(photo("chest"))
    maghub.build("medmkg", tmp_path / "kg", raw)
    spec = build_benchmark(tmp_path / "kg", tmp_path / "out").spec
    check_valid(tmp_path / "out")
    queries = rows_of(tmp_path / "out", "queries")
    assert all(row["head_id"] == "I50000001" and row["is_multimodal"] for row in queries)
    assert {row["masked"] for row in queries} == {0, 1}
    assert all("Image_I" not in row["text"] for row in queries)
    numbers = spec.notes["utility_filter"]["judged triplets"]
    assert numbers["dropped: the head is a picture that is not there"]["number"] == 1
    found = spec.notes["utility_filter"]["graph"]
    assert found["pictures without an image"]["number"] == 1
    assert spec.policy.images == "local"  # as the graph's
    assert spec.name == "mkg-rag-medmkg"


# -- bad input -------------------------------------------------------------------------------------


def refusal(kg: Path, out: Path, **options: Any) -> str:
    with pytest.raises(MaghubError) as error:
        build_benchmark(kg, out, **options)
    assert not out.exists()
    line = error.value.line()
    assert "\n" not in line
    return line


def test_an_empty_graph(tmp_path: Path) -> None:
    folder = write_graph(Graph([], {"Q1": "Sun"}, {"P1": "is"}), tmp_path / "kg")
    assert "triplet" in refusal(folder, tmp_path / "out")


def test_no_graph_at_all(folder: Path, tmp_path: Path) -> None:
    assert "holds no config triplets" in refusal(folder, tmp_path / "out")


def test_a_filter_that_keeps_nothing(tmp_path: Path) -> None:
    graph = Graph([("Q1", "P1", "Q2")], {"Q1": "Sun", "Q2": "star"}, {"P1": "instance of"})
    line = refusal(write_graph(graph, tmp_path / "kg"), tmp_path / "out")
    assert "the filter keeps no triplet" in line


def test_relations_and_entities_without_a_text_are_counted(tmp_path: Path) -> None:
    graph = towns()
    graph.relations["P9"], graph.entities["N"] = "", ""
    graph.triplets += [("T5", "P9", "L1"), ("T5", "P17", "N"), ("T6", "P190", "N")]
    spec = build_benchmark(write_graph(graph, tmp_path / "kg"), tmp_path / "out").spec
    check_benchmark(tmp_path / "out", graph.triplets, graph.entities, graph.relations)
    numbers = spec.notes["utility_filter"]["judged triplets"]
    found = spec.notes["utility_filter"]["graph"]
    assert found["relations without a text"]["number"] == 1
    assert found["entities without a text"]["number"] == 1
    assert numbers["dropped: relation without a text"]["number"] == 1
    assert numbers["dropped: tail without a text"]["number"] == 2
    report = spec.notes["question_synthesis"]["masked forms"]
    assert report["dropped: an answer without a text"]["text"] >= 1  # T5 P17 ?: one is nameless


def test_a_triplet_that_stands_there_twice_counts_once(tmp_path: Path) -> None:
    graph = towns()
    once = build_benchmark(write_graph(graph, tmp_path / "once"), tmp_path / "once-out").spec
    triplets = list(graph.triplets)
    graph.triplets = [*triplets, triplets[3], triplets[0], triplets[3]]
    twice = build_benchmark(write_graph(graph, tmp_path / "twice"), tmp_path / "twice-out").spec
    for config in ("queries", "qrels", "corpus", "qa", "filter"):
        assert rows_of(tmp_path / "once-out", config) == rows_of(tmp_path / "twice-out", config)
    assert "graph" not in once.notes["utility_filter"]  # nothing was found wanting
    assert twice.notes["utility_filter"]["graph"]["repeated triplets"] == {"number": 3}


def test_empty_bytes_are_no_picture(tmp_path: Path) -> None:
    """One picture among others, and the only ones of two heads: one stored as "", one as null."""
    graph = towns()
    whole, holes = dict(graph.images), dict(graph.images)
    whole.pop("T0")
    whole.pop("T6")
    holes |= {"T0": [b""], "T6": [None], "T4": [b"", *graph.images["T4"]]}
    outs = []
    for name, images in (("whole", whole), ("holes", holes)):
        graph.images = images
        build_benchmark(write_graph(graph, tmp_path / name), tmp_path / f"{name}-out", seed=3)
        check_benchmark(tmp_path / f"{name}-out", graph.triplets, graph.entities, graph.relations)
        outs.append([rows_of(tmp_path / f"{name}-out", config) for config in ("queries", "corpus")])
    assert outs[0] == outs[1]


@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.parametrize(
    ("config", "column"),
    [("triplets", "head_id"), ("triplets", "rel_id"), ("triplets", "tail_id"),
     ("entities", "entity_id"), ("relations", "rel_id")],
)  # fmt: skip
def test_a_row_without_an_id(tmp_path: Path, config: str, column: str, value: str | None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = write_graph(towns(), tmp_path / "kg")
    path = next((folder / config).glob("*.parquet"))
    table = pq.read_table(path)
    ids = table[column].to_pylist()
    ids[2] = value
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, table.schema.field(column), pa.array(ids)), path)
    assert f"{config}, column {column}, row 2: holds no id" in refusal(folder, tmp_path / "out")


def test_a_cell_that_is_not_utf8(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = write_graph(towns(), tmp_path / "kg")
    path = next((folder / "entities").glob("*.parquet"))
    table = pq.read_table(path)
    names = table["name"].cast(pa.binary()).to_pylist()
    names[3] = b"caf\xe9"
    bad = pa.array(names, pa.binary()).view(pa.string())
    pq.write_table(table.set_column(1, table.schema.field("name"), bad), path)
    line = refusal(folder, tmp_path / "out")
    assert "entities, column name, row 3" in line
    assert "not UTF-8" in line
