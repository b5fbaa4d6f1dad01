"""Loading a set as torch_geometric ``Data`` objects (paper C.4); torch is imported on use.

Every question gives one ``Data``; the tensors and texts of its graph are shared between all
questions of that graph, not copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from maghub.errors import MaghubError, MissingExtra

if TYPE_CHECKING:
    from torch_geometric.data import Data

Embeddings = Mapping[str, tuple[Any, Any]]
"""Per graph id: node embeddings [N, D] and edge embeddings [E, D], one row per undirected edge."""

_FIELDS: Final = (
    "question_id", "graph_id", "question", "question_type", "question_group", "question_subgroups",
    "scope", "output_type",
)  # fmt: skip


class ClegrPyG(Sequence["Data"]):
    """The questions of a set as ``Data`` objects, made when asked for.

    Attributes of each ``Data``: ``x`` [N, D], ``edge_index`` [2, 2E] with both directions of edge
    e in columns 2e and 2e + 1, ``edge_attr`` [2E, D] (both only with embeddings), ``num_nodes``,
    ``question``, ``label``, ``question_type``, ``question_group`` and the other question columns.

    Args:
        graph_rows: Graph rows of the set.
        question_rows: Question rows of the set.
        embeddings: Sentence embeddings per graph.

    Raises:
        MaghubError: For a question of an unknown graph, or embeddings that do not fit.
        MissingExtra: Without torch or torch_geometric.
    """

    def __init__(
        self,
        graph_rows: Iterable[Mapping[str, Any]],
        question_rows: Iterable[Mapping[str, Any]],
        embeddings: Embeddings | None = None,
    ) -> None:
        self._data = _data_class()
        self._graphs = {row["graph_id"]: _tensors(row, embeddings) for row in graph_rows}
        self._questions = list(question_rows)
        for row in self._questions:
            if row["graph_id"] not in self._graphs:
                raise MaghubError(f"unknown graph '{row['graph_id']}'", where=row["question_id"])

    def __len__(self) -> int:
        return len(self._questions)

    def __getitem__(self, at: Any) -> Any:
        """One ``Data``, or a list of them for a slice."""
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        row = self._questions[at]
        fields = {name: row[name] for name in _FIELDS}
        return self._data(**self._graphs[row["graph_id"]], **fields, label=row["answer"])

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))


def _data_class() -> Any:
    try:
        import torch  # noqa: F401
    except ImportError as problem:
        raise MissingExtra("torch", "torch") from problem
    try:
        from torch_geometric.data import Data
    except ImportError as problem:
        raise MissingExtra("torch_geometric", "torch") from problem
    return Data


def _tensors(row: Mapping[str, Any], embeddings: Embeddings | None) -> dict[str, Any]:
    """The tensors of one graph."""
    import torch

    source = torch.tensor([edge["source"] for edge in row["edges"]], dtype=torch.long)
    target = torch.tensor([edge["target"] for edge in row["edges"]], dtype=torch.long)
    both = torch.stack([source, target], dim=1)
    edge_index = torch.stack([both, both.flip(1)], dim=1).reshape(-1, 2).t().contiguous()
    tensors: dict[str, Any] = {"edge_index": edge_index, "num_nodes": len(row["nodes"])}
    if embeddings is None:
        return tensors
    where = row["graph_id"]
    if where not in embeddings:
        raise MaghubError("there are no embeddings of this graph", where=where)
    x, edges = (torch.as_tensor(part) for part in embeddings[where])
    for kind, part, count in (("node", x, len(row["nodes"])), ("edge", edges, len(row["edges"]))):
        if part.ndim != 2 or len(part) != count:
            problem = f"{tuple(part.shape)} {kind} embeddings for {count} {kind}s"
            raise MaghubError(problem, where=where)
    return {**tensors, "x": x, "edge_attr": edges.repeat_interleave(2, dim=0)}
