"""An interrupted run goes on at the last finished shard and gives the bytes of one that was not."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import maghub
from maghub import registry
from maghub.cli.app import app
from maghub.encoding import job, run, working
from maghub.errors import MaghubError
from maghub.spec import read_spec
from tests.helpers import stand_in
from tests.helpers.graphs import files_of, random_toy, write_toy
from tests.helpers.stand_in import LOG, StandIn

ROOT = Path(__file__).resolve().parents[2]
NODES = 2600  # three shards
WORK = ".encode-stand-in"
CONFIG = "embeddings-stand-in"
ENCODE = """
import sys
import maghub
from maghub import registry
from maghub.cli.app import app
from tests.helpers.stand_in import StandIn
registry.get = lambda group, name: StandIn
maghub.encode(sys.argv[1], "stand-in")
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder without vectors; it is stored split by split, so not in node order."""
    folder = tmp_path_factory.mktemp("resume") / "toy"
    toy = random_toy(NODES, seed=3)
    toy.vectors = {}
    write_toy(toy, folder)
    return folder


@pytest.fixture(scope="module")
def whole(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of an uninterrupted run."""
    folder = Path(shutil.copytree(plain, tmp_path_factory.mktemp("whole") / "toy"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "get", lambda group, name: StandIn)
        maghub.encode(folder, "stand-in")
    report = maghub.validate(folder)
    assert report.ok, report.problems
    return files_of(folder)


@pytest.fixture
def toy(plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "get", lambda group, name: StandIn)
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    return Path(shutil.copytree(plain, tmp_path / "toy"))


def inputs_seen(toy: Path) -> int:
    """Texts and images that encoders were given, over all runs."""
    log = toy.parent / "log"
    if not log.exists():
        return 0
    return sum(int(line.split()[1]) for line in log.read_text().splitlines())


def shards(toy: Path) -> list[str]:
    return sorted(path.name for path in toy.glob(f"{WORK}/*/*.arrow"))


def published(toy: Path) -> dict[str, bytes]:
    """The files of a folder without those of the working folder."""
    return {name: data for name, data in files_of(toy).items() if not name.startswith(WORK)}


def fail_at(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Make the n-th batch of texts fail."""
    calls = {"n": 0}
    real = StandIn.encode_texts

    def breaks(self: StandIn, texts: list[str]) -> np.ndarray:
        calls["n"] += 1
        if calls["n"] == call:
            raise OSError(28, "No space left on device")
        return real(self, texts)

    monkeypatch.setattr(StandIn, "encode_texts", breaks)


def interrupted(toy: Path, **options: object) -> None:
    """Leave a run that stopped after the first of three shards."""
    with pytest.MonkeyPatch.context() as patch:
        fail_at(patch, 220)
        with pytest.raises(MaghubError, match="No space left"):
            maghub.encode(toy, "stand-in", **options)
    assert shards(toy) == ["shard-000000.arrow"]


def test_row_i_is_node_i(toy: Path) -> None:
    maghub.encode(toy, "stand-in")
    mag = maghub.load(toy)
    vectors = mag.features("stand-in", "text")
    for node, text in enumerate(mag.nodes["text"]):
        digest = list(hashlib.sha256(text.encode()).digest()[:6]) if text else [0] * 6
        assert vectors[node, :6].tolist() == digest
    made = read_spec(toy).encoders[-1]
    assert made.truncated_texts == sum(len(text) > 20 for text in mag.nodes["text"])
    assert made.missing["text"] == sum(not text for text in mag.nodes["text"])
    assert f"| {made.truncated_texts:,} |" in (toy / "README.md").read_text("utf-8")


def test_lengths_in_tokens_are_those_of_all_texts(toy: Path) -> None:
    maghub.encode(toy, "stand-in")
    lengths = sorted(len(text) for text in maghub.load(toy).nodes["text"] if text)
    made = read_spec(toy).encoders[-1].text_tokens
    assert made is not None

    def least(share: float) -> int:  # the least length that so many texts do not exceed
        return lengths[math.ceil(share * len(lengths)) - 1]

    assert (made.texts, made.max) == (len(lengths), lengths[-1])
    assert (made.p50, made.p95) == (least(0.5), least(0.95))
    assert made.mean == pytest.approx(statistics.mean(lengths), abs=0.005)
    shown = f"| {made.mean:,.1f}, {made.p50}, {made.p95}, {made.max} (reads 20) |"
    assert shown in (toy / "README.md").read_text("utf-8")


def test_an_encoder_of_pictures_counts_no_tokens(toy: Path) -> None:
    maghub.encode(toy, "stand-in", ["image"])
    made = read_spec(toy).encoders[-1]
    assert (made.text_tokens, made.truncated_texts) == (None, None)


def test_a_shard_of_an_older_maghub_is_one_line(toy: Path) -> None:
    interrupted(toy)
    (shard,) = toy.glob(f"{WORK}/*/*.arrow")
    batch = pa.ipc.open_file(shard.read_bytes()).get_batch(0).replace_schema_metadata({})
    with pa.ipc.new_file(str(shard), batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(MaghubError, match="older maghub") as caught:
        maghub.encode(toy, "stand-in")
    assert "--no-resume" in caught.value.line()
    maghub.encode(toy, "stand-in", resume=False)


@pytest.mark.integration
def test_killed_run_resumes_and_gives_the_same_bytes(toy: Path, whole: dict[str, bytes]) -> None:
    before = files_of(toy)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), stand_in.DELAY: "0.01"}
    command = [sys.executable, "-c", ENCODE, str(toy)]
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        deadline = time.monotonic() + 120
        while not shards(toy) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    finally:
        process.kill()
        process.wait()
    finished = len(shards(toy))
    assert 1 <= finished < 3
    assert published(toy) == before
    assert maghub.validate(toy).ok
    (toy.parent / "log").unlink()
    maghub.encode(toy, "stand-in")
    assert files_of(toy) == whole
    assert encoded_share(toy) == pytest.approx(1 - finished * 1024 / NODES, abs=0.02)


def encoded_share(toy: Path) -> float:
    """Inputs that the last run encoded, as a share of those of a run from the beginning."""
    last = inputs_seen(toy)
    maghub.encode(toy, "stand-in")
    return last / (inputs_seen(toy) - last)


def test_an_error_keeps_finished_shards_and_encodes_them_once(
    toy: Path, whole: dict[str, bytes]
) -> None:
    interrupted(toy)
    (toy.parent / "log").unlink()
    maghub.encode(toy, "stand-in")
    assert files_of(toy) == whole
    assert encoded_share(toy) == pytest.approx(1 - 1024 / NODES, abs=0.02)
    assert files_of(toy) == whole


def test_no_resume_starts_anew(toy: Path, whole: dict[str, bytes]) -> None:
    interrupted(toy)
    (toy.parent / "log").unlink()
    maghub.encode(toy, "stand-in", resume=False)
    assert files_of(toy) == whole
    assert encoded_share(toy) == 1


@pytest.mark.parametrize(
    "other", [{"batch_size": 16}, {"modalities": ["text"]}, {"projection": 4}], ids=str
)
def test_shards_of_another_plan_are_thrown_away(
    toy: Path, whole: dict[str, bytes], other: dict[str, object]
) -> None:
    interrupted(toy)
    spec = maghub.encode(toy, "stand-in", **other)
    clean = Path(shutil.copytree(toy, toy.parent / "clean"))
    maghub.encode(clean, "stand-in", resume=False, **other)
    assert published(clean) == published(toy)
    made = spec.encoders[-1]
    assert made.batch_size == other.get("batch_size", 8)
    assert (made.projection is not None) == ("projection" in other)
    maghub.encode(toy, "stand-in")
    vectors = files_of(toy)[f"{CONFIG}/full-00000-of-00001.parquet"]
    assert vectors == whole[f"{CONFIG}/full-00000-of-00001.parquet"]


def test_changed_inputs_are_another_plan(toy: Path) -> None:
    interrupted(toy)
    stored = working.stored_plan(toy / WORK / CONFIG)
    assert stored is not None
    other = stored.model_copy(update={"inputs": ("0" * 64,)})
    store = working.shard_store(toy / WORK, other)
    assert shards(toy) == []
    assert len(list(store.pending())) == 3


def test_auto_is_resolved_once(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maghub.encoding.engine.automatic", lambda model, modalities: 5)
    interrupted(toy)
    monkeypatch.setattr("maghub.encoding.engine.automatic", lambda model, modalities: 7)
    spec = maghub.encode(toy, "stand-in")
    assert spec.encoders[-1].batch_size == 5


def test_inputs_that_are_not_those_of_the_spec_are_refused(toy: Path) -> None:
    path = next(entry.path for entry in read_spec(toy).config("nodes").files)
    table = pq.read_table(toy / path)
    pq.write_table(table.slice(0, 3), toy / path)
    with pytest.raises(MaghubError, match="checksum"):
        maghub.encode(toy, "stand-in")


def test_a_vector_that_is_not_finite_names_the_node_and_leaves_the_folder(
    toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_of(toy)
    mag = maghub.load(toy)
    node = 37
    text = mag.nodes[node]["text"]

    def encode(self: StandIn, texts: list[str]) -> np.ndarray:
        return np.asarray([[np.nan if t == text else 1.0] * 8 for t in texts], np.float32)

    monkeypatch.setattr(StandIn, "encode_texts", encode)
    same = [i for i, other in enumerate(mag.nodes["text"]) if other == text]
    with pytest.raises(MaghubError, match="not finite") as caught:
        maghub.encode(toy, "stand-in")
    assert caught.value.where in [f"node {i}, text" for i in same]
    assert published(toy) == before


def test_killed_after_the_config_is_in_place_heals(
    toy: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(run, "write_metadata", _stop)
        with pytest.raises(KeyboardInterrupt):
            maghub.encode(toy, "stand-in")
    assert shards(toy)
    maghub.encode(toy, "stand-in")
    assert files_of(toy) == whole


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_was_written_is_read_back(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files_of(toy)
    real = job.write_config

    def damaged(folder: Path, table: object) -> object:
        config = real(folder, table)
        path = folder / config.files[0].path
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        return config

    monkeypatch.setattr(job, "write_config", damaged)
    with pytest.raises(MaghubError, match=r"encode it again|not a whole|checksum"):
        maghub.encode(toy, "stand-in")
    assert published(toy) == before


def test_two_runs_of_one_encoder_do_not_mix(toy: Path) -> None:
    (toy / WORK).mkdir()
    with (
        working.locked(toy / WORK, wait=False),
        pytest.raises(MaghubError, match="another run"),
    ):
        maghub.encode(toy, "stand-in")


@pytest.mark.parametrize("size", [0, -3])
def test_a_batch_holds_at_least_one(toy: Path, size: int) -> None:
    with pytest.raises(MaghubError, match="cannot hold"):
        maghub.encode(toy, "stand-in", batch_size=size)


def test_unknown_engine_gives_the_nearest(toy: Path) -> None:
    with pytest.raises(MaghubError, match="Did you mean ray"):
        maghub.encode(toy, "stand-in", engine="rey")


def test_command(toy: Path, whole: dict[str, bytes]) -> None:
    runner = CliRunner()
    command = ["encode", str(toy), "--encoder", "stand-in"]
    done = runner.invoke(app, [*command, "--batch-size", "4", "--modality", "text", "--json"])
    assert done.exit_code == 0, done.output
    shown = json.loads(done.output)
    assert (shown["batch_size"], shown["modalities"], shown["compute"]) == (4, ["text"], "float32")
    again = runner.invoke(app, [*command, "--no-resume", "--device", "cpu", "--engine", "local"])
    assert again.exit_code == 0, again.output
    assert files_of(toy) == whole
    projected = runner.invoke(app, [*command, "--project", "4"])
    assert projected.exit_code == 0
    assert maghub.load(toy).features("stand-in-proj4", "image").shape == (NODES, 4)
    assert maghub.validate(toy).ok
    for wrong in ("0", "many", "-1"):
        assert runner.invoke(app, [*command, f"--batch-size={wrong}"]).exit_code == 2
