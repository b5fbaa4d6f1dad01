"""The published configs of a retrieval benchmark, read back with pyarrow, MTEB and mlcroissant."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import mlcroissant
import numpy as np
import pyarrow.parquet as pq
import pytest
from datasets import load_dataset

import maghub
from maghub import layout
from maghub.errors import MaghubError
from maghub.mkg import QA, Qrel, Query, Triplet, records_of, write_benchmark
from maghub.mkg.splits import SPLITS, group_split, released_split
from maghub.mkg.tables import Benchmark
from maghub.spec import FolderSpec, read_spec
from tests.helpers.kgrag import BUILDER, HEADS, own_card, parts, picture, small_records

Made = tuple[Path, FolderSpec]
CONFIGS = [
    "queries", "qrels", "corpus", "qa", "entities", "relations", "group-queries", "group-qrels",
    "group-corpus",
]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    out = tmp_path_factory.mktemp("kgrag") / "rag"
    spec = write_benchmark(small_records(), own_card(), out, builder=BUILDER, pictures=picture)
    return out, spec


def rows(folder: Path, config: str, split: str) -> pq.ParquetFile:
    return pq.read_table(folder / f"{config}/{split}-00000-of-00001.parquet")


def test_configs_and_splits(made: Made) -> None:
    folder, spec = made
    assert maghub.validate(folder).problems == []
    assert [config.name for config in spec.configs] == CONFIGS
    assert spec.config("queries").splits == {"train": 76, "validation": 10, "test": 10}
    assert sum(spec.config("group-queries").splits.values()) == 96
    assert spec.config("corpus").splits == {"full": 48}
    assert {rule.name: rule.of for rule in spec.query_splits} == {
        "released": "queries", "group_split": "queries",
    }  # fmt: skip
    assert read_spec(folder) == spec
    readme = (folder / "README.md").read_text()
    assert "| `group_split` | test |" in readme  # the table of leaks


def test_every_row_is_in_the_split_of_its_rule(made: Made) -> None:
    folder, _ = made
    own = parts()
    table = small_records().queries
    for prefix, codes in (("", released_split(table["id"])), ("group-", group_split(table))):
        for code, split in enumerate(SPLITS):
            chosen = [q for q, c in zip(own["queries"], codes, strict=True) if c == code]
            assert records_of(Query, rows(folder, f"{prefix}queries", split)) == chosen
            ids = {q.id for q in chosen}
            qrels = [q for q in own["qrels"] if q.query_id in ids]
            assert records_of(Qrel, rows(folder, f"{prefix}qrels", split)) == qrels
        assert records_of(Triplet, rows(folder, f"{prefix}corpus", "full")) == own["triplets"]


def test_answers_are_the_masked_sides_of_the_relevant_triplets(made: Made) -> None:
    folder, _ = made
    own = parts()
    triplets = {t.id: t for t in own["triplets"]}
    relevant = defaultdict(list)
    for qrel in own["qrels"]:
        relevant[qrel.query_id].append(triplets[qrel.corpus_id])
    queries = {q.id: q for q in own["queries"]}
    found = [qa for split in SPLITS for qa in records_of(QA, rows(folder, "qa", split))]
    assert {qa.query_id for qa in found} == set(queries)
    for qa in found:
        query, wanted = queries[qa.query_id], relevant[qa.query_id]
        tail = query.masked == "tail"
        ids = dict.fromkeys(t.tail_id if tail else t.rel_id for t in wanted)
        names = {
            (t.tail_id if tail else t.rel_id): (t.tail_text if tail else t.rel_text) for t in wanted
        }
        assert qa.answer_ids == tuple(ids)
        assert qa.answers == tuple(names[key] for key in ids)
        assert (qa.question, qa.masked) == (query.text, query.masked)
    assert max(len(qa.answers) for qa in found) == 3


def test_pictures_are_where_their_paths_say(made: Made) -> None:
    folder, spec = made
    corpus = rows(folder, "corpus", "full")
    for path, image in zip(
        corpus["image_path"].to_pylist(), corpus["image"].to_pylist(), strict=True
    ):
        assert (image and image["bytes"]) == (path and picture(path))
    entities = rows(folder, "entities", "full").to_pylist()
    for row in entities:
        assert len(row["images"]) == len(row["image_paths"])
    five = entities[5]["images"]
    assert [image is not None for image in five] == [True, False, False]  # places are kept
    assert five[0]["bytes"] == picture("Q5/0")
    named = HEADS + 48 + sum(len(row["image_paths"]) for row in entities)
    assert spec.images == {"kept": named - 2, "missing": 1, "refused: text": 1}


def test_without_pictures_there_are_no_picture_columns(tmp_path: Path) -> None:
    spec = write_benchmark(small_records(), own_card(), tmp_path / "rag", builder=BUILDER)
    assert maghub.validate(tmp_path / "rag").problems == []
    assert not [c.name for c in spec.configs if {"image", "images"} & set(c.features)]
    assert spec.images == {}


def test_tables_that_would_be_empty_are_left_out(tmp_path: Path) -> None:
    records = small_records(entities=[], relations=[])
    spec = write_benchmark(records, own_card(), tmp_path / "rag", builder=BUILDER)
    assert maghub.validate(tmp_path / "rag").problems == []
    assert [c.name for c in spec.configs] == [
        c for c in CONFIGS if c not in ("entities", "relations")
    ]
    rag = maghub.load(tmp_path / "rag")
    with pytest.raises(MaghubError, match="has no table of entities"):
        _ = rag.entities  # type: ignore[attr-defined]


def test_a_defect_is_refused_and_nothing_written(tmp_path: Path) -> None:
    records = small_records(qrels=[*parts()["qrels"], Qrel("mm-999", "mm-0")])
    with pytest.raises(MaghubError, match="qrels, row 144: unknown query id mm-999"):
        write_benchmark(records, own_card(), tmp_path / "rag", builder=BUILDER)
    assert not list(tmp_path.iterdir())
    spec = write_benchmark(
        records, own_card(), tmp_path / "rag", builder=BUILDER, strict=False, notes={"seen": 1}
    )
    assert spec.notes["defects"] == {"qrels": {"unknown query": {"rows": 1}}}
    assert spec.notes["seen"] == 1
    assert "| `qrels` | unknown query | 1 |" in (tmp_path / "rag/README.md").read_text()


def test_counts_in_the_notes(made: Made) -> None:
    notes = made[1].notes
    assert notes["records"]["triplets"] == {"triplets": {"text": 36, "multimodal": 12}}
    assert notes["records"]["queries"] == {
        "tail masked": {"text": 24, "multimodal": 24},
        "relation masked": {"text": 24, "multimodal": 24},
    }
    assert notes["records"]["questions"] == {"by rule": {"text": 48, "multimodal": 48}}


@pytest.mark.parametrize("config", [None, "group"])
def test_mteb_reads_both_splits(made: Made, config: str | None) -> None:
    loaders = pytest.importorskip("mteb.abstasks.retrieval_dataset_loaders")
    folder = made[0]
    loader = loaders.RetrievalDatasetLoader(str(folder), revision=None, split="test", config=config)
    data = loader.load()
    prefix = f"{config}-" if config else ""
    queries = records_of(Query, rows(folder, f"{prefix}queries", "test"))
    assert data["queries"]["id"] == [q.id for q in queries]
    assert data["queries"]["text"] == [q.text for q in queries]
    assert data["corpus"]["id"] == [t.id for t in parts()["triplets"]]
    assert data["corpus"]["text"] == [t.text for t in parts()["triplets"]]
    wanted = defaultdict(dict)
    for qrel in records_of(Qrel, rows(folder, f"{prefix}qrels", "test")):
        wanted[qrel.query_id][qrel.corpus_id] = 1
    assert data["relevant_docs"] == wanted


def test_load_dataset_reads_the_default_and_others(made: Made) -> None:
    folder, spec = made
    queries = load_dataset(str(folder))
    assert {split: len(part) for split, part in queries.items()} == spec.config("queries").splits
    assert queries["train"].features["masked"].names == ["tail", "relation"]
    entities = load_dataset(str(folder), "entities", split="full")
    assert entities[2]["images"][0].size[0] > 1
    assert entities[0]["images"] == []


@pytest.mark.parametrize("config", ["corpus", "qrels", "qa", "entities", "group-qrels"])
def test_croissant_reads_the_records(made: Made, config: str) -> None:
    folder, spec = made
    own = mlcroissant.Dataset(str(folder / "croissant.json"))
    found = list(own.records(config))
    assert len(found) == spec.config(config).rows
    own_set = next(r for r in own.metadata.record_sets if r.name == config)
    references = {
        field.name: field.references.field
        for field in own_set.fields
        if field.references and field.name != "split"
    }
    wanted = {
        "corpus": {
            "head_id": "entities/id", "rel_id": "relations/id", "tail_id": "entities/id",
        },
        "qrels": {"query-id": "queries/id", "corpus-id": "corpus/id"},
        "qa": {"query-id": "queries/id"},
        "entities": {},
        "group-qrels": {"query-id": "group-queries/id", "corpus-id": "group-corpus/id"},
    }  # fmt: skip
    assert references == wanted[config]


def test_a_benchmark_can_bring_its_own_split() -> None:
    codes = np.arange(96, dtype=np.int8) % 3
    benchmark = Benchmark.of(small_records(), released=lambda records: codes)
    assert (benchmark.released == codes).all()
    rules = {rule.name: rule.origin for rule in benchmark.facts().query_splits}
    assert rules == {layout.RELEASED_RULE: "upstream", layout.GROUP_RULE: "maghub"}
