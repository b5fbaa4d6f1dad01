"""KGRag: what maghub.load gives, and the vectors that maghub.encode writes into such a folder."""

from __future__ import annotations

import hashlib
import io
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import maghub
from maghub import layout, registry
from maghub.encoding import plan
from maghub.errors import MaghubError
from maghub.mkg import write_benchmark
from maghub.mkg.benchmark import KGRag
from maghub.spec import read_spec
from tests.helpers.kgrag import BUILDER, own_card, parts, picture, small_records
from tests.helpers.stand_in import WIDTH, StandIn


class TextOnly(StandIn):
    """Encodes no pictures."""

    spec = StandIn.spec.model_copy(update={"name": "text-only", "dim": {"text": WIDTH}})


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small benchmark with the vectors of two encoders, several shards each."""
    folder = tmp_path_factory.mktemp("kgrag") / "rag"
    write_benchmark(small_records(), own_card(), folder, builder=BUILDER, pictures=picture)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "SHARD_ROWS", 7)
        patch.setattr(plan, "BATCHES_PER_SHARD", 1)
        for encoder in (StandIn, TextOnly):
            patch.setattr(registry, "get", lambda group, name, own=encoder: own)
            maghub.encode(folder, encoder.spec.name)
    return folder


@pytest.fixture
def rag(encoded: Path) -> KGRag:
    found = maghub.load(encoded)
    assert isinstance(found, KGRag)
    return found


def digest(data: bytes) -> list[int]:
    """The part of a stand-in's vector that depends on the input alone."""
    return list(hashlib.sha256(data).digest()[: WIDTH - 2])


def pixels(path: str) -> list[int]:
    data = picture(path)
    assert data is not None
    return digest(Image.open(io.BytesIO(data)).convert("RGB").tobytes())


def test_configs_and_provenance(encoded: Path) -> None:
    spec = read_spec(encoded)
    assert maghub.validate(encoded).problems == []
    found = {c.name: (c.kind, c.target, c.rows) for c in spec.configs if "embedding" in c.kind}
    pictures = sum(len(entity.image_paths) for entity in parts()["entities"])
    assert found == {
        "embeddings-stand-in-corpus": ("embeddings", "corpus", 48),
        "embeddings-stand-in-queries": ("embeddings", "queries", 96),
        "embeddings-stand-in-entities": ("picture_embeddings", "entities", pictures),
        "embeddings-text-only-corpus": ("embeddings", "corpus", 48),
        "embeddings-text-only-queries": ("embeddings", "queries", 96),
    }
    missing = {e.config: e.missing for e in spec.encoders}
    assert missing["embeddings-stand-in-corpus"] == {"text": 0, "image": 36}
    assert missing["embeddings-stand-in-entities"] == {"image": 2}
    assert missing["embeddings-text-only-queries"] == {"text": 0}


def test_a_vector_is_that_of_its_row(rag: KGRag) -> None:
    for target, texts, paths in (
        ("corpus", rag.corpus["text"], rag.corpus["image_path"]),
        ("queries", rag.queries()["text"], rag.queries()["image_path"]),
    ):
        vectors = rag.features("stand-in", target, "text")
        assert vectors.dtype == np.float16
        wanted = [digest(text.encode()) for text in texts.to_pylist()]
        assert vectors[:, : WIDTH - 2].tolist() == wanted
        images, has = (
            rag.features("stand-in", target, "image"),
            rag.has("stand-in", target, "image"),
        )
        for row, path in enumerate(paths.to_pylist()):
            assert has[row] == (path is not None)
            expected = pixels(path) if path else [0] * (WIDTH - 2)
            assert images[row, : WIDTH - 2].tolist() == expected


