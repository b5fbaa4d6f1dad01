"""Template wording to the letter of the paper's tables; sentences and contexts."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from maghub.clegr.generate import SetConfig, generate_part, make_graph
from maghub.clegr.rows import features, graph_from_row, graph_schema
from maghub.clegr.template import SUFFIXES
from maghub.clegr.templates import ALL_TEMPLATES, template, templates_of
from maghub.clegr.text import context, edge_texts, node_texts
from maghub.errors import MaghubError

PAPER = Path(__file__).parents[2].parent / "shared" / "papers" / "clegr.txt"


def test_counts() -> None:
    for domain, question_set, count in (
        ("subway", "facts", 22),
        ("subway", "reasoning", 34),
        ("computer-networks", "facts", 9),
        ("computer-networks", "reasoning", 11),
    ):
        found = templates_of(domain, question_set)
        assert len(found) == len({t.name for t in found}) == count
    for t in ALL_TEMPLATES:
        assert t.wording.count("{}") == len(t.slots), t.name
        assert set(t.subgroups) <= {"Fact", "Aggregation", "Filtering", "PathReasoning", "Topology"}


def paper_rows() -> list[tuple[str, str, str, str]]:
    """(domain, name, wording, output type) of Tables 6 to 9, 11 and 12."""
    text = PAPER.read_text(encoding="utf-8").replace("’", "'").replace("‘", "'")
    rows = []
    for table in (6, 7, 8, 9, 11, 12):
        block = text.split(f"\nTable {table}: ")[1].split("\n", 1)[1]
        block = re.split(r"\nTable |\nC\.5|\nAppendix", block)[0]
        joined = re.sub(r"\n(?=Access|ArchitectureCount)", "", block)
        for line in joined.splitlines():
            cells = line.split("\t")
            if len(cells) >= 3 and cells[0] != "Template Name":
                domain = "computer-networks" if table > 10 else "subway"
                rows.append((domain, cells[0].strip(), cells[1].strip(), cells[2].strip()))
    return rows


@pytest.mark.skipif(not PAPER.exists(), reason="../shared with the paper is not here")
def test_wording_is_the_papers() -> None:
    rows = paper_rows()
    assert len(rows) == 22 + 33 + 20
    quoted = {"CountNodesWithStatus", "CountNodesWithTwoProps", "PathAvoidingStatus"}
    for domain, name, wording, output in rows:
        ours = template(domain, name)
        expected = re.sub(r"\{[^}]*\}", "{}", wording)
        wording = ours.wording
        if name in quoted:  # the paper drops the quotes, the released questions have them
            wording = wording.replace("'", "")
        if name == "CountEqualSizeStation":  # the released wording lacks the question mark
            expected = expected.removesuffix("?")
        assert wording == expected, name
        assert ours.output == ("Numeric" if name == "PathEarliestBuilt" else output), name


def test_suffixes() -> None:
    assert SUFFIXES == {
        "String": "\n\nAnswer directly: ",
        "List": "\n\nOutput a comma-separated list: ",
        "Boolean": "\n\nAnswer with 'True' or 'False':\n\nAnswer: ",
        "Numeric": "\n\nAnswer with a number:\n\nAnswer: ",
        "Cycle": "\n\nAnswer with 'True' if it is in a cycle, otherwise 'False':\n\nAnswer: ",
    }
    assert template("subway", "HasCycle").suffix_text == SUFFIXES["Cycle"]
    assert template("computer-networks", "HasCycle").suffix_text == SUFFIXES["Cycle"]
    assert template("subway", "PathEarliestBuilt").suffix_text == SUFFIXES["String"]
    assert template("computer-networks", "NodePropertyPower").suffix_text == SUFFIXES["Numeric"]
    with pytest.raises(MaghubError, match="Did you mean HasCycle"):
        template("subway", "HasCycl")


def test_sentences() -> None:
    graph, _ = make_graph(SetConfig(), 0)
    for column, value in (
        ("disabled_access", True), ("has_rail", False), ("architecture", "glass"),
        ("cleanliness", "dirty"), ("music", "none"), ("size", "medium-sized"),
    ):  # fmt: skip
        graph.nodes[column][0] = value  # type: ignore[call-overload]
    graph.names[graph.source[0]], graph.names[graph.target[0]] = "Here", "There"
    graph.names[0] = "Here, There"
    for column, value in (
        ("line_stroke", "dashed"), ("line_color", "cyan"), ("line_has_aircon", False),
        ("line_built", "1980"),
    ):  # fmt: skip
        graph.edges[column][0] = value  # type: ignore[call-overload]
    assert node_texts(graph)[0] == (
        "Here, There has disabled access and does not have rail. It features glass architecture, "
        "has dirty cleanliness, none music and is medium-sized in size."
    )
    ends = graph.names[graph.source[0]], graph.names[graph.target[0]]
    assert edge_texts(graph)[0] == (
        f"There is a dashed cyan line from {ends[0]} to {ends[1]}. "
        "It does not have air conditioning and was built in 1980."
    )
    nodes, edges = context(graph).split("\n\n--- Edges ---\n")
    rows = list(csv.DictReader(io.StringIO(nodes.removeprefix("--- Nodes ---\n"))))
    assert len(rows) == len(graph)
    assert rows[0]["name"] == "Here, There"
    assert rows[0]["disabled_access"] == "True"
    assert edges.splitlines()[0] == "source_id,target_id,line_color,line_stroke,has_aircon,built"
    assert edges.splitlines()[1].endswith(",cyan,dashed,False,1980")
    assert len(edges.splitlines()) == 1 + len(graph.source)


def test_network_sentences() -> None:
    graph, _ = make_graph(SetConfig("computer-networks"), 0)
    u, v = graph.source[0], graph.target[0]
    n, e = graph.nodes, graph.edges
    assert node_texts(graph)[0] == (
        f"System node {graph.names[0]} is in {n['location_sector'][0]} with status "
        f"{n['status'][0]}. It has security level {n['security_level'][0]}, firmware "
        f"{n['firmware_version'][0]}, and consumes {n['power_consumption_units'][0]} power units."
    )
    assert edge_texts(graph)[0] == (
        f"A link connects {graph.names[u]} and {graph.names[v]}. It has {e['bandwidth_units'][0]} "
        f"bandwidth units, {e['latency_ms'][0]}ms latency, and its encryption status is "
        f"{e['encryption_status'][0]}."
    )


@pytest.mark.parametrize("domain", ["subway", "computer-networks"])
def test_rows_keep_the_graph_and_have_features(domain: str) -> None:
    import datasets

    config = SetConfig(domain, graphs=3)
    part = generate_part(config, 0)
    assert part.graphs.schema == graph_schema(domain)
    for number, row in enumerate(part.graphs.to_pylist()):
        graph, _ = make_graph(config, number)
        assert graph_from_row(row) == graph
        assert len(row["node_texts"]) == len(row["nodes"])
        assert len(row["edge_texts"]) == len(row["edges"])
        assert ("lines" in row) == (domain == "subway")
    for table in (part.graphs, part.questions):
        kinds = features(table.schema)
        loaded = datasets.Dataset(table, info=datasets.DatasetInfo(features=kinds))
        assert loaded.features == kinds
        assert loaded[0] == table.slice(0, 1).to_pylist()[0]
    assert list(part.questions.schema.names) == [
        "question_id", "graph_id", "question", "question_type", "question_group",
        "question_subgroups", "scope", "output_type", "arguments", "answer", "answer_list",
    ]  # fmt: skip
