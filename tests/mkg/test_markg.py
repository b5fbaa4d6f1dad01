"""The real MarKG text through the whole construction, checked against its own raw files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import maghub
from maghub.mkg.pipeline import build_benchmark
from maghub.spec import FolderSpec
from tests.helpers.built import check_valid
from tests.helpers.kg_folders import Triple, check_benchmark, rows_of
from tests.helpers.real import real


def raw_graph() -> tuple[list[Triple], dict[str, str], dict[str, str]]:
    """Triplets, entity names and relation names, read as plain text."""
    folder = real("markg_mars") / "MarKG"
    entities, relations = (
        dict(line.split("\t") for line in (folder / name).read_text().splitlines())
        for name in ("entity2text.txt", "relation2text.txt")
    )
    lines = (folder / "wiki_tuple_ids.txt").read_text().splitlines()
    triplets = dict.fromkeys(tuple(line.split("\t")) for line in lines)
    return list(triplets), entities, relations  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("markg") / "kg"
    maghub.build("markg", out, real("markg_mars"))
    return out


def check(folder: Path, spec: FolderSpec) -> dict[str, int]:
    triplets, entities, relations = raw_graph()
    names = {key: name.strip() for key, name in entities.items()}
    counts = check_benchmark(folder, triplets, names, relations)
    check_valid(folder)
    readme = " ".join((folder / "README.md").read_text().split())
    found = re.search(
        r"([\d,]+) queries with ([\d,]+) relevance judgements over a corpus of ([\d,]+)", readme
    )
    assert found is not None
    assert [int(number.replace(",", "")) for number in found.groups()] == list(counts.values())
    assert {row["writer"] for row in rows_of(folder, "queries")} == {"rule"}
    assert (
        sum(row["number"] for row in spec.notes["utility_filter"]["corpus"].values())
        == counts["triplets"]
    )
    return counts


def _numbers(spec: FolderSpec) -> dict[str, dict[str, int]]:
    return spec.notes["utility_filter"]["judged triplets"]


def judged(spec: FolderSpec) -> int:
    return sum(row["number"] for row in _numbers(spec).values())


def test_two_thousand_triplets_of_markg(kg: Path, tmp_path: Path) -> None:
    spec = build_benchmark(kg, tmp_path / "out", limit=2_000).spec
    counts = check(tmp_path / "out", spec)
    assert judged(spec) == 2_000
    assert counts["queries"] > 2_000  # two masked forms for most of those of use
    assert counts["triplets"] > 32_000  # the others stay in the corpus


@pytest.mark.slow
def test_all_of_markg(kg: Path, tmp_path: Path) -> None:
    spec = build_benchmark(kg, tmp_path / "out").spec
    counts = check(tmp_path / "out", spec)
    assert judged(spec) == 33_301
    assert counts["queries"] > 30_000
    loops = sum(head == tail for head, _, tail in raw_graph()[0])
    assert _numbers(spec)["dropped: self loop"]["number"] == loops == 75