def test_picture_vectors_know_their_entity(rag: KGRag) -> None:
    vectors = rag.features("stand-in", "entities", "image")
    has, rows = rag.has("stand-in", "entities", "image"), rag.picture_rows("stand-in")
    wanted = [(i, p) for i, e in enumerate(parts()["entities"]) for p in e.image_paths]
    assert rows.tolist() == [entity for entity, _ in wanted]
    for vector, there, (_, path) in zip(vectors, has, wanted, strict=True):
        fine = "broken" not in path and "gone" not in path
        assert there == fine
        assert vector[: WIDTH - 2].tolist() == (pixels(path) if fine else [0] * (WIDTH - 2))


@pytest.mark.parametrize("rule", ["released", "group_split"])
def test_tables_by_split_and_rows_of_vectors(rag: KGRag, rule: str) -> None:
    stored = rag.queries()["id"].to_pylist()
    corpus = rag.corpus["id"].to_pylist()
    seen = []
    relevant = defaultdict(set)
    for qrel in parts()["qrels"]:
        relevant[qrel.query_id].add(qrel.corpus_id)
    for split in ("train", "validation", "test"):
        ids = rag.queries(split, rule)["id"].to_pylist()
        assert [stored[row] for row in rag.query_rows(split, rule)] == ids
        query, triplet = rag.relevant(split, rule)
        found = defaultdict(set)
        for q, t in zip(query, triplet, strict=True):
            found[stored[q]].add(corpus[t])
        assert found == {key: relevant[key] for key in ids}
        seen += ids
    assert sorted(seen) == sorted(stored)
    assert (rag.query_rows() == np.arange(96)).all()


def test_corpus_of_each_setting(rag: KGRag) -> None:
    ids = rag.corpus["id"].to_pylist()
    assert {ids[row][:2] for row in rag.corpus_rows(multimodal=True)} == {"mm"}
    assert {ids[row][:4] for row in rag.corpus_rows(multimodal=False)} == {"text"}
    assert len(rag.corpus_rows()) == 48


def test_entities_answers_and_pictures(rag: KGRag) -> None:
    assert rag.entities["name"].to_pylist() == [e.name for e in parts()["entities"]]
    assert rag.relations["description"].to_pylist() == ["", "of a whole"]
    assert rag.qa("test")["query-id"].to_pylist() == rag.queries("test")["id"].to_pylist()
    assert "image" not in rag.corpus.column_names
    entities = list(rag.pictures("entities", 3, 6))
    assert entities[0] == [picture(f"Q3/{k}") for k in range(3)]
    assert entities[2] == [picture("Q5/0"), None, None]
    asked = list(rag.pictures("queries"))
    paths = rag.queries()["image_path"].to_pylist()
    assert asked == [picture(path) if path else None for path in paths]
    assert repr(rag) == "KGRag(mkg-rag-bench-g: queries 96, qrels 144, corpus 48)"


def test_what_is_not_there_is_one_line(rag: KGRag) -> None:
    for call, what in (
        (lambda: rag.queries("dev"), "unknown split of queries 'dev'"),
        (lambda: rag.queries("test", "random"), "unknown split rule 'random'"),
        (lambda: rag.features("other", "corpus", "text"), "maghub encode"),
        (lambda: rag.features("text-only", "corpus", "image"), "holds no image vectors"),
        (lambda: rag.features("text-only", "entities", "image"), "unknown encoder of entities"),
        (
            lambda: rag.pictures("relations").__next__(),
            "relations of mkg-rag-bench-g holds no pictures",
        ),
    ):
        with pytest.raises(MaghubError) as caught:
            call()
        assert what in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "column", "of", "ask"),
    [
        ("group-queries", "id", "queries", lambda rag: rag.query_rows("test", "group_split")),
        ("qrels", "query-id", "queries", lambda rag: rag.relevant("test")),
        ("group-qrels", "corpus-id", "corpus", lambda rag: rag.relevant("test", "group_split")),
    ],
)
def test_an_unknown_id_is_no_other_row(
    encoded: Path, tmp_path: Path, config: str, column: str, of: str, ask: Callable[[KGRag], object]
) -> None:
    folder = Path(shutil.copytree(encoded, tmp_path / "copy"))
    (path,) = (folder / config).glob("test-*.parquet")
    table = pq.read_table(path)
    ids = table[column].to_pylist()
    ids[1] = "text-9999"
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, table.schema.field(column), pa.array(ids)), path)
    with pytest.raises(MaghubError) as caught:
        ask(maghub.load(folder))  # type: ignore[arg-type]
    line = caught.value.line()
    assert f"{config}, row 1: 'text-9999' is no id of {of}" in line
    assert "maghub validate" in line


