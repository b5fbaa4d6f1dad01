"""``validate`` on files, maghub.json, README.md and card.md, and on what is no folder."""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maghub import layout
from maghub.errors import MaghubError
from maghub.validating.values import picture_problem
from maghub.validation import validate
from tests.helpers.folders import (
    EMBEDDINGS,
    cast_column,
    change_spec,
    change_table,
    config_of,
    data_path,
    take_rows,
    with_vector_value,
)
from tests.helpers.graphs import RULES, png
from tests.helpers.reports import found, lines

N = 40
RULE = RULES[0]
NEGATIVES = layout.negatives_config(RULE)


def test_checksum_size_and_rows(folder: Path) -> None:
    path = change_table(folder, "edges", take_rows(lambda n: range(n - 1)), record=False)
    report = validate(folder)
    found(report, path, None, "does not match its checksum")
    found(report, path, None, "bytes, maghub.json says")
    found(report, path, None, "rows, maghub.json says")
    found(report, layout.SPEC_FILE, "graph.num_edges", "declared")


def test_truncated_parquet_leaves_the_rest_checked(folder: Path) -> None:
    path = data_path(folder, "edges")
    data = (folder / path).read_bytes()
    (folder / path).write_bytes(data[: len(data) // 2])
    change_table(folder, EMBEDDINGS, with_vector_value("text", 4, np.nan))
    report = validate(folder)
    found(report, path, None, "is not a whole Parquet file")
    assert found(report, data_path(folder, EMBEDDINGS), "text", "NaN").row == 4


def test_damaged_page_is_found(folder: Path) -> None:
    path = data_path(folder, "nodes", "train")
    data = bytearray((folder / path).read_bytes())
    data[8:200] = bytes(192)
    (folder / path).write_bytes(data)
    report = validate(folder)
    found(report, path, None, "does not match its checksum")
    assert any("cannot be read on" in p.message for p in report.problems if p.file == path)


def test_missing_and_stray_files(folder: Path) -> None:
    edges, nodes = data_path(folder, "edges"), data_path(folder, "nodes")
    (folder / edges).rename(folder / "nodes" / "more.parquet")
    report = validate(folder)
    found(report, edges, None, "named in maghub.json but missing")
    found(report, "nodes/more.parquet", None, "is not named in maghub.json")
    assert nodes not in " ".join(lines(report))


def test_missing_configs(folder: Path) -> None:
    def remove(spec: dict[str, Any]) -> None:
        gone = ("edges", "node-splits", "edge-splits")
        spec["configs"] = [c for c in spec["configs"] if c["name"] not in gone]

    change_spec(folder, remove)
    report = validate(folder)
    for config in ("edges", "node-splits", "edge-splits"):
        found(report, layout.SPEC_FILE, "configs", f"config {config} is missing")
        found(report, layout.CARD_FILE, "configs", f"config {config} is not in maghub.json")
    change_spec(folder, lambda spec: spec["configs"].pop(0))
    found(validate(folder), layout.SPEC_FILE, "configs", "config nodes is missing")


def test_types_of_maghub_json_and_of_the_contract(folder: Path) -> None:
    def retype(spec: dict[str, Any]) -> None:
        config_of(spec, "edges")["features"]["src"]["dtype"] = "int32"
        config_of(spec, "nodes")["features"]["year"]["dtype"] = "string"

    change_spec(folder, retype)
    report = validate(folder)
    found(report, layout.SPEC_FILE, "configs.edges.features.src", "is int32, must be int64")
    found(report, data_path(folder, "edges"), "src", "is int64, maghub.json says int32")
    found(report, data_path(folder, "nodes"), "year", "is int64, maghub.json says string")
    found(report, layout.CARD_FILE, "dataset_info.edges.src", "column is not as in maghub.json")


def test_class_names_that_differ_between_file_and_json(folder: Path) -> None:
    def rename(spec: dict[str, Any]) -> None:
        config_of(spec, "nodes")["features"]["label"]["names"].reverse()

    change_spec(folder, rename, readme=True)
    report = validate(folder)
    found(report, data_path(folder, "nodes"), "label", "class names")
    assert len(report.problems) == 4  # one for each split


def test_undeclared_column(folder: Path) -> None:
    def add(table: pa.Table) -> pa.Table:
        return table.append_column("note", pa.array(["x"] * table.num_rows))

    path = change_table(folder, "edges", add)
    found(validate(folder), path, "note", "not declared in maghub.json")


def test_readme_and_card(folder: Path) -> None:
    readme = folder / layout.CARD_FILE
    text = readme.read_text("utf-8")
    readme.write_text(text.replace(f"num_examples: {N}", "num_examples: 5"), "utf-8")
    card = folder / layout.CARD_SOURCE_FILE
    source = card.read_text("utf-8").replace("images: public", "images: gated")
    card.write_text(source, "utf-8")
    report = validate(folder)
    found(report, layout.CARD_FILE, "dataset_info", "config node-splits: rows per split")
    found(report, layout.CARD_FILE, "dataset_info", f"config {EMBEDDINGS}: rows per split")
    found(report, layout.CARD_SOURCE_FILE, "policy.images", "is 'gated', maghub.json says 'public'")
    readme.write_text(text.replace("path: edges/full-*", "path: edges/*-x"), "utf-8")
    found(validate(folder), layout.CARD_FILE, "configs", "no pattern of split full finds")


@pytest.mark.parametrize("text", ["", "# no front matter", "---\na: [\n---\n", "---\n- 1\n---\n"])
def test_readme_and_card_that_cannot_be_read(folder: Path, text: str) -> None:
    (folder / layout.CARD_FILE).write_text(text)
    (folder / layout.CARD_SOURCE_FILE).write_text(text)
    files = [problem.file for problem in validate(folder).problems]
    assert files == [layout.CARD_FILE, layout.CARD_SOURCE_FILE]


def test_readme_and_card_missing(folder: Path) -> None:
    (folder / layout.CARD_FILE).unlink()
    (folder / layout.CARD_SOURCE_FILE).unlink()
    assert [p.message for p in validate(folder).problems] == ["is missing", "is missing"]


def test_every_broken_field_of_maghub_json(folder: Path) -> None:
    def spoil(spec: dict[str, Any]) -> None:
        spec["policy"]["text"] = "secret"
        spec["graph"]["num_nodes"] = "many"
        spec["extra"] = 1

    change_spec(folder, spoil)
    report = validate(folder)
    columns = {problem.column for problem in report.problems}
    assert columns == {"policy.text", "graph.num_nodes", "extra"}
    (folder / layout.SPEC_FILE).write_text("{")
    assert "is not JSON" in validate(folder).problems[0].message


def test_encoder_provenance(folder: Path) -> None:
    def spoil(spec: dict[str, Any]) -> None:
        spec["encoders"][0].update(dim={"text": 8, "image": 9}, dtype="float32")
        spec["encoders"][0]["missing"]["image"] = 0

    change_spec(folder, spoil)
    messages = [p.message for p in validate(folder).problems if p.file == layout.SPEC_FILE]
    assert [text.split()[0] for text in messages] == ["dim", "dtype", "missing"]
    change_spec(folder, lambda spec: spec.update(encoders=[]))
    found(validate(folder), layout.SPEC_FILE, "encoders", "has no provenance")


def test_statistics_that_no_longer_hold(folder: Path) -> None:
    change_spec(folder, lambda spec: spec["statistics"].update(max_degree=1, with_image=0))
    report = validate(folder)
    found(report, layout.SPEC_FILE, "statistics.max_degree", "is 1, the tables have")
    found(report, layout.SPEC_FILE, "statistics.with_image", "is 0, the tables have")
    assert validate(folder, images=False).ok


def test_wrong_target(folder: Path) -> None:
    change_spec(folder, lambda spec: config_of(spec, "edge-splits").update(target="nodes"))
    found(validate(folder), layout.SPEC_FILE, "configs.edge-splits", "must be edges")


def test_config_without_files(folder: Path) -> None:
    change_spec(folder, lambda spec: config_of(spec, "edges").update(files=[]))
    report = validate(folder)
    found(report, layout.SPEC_FILE, "configs.edges", "its files 0")
    found(report, data_path(folder, NEGATIVES), "edge_id", "is not within")


def test_paths_do_not_leave_the_folder(folder: Path) -> None:
    change_spec(folder, lambda spec: config_of(spec, "edges")["files"][0].update(path="../../x"))
    column = "configs.1.files.0.path"
    found(validate(folder), layout.SPEC_FILE, column, "leads out of the folder")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_picture_guard() -> None:
    for side in (10_000, 60_000):
        header = b"IHDR" + side.to_bytes(4, "big") * 2 + b"\x08\x02\x00\x00\x00"
        crc = zlib.crc32(header).to_bytes(4, "big")
        bomb = (
            b"\x89PNG\r\n\x1a\n\x00\x00\x00\r" + header + crc + b"\x00\x00\x00\x00IDAT" + bytes(4)
        )
        assert "limit" in (picture_problem(bomb) or "")
    assert picture_problem(b"%!PS-Adobe-3.0 EPSF-3.0\n") is not None
    assert picture_problem(png(3)) is None


def test_generic_tables_are_checked_for_types_rows_and_checksums(folder: Path) -> None:
    def generic(spec: dict[str, Any]) -> None:
        spec.update(graph=None, statistics=None, default_split=None, node_splits=[])
        spec.update(edge_splits=[], negatives=[], encoders=[])
        spec["configs"] = [config_of(spec, "edges")]
        spec["configs"][0]["kind"] = "table"

    for name in ("nodes", "node-splits", "edge-splits", NEGATIVES, EMBEDDINGS):
        shutil.rmtree(folder / name)
    change_spec(folder, generic, readme=True)
    assert lines(validate(folder)) == []
    path = change_table(folder, "edges", cast_column("dst", pa.int32()), record=False)
    report = validate(folder)
    found(report, path, "dst", "is int32")
    found(report, path, None, "checksum")


def test_a_plain_writer_without_arrow_schema_is_found(folder: Path) -> None:
    path = data_path(folder, EMBEDDINGS)
    table = pq.read_table(folder / path)
    pq.write_table(table, folder / path, store_schema=False)
    report = validate(folder)
    found(report, path, "text", "is List(float16), maghub.json says List(float16, length=8)")


# -- what cannot be looked at --------------------------------------------------------------------


@pytest.mark.parametrize("what", ["missing", "file", "empty", "no json"])
def test_one_clear_line_where_there_is_no_folder(tmp_path: Path, what: str) -> None:
    path = tmp_path / "toy"
    if what == "file":
        path.write_text("x")
    elif what != "missing":
        path.mkdir()
        if what == "no json":
            (path / "x").write_text("x")
    with pytest.raises(MaghubError) as error:
        validate(path)
    assert "\n" not in error.value.line()
    assert str(path) in error.value.line()
