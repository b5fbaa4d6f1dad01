"""Axes and drawings: where numbers land on the board."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from maghub.reporting import Block, summarise, svg
from maghub.reporting.charts import MOST_BARS, bars, lines, scatter, sweeps
from tests.reporting.records import record, seeds

NUMBERS = st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-6)


@settings(max_examples=200, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=10), st.booleans())
def test_an_axis_covers_its_values_with_few_round_ticks(values: list[float], zero: bool) -> None:
    axis = svg.linear(values, 10.0, 110.0, zero=zero)
    slack = 1e-6 * max(1.0, *map(abs, values))
    assert axis.low <= min(values) + slack
    assert axis.high >= max(values) - slack
    assert not zero or axis.low <= 0 <= axis.high
    assert 2 <= len(axis.ticks) <= 8
    assert list(axis.ticks) == sorted(set(axis.ticks))
    places = [axis.at(v) for v in sorted(values)]
    assert places == sorted(places)
    assert (axis.at(axis.low), axis.at(axis.high)) == (10.0, 110.0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=10))
def test_a_wide_span_is_logarithmic(values: list[float]) -> None:
    assume(max(values) / min(values) > 20)
    axis = svg.scale(values, 0.0, 100.0)
    assert axis.log
    assert axis.low <= min(values) * (1 + 1e-9)
    assert axis.high >= max(values) * (1 - 1e-9)
    middle = math.sqrt(axis.low * axis.high)
    assert axis.at(middle) == pytest.approx(50.0)


def test_thirty_series_look_different() -> None:
    assert len({(svg.colour(i), svg.shape(i)) for i in range(30)}) == 30


def one(records: list) -> Block:
    (block,) = summarise(records).blocks
    return block


def drawn(picture: str) -> ET.Element:
    return ET.fromstring(picture)


def test_bars_are_as_long_as_their_values_and_errors_as_the_deviation() -> None:
    records = [*seeds(0.2, 0.4, model="a"), *seeds(0.6, 0.6, model="b"), *seeds(0.15, model="c")]
    block = one(records)
    chart = bars(block, block.measures[0], "x")
    assert chart is not None
    root = drawn(chart.picture)
    widths = [float(bar.get("width", "nan")) for bar in root.iter("rect")]
    assert widths == pytest.approx([0.5 * widths[1], widths[1], 0.25 * widths[1]], abs=0.2)
    spans = [
        float(line.get("x2", "nan")) - float(line.get("x1", "nan"))
        for line in root.iter("line")
        if line.get("class") == "error" and line.get("y1") == line.get("y2")
    ]
    deviation = math.sqrt(0.02)  # of 0.2 and 0.4, n - 1
    assert spans == pytest.approx([2 * deviation / 0.6 * widths[1], 0.0], abs=0.3)
    assert "one standard deviation" in chart.caption


def test_negative_values_go_to_the_left_of_zero() -> None:
    records = [
        record(model="a", metrics={"ari": -0.1}),
        record(model="b", metrics={"ari": 0.1}),
    ]
    block = one(records)
    chart = bars(block, block.measures[0], "x")
    assert chart is not None
    left, right = (float(bar.get("x", "nan")) for bar in drawn(chart.picture).iter("rect"))
    assert left < right


def test_the_papers_number_is_a_diamond_and_flagged_rows_are_grey() -> None:
    block = one([*seeds(0.5, 0.5), *seeds(0.6, dataset={"split": "random-0"})])
    chart = bars(block, block.measures[0], "x")
    assert chart is not None
    root = drawn(chart.picture)
    assert [bar.get("fill") for bar in root.iter("rect")] == [svg.colour(0), svg.GREY]
    marks = [polygon.findtext("title") for polygon in root.iter("polygon")]
    assert marks == ["OpenMAG, Movies: 52.84 ± 0.40"] * 2
    assert "Diamond" in chart.caption
    assert "Grey" in chart.caption


def test_only_the_best_of_very_many_rows_get_a_bar() -> None:
    block = one([record(model=f"m{i:03}", accuracy=i / 1000) for i in range(300)])
    chart = bars(block, block.measures[0], "x")
    assert chart is not None
    titles = [bar.findtext("title") or "" for bar in drawn(chart.picture).iter("rect")]
    assert len(titles) == MOST_BARS
    assert titles[0].startswith("m299")
    assert f"{MOST_BARS} best of 300" in chart.caption


def test_a_sweep_is_a_line_through_its_shares_from_none_on() -> None:
    records = [
        *seeds(0.50, 0.52),
        *seeds(0.40, 0.42, noise={"text": 0.2}),
        *seeds(0.30, 0.32, noise={"text": 0.5}),
        *seeds(0.45, 0.47, noise={"image": 0.2, "text": 0.2}),
        *seeds(0.45, 0.47, noise={"image": 0.1, "text": 0.2}),
        *seeds(0.1, 0.2, noise={"text": 0.5}, model="mlp"),
        *seeds(0.9, noise={"text": 0.3}, versions={"torch": "2.10"}),
    ]
    block = one(records)
    found = sweeps(block)
    assert {kind: [[p[0] for p in s.points] for s in own] for kind, own in found.items()} == {
        "image + text": [[0.0, 20.0]],
        "text": [[0.0, 20.0, 50.0]],
    }
    chart = lines(block, "text", found["text"], block.measures[0], "x")
    assert chart is not None
    root = drawn(chart.picture)
    (path,) = root.iter("polyline")
    points = [tuple(map(float, p.split(","))) for p in (path.get("points") or "").split()]
    xs, ys = zip(*points, strict=True)
    assert (xs[2] - xs[0]) == pytest.approx(2.5 * (xs[1] - xs[0]), abs=0.3)
    assert (ys[2] - ys[0]) == pytest.approx(2 * (ys[1] - ys[0]), abs=0.3)
    assert ys[0] < ys[1] < ys[2]  # lower on the picture: larger y
    bars_up = [
        e for e in root.iter("line") if e.get("class") == "error" and e.get("x1") == e.get("x2")
    ]
    assert len(bars_up) == 3


def test_time_against_memory_shows_which_memory() -> None:
    cpu = seeds(0.5, 0.5, model="mlp")
    gpu = seeds(0.5, 0.5, model="gcn", peak_gpu_bytes=2 * 2**30, device="cuda")
    for records, words in (
        (cpu, "(memory of the process)"),
        (gpu, "(GPU memory)"),
        ([*cpu, *gpu], "hollow: memory of the process"),
    ):
        chart = scatter(one(records), "x")
        assert chart is not None
        assert words in chart.caption
        fills = {
            e.get("fill") for e in drawn(chart.picture).iter() if e.tag in ("circle", "polygon")
        }
        assert ("none" in fills) == (records is not gpu)
    assert scatter(one([record(peak_cpu_bytes=None)]), "x") is None


def test_a_metric_without_values_has_no_picture() -> None:
    block = one([record(metrics={"accuracy": math.nan})])
    assert bars(block, block.measures[0], "x") is None
