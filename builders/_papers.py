"""Paper ids and texts of citation graphs whose files name papers only by position.

Planetoid's nodes have no ids. gnn-benchmark publishes the same graphs in another order with paper
ids; nodes are matched by what both files say of them, never by row. Texts are then joined by id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from maghub.builders._formats.npz import GnnBenchmark
from maghub.builders._formats.planetoid import Planetoid
from maghub.builders._formats.tables import Column, Layout, Table
from maghub.builders._formats.text import clean_text, read_lines
from maghub.errors import MaghubError

ROUNDS = 3
Groups = dict[Hashable, list[int]]
MCCALLUM = ("papers", "extractions")


@dataclass(frozen=True)
class Papers:
    """Candidate paper ids of each node (one where it is certain, none where unknown), classes."""

    candidates: tuple[tuple[str, ...], ...]
    class_names: tuple[str, ...]

    def source_id(self, node: int) -> str:
        """The paper id; those of papers that nothing tells apart, joined by ``|``."""
        return "|".join(self.candidates[node]) or f"planetoid-{node}"


def match_papers(path: object, graph: Planetoid, named: GnnBenchmark) -> Papers:
    """Match nodes by their words, then those with equal words by their matched neighbours.

    Raises:
        MaghubError: The two files are not of the same graph.
    """
    if named.features is None or named.node_names is None or named.class_names is None:
        raise MaghubError("has no features, node names or class names", where=path)
    if named.labels is None or named.features.shape[1] != graph.features.shape[1]:
        raise MaghubError("does not hold the graph of the Planetoid files", where=path)
    words, their_words = graph.features.row_keys(), named.features.row_keys()
    names = _class_names(path, graph, named, _groups(words), _groups(their_words))
    mine = [(key, names[label]) for key, label in zip(words, graph.labels, strict=True)]
    theirs = [(key, named.class_names[c]) for key, c in zip(their_words, named.labels, strict=True)]
    found = _match(
        _groups(mine),
        _groups(theirs),
        _neighbours(graph.num_nodes, graph.src, graph.dst),
        _neighbours(named.adjacency.shape[0], *_entries(named)),
    )
    ids = [sorted(named.node_names[b] for b in found.get(a, ())) for a in range(graph.num_nodes)]
    return Papers(tuple(tuple(one) for one in ids), names)


def _class_names(
    path: object, graph: Planetoid, named: GnnBenchmark, left: Groups, right: Groups
) -> tuple[str, ...]:
    """The name of each Planetoid class: that of all papers whose words nobody else has."""
    assert named.labels is not None
    assert named.class_names is not None
    names: dict[int, set[str]] = defaultdict(set)
    for key, nodes in left.items():
        others = right.get(key, [])
        if len(nodes) == len(others) == 1:
            names[int(graph.labels[nodes[0]])].add(named.class_names[named.labels[others[0]]])
    wanted = range(int(graph.labels.max(initial=-1)) + 1)
    if unclear := [label for label in wanted if len(names[label]) != 1]:
        what = f"gives class {unclear[0]} of the Planetoid files {len(names[unclear[0]])} names"
        raise MaghubError(what, where=path, fix="check that both are of the same graph")
    return tuple(names[label].pop() for label in wanted)


def _entries(named: GnnBenchmark) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    matrix = named.adjacency
    src = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return src, matrix.indices.astype(np.int64)


def _groups(keys: Sequence[Hashable]) -> Groups:
    groups: Groups = defaultdict(list)
    for node, key in enumerate(keys):
        groups[key].append(node)
    return groups


def _neighbours(count: int, src: NDArray[np.int64], dst: NDArray[np.int64]) -> list[set[int]]:
    near: list[set[int]] = [set() for _ in range(count)]
    for a, b in zip(src.tolist(), dst.tolist(), strict=True):
        near[a].add(b)
        near[b].add(a)
    return near


def _match(
    left: Groups,
    right: Groups,
    near_left: list[set[int]],
    near_right: list[set[int]],
) -> dict[int, list[int]]:
    """Node -> nodes of the other graph that it may be."""
    open_groups = [(nodes, right[key]) for key, nodes in left.items() if key in right]
    found: dict[int, list[int]] = {}
    certain: dict[int, int] = {}
    for _ in range(ROUNDS + 1):
        taken = set(certain.values())
        left_open = []
        for mine, theirs in open_groups:
            parts = _split(mine, theirs, near_left, near_right, certain, taken)
            for part, others in parts:
                found |= dict.fromkeys(part, others)
                if len(part) == len(others) == 1:
                    certain[part[0]] = others[0]
                else:
                    left_open.append((part, others))
        open_groups = left_open
    return found


def _split(
    mine: list[int],
    theirs: list[int],
    near_left: list[set[int]],
    near_right: list[set[int]],
    certain: dict[int, int],
    taken: set[int],
) -> list[tuple[list[int], list[int]]]:
    """A group by its members' neighbours that are already matched; whole where they differ."""
    if len(mine) == len(theirs) == 1:
        return [(mine, theirs)]
    by_left: dict[frozenset[int], list[int]] = defaultdict(list)
    by_right: dict[frozenset[int], list[int]] = defaultdict(list)
    for node in mine:
        by_left[frozenset(certain[n] for n in near_left[node] if n in certain)].append(node)
    for node in theirs:
        by_right[frozenset(near_right[node] & taken)].append(node)
    if {k: len(v) for k, v in by_left.items()} != {k: len(v) for k, v in by_right.items()}:
        return [(mine, theirs)]
    return [(nodes, by_right[key]) for key, nodes in by_left.items()]


