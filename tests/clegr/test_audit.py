# ruff: noqa: E501  (tables of cases)
"""The audit: published rows and JSON lines, right and wrong answers, unusable input."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import networkx as nx
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub.clegr.audit import Finding, audit_json_lines, audit_path, audit_rows
from maghub.clegr.draws import Draws
from maghub.clegr.external import graph_from_json
from maghub.clegr.generate import SetConfig, generate, generate_part
from maghub.clegr.index import Index
from maghub.clegr.judge import judge
from maghub.clegr.questions import ask
from maghub.clegr.schema import LINE_VALUES, STATION_VALUES
from maghub.clegr.template import SUFFIXES
from maghub.clegr.templates import template, templates_of
from maghub.errors import MaghubError
from maghub.seeding import child_rng

LONDON = Path(__file__).parents[2].parent / "shared" / "data" / "upstream" / "clevr_graph"
Row = dict[str, Any]


def rows(**options: Any) -> tuple[list[Row], list[Row]]:
    part = generate_part(SetConfig(graphs=15, **options), 0)
    return part.graphs.to_pylist(), part.questions.to_pylist()


def as_json(graph: Row, questions: list[Row]) -> Row:
    """A published graph in the JSON-lines form."""
    ids = [node["id"] for node in graph["nodes"]]
    subway = "lines" in graph
    ends = ("station1", "station2") if subway else ("node1_id", "node2_id")
    edges = [
        {ends[0]: ids[edge["source"]], ends[1]: ids[edge["target"]], **edge}
        for edge in graph["edges"]
    ]
    qa = [
        {
            "type": row["question_type"],
            "question": row["question"],
            "answer": {"Boolean": row["answer"] == "True", "List": row["answer_list"]}.get(
                row["output_type"], row["answer"]
            ),
        }
        for row in questions
        if row["graph_id"] == graph["graph_id"]
    ]
    return {"nodes": graph["nodes"], "edges": edges, "lines": graph.get("lines", []), "qa": qa}


def write(path: Path, records: list[Any]) -> Path:
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records))
    return path


@pytest.mark.parametrize("domain", ["subway", "computer-networks"])
@pytest.mark.parametrize("question_set", ["facts", "reasoning"])
@pytest.mark.parametrize("variant", ["compat", "well_posed"])
def test_own_sets_agree(domain: str, question_set: str, variant: str, tmp_path: Path) -> None:
    graphs, questions = rows(domain=domain, question_set=question_set, variant=variant)
    audit = audit_rows(graphs, questions, variant)
    assert audit.agree == audit.questions == len(questions)
    assert audit.disagree == audit.unrecognised == audit.graph_problems == 0
    if variant == "well_posed":
        assert audit.ambiguous == 0
    file = write(tmp_path / "set.jsonl", [as_json(graph, questions) for graph in graphs])
    again = audit_json_lines(file, variant)
    assert again.to_dict() == audit.to_dict()
    keys = ["questions", "agree", "ambiguous", "disagree", "unrecognised", "by_type"]
    assert list(again.to_dict())[:6] == keys


def wrong(row: Row) -> Row:
    """The row with an answer no reading gives."""
    answer = {"Boolean": str(row["answer"] != "True"), "Numeric": "99999"}.get(
        row["output_type"], "Nowhere At All"
    )
    return {**row, "answer": answer, "answer_list": ["Nowhere At All"]}


@pytest.mark.parametrize("variant", ["compat", "well_posed"])
@pytest.mark.parametrize("domain", ["subway", "computer-networks"])
def test_planted_errors_are_found_by_type(domain: str, variant: str) -> None:
    graphs, questions = rows(domain=domain, question_set="reasoning", variant=variant)
    rng = random.Random(1)
    planted = {}
    for number in rng.sample(range(len(questions)), 60):
        if questions[number]["question_type"] != "NodeOnPath":  # both answers may be valid
            questions[number] = wrong(questions[number])
            kind = questions[number]["question_type"]
            planted[kind] = planted.get(kind, 0) + 1
    found: list[Finding] = []
    audit = audit_rows(graphs, questions, variant, on_finding=found.append)
    assert {k: c["disagree"] for k, c in audit.by_type.items() if c["disagree"]} == planted
    assert audit.questions == audit.agree + audit.disagree
    assert sum(finding.verdict.outcome == "disagree" for finding in found) == sum(planted.values())
    assert all("\n" not in line for line in audit.problems)


def test_text_alone_is_enough() -> None:
    """Without types and suffixes, all answers are still re-derived."""
    graphs, questions = rows(question_set="reasoning")
    for row in questions:
        for suffix in SUFFIXES.values():
            row["question"] = row["question"].removesuffix(suffix)
        row["question_type"] = ""
    audit = audit_rows(graphs, questions)
    assert audit.agree == len(questions)
    assert len(audit.by_type) == 34 - 2  # two pairs of templates share their wording


def ring() -> Row:
    """Four stations in a ring; two lines on one side; two shortest paths between corners."""
    base = {"disabled_access": True, "has_rail": True, "cleanliness": "clean", "size": "large"}
    nodes = [
        {**base, "id": i, "name": n, "architecture": "glass", "music": m, "x": 0.0, "y": 0.0}
        for i, n, m in (("a", "Ay", "pop"), ("b", "Be", "pop"), ("c", "Ce", "rock"), ("d", "De", "swing"))
    ]  # fmt: skip
    lines = [
        {"id": "r", "name": "Red Line", "color": "red", "stroke": "solid", "built": "1990", "has_aircon": True},
        {"id": "b", "name": "Blue Way", "color": "blue", "stroke": "dotted", "built": "2010", "has_aircon": False},
    ]  # fmt: skip
    edges = [
        {"station1": u, "station2": v, **{f"line_{k}": x for k, x in lines[n].items()}}
        for u, v, n in (("a", "b", 0), ("b", "c", 0), ("c", "d", 0), ("d", "a", 0), ("b", "a", 1))
    ]
    return {"nodes": nodes, "edges": edges, "lines": lines, "qa": []}


@pytest.mark.parametrize(
    ("question", "answer", "outcome"),
    [
        ("Which station is adjacent to both Ay and Ce?", "Be", "ambiguous"),
        ("Which station is adjacent to both Ay and Ce?", "De", "ambiguous"),
        ("Which station is adjacent to both Ay and Ce?", "Ay", "disagree"),
        ("What color is the line between Ay and Be?", "red", "ambiguous"),
        ("What color is the line between Be and Ay?", "blue", "ambiguous"),
        ("What color is the line between Be and Ce?", "red", "agree"),
        ("Is De on the shortest path between Ay and Ce?", True, "ambiguous"),
        ("Is De on the shortest path between Ay and Ce?", "False", "ambiguous"),
        ("Is Ce on the shortest path between Ay and Be?", "False", "agree"),
        ("Which line has more stations with disabled access, Red Line or Blue Way?", "Red Line", "agree"),
        ("Which line has more stations with disabled access, Red Line or Red Line?", "Red Line", "agree"),
        ("Which architectural style has more stations, new or victorian?", "victorian", "ambiguous"),
        ("What is the earliest year a line was built on the shortest path between Ay and Ce?", 1990, "agree"),
        ("How many years newer is the newest line between Ay and Ce compared to the oldest?", "20", "ambiguous"),
        ("Which lines is Ay on?", "['Red Line', 'Blue Way']", "agree"),
        ("Which lines is Ay on?", "{'Blue Way', 'Red Line'}", "agree"),
        ("Which lines is Ay on?", ["Blue Way"], "disagree"),
        ("How many red lines is Ay connected to?", 2, "agree"),
        ("How many red lines is Ay connected to?", 1, "ambiguous"),
        ("How many distinct routes are there between Ay and Ce?", 2, "agree"),
        ("How many distinct routes are there between Ay and Ay?", 0, "ambiguous"),
        ("Is Ay part of a cycle?\n\nAnswer with 'True' if it is in a cycle, otherwise 'False':\n\nAnswer: ", "True", "agree"),
        ("Is there a station called Ay?", True, "agree"),
        ("Is there a station called Nowhere?", False, "agree"),
        ("Is there a station called Nowhere?", True, "disagree"),
        ("How big is Nowhere?", "tiny", "unrecognised"),
        ("How clean is Ay", "clean", "unrecognised"),
        ("How many huge stations does Red Line pass through?", 3, "unrecognised"),
        ("Who built Ay?", "nobody", "unrecognised"),
        ("", None, "unrecognised"),
    ],
)  # fmt: skip
def test_compat_verdicts(question: str, answer: object, outcome: str, tmp_path: Path) -> None:
    record = {**ring(), "qa": [{"type": "", "question": question, "answer": answer}]}
    counts = audit_json_lines(write(tmp_path / "a.jsonl", [record])).to_dict()
    assert counts["agree"] == (outcome in ("agree", "ambiguous")), counts
    assert counts["ambiguous"] == (outcome == "ambiguous"), counts
    assert counts["disagree"] == (outcome == "disagree"), counts
    assert counts["unrecognised"] == (outcome == "unrecognised"), counts


def test_names_may_contain_the_words_of_the_templates(tmp_path: Path) -> None:
    record = ring()
    names = ("Fish and Chips", "Chips", "Fish", "Chips and Fish and")
    for node, name in zip(record["nodes"], names, strict=True):
        node["name"] = name
    record["qa"] = [
        {"type": "", "question": f"Are {u} and {v} adjacent?", "answer": near}
        for u, v, near in ((names[0], names[1], True), (names[0], names[2], False),
                           (names[3], names[2], True), (names[3], names[1], False))
    ]  # fmt: skip
    counts = audit_json_lines(write(tmp_path / "a.jsonl", [record])).to_dict()
    assert (counts["agree"], counts["questions"]) == (4, 4)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80), st.none() | st.text() | st.integers() | st.lists(st.text()))
def test_no_question_and_no_answer_raises(text: str, answer: object) -> None:
    index = Index(graph_from_json(ring(), "ring"))
    for question in (text, f"Are {text} and Be adjacent?", f"Which lines is Ay{text} on?"):
        assert judge(index, question, answer, "compat").outcome != "agree" or answer is not None
    assert judge(index, "Are " + "a and " * 100_000, answer, "compat").outcome == "unrecognised"
    for variant in ("compat", "well_posed"):
        for known in ("Which lines is Ay on?", "How big is Ay?", "Is Ay part of a cycle?"):
            judge(index, known, answer, variant)


def spoilt(change: Any) -> Row:
    record = {
        **ring(),
        "qa": [{"type": "HasCycle", "question": "Is Ay part of a cycle?", "answer": True}],
    }
    change(record)
    return record


@pytest.mark.parametrize(
    ("record", "words", "unrecognised"),
    [
        (spoilt(lambda r: r["edges"][0].update(station1="zz")), "unknown node 'zz'", 1),
        (spoilt(lambda r: r["edges"][0].update(line_id="zz")), "unknown line 'zz'", 1),
        (spoilt(lambda r: r.update(nodes=[])), "no nodes", 1),
        (spoilt(lambda r: r.pop("nodes")), "'nodes' is not a list", 1),
        (spoilt(lambda r: r.update(edges=[3])), "'edges' is not a list of objects", 1),
        (spoilt(lambda r: r["nodes"][0].pop("music")), "no usable 'music'", 1),
        (spoilt(lambda r: r["nodes"][0].update(name="Be")), "two nodes are called 'Be'", 1),
        (spoilt(lambda r: r["nodes"][0].update(id="b")), "two nodes have the same id", 1),
        (spoilt(lambda r: r.update(qa="x")), "'qa' is not a list", 0),
        (spoilt(lambda r: r.update(qa=[3])), "no template has this wording", 1),
        (spoilt(lambda r: r["nodes"].append({**r["nodes"][0], "id": "e", "name": "E"})),
         "disconnected (2 components)", 0),
        ("not json", "not JSON", 0),
        ("[1]", "not a JSON object", 0),
        ("[" * 100_000, "not JSON", 0),
    ],
)  # fmt: skip
def test_unusable_graphs_are_counted(
    record: Any, words: str, unrecognised: int, tmp_path: Path
) -> None:
    audit = audit_json_lines(write(tmp_path / "a.jsonl", [record, spoilt(lambda r: None)]))
    assert audit.unrecognised == unrecognised
    assert audit.graphs == 2
    assert any(words in line for line in audit.problems)
    assert audit.questions == audit.agree + audit.disagree + audit.unrecognised
    assert audit.agree >= 1


def test_published_folder_and_missing_rows(tmp_path: Path) -> None:
    with pytest.raises(MaghubError, match="nothing to audit"):
        audit_path(tmp_path)
    with pytest.raises(MaghubError, match="no such file"):
        audit_path(tmp_path / "none")
    part = next(generate(SetConfig(graphs=10)))
    for name, table in (("subway-facts", part.questions), ("subway-facts-graphs", part.graphs)):
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "train-00000-of-00001.parquet")
    audit = audit_path(tmp_path)
    assert audit.agree == part.questions.num_rows
    assert audit.semantics == "well_posed"
    graphs, questions = part.graphs.to_pylist(), part.questions.to_pylist()
    audit = audit_rows(reversed(graphs), questions)
    assert audit.agree == len(questions)
    audit = audit_rows(graphs[:-1], questions)
    assert audit.unrecognised == 44
    assert audit.reasons == {"unusable graph": 44}
    audit = audit_rows(graphs, questions[:-44])
    assert audit.graph_problems == 1
    assert "no questions" in audit.problems[0]
    broken = tmp_path / "subway-facts" / "train-00000-of-00001.parquet"
    pq.write_table(part.questions.drop_columns(["answer"]), broken)
    with pytest.raises(MaghubError, match="column answer: the column is missing"):
        audit_path(tmp_path)
    broken.write_bytes(b"not parquet")
    with pytest.raises(MaghubError, match="cannot be read"):
        audit_path(tmp_path)
    with pytest.raises(MaghubError, match="unknown semantics"):
        audit_rows([], [], "strict")


@pytest.mark.skipif(not LONDON.exists(), reason="../shared with the London map is not here")
def test_london() -> None:
    """A real map: invented attributes, real structure, answers as networkx gives them."""
    rng = random.Random(0)
    with (LONDON / "london.stations.csv").open(encoding="utf-8") as file:
        stations = list(csv.DictReader(file))
    with (LONDON / "london.connections.csv").open(encoding="utf-8") as file:
        connections = list(csv.DictReader(file))
    with (LONDON / "london.lines.csv").open(encoding="utf-8") as file:
        lines = [
            {"id": row["line"], "name": row["name"], **{k: rng.choice(v) for k, v in LINE_VALUES.items()}}
            for row in csv.DictReader(file)
        ]  # fmt: skip
    by_id = {line["id"]: line for line in lines}
    nodes = [
        {"id": row["id"], "name": row["name"], "x": 0.0, "y": 0.0,
         **{key: rng.choice(values) for key, values in STATION_VALUES.items()}}
        for row in stations
    ]  # fmt: skip
    edges = [
        {"station1": c["station1"], "station2": c["station2"],
         **{f"line_{k}": v for k, v in by_id[c["line"]].items()}}
        for c in connections
    ]  # fmt: skip
    graph = graph_from_json({"nodes": nodes, "edges": edges, "lines": lines}, "london")
    index = Index(graph)
    whole = nx.Graph((c["station1"], c["station2"]) for c in connections)
    at = {node: number for number, node in enumerate(graph.ids)}
    pairs = [rng.sample(graph.ids, 2) for _ in range(200)]
    between = template("subway", "StationShortestCount")
    for u, v in pairs:
        hops = nx.shortest_path_length(whole, u, v)
        assert between.solve(index, (at[u], at[v])) == max(hops - 1, 0)
    cycles = {node for cycle in nx.cycle_basis(whole) for node in cycle}
    assert {graph.ids[n] for n in range(len(graph)) if index.on_cycle[n]} == cycles
    asked = list(
        ask(
            index,
            templates_of("subway", "reasoning"),
            Draws(child_rng(0, "london")),
            "well_posed",
            {},
        )
    )
    assert len(asked) > 50
