"""Reading back what a builder wrote, with pyarrow alone, and checks that every builder passes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import DatasetCard

import maghub
from maghub import layout
from maghub.builders._source import SourceBuilder
from maghub.errors import MaghubError
from maghub.spec import FolderSpec
from tests.helpers.graphs import files_of
from tests.hub.cards import findings

KEYS = {"nodes": "node_id", "edges": "edge_id", "node-splits": "node_id", "edge-splits": "edge_id"}


def columns(folder: Path, config: str) -> dict[str, list[Any]]:
    """All rows of a config over its splits, by key where it has one."""
    table = pa.concat_tables(pq.read_table(p) for p in sorted((folder / config).glob("*.parquet")))
    key = KEYS.get(config)
    return (table.sort_by(key) if key else table).to_pydict()


def pairs(folder: Path) -> list[tuple[int, int]]:
    """Edges as stored, in edge_id order."""
    edges = columns(folder, "edges")
    return list(zip(edges["src"], edges["dst"], strict=True))


def check_pictures(folder: Path, spec: FolderSpec, outcomes: list[str]) -> None:
    """Images are null exactly where the outcome says so, and are counted."""
    images = columns(folder, "nodes")["image"]
    fine = [outcome in ("kept", "encoded") for outcome in outcomes]
    assert [image is not None for image in images] == fine
    other = ("kept", "encoded", "missing")
    counted = Counter(what if what in other else f"refused: {what}" for what in outcomes)
    assert spec.images == counted
    assert spec.statistics is not None
    assert spec.statistics.with_image == sum(fine)


def check_valid(folder: Path) -> None:
    """The folder validates, images and statistics included; its card does so on the Hub."""
    assert maghub.validate(folder).problems == []
    text = (folder / layout.CARD_FILE).read_text("utf-8")
    DatasetCard(text, ignore_metadata_errors=False)
    assert findings(text) == ([], [])
    for snippet in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        compile(snippet, layout.CARD_FILE, "exec")


def refusal(name: str, raw: Path, out: Path, **options: Any) -> str:
    """The one line with which a build is refused; nothing of it stays."""
    before = sorted(out.parent.iterdir())
    with pytest.raises(MaghubError) as caught:
        maghub.build(name, out, raw, **options)
    assert sorted(out.parent.iterdir()) == before
    line = str(caught.value)
    assert "\n" not in line
    return line


def check_builder_route(
    builder: type[SourceBuilder],
    folder: Path,
    cache: Path,
    raw: Path,
    configs: Sequence[str] | None = None,
    **options: Any,
) -> None:
    """The ``datasets`` builder gives the rows and types of the built folder, config by config."""
    for config in configs or builder.SOURCE.configs:
        made = builder(cache_dir=str(cache / "made"), config_name=config, raw_dir=raw, **options)
        made.download_and_prepare()
        found = made.as_dataset()
        for split, part in found.items():
            file = folder / config / f"{split}-00000-of-00001.parquet"
            stored = pq.read_table(file)
            rows = part.with_format("arrow")[:]
            assert rows.to_pylist() == stored.to_pylist()
            assert part.features.arrow_schema.equals(stored.schema.remove_metadata())
        assert {path.name.split("-")[0] for path in (folder / config).iterdir()} == set(found)


def check_workers(name: str, raw: Path, out: Path, **options: Any) -> None:
    """One worker and two write the same bytes."""
    for workers in (1, 2):
        maghub.build(name, out / str(workers), raw, workers=workers, **options)
    assert files_of(out / "1") == files_of(out / "2")
