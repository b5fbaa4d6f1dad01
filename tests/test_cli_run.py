"""``maghub run`` as a user types it."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch_geometric")

import maghub
from maghub.cli.run import (
    parse_encoders,
    parse_modalities,
    parse_noise,
    parse_seeds,
    parse_settings,
)
from maghub.errors import MaghubError
from maghub.results import read_records
from tests.helpers.cli import fails, invoke
from tests.helpers.graphs import random_toy, write_toy
from tests.helpers.planted import planted

RUN = ["--set", "epochs=2", "--set", "hidden=8", "--set", "layers=2", "--device", "cpu"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("-1", "seeds '-1' are not whole numbers from 0"),
        ("5,5", "seeds '5,5' name one twice"),
        ("", "are not whole"),
    ],
)
def test_seeds_that_are_none(text: str, line: str) -> None:
    with pytest.raises(MaghubError, match=re.escape(line)):
        parse_seeds(text)


def test_an_opened_dataset_is_run_as_its_folder_is(tmp_path: Path) -> None:
    planted(tmp_path / "toy")
    settings = {"epochs": 2, "hidden": 8, "layers": 2}
    options = {"seeds": 1, "settings": settings, "device": "cpu"}
    (named,) = maghub.run("gcn", tmp_path / "toy", **options)
    (opened,) = maghub.run("gcn", maghub.load(tmp_path / "toy"), **options)
    assert opened.metrics == named.metrics
    assert opened.dataset == named.dataset


def test_a_record_per_seed_and_a_table(tmp_path: Path) -> None:
    planted(tmp_path / "toy")
    out = tmp_path / "results.jsonl"
    text = invoke("run", "gcn", "--dataset", tmp_path / "toy", "--seeds", 2, "--out", out, *RUN)
    assert "gcn on toy, node-classification" in text
    assert "accuracy" in text
    records = read_records([out])
    assert [record.seed for record in records] == [0, 1]
    assert records[0].task_settings["epochs"] == 2
    assert records[0].encoders == {"text": "toy-encoder", "image": "toy-encoder"}
    assert records[0].peak_cpu_bytes
    more = ["--seeds", "7,", "--noise", "labels=0.5", "--modalities", "text", "--json"]
    shown = json.loads(
        invoke("run", "gcn", "--dataset", tmp_path / "toy", "--out", out, *more, *RUN)
    )
    assert [record["seed"] for record in shown] == [7]
    assert shown[0]["noise"] == {"labels": 0.5}
    assert shown[0]["encoders"] == {"text": "toy-encoder"}
    assert len(read_records([out])) == 3


def test_logs_go_where_they_are_wanted(tmp_path: Path) -> None:
    planted(tmp_path / "toy")
    work = ["--work", tmp_path / "work", "--out", tmp_path / "r.jsonl", "--seeds", 1]
    invoke("run", "mlp", "--dataset", tmp_path / "toy", *work, *RUN)
    (log,) = (tmp_path / "work").glob("*.csv")
    assert len(log.read_text().splitlines()) == 3


def test_names_that_do_not_exist_give_the_nearest(tmp_path: Path) -> None:
    planted(tmp_path / "toy")
    folder, out = tmp_path / "toy", tmp_path / "none.jsonl"
    base = ["--out", out, "--seeds", 1, *RUN]
    for arguments, line in [
        (("gcnn", "--dataset", folder), "unknown model 'gcnn'. Did you mean gcn"),
        (("gcn", "--dataset", folder, "--task", "link-predict"), "Did you mean link-prediction"),
        (("gcn", "--dataset", folder, "--encoder", "toy-encodr"), "Did you mean toy-encoder"),
        (("gcn", "--dataset", folder, "--modalities", "txt"), "Did you mean text"),
        (("gcn", "--dataset", folder, "--set", "hiddn=3"), "Did you mean hidden"),
        (("gcn", "--dataset", folder, "--preset", "planetoit"), "Did you mean planetoid"),
        (("gcn", "--dataset", folder, "--noise", "texts=1"), "Did you mean text"),
        (("gcn", "--dataset", "corra"), "Did you mean cora"),
    ]:
        assert line in fails("run", *arguments, *base), arguments
    assert not out.exists()


def test_a_folder_without_vectors_names_the_command_that_makes_them(tmp_path: Path) -> None:
    toy = random_toy()
    toy.vectors = {}
    write_toy(toy, tmp_path / "toy")
    line = fails("run", "gcn", "--dataset", tmp_path / "toy", "--seeds", 1, *RUN)
    assert "maghub encode" in line
    assert "--encoder all-minilm-l6-v2" in line


def test_what_is_typed_is_parsed_or_refused_in_one_line() -> None:
    assert parse_seeds("3") == 3
    assert parse_seeds("5,7") == [5, 7]
    assert parse_encoders("a") == "a"
    assert parse_encoders("text=a,image=b") == {"text": "a", "image": "b"}
    assert parse_settings(["a=1", "b=null", "c=x", "d=1e-3", "e=true"]) == {
        "a": 1,
        "b": None,
        "c": "x",
        "d": "1e-3",
        "e": True,
    }
    assert parse_noise(["text=0.3", "edges=2"]) == {"text": 0.3, "edges": 2.0}
    assert parse_modalities("text, image,") == ["text", "image"]
    for parse, text in [
        (parse_modalities, ","),
        (parse_modalities, ""),
        (parse_seeds, "many"),
        (parse_seeds, ""),
        (parse_encoders, "text=,image=b"),
        (parse_settings, ["hidden"]),
        (parse_noise, ["text"]),
        (parse_noise, ["text=much"]),
    ]:
        with pytest.raises(MaghubError):
            parse(text)  # type: ignore[operator]
