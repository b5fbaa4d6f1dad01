"""The command line as a user meets it: real processes, exit codes, one-line errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from maghub.cli import app
from maghub.loading import sample_path


def run(*args: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "maghub"), *map(str, args)]
    env = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=240)


pytestmark = pytest.mark.integration


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_list_and_info_speak_to_people_and_machines() -> None:
    listed = run("list", "models", "--json")
    assert {"gcn", "revgat"} <= set(json.loads(listed.stdout))
    assert "link-prediction" in run("list", "tasks").stdout.splitlines()
    listed = run("list", "--json")
    assert listed.returncode == 0
    assert "emoji" in [item["name"] for item in json.loads(listed.stdout)]
    facts = json.loads(run("info", "emoji", "--json").stdout)
    assert facts["graph"]["num_nodes"] == 1911
    assert facts["configs"]["nodes"] == {"train": 1146, "validation": 383, "test": 382}
    shown = run("info", "emoji")
    assert "1,911" in shown.stdout
    assert "Apache-2.0" in shown.stdout


def test_build_validate_and_overwrite(tmp_path: Path) -> None:
    assert run("build", "emoji", "--out", "here", cwd=tmp_path).returncode == 0
    again = run("build", "emoji", "--out", "here", cwd=tmp_path)
    assert again.returncode == 1
    assert "already exists" in one_line(again)
    made = run("build", "emoji", "--out", "here", "--overwrite", "--workers", 2, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    checked = run("validate", "here", "--json", cwd=tmp_path)
    assert checked.returncode == 0
    assert json.loads(checked.stdout)["problems"] == []
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_validate_lists_problems_and_exits_with_one(tmp_path: Path) -> None:
    run("build", "emoji", "--out", "here", cwd=tmp_path)
    shard = tmp_path / "here" / "edges" / "full-00000-of-00001.parquet"
    shard.write_bytes(shard.read_bytes()[:-100])
    done = run("validate", "here", cwd=tmp_path)
    assert done.returncode == 1
    assert "edges/full-00000-of-00001.parquet" in done.stdout
    assert "Traceback" not in done.stderr + done.stdout
    found = json.loads(run("validate", "here", "--json", cwd=tmp_path).stdout)
    assert {problem["file"] for problem in found["problems"]} >= {
        "edges/full-00000-of-00001.parquet"
    }


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["build", "emojo"], 1, "did you mean emoji"),
        (["info", "nothing-like-it"], 1, "unknown dataset"),
        (["validate", "no-such-folder"], 1, "no-such-folder"),
        (["encode", "no-such-folder", "--encoder", "x"], 1, "no-such-folder"),
        (["build", "emoji", "--raw-dir", "nowhere", "--out", "x"], 1, "nowhere: is not a folder"),
        (["build", "emoji", "--raw-dir", ".", "--out", "x"], 1, "npm pack"),
        (["build", "emoji", "--seed", "-1", "--out", "x"], 1, "negative"),
        (["build", "emoji", "--out", "x", "--set", "colour=1"], 1, "colour"),
    ],
)
def test_errors_are_one_line_that_says_what_to_do(
    args: list[str], code: int, text: str, tmp_path: Path
) -> None:
    done = run(*args, cwd=tmp_path)
    assert done.returncode == code
    assert text.lower() in one_line(done).lower()
    assert not list(tmp_path.iterdir())


def test_wrong_usage_exits_with_two() -> None:
    for args in (["build"], ["no-such-command"], ["build", "emoji", "--workers", "0"]):
        assert run(*args).returncode == 2


def test_debug_shows_the_traceback() -> None:
    done = run("--debug", "validate", "no-such-folder")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_a_device_that_is_not_here_is_named() -> None:
    done = run("encode", sample_path("emoji"), "--encoder", "all-minilm-l6-v2", "--device", "bogus")
    assert done.returncode == 1
    assert "device 'bogus'" in one_line(done)


def test_every_command_that_takes_a_device_takes_auto_by_default() -> None:
    devices, open_groups = [], [typer.main.get_command(app)]
    while open_groups:
        command = open_groups.pop()
        open_groups += getattr(command, "commands", {}).values()
        devices += [option.default for option in command.params if option.name == "device"]
    assert len(devices) >= 6
    assert set(devices) == {"auto"}


def test_unknown_encoder_gives_the_nearest_names(tmp_path: Path) -> None:
    folder = sample_path("emoji")
    done = run("encode", folder, "--encoder", "all-minilm-l6")
    assert done.returncode == 1
    assert "all-minilm-l6-v2" in one_line(done)


def test_a_dataset_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("sku,junk\na,1\nb,2\na,3\n")
    started = run("init", "mine", cwd=tmp_path)
    assert started.returncode == 0
    assert len(started.stdout.splitlines()) == 1  # a command that can be copied
    command = ["build", "mine", "--from", "n.csv", "--card", "mine/card.md", "--out", "out"]
    bad = run(*command, "--map", "id=sku", cwd=tmp_path)
    assert bad.returncode == 1
    assert "n.csv, column sku, row 3: id 'a' is already in row 1" in one_line(bad)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "n.csv"]
    (tmp_path / "n.csv").write_text("sku,junk\na,1\nb,2\n")
    done = run(*command, "--map", "id=sku", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "left out: junk" in done.stdout
    assert run("validate", "out", cwd=tmp_path).returncode == 0
    for usage in (["--from", "n.csv"], ["--edges", "n.csv"], [*command[2:], "--map", "id"]):
        assert run("build", "mine", *usage, cwd=tmp_path).returncode == 2
