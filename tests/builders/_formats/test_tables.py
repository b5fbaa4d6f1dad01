"""CSV, TSV, JSON Lines and cells: what upstream really writes, and what is said of damage."""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from mutants import check_survives, mutants

from maghub.builders._formats.tables import (
    Column,
    Layout,
    Table,
    join_extra,
    split_number_and_text,
)
from maghub.builders._formats.text import clean_text, parse_list, read_jsonl, read_lines
from maghub.errors import MaghubError

TSV = Layout("\t", quoting="none", header=("head", "relation", "tail"))
IDS = Layout("\t", quoting="none", header=("id", "text"))


def cells(table: Table) -> list[list[str]]:
    return [list(row.cells.values()) for row in table]


def put(tmp_path: Path, data: str | bytes, name: str = "x.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_real_markg(real):
    folder = real / "markg_mars" / "MarKG"
    triples = [tuple(row.cells.values()) for row in Table(folder / "wiki_tuple_ids.txt", None, TSV)]
    assert len(triples) == 33_307
    assert len(set(triples)) == 33_301
    assert sum(head == tail for head, _, tail in triples) == 75
    entities = {row["id"] for row in Table(folder / "entity2text.txt", None, IDS)}
    relations = {row["id"] for row in Table(folder / "relation2text.txt", None, IDS)}
    assert (len(entities), len(relations)) == (11_292, 192)
    assert {row["id"] for row in Table(folder / "entity2textlong.txt", None, IDS)} == entities
    used = {end for head, _, tail in triples for end in (head, tail)}
    assert used <= entities
    assert len(used) == 10_182
    assert {relation for _, relation, _ in triples} == relations - {"A14"}


def test_real_mars(real):
    folder = real / "markg_mars" / "MARS"
    modes = {}
    for name, count in (("train", 10_641), ("dev", 1_020), ("test", 1_362)):
        records = list(read_jsonl(folder / f"{name}.json"))
        assert len(records) == count
        assert {len(record.first("example")) for record in records} == {2}
        modes[name] = np.bincount([record.first("mode") for record in records]).tolist()
    assert modes == {"train": [4247, 4247, 2147], "dev": [397, 397, 226], "test": [532, 532, 298]}
    assert sum(1 for _ in read_lines(folder / "analogy_entities.txt")) == 2_063


def test_real_text_agrees_with_python(real):
    path = real / "cstag_webkb" / "Washington.csv"
    with path.open(newline="", encoding="utf-8") as file:
        assert cells(Table(path)) == list(csv.reader(file))[1:]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_quotes_and_a_byte_order_mark(tmp_path, end, mark):
    text = end.join(
        ["id,text", '0,"a ""quoted"", text"', f'1,"two{end}lines"', "2,漢字 \U0001f600", ""]
    )
    table = Table(put(tmp_path, mark + text.encode()))
    assert table.header == ["id", "text"]
    assert cells(table) == [
        ["0", 'a "quoted", text'], ["1", f"two{end}lines"], ["2", "漢字 \U0001f600"],
    ]  # fmt: skip
    assert cells(table)[2][0] == "2"  # it can be read twice


def test_encodings_are_tried_in_the_declared_order(tmp_path):
    layout = Layout("\t", ("utf-8", "latin-1"))
    latin = Table(put(tmp_path, "A\tB\nDürer\tx\n".encode("latin-1")), None, layout)
    assert (latin.encoding, next(iter(latin))["A"]) == ("latin-1", "Dürer")
    utf = Table(put(tmp_path, "A\tB\nDürer\tx\n"), None, layout)
    assert (utf.encoding, next(iter(utf))["A"]) == ("utf-8", "Dürer")


def test_a_wrong_encoding_is_named_with_its_row(tmp_path):
    path = put(tmp_path, "A,B\n1,2\nD\xfcrer,x\n".encode("latin-1"))
    with pytest.raises(MaghubError, match=r"x\.csv, row 3: not utf-8"):
        list(Table(path))
    with pytest.raises(MaghubError, match="is neither of utf-8, ascii"):
        Table(path, None, Layout(encodings=("utf-8", "ascii")))


def test_stray_quotes_fall_back_to_quotes_as_text(tmp_path):
    text = (
        'IMAGE\tDESCRIPTION\n1.jpg\t"Fine, ""quoted"""\n2.jpg\t"Broken" at once\n3.jpg\tA 5" nail\n'
    )
    table = Table(put(tmp_path, text), None, Layout("\t", quoting="auto"))
    assert table.quoting == "none"
    assert [row["DESCRIPTION"] for row in table] == [
        'Fine, "quoted"',
        '"Broken" at once',
        'A 5" nail',
    ]
    fine = Table(
        put(tmp_path, text.replace('Broken" at once', 'Broken"')),
        None,
        Layout("\t", quoting="auto"),
    )
    assert fine.quoting == "minimal"


def test_a_quote_that_swallows_rows_is_found(tmp_path):
    rows = "\n".join(f"{at}.jpg\tplain text" for at in range(9))
    text = f'IMAGE\tDESCRIPTION\n0.jpg\t"open quote\n{rows}\n9.jpg\tcloses" here\n'
    table = Table(put(tmp_path, text), None, Layout("\t", quoting="auto"))
    assert len(list(table)) == 11
    with pytest.raises(MaghubError, match="row 1: broken quoting or cell up to line 12"):
        list(Table(put(tmp_path, text), None, Layout("\t")))


def test_a_stray_delimiter_is_an_error_with_its_row(tmp_path):
    path = put(tmp_path, "id,text,label\n0,fine,1\n1,one, too many,1\n")
    with pytest.raises(MaghubError, match=r"x\.csv, column label, row 2: 4 cells, expected 3"):
        list(Table(path))
    repaired = Table(path, None, Layout(repairs={"comma in text": join_extra(1, ",")}))
    assert cells(repaired) == [["0", "fine", "1"], ["1", "one, too many", "1"]]
    assert repaired.repairs == {"comma in text": 1}


def test_the_row_of_flickr30k_without_a_delimiter(tmp_path):
    text = (
        "image_name| comment_number| comment\n"
        "2199200615.jpg| 3| A dog .\n2199200615.jpg| 4   A dog runs across the grass .\n"
    )
    layout = Layout("|", quoting="none", repairs={"no delimiter": split_number_and_text})
    table = Table(put(tmp_path, text), None, layout)
    assert table.header == ["image_name", "comment_number", "comment"]
    assert [row["comment"].strip() for row in table] == ["A dog .", "A dog runs across the grass ."]
    assert table.repairs == {"no delimiter": 1}
    with pytest.raises(MaghubError, match="row 2: 2 cells, expected 3"):
        list(Table(put(tmp_path, text), None, Layout("|")))


def test_very_long_cells_pass_and_leave_the_limit_of_csv_alone(tmp_path):
    limit = csv.field_size_limit()
    table = Table(put(tmp_path, "id,text\n0," + "x" * 3_000_000 + "\n"))
    for row in table:
        assert len(row["text"]) == 3_000_000
        assert csv.field_size_limit() == limit
    assert csv.field_size_limit() == limit


def test_columns_by_any_of_their_names(tmp_path):
    path = put(tmp_path, "asin,caption,extra\nB1,hello,x\n")
    columns = [Column("id", ("asin",)), Column("text", ("caption",)), Column("more", (), False)]
    (row,) = Table(path, columns)
    assert row.cells == {"id": "B1", "text": "hello"}
    assert row.get("more", "?") == "?"
    with pytest.raises(MaghubError, match="no column label or class; it has asin, caption, extra"):
        Table(path, [Column("label", ("class",))])
    with pytest.raises(MaghubError, match="two columns are called 'a'"):
        Table(put(tmp_path, "a,b,a\n"))


@pytest.mark.parametrize("cell", ["", "x", "1.0", "-1", "5", "9" * 30, "１"])
def test_integers(tmp_path, cell):
    (row,) = Table(put(tmp_path, f"id,n\n0,{cell}\n"))
    with pytest.raises(MaghubError, match=r"column n, row 1: .* is not an integer from 0 to 4"):
        row.integer("n", high=4)


def test_gzip_and_its_damage(tmp_path):
    whole = gzip.compress("".join(f"{at},text {at}\n" for at in range(5000)).encode())
    layout = Layout(header=("id", "text"))
    assert len(list(Table(put(tmp_path, whole, "x.csv.gz"), None, layout))) == 5000
    with pytest.raises(MaghubError, match="a damaged gzip file after line"):
        list(Table(put(tmp_path, whole[:-300], "x.csv.gz"), None, layout))
    bomb = gzip.compress(bytes(100 << 20))
    with pytest.raises(MaghubError, match="is longer than"):
        list(Table(put(tmp_path, bomb, "x.csv.gz"), None, layout))


def test_empty_and_missing_files(tmp_path):
    with pytest.raises(MaghubError, match="is empty: not even a header row"):
        Table(put(tmp_path, ""))
    with pytest.raises(MaghubError, match="there is no such file"):
        Table(tmp_path / "none.csv")
    assert list(Table(put(tmp_path, "id,text\n"))) == []
    assert cells(Table(put(tmp_path, "id,text\n\n0,a\n\n"))) == [["0", "a"]]  # blank lines


def test_jsonl_and_its_variants(tmp_path):
    lines = [
        {"id": "B1", "raw_text": ["one", "two"]}, {"asin": 7, "raw_text": "three"},
        {"asin": "B3", "raw_text": [None, "None", "four \ud800"]}, {"id": "B4", "raw_text": None},
    ]  # fmt: skip
    text = "\r\n".join(map(json.dumps, lines)) + "\n\n  \n"
    records = list(read_jsonl(put(tmp_path, text, "raw-text.jsonl")))
    assert [record.identifier("id", "asin") for record in records] == ["B1", "7", "B3", "B4"]
    assert [record.text("raw_text", "text") for record in records] == [
        "one two",
        "three",
        "four ?",
        "",
    ]
    with pytest.raises(MaghubError, match=r"raw-text\.jsonl, column id or x, row 2: no such key"):
        records[1].first("id", "x")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "row 2: not JSON"), ("[1]", "row 2: expected a JSON object, found a list"),
        ("[" * 100_000, "row 2: not JSON"), ('{"a": ' + "9" * 10_000 + "}", "row 2: not JSON"),
    ],
    ids=range(4),
)  # fmt: skip
def test_broken_jsonl(tmp_path, line, message):
    with pytest.raises(MaghubError, match=message):
        list(read_jsonl(put(tmp_path, '{"a": 1}\n' + line + "\n")))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("['B1', 'B2']", ["B1", "B2"]), ("[1, 2,3 ]", [1, 2, 3]), ("[]", []), ("", []), ("nan", []),
        ("None", []), ('["it\'s", \'a "b"\']', ["it's", 'a "b"']),
        (r"['a\'b', 'c\\d', '\u00e9\n']", ["a'b", "c\\d", "é\n"]),
        ("['a', None, nan, 5]", ["a", 5]), ("['x',]", ["x"]), (r"['\d']", [r"\d"]), ("[-3]", [-3]),
        ("[ ]", []), ("['a, b]', 'c']", ["a, b]", "c"]),
    ],
)  # fmt: skip
def test_lists_in_cells(cell, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse_list(cell) == expected


@pytest.mark.parametrize(
    "cell",
    ["['a'", "'a'", "['a' 'b']", "[['a']]", "[1.5]", "[__import__('os')]", "['a'] + []",
     "[" * 10_000 + "]", "['" + "a" * 10_000 + "]", "[,]", "{'a'}", r"['\x']"],
    ids=range(12),
)  # fmt: skip
def test_what_is_no_list(tmp_path, cell):
    with pytest.raises(ValueError, match=r"not a list|broken string|text after"):
        parse_list(cell)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, ""), ("None", ""), ("nan", ""), (float("nan"), ""), ("  x ", "x"),
     (5, "5"), ("a\ud83d", "a?"), ("emoji \U0001f600", "emoji \U0001f600"), 
     ("None of it", "None of it")],
)  # fmt: skip
def test_clean_text(value, expected):
    assert clean_text(value) == expected


