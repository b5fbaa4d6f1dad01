"""Sets: counts, splits, and the same rows whatever the workers."""

from __future__ import annotations

import itertools
import multiprocessing
import tracemalloc
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import pyarrow as pa
import pytest

from maghub.clegr.generate import (
    PART_GRAPHS,
    Part,
    SetConfig,
    generate,
    generate_part,
    make_graph,
    merge_counts,
    split_of_graph,
)
from maghub.errors import MaghubError


def rows_by_split(parts: list[Part], graphs: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    for part in parts:
        for graph_id in part.questions["graph_id"].to_pylist():
            counts[split_of_graph(int(graph_id.rsplit("-", 1)[1]), graphs)] += 1
    return counts


def test_default_compat_sets_have_the_papers_counts() -> None:
    facts = list(generate(SetConfig(variant="compat")))
    assert rows_by_split(facts, 500) == {"train": 13_200, "validation": 4_400, "test": 4_400}
    assert sum(counts.lost for counts in merge_counts(facts).values()) == 0
    reasoning = list(generate(SetConfig(question_set="reasoning", variant="compat")))
    total = sum(part.questions.num_rows for part in reasoning)
    assert 32_000 <= total <= 32_700
    counts = merge_counts(reasoning)
    assert len(counts) == 34
    assert total == 34_000 - sum(c.lost for c in counts.values())
    assert all(c.instances == 1000 for c in counts.values())
    assert all(c.draws == c.discarded + c.instances - c.lost for c in counts.values())
    for parts in (facts, reasoning):
        ids = [key for part in parts for key in part.questions["question_id"].to_pylist()]
        assert len(set(ids)) == len(ids)
        assert sum(part.graphs.num_rows for part in parts) == 500


def test_well_posed_sets_lose_few_questions() -> None:
    for question_set, least in (("facts", 22_000), ("reasoning", 33_500)):
        parts = list(generate(SetConfig(question_set=question_set)))
        assert sum(part.questions.num_rows for part in parts) >= least
        assert sum(counts.discarded for counts in merge_counts(parts).values()) > 0


def test_splits_go_by_graph_three_to_one_to_one() -> None:
    for graphs in range(1, 60):
        counts = Counter(split_of_graph(number, graphs) for number in range(graphs))
        assert abs(counts["train"] - 0.6 * graphs) < 1
        assert abs(counts["validation"] - 0.2 * graphs) < 1
    assert split_of_graph(0, 1) == "train"
    sizes = Counter(split_of_graph(number, 500) for number in range(500))
    assert sizes == {"train": 300, "validation": 100, "test": 100}


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("domain", ["subway", "computer-networks"])
def test_rows_do_not_depend_on_workers(method: str, domain: str) -> None:
    config = SetConfig(domain, "reasoning", graphs=2 * PART_GRAPHS + 3, seed=9)
    alone = list(generate(config, workers=1))
    context = multiprocessing.get_context(method)
    for workers in (1, 2):
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            parts = list(pool.map(generate_part, itertools.repeat(config), [2, 0, 1]))
        for part, same in zip(parts, (alone[2], alone[0], alone[1]), strict=True):
            assert serialised(part) == serialised(same)
            assert part.counts == same.counts


def test_generate_with_workers_keeps_the_order() -> None:
    config = SetConfig(graphs=60, variant="compat")
    alone, both = list(generate(config)), list(generate(config, workers=2))
    assert [serialised(part) for part in alone] == [serialised(part) for part in both]
    with pytest.raises(MaghubError, match="0 workers"):
        list(generate(config, workers=0))


def serialised(part: Part) -> bytes:
    sink = pa.BufferOutputStream()
    for table in (part.graphs, part.questions):
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return bytes(sink.getvalue())


def test_seeds_and_set_length() -> None:
    one = generate_part(SetConfig(graphs=5, seed=1), 0)
    assert one.questions.equals(generate_part(SetConfig(graphs=5, seed=1), 0).questions)
    assert not one.questions.equals(generate_part(SetConfig(graphs=5, seed=2), 0).questions)
    longer = generate_part(SetConfig(graphs=9, seed=1), 0)
    assert longer.questions.slice(0, one.questions.num_rows).equals(one.questions)
    for bad in (-1, 1):
        with pytest.raises(MaghubError, match="the set has no part"):
            generate_part(SetConfig(graphs=5), bad)
    with pytest.raises(MaghubError, match="the set has no graph 5"):
        make_graph(SetConfig(graphs=5), 5)


def test_memory_is_flat_in_the_number_of_graphs() -> None:
    peaks = []
    for graphs in (50, 300):
        tracemalloc.start()
        for part in generate(SetConfig(question_set="reasoning", graphs=graphs)):
            del part
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


def test_large_graphs_finish() -> None:
    """Three large maps with every reasoning template (the benchmark times a hundred)."""
    for domain in ("subway", "computer-networks"):
        part = generate_part(SetConfig(domain, "reasoning", "large", graphs=3), 0)
        assert part.graphs.num_rows == 3
        assert part.questions.num_rows > 3 * 2 * (29 if domain == "subway" else 9)


def test_absent_names_are_absent_and_true_templates_true() -> None:
    for int_names in (False, True):
        config = SetConfig(graphs=50, int_names=int_names)
        for part in generate(config):
            names = {
                row["graph_id"]: {node["name"] for node in row["nodes"]}
                for row in part.graphs.to_pylist()
            }
            for row in part.questions.to_pylist():
                kind, args = row["question_type"], row["arguments"]
                known = names[row["graph_id"]].issuperset(args)
                assert known == (kind != "StationExistence2")
                if kind == "StationAdjacentAlwaysTrue":
                    assert row["answer"] == "True"