def test_a_spec_that_is_none_of_a_benchmark(rag: KGRag) -> None:
    def other(name: str, **changed: object) -> KGRag:
        configs = [
            one.model_copy(update=changed) if one.name == name else one for one in rag.spec.configs
        ]
        spec = rag.spec.model_copy(update={"configs": tuple(configs)})
        return KGRag(rag.folder, spec)

    features = {k: v for k, v in rag.spec.config("corpus").features.items() if k != "head_text"}
    rows = rag.spec.config("embeddings-stand-in-corpus").rows
    for call, what in (
        (lambda: other("corpus", features=features).corpus, "corpus.head_text: column is missing"),
        (lambda: other("qrels", kind="table").relevant(), "is of kind table, must be qrels"),
        (
            lambda: other("corpus", splits={"full": rows + 1}).features("stand-in"),
            f"holds {rows} vectors, corpus has {rows + 1} rows",
        ),
    ):
        with pytest.raises(MaghubError) as caught:
            call()
        assert what in caught.value.line()
        assert "\n" not in caught.value.line()


def test_only_what_both_sides_have_is_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "rag"
    write_benchmark(small_records(), own_card(), folder, builder=BUILDER)
    monkeypatch.setattr(registry, "get", lambda group, name: StandIn)
    with pytest.raises(MaghubError, match="stand-in encodes text, image; cannot make image"):
        maghub.encode(folder, "stand-in", ["image"])
    spec = maghub.encode(folder, "stand-in")
    names = [c.name for c in spec.configs if c.kind in ("embeddings", "picture_embeddings")]
    assert names == ["embeddings-stand-in-corpus", "embeddings-stand-in-queries"]
    assert maghub.validate(folder).problems == []


def test_vectors_in_wrong_rows_are_found(encoded: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(encoded, tmp_path / "rag"))
    for config, order, what in (
        ("corpus", [1, 0], "holds id text-1, this row must be id text-0"),
        ("entities", [1, 0], "is picture of row 2 of the target, must be of row 1"),
    ):
        path = folder / f"embeddings-stand-in-{config}/full-00000-of-00001.parquet"
        table = pq.read_table(path)
        pq.write_table(table.take([*order, *range(2, len(table))]), path)
        found = [problem.message for problem in maghub.validate(folder, images=False).problems]
        assert [message for message in found if what in message], found
    path = folder / "embeddings-stand-in-queries/full-00000-of-00001.parquet"
    pq.write_table(pq.read_table(path).slice(0, 90), path)
    found = [problem.message for problem in maghub.validate(folder, images=False).problems]
    assert "has 90 rows, its target queries has 96" in found


def test_a_folder_of_vectors_without_pictures_stays_valid(encoded: Path, tmp_path: Path) -> None:
    """Pictures may stay behind (policy local) while vectors are public."""
    from maghub.hub.stripping import strip

    out = tmp_path / "public"
    out.mkdir()
    left = strip(encoded, read_spec(encoded), ["images"], out)
    assert left.has("embeddings-stand-in-entities")
    assert maghub.validate(out).problems == []
    found = maghub.load(out)
    assert isinstance(found, KGRag)
    assert found.features("stand-in", layout.ENTITIES, "image").any()
    assert all(one is None for one in found.pictures("corpus"))


def test_nothing_is_left_without_texts(encoded: Path, tmp_path: Path) -> None:
    from maghub.hub.stripping import strip

    (tmp_path / "out").mkdir()
    with pytest.raises(MaghubError, match="nothing would be left without its text"):
        strip(encoded, read_spec(encoded), ["text", "embeddings"], tmp_path / "out")
