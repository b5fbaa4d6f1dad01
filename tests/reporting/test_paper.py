"""The papers' numbers: copied once, compared with the papers' text, and shown where they belong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from maghub import registry
from maghub.catalog import list_datasets
from maghub.reporting import paper_numbers, summarise
from maghub.reporting.paper import PaperTable, paper_tables
from maghub.reporting.sheets import sheet
from tests.reporting.records import seeds

PAPERS = Path(__file__).resolve().parents[2].parent / "shared" / "papers"
VALUE = re.compile(r"(\d+\.\d+)(?:\}*_\{(?:\\scriptsize)?\s*\\pm (\d+\.\d+)\}+)?")


def test_some_numbers_read_by_hand() -> None:
    gcn = paper_numbers("movies", "node-classification", "gcn")["accuracy"]
    assert (gcn.mean, gcn.std) == (0.5284, 0.0040)
    assert (gcn.paper, gcn.table, gcn.dataset, gcn.model) == ("OpenMAG", 3, "Movies", "GCN")
    dgf = paper_numbers("bili-dance", "link-prediction", "dgf")["hits@3"]
    assert (dgf.mean, dgf.std) == (0.5825, 0.0037)
    last = paper_numbers("reddit-s", "node-clustering", "unigraph2")["ari"]
    assert (last.mean, last.std) == (0.1285, 0.0229)
    mlp = paper_numbers("toys", "modality-retrieval", "mlp")["i2t_mrr"]
    assert (mlp.mean, mlp.std) == (0.9945, None)
    cider = paper_numbers("flickr30k", "graph-to-text", "dgf")["cider"]
    assert cider.mean == 44.28  # the metric itself is in percent
    cora = paper_numbers("cora", "node-classification", "graphsage")["accuracy"]
    assert (cora.mean, cora.std, cora.paper) == (0.8731, 0.0081, "CLeGR")


@pytest.mark.parametrize(
    "key",
    [
        ("emoji", "node-classification", "gcn"),
        ("movies", "link-prediction", "gcn"),
        ("movies", "node-classification", "gin"),
        ("Movies", "node-classification", "gcn"),
    ],
)
def test_no_number_for_another_dataset_task_or_model(key: tuple[str, str, str]) -> None:
    assert paper_numbers(*key) == {}


def test_the_names_are_those_of_the_registry() -> None:
    datasets = {column.dataset for table in paper_tables() for column in table.columns}
    assert datasets <= set(list_datasets())
    models = {row.model for table in paper_tables() for row in table.rows}
    assert {"mlp", "gcn", "gat", "graphsage"} <= models & set(registry.names("models"))
    tasks = {table.task for table in paper_tables()}
    shipped = set(registry.names("tasks"))
    assert {"node-classification", "link-prediction", "node-clustering"} <= tasks & shipped


def test_paper_numbers_stand_beside_clean_rows_of_the_same_model_only() -> None:
    records = [
        *seeds(0.5, 0.6),
        *seeds(0.5, 0.6, noise={"text": 0.3}),
        *seeds(0.5, 0.6, model="gin"),
    ]
    (table,) = summarise(records).blocks
    assert [(row.model, bool(row.noise), sorted(row.paper)) for row in table.rows] == [
        ("gcn", False, ["accuracy", "macro_f1"]),
        ("gcn", True, []),
        ("gin", False, []),
    ]
    made = sheet(table)
    assert "paper: Accuracy (Movies)" in made.header
    assert sum("OpenMAG, Table 3, Movies" in line for line in made.lines) == 1
    place = made.header.index("paper: Accuracy (Movies)")
    assert [row[place].text for row in made.rows] == ["52.84 ± 0.40", "", ""]


def test_a_table_without_a_number_of_a_paper_has_no_column_for_it() -> None:
    (table,) = summarise(seeds(0.5, dataset={"name": "emoji"})).blocks
    assert not [name for name in sheet(table).header if name.startswith("paper")]


# -- against the text of the papers ----------------------------------------------------------------


def lines_of(name: str, start: str, end: str) -> list[str]:
    """The lines of a paper's text from one that begins with ``start`` to one with ``end``."""
    if not PAPERS.is_dir():
        pytest.skip("the papers' text is not part of this checkout")
    lines = (PAPERS / name).read_text("utf-8").splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(start))
    last = next(i for i, line in enumerate(lines) if i > first and line.startswith(end))
    return [line.strip() for line in lines[first + 1 : last] if line.strip()]


