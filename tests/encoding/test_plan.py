"""The plan is a pure function: shards cover the rows once, batches hold rows of like length."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maghub import layout
from maghub.encoding import plan as plans
from maghub.encoding.batch_size import automatic, largest
from maghub.encoding.plan import Plan, batches, shard_rows
from maghub.encoding.projection import Projected
from maghub.errors import MaghubError
from maghub.images import decode, normalise
from maghub.reader import RowReader, read_columns
from maghub.spec import read_spec
from tests.fixtures import pictures
from tests.helpers.stand_in import StandIn

TEXTS = [f"text {i}" for i in range(300)]


def plan(rows: int = 2500, **changes: object) -> Plan:
    fields = {
        "config": "embeddings-stand-in",
        "inputs": ("a" * 64,),
        "rows": rows,
        "shard_rows": 1024,
        "batch_size": 8,
        "auto": True,
        "modalities": ("text",),
        "encoder": StandIn.spec,
        "versions": {"hashlib": "1"},
        "device": "cpu",
        "threads": 2,
    }
    return Plan.model_validate({**fields, **changes})


@given(st.integers(1, 5000), st.integers(1, 700))
@settings(deadline=None)
def test_shards_cover_the_rows_once_in_order(rows: int, size: int) -> None:
    made = list(plan(rows, shard_rows=size).shards())
    assert [shard.number for shard in made] == list(range(len(made)))
    covered = np.concatenate([np.arange(shard.start, shard.stop) for shard in made])
    np.testing.assert_array_equal(covered, np.arange(rows))
    assert all(shard.stop - shard.start == size for shard in made[:-1])
    assert made == [plan(rows, shard_rows=size).shard(i) for i in range(len(made))]


@given(st.lists(st.integers(0, 400), min_size=1, max_size=200), st.integers(1, 40))
@settings(deadline=None)
def test_batches_hold_rows_of_like_length(lengths: list[int], size: int) -> None:
    array = np.asarray(lengths)
    made = list(batches(array, size))
    order = np.concatenate(made)
    assert sorted(order) == list(range(len(lengths)))
    assert (np.diff(array[order]) >= 0).all()
    assert [len(batch) for batch in made[:-1]] == [size] * (len(made) - 1)
    padded = sum(int(array[batch].max()) * len(batch) for batch in made)
    stored = [array[i : i + size] for i in range(0, len(array), size)]
    assert padded <= sum(int(batch.max()) * len(batch) for batch in stored)
    for one, two in zip(made, batches(array, size), strict=True):
        np.testing.assert_array_equal(one, two)


def test_rows_of_equal_length_keep_their_order() -> None:
    np.testing.assert_array_equal(np.concatenate(list(batches(np.zeros(9, int), 4))), np.arange(9))


def test_a_shard_holds_enough_batches() -> None:
    assert shard_rows(1) == plans.SHARD_ROWS
    assert shard_rows(512) == plans.BATCHES_PER_SHARD * 512


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": ("b" * 64,)},
        {"batch_size": 9},
        {"modalities": ("image",)},
        {"encoder": StandIn.spec.model_copy(update={"revision": "2"})},
        {"encoder": StandIn.spec.model_copy(update={"compute": "bfloat16"})},
        {"versions": {"hashlib": "2"}},
        {"device": "cuda"},
        {"threads": 1},
        {"projection": "Gaussian"},
    ],
)
def test_whatever_changes_the_bytes_is_another_plan(change: dict[str, object]) -> None:
    assert plan() == plan()
    assert Plan.model_validate_json(plan().model_dump_json()) == plan()
    assert plan(**change) != plan()


def test_auto_batch_size() -> None:
    assert automatic(StandIn(), ("text", "image")) == StandIn.spec.batch_size
    assert largest(32, lambda size: size <= 200) == 128
    assert largest(32, lambda size: size <= 9) == 8
    assert largest(32, lambda size: True) == 1024
    assert largest(32, lambda size: False) == 1


def test_row_ranges_are_those_of_the_whole_table(folder: Path) -> None:
    nodes = read_spec(folder).config(layout.NODES)
    whole = read_columns(folder, nodes, [layout.NODE_ID, layout.TEXT])
    reader = RowReader(folder, nodes, [layout.NODE_ID, layout.TEXT])
    rng = np.random.default_rng(0)
    ranges = [(0, nodes.rows), *np.sort(rng.integers(0, nodes.rows + 1, (30, 2))).tolist()]
    for start, stop in ranges:
        rows = [row for table in reader(start, stop) for row in table.to_pylist()]
        assert rows == whole.slice(start, stop - start).to_pylist()


@pytest.mark.parametrize(
    "kind",
    ["jpeg", "png", "gif", "grey", "grey_16", "palette", "rgba", "rotated", "cmyk", "truncated"],
)
def test_decoded_images_are_those_of_the_pixel_rule(kind: str) -> None:
    data = getattr(pictures, kind)(3)
    image, published = decode(data), normalise(data).data
    if published is None:
        assert image is None
        return
    assert image is not None
    assert image.mode == "RGB"
    expected = np.asarray(PIL.Image.open(io.BytesIO(published)).convert("RGB"), dtype=int)
    lossy = 6 if kind in ("cmyk", "rotated") else 0  # these are published as new JPEGs
    assert np.abs(np.asarray(image, dtype=int) - expected).max() <= lossy


def test_projection_is_seeded_recorded_and_keeps_angles() -> None:
    class Unit(StandIn):
        spec = StandIn.spec.model_copy(
            update={"dim": {"text": 512, "image": 512}, "normalized": True}
        )

        def encode_texts(self, texts: list[str]) -> np.ndarray:
            x = np.random.default_rng(len(texts)).standard_normal((len(texts), 512))
            return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)

    one, two = Projected(Unit(), 256), Projected(Unit(), 256)
    vectors = one.encode_texts(TEXTS)
    np.testing.assert_array_equal(vectors, two.encode_texts(TEXTS))
    assert not np.array_equal(vectors, Projected(Unit(), 256, seed=1).encode_texts(TEXTS))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    before = Unit().encode_texts(TEXTS)
    assert np.abs(vectors @ vectors.T - before @ before.T).mean() < 0.06
    assert one.spec.name == "stand-in-proj256"
    assert one.spec.dim == {"text": 256, "image": 256}
    assert "seed 0" in one.projection
    with pytest.raises(MaghubError, match="cannot project"):
        Projected(Unit(), 512)