@dataclass
class PaperTexts:
    """Title and abstract by paper id, and where they come from."""

    texts: dict[str, str] = field(default_factory=dict)
    origin: str = "none given"

    def of(self, ids: tuple[str, ...]) -> str:
        """The text of the first of these papers that has one."""
        return next((self.texts[i] for i in ids if self.texts.get(i)), "")


def read_texts(raw_dir: Path, name: str) -> PaperTexts:
    """The texts the user put beside the graph: ``NAME_texts.csv``, or McCallum's two for Cora.

    ``NAME_texts.csv`` has the columns paper_id, title and abstract. McCallum's archive holds
    ``papers`` (id, file name, citation) and ``extractions/FILE`` with a field per line.
    """
    table = raw_dir / f"{name}_texts.csv"
    if table.exists():
        columns = [Column("paper_id"), Column("title"), Column("abstract", required=False)]
        rows = Table(table, columns, Layout(encodings=("utf-8", "latin-1")))
        texts = {row["paper_id"].strip(): _text(row["title"], row.get("abstract")) for row in rows}
        return PaperTexts(texts, table.name)
    for folder in (raw_dir, raw_dir / "cora"):
        present = [part for part in MCCALLUM if (folder / part).exists()]
        if name == "cora" and len(present) == 1:
            missing = next(part for part in MCCALLUM if part not in present)
            raise MaghubError(f"holds {present[0]} but no {missing}", where=folder)
        if name == "cora" and present:
            return _mccallum(folder)
    return PaperTexts()


def _mccallum(folder: Path) -> PaperTexts:
    """A paper may have several files: the first that has a title counts."""
    texts: dict[str, str] = {}
    papers = folder / "papers"
    for row, line in read_lines(papers, ("utf-8", "latin-1")):
        cells = line.split("\t")
        if len(cells) < 2 or not cells[0].strip().isdigit():
            raise MaghubError("is not: id, tab, file name", where=f"{papers}, row {row}")
        paper = cells[0].strip()
        if not texts.get(paper):
            texts[paper] = _extraction(folder / "extractions", cells[1].strip())
    return PaperTexts(texts, "McCallum's papers and extractions")


def _extraction(folder: Path, file: str) -> str:
    """Title and abstract of one extraction; nothing of an earlier paper is carried over."""
    names = (file.replace(":", "_", 1), file.replace(":", "_"))
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None or path.parent != folder:
        return ""
    fields: dict[str, str] = {}
    for _, line in read_lines(path, ("utf-8", "latin-1")):
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip(), value)
    return _text(fields.get("Title", ""), fields.get("Abstract", ""))


def _text(title: str, abstract: str) -> str:
    return "\n".join(filter(None, (clean_text(title), clean_text(abstract))))
