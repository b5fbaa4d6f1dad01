"""Sets of questions on triplets, some of which ask one fact in two splits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from datasets import Features, Value

from maghub.cards import Card
from maghub.spec import BuilderInfo
from maghub.tables import Facts, in_memory
from maghub.writing import write_folder
from tests.helpers.graphs import toy_card

COUNT, PLANTED = 90, 6


def write_analogies(out: Path) -> set[int]:
    """Analogies as MARS has them (example : example :: question : ?); rows that repeat a fact."""
    columns = {
        "example_head": [f"Q{i}" for i in range(COUNT)],
        "example_tail": [f"Q{i + 500}" for i in range(COUNT)],
        "question": [f"Q{i + 1_000}" for i in range(COUNT)],
        "relation": [f"P{i % 7}" for i in range(COUNT)],
        "answer": [f"Q{i + 2_000}" for i in range(COUNT)],
    }
    codes = np.repeat([0, 1, 2], COUNT // 3).astype(np.int8)
    first = 2 * COUNT // 3
    for row in range(PLANTED):  # another example, the same question of the same relation
        for name in ("question", "relation", "answer"):
            columns[name][first + row] = columns[name][row]
    features = Features(dict.fromkeys(columns, Value("string")))
    splits = ("train", "validation", "test")
    table = in_memory("mars", "table", features, columns, split_names=splits, split_ids=codes)
    card: Card = toy_card()
    write_folder(out, [table], Facts(), BuilderInfo(name="toy", version="1", seed=0), card)
    return set(range(first, first + PLANTED))
