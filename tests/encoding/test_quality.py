"""Every measure against an independent computation, and planted faults that must show."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import maghub
from maghub import layout
from maghub.cli.app import app
from maghub.errors import MaghubError, MissingExtra
from maghub.loading import sample_path
from maghub.quality import numbers, quality, tables, write_html, write_plot
from maghub.quality.report import EncoderQuality
from tests.helpers.graphs import ENCODER, random_toy, write_toy

ROWS, WIDTH = 700, 12


def matrix(seed: int = 0, rows: int = ROWS, width: int = WIDTH) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, width)).astype(np.float32)


def toy_with(folder: Path, text: np.ndarray, image: np.ndarray) -> Path:
    toy = random_toy(len(text), seed=5)
    toy.vectors = {layout.TEXT: text, layout.IMAGE: image}
    write_toy(toy, folder)
    return folder


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images near their texts; three equal texts, five rows without a text."""
    text = matrix(1)
    image = text + 0.5 * matrix(2)
    text[10] = text[11] = text[12]
    text[20:25] = 0
    return toy_with(tmp_path_factory.mktemp("quality") / "toy", text, image)


@pytest.fixture(scope="module")
def report(planted: Path) -> EncoderQuality:
    (found,) = quality(planted)
    return found


def test_effective_rank_is_that_of_a_full_svd() -> None:
    x = matrix(3) @ np.diag(np.linspace(0.01, 3, WIDTH)).astype(np.float32)
    values = np.linalg.svd(x - x.mean(0), compute_uv=False)
    np.testing.assert_allclose(numbers.singular_values(x), values, rtol=1e-4)
    shares = values / values.sum()
    expected = np.exp(-(shares * np.log(shares)).sum())
    assert numbers.effective_rank(numbers.singular_values(x)) == pytest.approx(expected, rel=1e-4)
    line = np.outer(np.arange(50.0), np.ones(WIDTH))
    assert numbers.effective_rank(numbers.singular_values(line)) == pytest.approx(1, abs=1e-3)
    assert numbers.effective_rank(numbers.singular_values(np.ones((9, 4)))) == 0


def test_label_agreement_is_that_of_scikit_learn() -> None:
    neighbors = pytest.importorskip("sklearn.neighbors")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, ROWS)
    x = numbers.unit(matrix(4) + 2 * np.eye(WIDTH, dtype=np.float32)[labels])
    found = numbers.neighbours(x, labels, 5)
    assert found is not None
    model = neighbors.NearestNeighbors(n_neighbors=5, metric="cosine").fit(x)
    nearest = model.kneighbors(return_distance=False)
    agreement = (labels[nearest] == labels[:, None]).mean()
    votes = np.stack([(labels[nearest] == c).sum(1) for c in range(4)], axis=1)
    assert found.agreement == pytest.approx(agreement, abs=1e-9)
    assert found.accuracy == pytest.approx((votes.argmax(1) == labels).mean(), abs=1e-9)
    assert found.majority == np.bincount(labels).max() / ROWS
    assert found.agreement > found.chance + 0.2
    shuffled = numbers.neighbours(x, rng.permutation(labels), 5)
    assert shuffled is not None
    assert shuffled.agreement == pytest.approx(found.chance, abs=0.05)
    assert numbers.neighbours(x[:6], labels[:6], 5) is None


def test_alignment_is_that_of_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    texts, images = numbers.unit(matrix(5)), numbers.unit(matrix(5) + matrix(6))
    found = numbers.alignment(texts, images, rng)
    assert found is not None
    scores = texts.astype(np.float64) @ images.T.astype(np.float64)
    for way, table in ((found.text_to_image, scores), (found.image_to_text, scores.T)):
        ranks = np.asarray([1 + (row > row[i]).sum() for i, row in enumerate(table)])
        assert way.recall_at_1 == pytest.approx((ranks == 1).mean(), abs=2e-3)
        assert way.mrr == pytest.approx((1 / ranks).mean(), abs=2e-3)
    assert found.paired == pytest.approx(np.diag(scores).mean(), abs=1e-5)
    assert found.shuffled == pytest.approx(0, abs=0.05)


def test_ties_count_as_the_mean_of_best_and_worst_rank() -> None:
    same = numbers.unit(np.ones((4, 3), np.float32))
    found = numbers.alignment(same, same, np.random.default_rng(0))
    assert found is not None
    assert found.text_to_image.recall_at_1 == 0.5
    assert found.text_to_image.mrr == pytest.approx((1 + 1 / 4) / 2)


