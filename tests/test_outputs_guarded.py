"""No command replaces or grows a file that is something else: data, a manifest, what it reads."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from maghub.cli.output import print_table
from maghub.errors import MaghubError
from maghub.files import check_output, check_outside
from maghub.results import append_records, check_results
from tests.helpers.cli import fails, invoke
from tests.helpers.graphs import files_of, png, random_toy, write_toy
from tests.reporting.records import record, showcase


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outputs") / "toy"
    write_toy(random_toy(40), folder)
    return folder


@pytest.fixture
def records(tmp_path: Path) -> Path:
    append_records(tmp_path / "r.jsonl", showcase())
    return tmp_path / "r.jsonl"


@pytest.mark.parametrize("inside", ["maghub.json", "README.md", "new.jsonl", "deep/down.jsonl"])
def test_results_never_go_into_a_published_folder(published: Path, inside: str) -> None:
    before = files_of(published)
    line = fails("run", "mlp", "--dataset", published, "--out", published / inside)
    assert "would lie in the published folder toy" in line
    assert files_of(published) == before


@pytest.mark.parametrize("text", ["id,text\n1,a\n", "{}\n", "[1]\n", '{"a": 1}', "\x00\x01"])
def test_results_are_appended_to_results_alone(published: Path, tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    line = fails("run", "mlp", "--dataset", published, "--out", path)
    assert "mine.csv: holds something other than result records" in line
    assert path.read_text() == text


def test_new_empty_and_old_files_of_results_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    check_results(path)
    assert not path.exists()
    path.touch()
    check_results(path)
    append_records(path, [record()])
    with path.open("a") as file:
        file.write('{"record_version": "1.0", "cut o')  # by a kill
    check_results(path)


@pytest.mark.parametrize("option", ["--latex", "--html", "--markdown"])
def test_a_report_replaces_neither_its_input_nor_other_files(records: Path, option: str) -> None:
    before = records.read_bytes()
    assert "r.jsonl: is there already" in fails("report", records, option, records)
    named = records.with_suffix({"--latex": ".tex", "--html": ".html", "--markdown": ".md"}[option])
    shutil.copy(records, named)
    assert "is read, and would be replaced" in fails("report", named, option, named)
    assert named.read_bytes() == records.read_bytes() == before
    invoke("report", records, option, named)  # an older report is replaced
    assert named.read_bytes() != before


@pytest.mark.parametrize(
    "command",
    [
        ["audit", "{}", "--html"],
        ["quality", "{}", "--html"],
        ["quality", "{}", "--plot"],
        ["report", "{records}", "--markdown"],
    ],
)
def test_pages_and_pictures_never_go_into_a_published_folder(
    published: Path, records: Path, command: list[str]
) -> None:
    words = [word.format(published, records=records) for word in command]
    for name in ("README.md", "statistics.svg", "page.html"):
        before = files_of(published)
        line = fails(*words, published / name)
        assert "published folder toy" in line or "is there already" in line
        assert files_of(published) == before


def test_hidden_folders_and_places_beside_a_folder_are_free(published: Path) -> None:
    check_outside(published / ".search" / "x.json")
    check_outside(published.parent / "x.json")
    check_output(published.parent / "x.html", (".html",))
    with pytest.raises(MaghubError, match="published folder"):
        check_outside(published / ".." / "toy" / "x.json")


def test_names_in_tables_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    """What looks like markup is printed: the letters of notes, names of models and datasets."""
    print_table(["metric", "gcn [a b]"], [["mrr [1]", "[bold]x"]], title="on [red]toy")
    shown = capsys.readouterr().out
    for words in ("gcn [a b]", "mrr [1]", "[bold]x", "on [red]toy"):
        assert words in shown


def test_what_a_build_counts_out_is_said(tmp_path: Path) -> None:
    invoke("init", "mine", "--out", tmp_path / "mine")
    (tmp_path / "pics").mkdir()
    (tmp_path / "pics" / "a.jpg").write_text("not a picture")
    (tmp_path / "pics" / "b.png").write_bytes(png(3))
    (tmp_path / "n.csv").write_text("id,text\na,one\nb,two\nc,three\n")
    (tmp_path / "e.csv").write_text("src,dst\na,b\nb,a\nc,c\nb,c\n")
    shown = invoke(
        *("build", "mine", "--card", tmp_path / "mine" / "card.md", "--out", tmp_path / "out"),
        *("--from", tmp_path / "n.csv", "--edges", tmp_path / "e.csv"),
        *("--images", tmp_path / "pics"),
    )
    assert "folded duplicates 1, self loops dropped 1, pictures refused: text 1" in shown