def value(cell: str) -> tuple[float, ...]:
    """``$\\mathbf{51.22_{\\pm 0.12}}$`` as (51.22, 0.12)."""
    found = VALUE.search(cell.replace("\\underline", "").replace("\\textbf", ""))
    assert found is not None, cell
    return tuple(float(part) for part in found.groups() if part is not None)


def printed(paper: str, table: int) -> dict[tuple[str, str, str], tuple[float, ...]]:
    """(model, dataset, heading) -> numbers, of all parts of a table in the data file."""
    found = {}
    for part in paper_tables():
        if (part.paper, part.table) == (paper, table):
            for row in part.rows:
                for column, own in zip(part.columns, row.values, strict=True):
                    key = (row.printed, column.printed, column.heading)
                    assert key not in found
                    found[key] = tuple(own)
    return found


def test_openmag_table_3_is_as_printed() -> None:
    cells = lines_of("openmag.txt", "Table 3:", "Table 4:")
    tasks, datasets, headings = 3, 6, 12
    start = 1 + tasks + datasets + headings
    names = cells[1 + tasks : 1 + tasks + datasets]
    metrics = cells[1 + tasks + datasets : start]
    expected = {}
    for i in range(start, len(cells), 1 + headings):
        for j, cell in enumerate(cells[i + 1 : i + 1 + headings]):
            expected[cells[i], names[j // 2], metrics[j]] = value(cell)
    assert len(expected) == 9 * 12
    assert all(len(own) == 2 for own in expected.values())
    assert printed("OpenMAG", 3) == expected


def test_openmag_table_4_is_as_printed() -> None:
    _, sets, metrics, *rows = (
        line.split("\t") for line in lines_of("openmag.txt", "Table 4:", "Table 5:")
    )
    sets = [name.strip() for name in sets if name.strip()]
    expected = {}
    for model, *cells in rows:
        for j, (heading, cell) in enumerate(zip(metrics[-6:], cells, strict=True)):
            expected[model, sets[j // 2], heading] = value(cell)
    assert len(expected) == 4 * 6
    assert printed("OpenMAG", 4) == expected


def test_clegr_table_1_is_as_printed() -> None:
    header, *rows = (
        line.split("\t")
        for line in lines_of("clegr.txt", "Table 1:", "3.2 Analysis")
        if "\t" in line
    )
    expected = {
        (" ".join(model.split()), dataset, dataset): value(cell)
        for model, *cells in rows
        for dataset, cell in zip(header[1:], cells, strict=True)
    }
    assert len(expected) == 9 * 6
    assert printed("CLeGR", 1) == expected


def test_mkg_rag_bench_prints_no_retrieval_number_in_the_text() -> None:
    lines = lines_of("mkg-rag-bench.txt", "4.2 Retrieval Evaluation", "4.3 Generation")
    assert any("¿tbl:tab:markg95retrieval?" in line for line in lines)  # the table itself is lost
    assert not [line for line in lines if re.search(r"\b0\.\d+|\d+\.\d{2}", line)]


def test_a_row_of_another_length_is_refused() -> None:
    table = paper_tables()[0].model_dump()
    table["rows"][0]["values"] = table["rows"][0]["values"][:-1]
    with pytest.raises(ValueError, match="one value per column"):
        PaperTable(**table)
