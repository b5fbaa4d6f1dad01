"""Tables of somebody else are audited by mapping columns, and found as guilty as our own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import maghub
from maghub.audit import Columns, Report, imported, run
from maghub.cli.app import app
from maghub.errors import MaghubError
from maghub.loading import sample_path
from tests.helpers import audited, foreign
from tests.helpers.audited import MANY, ids, starting
from tests.helpers.foreign import FILES, REPO

COUNT = 25
SHARED = (
    "equal texts across splits",
    "near-equal texts across splits",
    "equal pictures across splits",
    "near-equal pictures across splits",
    "held-out edges in training",
    "label balance",
)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """A damaged emoji folder, its text vectors right, its picture vectors moved by a row."""
    folder = Path(shutil.copytree(sample_path("emoji"), tmp_path_factory.mktemp("f") / "emoji"))
    mag = maghub.load(folder)
    texts = audited.projected(list(mag.nodes["text"]))
    looks = np.roll(audited.pictured(list(mag.nodes["image"])), 1, axis=0)
    audited.plant_texts(folder, COUNT)
    audited.plant_pictures(folder, COUNT)
    audited.plant_edges(folder, COUNT, reverse=False)
    return folder, {"text": texts, "image": looks}


@pytest.fixture(scope="module")
def own(planted: tuple[Path, dict[str, np.ndarray]]) -> Report:
    return run(planted[0], examples=MANY)


@pytest.fixture(scope="module", params=["files", "repo"])
def found(
    request: pytest.FixtureRequest,
    planted: tuple[Path, dict[str, np.ndarray]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Report:
    out = tmp_path_factory.mktemp("foreign") / "theirs"
    make, columns = (
        (foreign.as_files, FILES) if request.param == "files" else (foreign.as_repo, REPO)
    )
    before = os.environ.get("MAGHUB_CACHE")
    with imported(make(planted[0], out, planted[1]), columns) as folder:
        report = run(folder, examples=MANY)
    assert not folder.exists()
    assert os.environ.get("MAGHUB_CACHE") == before
    return report


@pytest.mark.parametrize("name", SHARED)
def test_a_foreign_dataset_is_found_as_guilty_as_the_published_one(
    found: Report, own: Report, name: str
) -> None:
    theirs, ours = starting(found, name), starting(own, name)
    assert (theirs.verdict, theirs.count, theirs.total) == (ours.verdict, ours.count, ours.total)
    assert theirs.verdict != "skipped"


def test_mapped_vectors_are_audited(found: Report) -> None:
    text = found.check("vectors match their rows: embeddings-emb text")
    assert text.verdict == "ok"
    moved = found.check("vectors match their rows: embeddings-look image")
    assert moved.verdict == "fail"
    assert "rows they fit better" in moved.summary or (moved.value or 0) < 0.54


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """CSV files without ids, splits and labels."""
    nodes = "".join(f"{i},word{i % 7} thing number {i}\n" for i in range(60))
    (tmp_path / "n.csv").write_text(f"rank,name\n{nodes}")
    edges = "".join(f"{i},{(i * 7 + 1) % 60},train\n" for i in range(60))
    edges += "0,1,test\n1,0,test\n3,3,test\n5,7,train\n5,7,test\n"
    (tmp_path / "e.csv").write_text(f"a,b,fold\n{edges}")
    return tmp_path


EDGES = {"src": "a", "dst": "b", "edge-split": "fold", "text": "name"}


def test_what_could_not_be_published_is_kept_and_nothing_is_made_up(theirs: Path) -> None:
    with imported(theirs, Columns("n.csv", "e.csv", EDGES, directed=True)) as folder:
        mag, report = maghub.load(folder), run(folder)
        assert mag.nodes["source_id"] == [str(i) for i in range(60)]
        assert mag.graph.num_edges == 65
        assert mag.spec.node_splits == ()
        assert mag.spec.negatives == ()
    assert report.check("equal texts across splits").summary == "nodes are not split"
    repeated = report.check("held-out edges in training")
    assert (ids(repeated), repeated.total) == ({60, 64}, 4)
    assert ids(report.check("held-out edges reversed in training")) == {61}


def test_the_command_maps_columns(theirs: Path, tmp_path: Path) -> None:
    maps = [part for field, own in EDGES.items() for part in ("--map", f"{field}={own}")]
    command = ["audit", str(theirs), "--nodes", "n.csv", "--edges", "e.csv", *maps]
    done = CliRunner().invoke(app, [*command, "--html", str(tmp_path / "page.html")])
    assert done.exit_code == 1, done.output  # 2 of 4 held-out edges train
    assert "held-out edges in training" in done.output
    assert (tmp_path / "page.html").stat().st_size > 1_000


def table(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path / "n.parquet")
    return path


BAD = {
    "unknown config": (Columns("n.parquet", "links"), "cannot be read as a dataset"),
    "unknown column": (Columns("n.parquet", None, {"text": "titel"}), "title"),
    "unknown field": (Columns("n.parquet", None, {"txt": "title"}), "field of --map"),
    "no vectors": (Columns("n.parquet", None, {}, (("text", "title"),)), "not vectors"),
    "ragged vectors": (Columns("n.parquet", None, {}, (("text", "ragged"),)), "lengths [1, 2]"),
    "unknown vectors": (Columns("n.parquet", None, {}, (("text", "ragd"),)), "ragged"),
    "unknown modality": (Columns("n.parquet", None, {}, (("sound", "ragged"),)), "modality"),
    "doubled id": (Columns("n.parquet", None, {"id": "title"}), "id 'a' is already in row 1"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_is_one_line(tmp_path: Path, kind: str) -> None:
    columns, words = BAD[kind]
    table(tmp_path, title=["a", "b", "a"], ragged=[[1.0], [1.0, 2.0], None])
    with pytest.raises(MaghubError) as caught, imported(tmp_path, columns):
        raise AssertionError("was imported")
    line = caught.value.line()
    assert words in line
    assert "\n" not in line


def test_numbers_that_float32_cannot_hold_are_no_vectors(tmp_path: Path) -> None:
    table(tmp_path, title=["a", "b"], emb=[[1e300, 1.0], [0.0, 1.0]])
    columns = Columns("n.parquet", columns={"text": "title"}, vectors=(("text", "emb"),))
    with pytest.raises(MaghubError, match="column emb: a number is beyond float32"):
        imported(tmp_path, columns).__enter__()


def test_columns_whose_names_become_one_are_told_apart(tmp_path: Path) -> None:
    vectors = [[1.0, 2.0], [0.0, 1.0]]
    table(tmp_path, title=["a", "b"], **{"e b": vectors, "e/b": vectors})
    given = (("text", "e b"), ("image", "e b"), ("text", "e/b"))
    columns = Columns("n.parquet", columns={"text": "title"}, vectors=given)
    with imported(tmp_path, columns) as folder:
        names = [config.name for config in maghub.load(folder).spec.of_kind("embeddings")]
        report = run(folder)
    assert names == ["embeddings-e-b", "embeddings-e-b-image", "embeddings-e-b-text"]
    assert report.check("vectors shared by different inputs: embeddings-e-b-text text").total == 2


def test_the_cause_of_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("id,text\na,x\nb,y,z,q\n")
    with pytest.raises(MaghubError, match="Expected 2 fields in line 3, saw 4"):
        imported(tmp_path, Columns("n.csv")).__enter__()


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(MaghubError, match="no such folder"), imported(tmp_path / "x", Columns()):
        raise AssertionError("was imported")


def test_without_a_mapping_the_error_says_how_to_give_one(theirs: Path) -> None:
    done = CliRunner().invoke(app, ["audit", str(theirs)])
    assert isinstance(done.exception, MaghubError)
    assert "--nodes CONFIG --edges CONFIG --map text=COLUMN" in done.exception.line()


def test_an_empty_vector_is_a_missing_one(tmp_path: Path) -> None:
    table(tmp_path, title=["a", "b", "c"], emb=[[1.0, 2.0], None, [0.5, 1.0]])
    with imported(tmp_path, Columns("n.parquet", None, {}, (("text", "emb"),))) as folder:
        mag = maghub.load(folder)
        assert mag.has("emb", "text").tolist() == [True, False, True]
        assert mag.features("emb", "text").tolist() == [[1, 2], [0, 0], [0.5, 1]]
