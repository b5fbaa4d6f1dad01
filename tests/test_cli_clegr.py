"""``maghub clegr``: generate, evaluate, draw and check, with right and wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import maghub
from maghub.clegr.loading import graph_rows, question_rows
from maghub.cli.demo import _clegr
from maghub.loading import sample_path
from maghub.spec import read_spec
from tests.helpers.cli import Run, runner
from tests.helpers.graphs import files_of

COUNTS = ["questions", "agree", "ambiguous", "disagree", "unrecognised", "by_type"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs ``maghub clegr ...`` in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return runner("clegr", monkeypatch, capsys)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "clegr"
    maghub.build("clegr", path, graphs=10, domain="subway", size="small")
    return path


@pytest.fixture(scope="module")
def compat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "compat"
    maghub.build("clegr-compat", path, graphs=10)
    return path


def test_generate_makes_a_published_folder(run: Run, tmp_path: Path) -> None:
    options = ["--domain", "computer-networks", "--set", "facts", "--size", "mixed", "--graphs", 6]
    done = run("generate", *options, "--seed", 4, "--int-names", "--json", "--out", "a")
    assert done.code == 0, done.err
    name = "computer-networks-mixed-facts"
    rows = {"train": 72, "validation": 18, "test": 18}
    assert done.json()["configs"][name] == rows
    assert done.json()["lost"] == {name: 0}
    spec = read_spec(tmp_path / "a")
    assert (spec.builder.seed, spec.builder.options["int_names"]) == (4, True)
    assert maghub.validate(tmp_path / "a").ok
    again = run("generate", *options, "--seed", 4, "--int-names", "--out", "b", "--workers", 2)
    assert again.code == 0
    assert name in again.out
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert "already exists" in run("generate", *options, "--out", "a").line()
    assert run("generate", "--variant", "compat", "--graphs", 2, "--out", "c").code == 0
    assert read_spec(tmp_path / "c").notes["variant"] == "compat"


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--size", "huge"], 1, "unknown size 'huge'"),
        (["--graphs", 0], 1, "0 graphs cannot be generated"),
        (["--graphs", -3], 1, "-3 graphs cannot be generated"),
        (["--domain", "metro"], 1, "unknown domain 'metro'"),
        (["--set", "fact"], 1, "Did you mean facts?"),
        (["--variant", "wellposed"], 1, "Did you mean well_posed?"),
        (["--seed", -1], 1, "-1 is no seed"),
        (["--graphs", "many"], 2, "Invalid value"),
        (["--workers", 0], 2, "Invalid value"),
    ],
)
def test_impossible_sets_are_refused(
    run: Run, args: list[object], code: int, words: str, tmp_path: Path
) -> None:
    done = run("generate", *args, "--out", "out")
    assert done.code == code
    assert words in done.err
    if code == 1:
        assert words in done.line()
    assert list(tmp_path.iterdir()) == []


def write_lines(path: Path, records: list[Any]) -> Path:
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records))
    return path


def test_evaluate_scores_and_counts(run: Run, folder: Path, tmp_path: Path) -> None:
    rows = list(question_rows(folder, "subway-reasoning", "test"))
    right = [{"question_id": row["question_id"], "prediction": row["answer"]} for row in rows]
    file = write_lines(tmp_path / "p.jsonl", right)
    chosen = ["--folder", folder, "--config", "subway-reasoning"]
    report = run("evaluate", file, *chosen, "--split", "test", "--json").json()
    assert (report["accuracy"], report["questions"]) == (1.0, len(rows))
    assert report["boolean"]["mcc"] == report["list"]["f1"] == 1.0
    assert report["numeric"]["mae"] == report["numeric"]["rmse"] == 0.0
    slices = ("by_type", "by_group", "by_subgroup", "by_scope")
    assert all(report[name] for name in slices)
    whole = run("evaluate", file, *chosen, "--json").json()
    assert whole["missing"] == whole["questions"] - len(rows) > 0
    bad = [right[0], {"question_id": "nobody", "prediction": 1}, "not json", {"prediction": 2}]
    file = write_lines(tmp_path / "bad.jsonl", [*right[:-1], *bad])
    done = run("evaluate", file, *chosen, "--split", "test")
    assert done.code == 0
    assert "duplicate 1, unknown 1, unusable 2" in done.out
    assert "unknown question id 'nobody'" in done.out
    assert "the line is not JSON" in done.out
    counted = run("evaluate", file, *chosen, "--split", "test", "--json").json()
    counts = [counted[name] for name in ("missing", "duplicate", "unknown", "unusable")]
    assert counts == [1, 1, 1, 2]
    assert "overall" in done.out
    assert "boolean f1 " in done.out
    assert "list f1 " in done.out


def test_evaluate_without_a_folder_and_with_wrong_names(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    file = write_lines(
        tmp_path / "p.jsonl",
        [{"question_id": "computer-networks-facts-small-00400-NodeExistence1-1", "answer": "yes"}],
    )
    report = run(
        "evaluate", file, "--config", "computer-networks-facts", "--split", "test", "--json"
    ).json()
    assert (report["questions"], report["missing"]) == (1800, 1799)
    assert report["accuracy"] == 1 / 1800
    emoji = sample_path("emoji")
    for args, words in (
        ([file, "--folder", folder, "--config", "subway"], "unknown question set 'subway'"),
        ([file, "--folder", folder, "--split", "valid"], "unknown split"),
        ([file, "--folder", emoji], "holds no CLeGR questions"),
        ([file, "--folder", "nowhere"], "unknown dataset or folder 'nowhere'"),
        (["none.jsonl", "--folder", folder], "none.jsonl: cannot be read"),
        ([file, "--folder", folder], "p.jsonl: answers none of the questions"),
    ):
        done = run("evaluate", *args)
        assert done.code == 1
        assert words in done.line()


def test_draw(run: Run, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    name = "subway-facts-small-00003"
    assert run("draw", folder, "--graph", name, "--out", "map").code == 0
    svg = ElementTree.parse(tmp_path / "map.svg")
    texts = {text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")}
    row = next(row for row in graph_rows(folder) if row["graph_id"] == name)
    assert texts >= {node["name"] for node in row["nodes"]}
    assert texts >= {line["name"] for line in row["lines"]}
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    done = run("draw", "--graph", 3, "--json")
    assert done.json() == {"graph": name, "files": [f"{name}.svg", f"{name}.png"]}
    drawn = (tmp_path / f"{name}.svg").read_bytes()
    assert drawn == (tmp_path / "map.svg").read_bytes(), "the same graph either way"
    network = ["--domain", "computer-networks", "--set", "reasoning", "--size", "medium"]
    assert run("draw", *network, "--out", "net.svg").code == 0
    assert not (tmp_path / "net.png").exists()


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["FOLDER", "--graph", "10"], 1, "no graph '10'. Give 0 to 9"),
        (["FOLDER", "--config", "subway-fact"], 1, "Did you mean subway-facts"),
        (["FOLDER", "--out", "map.pdf"], 1, "'pdf' maps are not drawn"),
        (["--graph", "x"], 1, "no number of a graph"),
        (["--size", "tiny"], 1, "unknown size"),
        (["--config", "subway-facts"], 2, "needs a folder"),
        (["nowhere"], 1, "unknown dataset or folder 'nowhere'"),
    ],
)
def test_maps_that_cannot_be_drawn(
    run: Run, folder: Path, args: list[str], code: int, words: str
) -> None:
    done = run("draw", *(folder if arg == "FOLDER" else arg for arg in args))
    assert done.code == code
    assert words in done.err
    assert code == 2 or words in done.line()


def test_check_of_published_folders(run: Run, folder: Path, compat: Path) -> None:
    done = run("check", folder, "--json")
    assert done.code == 0
    report = done.json()
    assert list(report)[:6] == COUNTS
    total = sum(c.rows for c in read_spec(folder).configs if c.target)
    assert report["agree"] == report["questions"] == total
    assert len(report["by_type"]) == 22 + 34
    assert "well_posed semantics" in run("check", folder).out
    own = run("check", compat, "--json")
    assert (own.code, own.json()["semantics"]) == (0, "compat")
    assert own.json()["agree"] == own.json()["questions"]
    assert own.json()["ambiguous"] > 0
    strict = run("check", compat, "--semantics", "well_posed", "--json")
    assert strict.code == 1
    assert strict.json()["disagree"] > 0


def test_check_finds_planted_answers_by_type(run: Run, folder: Path, tmp_path: Path) -> None:
    set_folder = tmp_path / "set"
    for name in ("subway-facts", "subway-facts-graphs"):
        (set_folder / name).mkdir(parents=True)
        for file in (folder / name).iterdir():
            (set_folder / name / file.name).write_bytes(file.read_bytes())
    file = set_folder / "subway-facts" / "test-00000-of-00001.parquet"
    rows = pq.read_table(file).to_pylist()
    planted = [row for row in rows if row["question_type"] == "StationPropertySize"]
    for row in planted:
        row["answer"] = "gigantic"
    rows[-1]["question"] = "Who built Nowhere?"
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(file)), file)
    done = run("check", set_folder, "--json")
    report = done.json()
    assert done.code == 1
    assert report["disagree"] == report["by_type"]["StationPropertySize"]["disagree"] == 4
    assert report["unrecognised"] == 1
    shown = run("check", set_folder)
    assert shown.code == 1
    assert "given 'gigantic', expected" in shown.out


def as_record(graph: dict[str, Any], qa: list[dict[str, Any]]) -> dict[str, Any]:
    """A published subway graph in the JSON-lines form."""
    ids = [node["id"] for node in graph["nodes"]]
    edges = [
        {**edge, "station1": ids[edge["source"]], "station2": ids[edge["target"]]}
        for edge in graph["edges"]
    ]
    return {"nodes": graph["nodes"], "edges": edges, "lines": graph["lines"], "qa": qa}


def test_check_of_json_lines_counts_what_it_cannot_use(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    graph = next(graph_rows(folder))
    own = [r for r in question_rows(folder) if r["graph_id"] == graph["graph_id"]]
    qa = [
        {
            "type": row["question_type"],
            "question": row["question"],
            "answer": row["answer_list"] if row["output_type"] == "List" else row["answer"],
        }
        for row in own
    ]
    good = as_record(graph, qa)
    file = write_lines(tmp_path / "good.jsonl", [good])
    done = run("check", file, "--json")
    assert (done.code, done.json()["agree"], done.json()["semantics"]) == (0, len(qa), "compat")
    dangling = as_record(graph, qa)
    dangling["edges"] = [{**dangling["edges"][0], "station1": "zz"}]
    empty = {**as_record(graph, qa[:2]), "nodes": []}
    apart = as_record(graph, [qa[0]])
    apart["nodes"] = [*apart["nodes"], {**apart["nodes"][0], "id": "lone", "name": "Lone"}]
    stranger = as_record(graph, [{"type": "", "question": "How big is Nowhere?", "answer": "tiny"}])
    file = write_lines(tmp_path / "bad.jsonl", [good, dangling, empty, apart, stranger, "no json"])
    done = run("check", file, "--json")
    report = done.json()
    assert done.code == 1
    assert report["graphs"] == 6
    assert report["graph_problems"] == 4
    assert report["unrecognised"] == len(qa) + 2 + 1
    assert report["agree"] == len(qa) + 1
    assert report["questions"] == report["agree"] + report["unrecognised"]
    for words in ("unknown node 'zz'", "no nodes", "disconnected (2 components)", "not JSON"):
        assert any(words in line for line in report["problems"]), words
    assert "more problems are counted" not in run("check", file).out
    many = write_lines(tmp_path / "many.jsonl", [good, *[dangling] * 5])
    assert "more problems are counted" in run("check", many).out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere"], "no such file or folder"),
        (["."], "nothing to audit"),
        (["FOLDER", "--semantics", "strict"], "unknown semantics 'strict'"),
    ],
)
def test_nothing_to_check(run: Run, folder: Path, args: list[str], words: str) -> None:
    done = run("check", *(folder if arg == "FOLDER" else arg for arg in args))
    assert done.code == 1
    assert words in done.line()


def test_the_demo_step(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = _clegr(tmp_path / "clegr")
    assert found["questions"] == read_spec(tmp_path / "clegr").configs[0].splits["test"]
    assert 0.3 < found["accuracy"] < 0.55
    assert Path(found["map"]).is_file()
    assert maghub.validate(tmp_path / "clegr").ok
