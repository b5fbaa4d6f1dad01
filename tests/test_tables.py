"""Configs made together part by part: one pass, counts summed, the same rows on every route."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Features, Value

from maghub.errors import MaghubError
from maghub.tables import AnyTable, Batch, MadeTable, Recipe, add_counts, in_memory
from maghub.writing import write_config, write_tables

NUMBER = Features({"number": Value("int64")})
SPLITS = {"train": ((0,), (1,), (2,)), "test": ((2,), (3,))}


@dataclass(frozen=True)
class Squares:
    """Part p: p + 1 numbers and as many squares; part 2 holds rows of both splits."""

    fail_at: int | None = None

    def __call__(self, part: int) -> Batch:
        if part == self.fail_at:
            raise MaghubError("part cannot be made", where=f"part {part}")
        numbers = list(range(10 * part, 11 * part + 1))
        cut = {0: len(numbers), 1: len(numbers), 2: 1, 3: 0}[part]
        rows = {
            config: {
                "train": pa.table({"number": pa.array(values[:cut], pa.int32())}),
                "test": pa.table({"number": pa.array(values[cut:], pa.int32())}),
            }
            for config, values in (("plain", numbers), ("squares", [n * n for n in numbers]))
        }
        return Batch(rows, {"made": {"parts": 1, "rows": {"plain": len(numbers)}}})


def tables(make: Squares) -> list[AnyTable]:
    recipe = Recipe(make, SPLITS)
    other = in_memory("other", "table", NUMBER, {"number": [7]})
    squares = MadeTable("squares", "table", NUMBER, recipe, target="plain")
    return [squares, other, MadeTable("plain", "table", NUMBER, recipe)]


def stored(folder: Path, config: str, split: str) -> list[int]:
    (file,) = (folder / config).glob(f"{split}-*.parquet")
    numbers: list[int] = pq.read_table(file)["number"].to_pylist()
    return numbers


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.integration)])
def test_one_pass_writes_all_configs_of_a_recipe(tmp_path: Path, workers: int) -> None:
    configs, counts = write_tables(tmp_path, tables(Squares()), workers)
    assert [config.name for config in configs] == ["squares", "other", "plain"]
    assert configs[0].target == "plain"
    assert configs[2].splits == {"train": 4, "test": 6}
    assert counts == {"made": {"parts": 4, "rows": {"plain": 10}}}
    assert stored(tmp_path, "plain", "train") == [0, 10, 11, 20]
    assert stored(tmp_path, "plain", "test") == [21, 22, 30, 31, 32, 33]
    for split in ("train", "test"):
        roots = stored(tmp_path, "plain", split)
        assert stored(tmp_path, "squares", split) == [n * n for n in roots]


def test_a_split_is_read_from_its_own_parts() -> None:
    squares, _, plain = tables(Squares())
    for table in (squares, plain):
        assert table.present() == ["train", "test"]
    assert isinstance(plain, MadeTable)
    assert plain.recipe.parts() == [(0,), (1,), (2,), (3,)]
    for split, wanted in (("train", [0, 10, 11, 20]), ("test", [21, 22, 30, 31, 32, 33])):
        rows = pa.concat_tables(plain.iter_split(split, plain.parts_of(split)))
        assert rows["number"].to_pylist() == wanted
        assert rows.schema.field("number").type == pa.int64()


def test_splits_and_configs_without_rows_are_left_out(tmp_path: Path) -> None:
    parts: dict[str, Sequence[tuple[int, ...]]] = {"train": SPLITS["train"][:2], "test": ()}
    alone = MadeTable("plain", "table", NUMBER, Recipe(Squares(), parts))
    assert alone.present() == ["train"]
    config = write_config(tmp_path, alone)
    assert config is not None
    assert config.splits == {"train": 3}
    nothing = MadeTable("plain", "table", NUMBER, Recipe(Squares(), {"train": ()}))
    assert write_config(tmp_path / "no", nothing) is None
    unknown = MadeTable("cubes", "table", NUMBER, Recipe(Squares(), parts))
    assert write_config(tmp_path / "no", unknown) is None


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.integration)])
def test_a_failing_part_is_the_error(tmp_path: Path, workers: int) -> None:
    with pytest.raises(MaghubError, match="part 1: part cannot be made"):
        write_tables(tmp_path, tables(Squares(fail_at=1)), workers)


def test_counts_add_up() -> None:
    total: dict[str, object] = {"a": {"x": 1}}
    add_counts(total, {"a": {"x": 2, "y": 0.5}, "b": 3})
    add_counts(total, {"b": 1})
    assert total == {"a": {"x": 3, "y": 0.5}, "b": 4}