def test_mutants_of_csv(tmp_path):
    text = (
        'id,text,also_buy,label\r\n0,"a ""b"", c","[\'x\', \'y\']",1\r\n'
        '1,"two\nlines",[],0\r\n2,漢字,"[3, 4]",1\r\n'
    )

    def read(path: Path) -> None:
        for row in Table(path, [Column("id"), Column("text"), Column("also_buy")]):
            row.integer("id")
            row.list("also_buy")

    refused = check_survives(read, text.encode(), tmp_path / "x.csv", seed=8)
    assert refused > 700

    def read_auto(path: Path) -> None:
        layout = Layout(
            encodings=("utf-8", "latin-1"), quoting="auto", repairs={"x": join_extra(1, ",")}
        )
        list(Table(path, None, layout))

    check_survives(read_auto, text.encode(), tmp_path / "x.csv", seed=9, count=500)


def test_mutants_of_compressed_tables_and_jsonl(tmp_path):
    layout = Layout(header=("id", "text"))
    packed = gzip.compress(b"".join(b"%d,text\n" % at for at in range(40)))
    check_survives(
        lambda path: list(Table(path, None, layout)), packed, tmp_path / "x.csv.gz", count=500
    )
    lines = b'{"id": "B1", "raw_text": ["a", "b"]}\n{"asin": "B2", "raw_text": "\xe6\xbc\xa2"}\n'

    def read(path: Path) -> None:
        for record in read_jsonl(path):
            record.identifier("id", "asin")
            record.text("raw_text")

    assert check_survives(read, lines, tmp_path / "x.jsonl", seed=10) > 1000


def test_mutants_of_list_cells():
    original = b"['B0001', \"it's\", 12, None, '\\u00e9\\'', 'x']"
    for mutant in mutants(original, 2000, 11):
        with contextlib.suppress(ValueError):
            parse_list(mutant.decode("utf-8", "replace"))
