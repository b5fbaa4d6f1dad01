"""MKG-RAG-Bench: released files that are wrong, odd or damaged, each named with file and line."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from upstream_mkg_rag import small_graph, write_mkg_rag

import maghub
from maghub.builders.mkg_rag_bench import MkgRagGSource
from maghub.errors import MaghubError
from tests.helpers.built import check_valid, refusal


def edit_lines(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))


def edit_object(path: Path, line: int, **values: object) -> None:
    """Change keys of one JSON object; None as ``...`` takes the key away."""

    def change(lines: list[str]) -> list[str]:
        data = json.loads(lines[line - 1]) | values
        kept = {key: value for key, value in data.items() if value is not ...}
        return [*lines[: line - 1], json.dumps(kept) + "\n", *lines[line:]]

    edit_lines(path, change)


FATAL: dict[str, tuple[Callable[[Path], None], str, dict]] = {
    "qrel of an unknown query": (
        lambda f: edit_lines(f / "test/text_qrels.tsv", lambda lines: [*lines, "9999\t0\t1\n"]),
        "test/text_qrels.tsv, row {n}: unknown query id text-9999",
        {"qrels": {"unknown query": {"rows": 1}}},
    ),
    "qrel of an unknown triplet": (
        lambda f: edit_lines(f / "train/mm_qrels.tsv", lambda lines: ["0\t7777\t1\n", *lines]),
        "train/mm_qrels.tsv, row 1: unknown corpus id mm-7777",
        {"qrels": {"unknown triplet": {"rows": 1}}},
    ),
    "query twice": (
        lambda f: edit_lines(f / "test/mm_queries.jsonl", lambda lines: [lines[0], *lines]),
        "test/mm_queries.jsonl, row 2: id mm-{q} comes twice",
        {"queries": {"duplicate id": {"rows": 1}}},
    ),
    "triplet twice": (
        lambda f: [
            edit_lines(path, lambda lines: [*lines, lines[0]])
            for path in sorted(f.glob("*/mm_corpus.jsonl"))
        ],
        "valid/mm_corpus.jsonl, row 22: id mm-0 comes twice",
        {"triplets": {"duplicate id": {"rows": 1}}},
    ),
    "query without qrels": (
        lambda f: edit_lines(
            f / "test/text_queries.jsonl",
            lambda lines: [*lines, json.dumps({**json.loads(lines[0]), "qid": 5555}) + "\n"],
        ),
        "test/text_queries.jsonl, row {t}: query text-5555 has no qrels",
        {"queries": {"query without qrels": {"rows": 1}}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FATAL)
def test_inconsistent_files_are_refused_or_counted(name: str, tmp_path: Path) -> None:
    change, line, counts = FATAL[name]
    made = write_mkg_rag(tmp_path / "raw", small_graph())
    change(made.folder)
    size = {
        "n": len((made.folder / "test/text_qrels.tsv").read_text().splitlines()),
        "t": len((made.folder / "test/text_queries.jsonl").read_text().splitlines()),
        "q": json.loads((made.folder / "test/mm_queries.jsonl").read_text().splitlines()[0])["qid"],
    }
    line = line.format(**size)
    found = refusal("mkg-rag-bench-g", tmp_path / "raw", tmp_path / "out")
    assert found.startswith(line)
    assert "--set strict=false" in found
    spec = maghub.build("mkg-rag-bench-g", tmp_path / "out", tmp_path / "raw", strict=False)
    check_valid(tmp_path / "out")
    assert spec.notes["defects"] == counts
    assert list(spec.notes["first of each defect"].values()) == [line]


def all_copies(folder: Path, name: str, line: int, **values: object) -> None:
    for path in folder.glob(f"*/{name}"):
        edit_object(path, line, **values)


MILD: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "a relation without a text": (
        lambda f: all_copies(f, "text_corpus.jsonl", 3, rel_text=""),
        "relation without text", "train/text_corpus.jsonl, row 3: relation P1 has no text",
    ),
    "a relation with null for a text": (
        lambda f: all_copies(f, "text_corpus.jsonl", 3, rel_text=None),
        "relation without text", "train/text_corpus.jsonl, row 3: relation P1 has no text",
    ),
    "an entity without an image": (
        lambda f: all_copies(f, "mm_corpus.jsonl", 4, image_path=None),
        "entity without image",
        "valid/mm_corpus.jsonl, row 4: entity Q4 of a multimodal triplet has no image",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MILD)
def test_gaps_are_kept_and_counted_with_their_place(name: str, tmp_path: Path) -> None:
    change, kind, line = MILD[name]
    made = write_mkg_rag(tmp_path / "raw", small_graph())
    change(made.folder)
    spec = maghub.build("mkg-rag-bench-g", tmp_path / "out", tmp_path / "raw")
    check_valid(tmp_path / "out")
    assert spec.notes["defects"] == {"triplets": {kind: {"rows": 1}}}
    assert spec.notes["first of each defect"] == {f"triplets: {kind}": line}
    assert f"| `triplets` | {kind} | 1 |" in (tmp_path / "out/README.md").read_text()


def empty(folder: Path) -> None:
    for path in folder.glob("*/*_corpus.jsonl"):
        path.write_text("")


def not_utf8(path: Path, line: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line - 1] = lines[line - 1].replace(b"thing", b"th\xffng", 1)
    path.write_bytes(b"".join(lines))


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "an empty graph": (
        empty,
        "train/text_corpus.jsonl, valid/mm_corpus.jsonl: the knowledge graph holds no triplet",
    ),
    "a corpus that is not UTF-8": (
        lambda f: not_utf8(f / "train/text_corpus.jsonl", 3), "text_corpus.jsonl, row 3: not utf-8",
    ),
    "queries that are not UTF-8": (
        lambda f: not_utf8(f / "test/mm_queries.jsonl", 2), "mm_queries.jsonl, row 2: not utf-8",
    ),
    "no JSON": (
        lambda f: edit_lines(f / "test/mm_queries.jsonl", lambda lines: ["{\n", *lines]),
        "mm_queries.jsonl, row 1: not JSON",
    ),
    "a missing key": (
        lambda f: edit_object(f / "test/mm_queries.jsonl", 2, masked_type=...),
        "mm_queries.jsonl, column masked_type, row 2: no such key",
    ),
    "an unknown mask": (
        lambda f: edit_object(f / "test/mm_queries.jsonl", 2, masked_type="head"),
        "column masked_type, row 2: 'head' is none of tail, relation",
    ),
    "a query of the other modality": (
        lambda f: edit_object(f / "test/mm_queries.jsonl", 2, is_multimodal=False),
        "column is_multimodal, row 2: does not fit the file mm_queries.jsonl",
    ),
    "an empty question": (
        lambda f: edit_object(f / "test/mm_queries.jsonl", 2, query=" "), "column query, row 2",
    ),
    "a head that is null": (
        lambda f: edit_object(f / "test/mm_queries.jsonl", 2, head_id=None),
        "column head_id, row 2: 'None' is not an id",
    ),
    "a number that is none": (
        lambda f: edit_object(f / "test/mm_queries.jsonl", 2, qid="x"),
        "column qid, row 2: 'x' is not a number from 0",
    ),
    "qrels without tabs": (
        lambda f: edit_lines(f / "test/mm_qrels.tsv", lambda lines: [lines[0], "1 2 1\n"]),
        "mm_qrels.tsv, row 2: '1 2 1' is not qid, doc_id and relevance",
    ),
    "a number that no table holds": (
        lambda f: edit_object(f / "test/mm_queries.jsonl", 2, qid=10**18),
        "column qid, row 2: '1000000000000000000' is not a number from 0",
    ),
    "a relevance that no table holds": (
        lambda f: edit_lines(f / "test/mm_qrels.tsv", lambda _: ["1\t2\t1" + "0" * 18]),
        "2\\t1000000000000000000' is not qid, doc_id and relevance",
    ),
    "a number of thousands of digits": (
        lambda f: edit_lines(f / "test/mm_qrels.tsv", lambda lines: ["9" * 5000 + "\t2\t1\n"]),
        "mm_qrels.tsv, row 1: '9999",
    ),
    "a picture outside": (
        lambda f: all_copies(f, "mm_corpus.jsonl", 4, image_path="../../x.jpg"),
        "mm_corpus.jsonl, column image_path, row 4: picture path '../../x.jpg' leads out",
    ),
    "a picture of a text triplet": (
        lambda f: all_copies(f, "text_corpus.jsonl", 4, image_path="Q1/x.jpg"),
        "text_corpus.jsonl, column image_path, row 4: a text triplet names a picture",
    ),
    "copies that differ": (
        lambda f: edit_object(f / "test/mm_corpus.jsonl", 6, tail_text="other"),
        "test/mm_corpus.jsonl, row 6: document 5 is not as in",
    ),
    "a copy that is shorter": (
        lambda f: edit_lines(f / "test/mm_corpus.jsonl", lambda lines: lines[:-1]),
        "test/mm_corpus.jsonl: document 20 of",
    ),
    "a copy with a document twice": (
        lambda f: edit_lines(f / "test/mm_corpus.jsonl", lambda lines: [*lines, lines[5]]),
        "test/mm_corpus.jsonl, row 22: document 5 comes more often than in",
    ),
    "both valid and val": (
        lambda f: (f / "val").mkdir(), "holds both valid and val, which are one split",
    ),
    "no copy of a corpus": (
        lambda f: [path.unlink() for path in f.glob("*/mm_corpus.jsonl")],
        "mkg-rag-bench-g needs: train/mm_corpus.jsonl",
    ),
    "missing queries": (
        lambda f: (f / "valid/mm_queries.jsonl").unlink(), "needs: valid/mm_queries.jsonl",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_named_with_their_line(name: str, tmp_path: Path) -> None:
    change, line = BROKEN[name]
    made = write_mkg_rag(tmp_path / "raw", small_graph())
    change(made.folder)
    assert line in refusal("mkg-rag-bench-g", tmp_path / "raw", tmp_path / "out")


def test_equal_copies_in_another_order_agree(tmp_path: Path) -> None:
    made = write_mkg_rag(tmp_path / "raw", small_graph())
    edit_lines(made.folder / "test/mm_corpus.jsonl", lambda lines: lines[::-1])
    spec = maghub.build("mkg-rag-bench-g", tmp_path / "out", tmp_path / "raw")
    assert spec.config("corpus").rows == 36


def test_what_upstream_tells_of_the_answer_is_blanked(tmp_path: Path) -> None:
    made = write_mkg_rag(tmp_path / "raw", small_graph())
    path = made.folder / "train/mm_queries.jsonl"
    line = next(
        n for n, text in enumerate(path.read_text().splitlines(), 1) if '"mask_tail"' in text
    )
    edit_object(path, line, tail_id="Q12")
    spec = maghub.build("mkg-rag-bench-g", tmp_path / "out", tmp_path / "raw")
    check_valid(tmp_path / "out")
    met = spec.notes["met in the released files"]["files"]
    assert met["queries that told the masked tail"] == {"count": 1}


def test_a_header_and_relevance_0_in_qrels(tmp_path: Path) -> None:
    made = write_mkg_rag(tmp_path / "raw", small_graph())
    path = made.folder / "test/mm_qrels.tsv"
    edit_lines(path, lambda lines: ["qid\tdoc_id\trelevance\n", *lines, "0\t20\t0\n"])
    spec = maghub.build("mkg-rag-bench-g", tmp_path / "out", tmp_path / "raw")
    met = spec.notes["met in the released files"]["files"]
    assert met["qrels files with a header"] == {"count": 1}
    assert met["qrels of relevance 0"] == {"count": 1}
    assert spec.config("qrels").rows == sum(map(len, made.qrels.values()))


def test_strict_is_true_or_false(tmp_path: Path) -> None:
    write_mkg_rag(tmp_path / "raw", small_graph())
    line = refusal("mkg-rag-bench-g", tmp_path / "raw", tmp_path / "out", strict="no")
    assert "option strict is 'no', must be true or false" in line


def test_without_files_everything_that_is_needed_is_named(tmp_path: Path) -> None:
    with pytest.raises(MaghubError) as caught:
        maghub.build("mkg-rag-bench-m", tmp_path / "out")
    line = str(caught.value)
    assert "no --raw-dir given" in line
    for name in ("train/mm_queries.jsonl", "valid/text_qrels.tsv", "train/text_corpus.jsonl"):
        assert name in line


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(
        ["mm_queries.jsonl", "text_corpus.jsonl", "mm_corpus.jsonl", "mm_qrels.tsv"]
    ),
    at=st.floats(0, 1),
    junk=st.binary(max_size=6)
    | st.sampled_from([b"\n", b"\t", b"null", b"{}", b"[1]", b"\\ud800"]),
    cut=st.integers(0, 30),
)
def test_a_damaged_file_is_one_line_or_harmless(
    name: str, at: float, junk: bytes, cut: int
) -> None:
    """Some bytes of one file replaced: nothing but a MaghubError, in one line."""
    with tempfile.TemporaryDirectory() as tmp:
        made = write_mkg_rag(Path(tmp), small_graph())
        path = next(iter(sorted(made.folder.glob(f"*/{name}"))))
        data = path.read_bytes()
        start = int(at * len(data))
        path.write_bytes(data[:start] + junk + data[start + cut :])
        line, configs = "", set()
        try:
            configs = {table.config for table in MkgRagGSource(Path(tmp)).tables()}
        except MaghubError as error:
            line = str(error)
        assert "\n" not in line
        assert line or configs == set(MkgRagGSource.configs)


@pytest.mark.integration
def test_the_command_line_refuses_leaves_out_and_counts(tmp_path: Path) -> None:
    """As a user meets it: exit codes, one line, then --set strict=false."""
    made = write_mkg_rag(tmp_path / "raw", small_graph())
    edit_lines(made.folder / "test/text_qrels.tsv", lambda lines: ["9999\t0\t1\n", *lines])

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).parent / "maghub"), *args]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)

    build = ("build", "mkg-rag-bench-g", "--raw-dir", "raw", "--out", "out")
    refused = run(*build)
    assert refused.returncode == 1
    assert "test/text_qrels.tsv, row 1: unknown query id text-9999" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "out").exists()
    assert run(*build, "--set", "strict=false").returncode == 0
    checked = run("validate", "out", "--json")
    assert checked.returncode == 0
    assert json.loads(checked.stdout)["ok"]
    facts = json.loads(run("info", "out", "--json").stdout)
    assert facts["builder"]["options"] == {"strict": False}
    assert facts["configs"]["corpus"] == {"full": 36}
