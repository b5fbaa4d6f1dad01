"""``maghub report`` as a user meets it: real processes, exit codes, one-line errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from maghub.results import append_records
from tests.reporting.records import record, showcase

pytestmark = pytest.mark.integration


def report(*args: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "maghub"), "report", *map(str, args)]
    env = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=240)


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert not [word for word in words if word not in line], line


def test_tables_files_and_json(tmp_path: Path) -> None:
    append_records(tmp_path / "a.jsonl", showcase()[:40])
    append_records(tmp_path / "b.jsonl", showcase()[40:])
    done = report(
        *("a.jsonl", "b.jsonl", "--markdown", "r.md", "--html", "r.html", "--latex", "r.tex"),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "53.00 ± 1.00" in done.stdout
    assert "paper: Accuracy (Movies)" in done.stdout
    assert "[a] Other split: random-0 (elsewhere openmag)" in done.stdout
    assert "written: r.html" in done.stdout
    assert {p.suffix for p in tmp_path.iterdir()} == {".jsonl", ".md", ".html", ".tex"}
    data = json.loads(report("a.jsonl", "b.jsonl", "--json", cwd=tmp_path).stdout)
    assert data["records"] == len(showcase())
    assert [block["dataset"] for block in data["blocks"]] == ["dy", "movies"]


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    refused(report("none.jsonl", cwd=tmp_path), "none.jsonl", "Check the path")
    (tmp_path / "empty.jsonl").touch()
    refused(report("empty.jsonl", cwd=tmp_path), "empty.jsonl", "no result record", "Make some")
    (tmp_path / "bad.jsonl").write_text("{}\n")
    refused(report("bad.jsonl", cwd=tmp_path), "bad.jsonl, row 1", "is no result record")
    append_records(tmp_path / "r.jsonl", [record()])
    refused(
        report("r.jsonl", "--html", "no/r.html", cwd=tmp_path),
        "no/r.html: cannot be read or written",
        "Check the path",
    )
    (tmp_path / "folder").mkdir()
    refused(report("r.jsonl", "--latex", "folder", cwd=tmp_path), "folder", "directory")
    assert not list(tmp_path.rglob("*.partial-*"))
    assert report(cwd=tmp_path).returncode == 2