def test_planted_faults_show(report: EncoderQuality) -> None:
    text, image = report.columns
    assert (text.without, image.without) == (5, 0)
    assert (text.duplicates, text.largest_group) == (2, 3)
    assert (image.duplicates, image.largest_group) == (0, 1)
    assert text.measured == ROWS - 5
    assert not text.sampled
    assert text.effective_rank > WIDTH - 1
    assert report.alignment is not None
    assert report.alignment.pairs == ROWS - 5
    assert report.alignment.paired > 0.8
    assert abs(report.alignment.shuffled) < 0.1
    assert report.alignment.text_to_image.recall_at_1 > 0.6


def test_zero_rows_that_are_declared_present_are_counted(tmp_path: Path) -> None:
    from tests.helpers.folders import EMBEDDINGS, change_table, with_column

    x = matrix(1, 60)
    x[7] = x[30] = 0
    folder = toy_with(tmp_path / "toy", x, matrix(2, 60))
    change_table(folder, EMBEDDINGS, with_column("has_text", pa.array([True] * 60)))
    text = quality(folder)[0].columns[0]
    assert (text.without, text.zeros, text.measured) == (0, 2, 58)


def test_a_sample_is_seeded_and_recorded(planted: Path, report: EncoderQuality) -> None:
    one, same = quality(planted, sample_rows=200), quality(planted, sample_rows=200)
    other = quality(planted, sample_rows=200, seed=1)
    assert one == same
    assert one != other
    text = one[0].columns[0]
    assert text.sampled
    assert text.measured == one[0].sample_rows == 200
    assert text.without == 5
    assert text.norms["mean"] == pytest.approx(report.columns[0].norms["mean"], rel=0.05)
    assert quality(planted) == [report]


def test_encoders_of_another_width_have_no_alignment(tmp_path: Path) -> None:
    folder = toy_with(tmp_path / "toy", matrix(1, 40), matrix(2, 40, 5))
    assert quality(folder)[0].alignment is None


def test_pictures_and_page(report: EncoderQuality, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("a.png", "b.svg", "c.pdf"):
        write_plot([report], tmp_path / name)
        data = (tmp_path / name).read_bytes()
        write_plot([report], tmp_path / f"again-{name}")
        assert (tmp_path / f"again-{name}").read_bytes() == data
        assert len(data) > 5000
    write_html([report], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "data:image/png;base64," in page
    for _, header, rows in tables([report]):
        assert all(f"<th>{name}</th>" in page for name in header)
        assert str(rows[0][0]) in page
    with pytest.raises(MaghubError, match="End it with"):
        write_plot([report], tmp_path / "a.docx")


def test_without_matplotlib_the_extra_is_named(
    report: EncoderQuality, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"maghub\[plot\]"):
        write_plot([report], tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_command(planted: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    done = runner.invoke(app, ["quality", str(planted), "--encoder", ENCODER, "--json"])
    assert done.exit_code == 0, done.output
    (shown,) = json.loads(done.output)
    assert EncoderQuality.model_validate_json(json.dumps(shown)) == quality(planted)[0]
    plain = runner.invoke(app, ["quality", str(planted)])
    assert plain.exit_code == 0
    assert "text against image" in plain.output
    assert "labels of the nearest rows" in plain.output


def test_wrong_names_say_what_there_is(planted: Path) -> None:
    with pytest.raises(MaghubError, match=f"Did you mean {ENCODER}"):
        quality(planted, "toy-encodr")
    with pytest.raises(MaghubError, match="holds no vectors"):
        quality("emoji")


@pytest.mark.integration
def test_emoji_names_tell_the_group(tmp_path: Path) -> None:
    """5 nearest neighbours, leave one out, among 1,911 emoji: 0.874 measured, majority 0.202."""
    source = sample_path("emoji")
    assert source is not None
    folder = Path(shutil.copytree(source, tmp_path / "emoji"))
    maghub.encode(folder, "all-minilm-l6-v2")
    (column,) = quality(folder, "all-minilm-l6-v2")[0].columns
    found = column.neighbours
    assert found is not None
    assert found.rows == 1911
    assert found.majority < 0.25
    assert found.accuracy > 0.8
    assert found.agreement > 0.7 > found.chance + 0.5
    assert column.norms["p0"] == pytest.approx(1, abs=1e-3)
