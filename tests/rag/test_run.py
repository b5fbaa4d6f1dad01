"""``maghub run`` and ``maghub report`` on retrieval benchmarks, as a user types them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("bm25s")
pytest.importorskip("ir_measures")

import maghub
from maghub.baselines.rag.ranking import CUTS
from maghub.results import read_records
from tests.helpers.cli import fails, invoke


def test_a_record_with_the_metrics_of_a_setting(rag_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    text = invoke("run", "rag-fusion", "--dataset", rag_folder, "--setting", "S4", "--out", out)
    assert "mkg-rag-bench-g, kg-retrieval" in " ".join(text.split())
    assert "ndcg@10" in text
    (record,) = read_records([out])
    names = [f"{kind}@{k}" for kind in ("ndcg", "precision", "recall") for k in CUTS]
    assert list(record.metrics) == names
    assert record.task == "kg-retrieval"
    assert record.encoders == {"text": "stand-in", "image": "stand-in"}
    assert record.task_settings == {
        "setting": "S4", "split": "test", "rule": "released", "limit": None,
    }  # fmt: skip
    assert set(record.dataset.checksums) == {
        "corpus", "queries", "qrels", *(f"embeddings-stand-in-{t}" for t in
        ("corpus", "queries", "entities")),
    }  # fmt: skip
    assert record.dataset.split == "released"
    assert record.peak_cpu_bytes
    assert record.versions["bm25s"]
    # 12 multimodal triplets: all of them are among the first 20.
    assert record.metrics["recall@20"] == 1.0
    assert record.controls["chance_recall@10"] == pytest.approx(10 / 12)


def test_the_report_has_a_table_per_setting(rag_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    for model, setting in (("rag-bm25", "S1"), ("rag-random", "S1"), ("rag-bm25", "S2")):
        invoke("run", model, "--dataset", rag_folder, "--set", f"setting={setting}", "--out", out)
    records = read_records([out])
    assert [record.seed for record in records] == [0, 0, 1, 2, 0]  # only the random one draws
    page = tmp_path / "r.html"
    text = invoke("report", out, "--html", page)
    titles = " ".join(text.split())
    assert "mkg-rag-bench-g, kg-retrieval, S1" in titles
    assert "mkg-rag-bench-g, kg-retrieval, S2" in titles
    assert any(
        line.split()[1:2] == ["NDCG@10"] for line in text.splitlines()
    )  # a row, not a column
    report = json.loads(invoke("report", out, "--json"))
    first = report["blocks"][0]
    assert [row["model"] for row in first["rows"]] == ["rag-bm25", "rag-random"]
    assert all(row["comparable"] for row in first["rows"])
    invoke("run", "rag-text", "--dataset", rag_folder, "--setting", "S1", "--out", out)
    invoke("run", "rag-fusion", "--dataset", rag_folder, "--setting", "S1", "--out", out)
    first = json.loads(invoke("report", out, "--json"))["blocks"][0]
    # What a retriever reads is its own choice: words, text vectors, or pictures too.
    assert [row["comparable"] for row in first["rows"]] == [True] * 4
    assert "NDCG@10" in page.read_text()


def test_what_decides_nothing_is_not_recorded(rag_folder: Path, tmp_path: Path) -> None:
    """BM25 reads no vectors; a retriever without a seed gives the same for all."""
    runs = maghub.run("rag-bm25", rag_folder, seeds=2, settings={"b": 0.5, "rule": "group_split"})
    assert runs[0].metrics == runs[1].metrics
    assert runs[0].encoders == {}
    assert runs[0].model_settings == {"k1": 1.5, "b": 0.5, "stopwords": "english"}
    assert runs[0].dataset.split == "group_split"


def test_efficiency_by_retriever(rag_folder: Path, tmp_path: Path) -> None:
    task = ["--task", "kg-efficiency", "--set", "online=5", "--set", "repeats=1"]
    shown = json.loads(
        invoke("run", "rag-graph", "--dataset", rag_folder, *task, "--json", "--out",
               tmp_path / "r.jsonl")
    )  # fmt: skip
    assert set(shown[0]["metrics"]) == {"batched_qps", "online_qps"}
    assert min(shown[0]["metrics"].values()) > 0
    text = invoke(
        "mkg", "efficiency", rag_folder, "--retrievers", "rag-text,rag-bm25", "--setting", "S1",
        "--out", tmp_path / "e.jsonl",
    )  # fmt: skip
    assert "rag-bm25" in text
    assert "queries/s" in text
    assert [r.model for r in read_records([tmp_path / "e.jsonl"])] == ["rag-text", "rag-bm25"]
    line = fails("mkg", "efficiency", rag_folder, "--retrievers", "rag-txt")
    assert "Did you mean rag-text" in line


def test_bad_input_is_one_line(
    rag_folder: Path, text_folder: Path, valid_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "none.jsonl"
    rest = ["--out", out, "--seeds", 1]
    for arguments, line in [
        (
            ("rag-text", "--dataset", rag_folder, "--setting", "S9"),
            "no setting 'S9'. Known: S1, S2",
        ),
        (("rag-txt", "--dataset", rag_folder), "unknown model 'rag-txt'. Did you mean rag-text"),
        (("gcnn", "--dataset", rag_folder), "unknown model 'gcnn'. Did you mean gcn"),
        (("rag-text", "--dataset", text_folder, "--setting", "S4"), "S4 needs multimodal"),
        (("rag-text", "--dataset", text_folder), "--encoder all-minilm-l6-v2"),
        (("rag-fusion", "--dataset", text_folder, "--encoder", "stand-in"), "maghub encode"),
        (("rag-text", "--dataset", valid_folder), "toy is no retrieval benchmark"),
        (("gcn", "--dataset", rag_folder), "is a retrieval benchmark, and node-classification"),
        (("gcn", "--dataset", rag_folder, "--task", "kg-retrieval"), "gcn is no retriever"),
        (
            ("rag-text", "--dataset", valid_folder, "--task", "node-classification"),
            "rag-text is a retriever, and node-classification needs a model of graphs",
        ),
        (("rag-bm25", "--dataset", rag_folder, "--set", "k2=1"), "Did you mean k1"),
        (("rag-bm25", "--dataset", rag_folder, "--set", "b=3"), "setting b=3"),
        (("rag-bm25", "--dataset", rag_folder, "--set", "stopwords=klingon"), "stopwords: "),
        (("rag-bm25", "--dataset", rag_folder, "--noise", "text=1"), "knows no noise"),
        (("rag-bm25", "--dataset", rag_folder, "--preset", "openmag"), "knows no preset"),
        (("rag-free", "--dataset", rag_folder), "rag-free retrieves nothing"),
        (("rag-text", "--dataset", rag_folder, "--encoder", "stand-inn"), "Did you mean stand-in"),
    ]:
        found = fails("run", *arguments, *rest)
        assert line in found, (arguments, found)
        assert "\n" not in found
    assert not out.exists()


def test_a_folder_that_has_no_pictures_serves_what_needs_none(
    rag_folder: Path, tmp_path: Path
) -> None:
    """Vectors of texts alone: fusion says what is missing."""
    folder = Path(shutil.copytree(rag_folder, tmp_path / "rag"))
    line = fails("run", "rag-fusion", "--dataset", folder, "--modalities", "text", "--out",
                 tmp_path / "r.jsonl")  # fmt: skip
    assert "the image vectors that this retriever needs" in line
    for modalities, setting, read in (
        (["text"], "S1", {"text"}),
        (None, "S1", {"text", "image"}),
        (None, "S2", {"text"}),
    ):
        chosen = {"setting": setting}
        (record,) = maghub.run("rag-graph", folder, modalities=modalities, settings=chosen)
        assert set(record.encoders) == read
