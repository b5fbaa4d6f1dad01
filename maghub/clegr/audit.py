"""``maghub clegr check``: every answer of a set re-derived from its graph and question text alone.

One graph is held at a time. Nothing is skipped silently: a question that cannot be checked is
counted as unrecognised with its reason, and so are the questions of an unusable graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from maghub import layout
from maghub.clegr.external import graph_from_json, json_lines
from maghub.clegr.graph import Graph, check_graph, components
from maghub.clegr.index import Index
from maghub.clegr.judge import AGREE, DISAGREE, UNRECOGNISED, Verdict, judge
from maghub.clegr.rows import graph_from_row
from maghub.clegr.schema import VARIANT_NOTE, VARIANTS
from maghub.errors import MaghubError, first_line, nearest, place
from maghub.spec import read_spec

_KEPT: Final = 100
_GRAPH_COLUMNS: Final = frozenset({"graph_id", "nodes", "edges"})
_QUESTION_COLUMNS: Final = frozenset(
    {"graph_id", "question", "question_type", "output_type", "answer", "answer_list"}
)


@dataclass(frozen=True)
class Finding:
    """A question that did not plainly agree."""

    graph_id: str
    type: str
    question: str
    given: str
    verdict: Verdict

    def line(self) -> str:
        """The finding on one line."""
        verdict = self.verdict
        why = verdict.reason or f"given '{self.given}', expected '{verdict.expected}'"
        label = "ambiguous" if verdict.ambiguous else verdict.outcome
        text = f"{self.graph_id}, {self.type}, {label}: {self.question[:160]} ({why[:300]})"
        return " ".join(text.split())


@dataclass
class Audit:
    """Counts of an audit; ``ambiguous`` questions are counted as agreeing or not as well.

    Attributes:
        questions: Questions read: agree + disagree + unrecognised.
        agree: Given answers that are valid.
        ambiguous: Questions with several valid answers, the given one among them.
        disagree: Given answers that are not valid.
        unrecognised: Questions that could not be checked.
        graphs: Graphs read.
        graph_problems: Graphs that are unusable, or disconnected (those are checked none the less).
        by_type: The same counts per question type.
        reasons: Why questions were not recognised, with counts.
        problems: The first lines about graphs and questions.
    """

    semantics: str = "compat"
    questions: int = 0
    agree: int = 0
    ambiguous: int = 0
    disagree: int = 0
    unrecognised: int = 0
    graphs: int = 0
    graph_problems: int = 0
    by_type: dict[str, dict[str, int]] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    on_finding: Callable[[Finding], None] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The counts as plain JSON values."""
        names = ("questions", "agree", "ambiguous", "disagree", "unrecognised")
        result: dict[str, Any] = {name: getattr(self, name) for name in names}
        result["by_type"] = {name: dict(self.by_type[name]) for name in sorted(self.by_type)}
        for name in ("semantics", "graphs", "graph_problems"):
            result[name] = getattr(self, name)
        result["reasons"] = dict(sorted(self.reasons.items()))
        result["problems"] = list(self.problems)
        return result

    def note(self, line: str) -> None:
        """Keep one line about a problem, while there is room."""
        if len(self.problems) < _KEPT:
            self.problems.append(line)

    def bad_graph(self, line: str) -> None:
        """Count and note a graph's problem."""
        self.graph_problems += 1
        self.note(line)

    def record(self, finding: Finding) -> None:
        """Count one question."""
        verdict = finding.verdict
        names = ("questions", AGREE, "ambiguous", DISAGREE, UNRECOGNISED)
        counts = self.by_type.setdefault(finding.type, dict.fromkeys(names, 0))
        for name in ("questions", verdict.outcome, *(["ambiguous"] * verdict.ambiguous)):
            counts[name] += 1
            setattr(self, name, getattr(self, name) + 1)
        if verdict.reason:
            reason = verdict.reason.split(" '")[0]
            self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if verdict.outcome != AGREE:
            self.note(finding.line())
        if self.on_finding and (verdict.outcome != AGREE or verdict.ambiguous):
            self.on_finding(finding)

    def check(self, graph: Graph, asked: Iterable[tuple[str, str, object]]) -> None:
        """Check the questions, given as (type, question, answer), of one graph."""
        self.graphs += 1
        try:
            check_graph(graph)
        except MaghubError as problem:
            self.refuse(str(problem), graph.graph_id, asked)
            return
        parts = len(components(len(graph), graph.source, graph.target))
        if parts > 1:
            self.bad_graph(f"{graph.graph_id}: the graph is disconnected ({parts} components)")
        index = Index(graph)
        for kind, text, given in asked:
            verdict = judge(index, text, given, self.semantics)
            name = kind or verdict.type or "unknown"
            self.record(Finding(graph.graph_id, name, text, str(given)[:200], verdict))

    def refuse(self, problem: str, graph_id: str, asked: Iterable[tuple[str, str, object]]) -> None:
        """Count the questions of a graph that cannot be used."""
        self.bad_graph(problem)
        verdict = Verdict(UNRECOGNISED, reason="unusable graph")
        for kind, text, given in asked:
            self.record(Finding(graph_id, kind or "unknown", text, str(given)[:200], verdict))


def _new(semantics: str, on_finding: Callable[[Finding], None] | None) -> Audit:
    if semantics not in VARIANTS:
        raise nearest(semantics, VARIANTS, kind="semantics")
    return Audit(semantics, on_finding=on_finding)


def audit_json_lines(
    path: Path, semantics: str = "compat", on_finding: Callable[[Finding], None] | None = None
) -> Audit:
    """Audit a JSON-lines file (see ``external``)."""
    audit = _new(semantics, on_finding)
    for where, record in json_lines(Path(path)):
        if isinstance(record, MaghubError):
            audit.graphs += 1
            audit.bad_graph(str(record))
            continue
        asked = _asked(record.get("qa"), where, audit)
        try:
            graph = graph_from_json(record, str(record.get("graph_id") or where))
        except MaghubError as problem:
            audit.graphs += 1
            audit.refuse(str(problem), where, asked)
            continue
        audit.check(graph, asked)
    return _read_something(audit, path)


def _asked(qa: object, where: str, audit: Audit) -> list[tuple[str, str, object]]:
    """The questions of one record; an item that is none has an empty text."""
    if not isinstance(qa, list):
        audit.bad_graph(f"{where}: 'qa' is not a list")
        return []
    asked: list[tuple[str, str, object]] = []
    for item in qa:
        record = item if isinstance(item, Mapping) else {}
        kind, text = record.get("type"), record.get("question")
        asked.append(
            (
                kind if isinstance(kind, str) else "",
                text if isinstance(text, str) else "",
                record.get("answer"),
            )
        )
    return asked


def audit_rows(
    graph_rows: Iterable[Mapping[str, Any]],
    question_rows: Iterable[Mapping[str, Any]],
    semantics: str = "well_posed",
    on_finding: Callable[[Finding], None] | None = None,
    audit: Audit | None = None,
) -> Audit:
    """Audit published rows; both sides in the same graph order need one graph in memory.

    Args:
        graph_rows: Rows of a ``<set>-graphs`` config.
        question_rows: Rows of the set's own config.
        semantics: ``compat`` or ``well_posed``.
        on_finding: Called with every question that did not plainly agree.
        audit: Counts to add to, instead of new ones.
    """
    audit = audit or _new(semantics, on_finding)
    rows = iter(graph_rows)
    passed: dict[str, Mapping[str, Any]] = {}
    used: set[str] = set()
    for graph_id, asked in _grouped(question_rows):
        row = _find(graph_id, rows, passed)
        if row is None:
            why = "asked of again, later" if graph_id in used else "no graph row"
            problem = f"{graph_id}: {why}"
            audit.refuse(problem, graph_id, asked)
            continue
        used.add(graph_id)
        try:
            graph = graph_from_row(row)
        except MaghubError as error:
            audit.graphs += 1
            audit.refuse(str(error), graph_id, asked)
            continue
        audit.check(graph, asked)
    for row in (*passed.values(), *rows):
        audit.graphs += 1
        audit.bad_graph(f"{row.get('graph_id')}: the graph has no questions")
    return audit


def _grouped(
    rows: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[str, list[tuple[str, str, object]]]]:
    """Consecutive question rows of one graph."""
    current: str | None = None
    asked: list[tuple[str, str, object]] = []
    for row in rows:
        if row["graph_id"] != current:
            if current is not None:
                yield current, asked
            current, asked = row["graph_id"], []
        given = row["answer_list"] if row["output_type"] == "List" else row["answer"]
        asked.append((row["question_type"], row["question"], given))
    if current is not None:
        yield current, asked


def _find(
    graph_id: str, rows: Iterator[Mapping[str, Any]], passed: dict[str, Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The row of a graph; rows passed on the way are kept for later."""
    if graph_id in passed:
        return passed.pop(graph_id)
    for row in rows:
        if row.get("graph_id") == graph_id:
            return row
        passed[str(row.get("graph_id"))] = row
    return None


def audit_path(
    path: Path, semantics: str | None = None, on_finding: Callable[[Finding], None] | None = None
) -> Audit:
    """Audit a JSON-lines file or a published folder (every ``<set>`` beside ``<set>-graphs``).

    Args:
        path: The file or folder.
        semantics: ``compat`` or ``well_posed``; by default compat for JSON lines (anybody's
            set), and for a folder what its ``maghub.json`` says, else well_posed.
        on_finding: Called with every question that did not plainly agree.

    Raises:
        MaghubError: When there is nothing to audit.
    """
    path = Path(path)
    if path.is_file():
        return audit_json_lines(path, semantics or "compat", on_finding)
    if not path.is_dir():
        raise MaghubError("there is no such file or folder", where=path)
    audit = _new(semantics or _declared(path), on_finding)
    for graphs in sorted(path.glob(f"*{layout.GRAPHS_SUFFIX}")):
        questions = path / graphs.name.removesuffix(layout.GRAPHS_SUFFIX)
        for split in sorted({file.name.split("-")[0] for file in graphs.glob("*.parquet")}):
            pair = (sorted(folder.glob(f"{split}-*.parquet")) for folder in (graphs, questions))
            graph_files, question_files = pair
            audit_rows(
                _parquet(graph_files, _GRAPH_COLUMNS),
                _parquet(question_files, _QUESTION_COLUMNS),
                audit=audit,
            )
    return _read_something(audit, path)


def _declared(folder: Path) -> str:
    """The variant that a published folder was built as."""
    if not (folder / layout.SPEC_FILE).is_file():
        return "well_posed"
    return str(read_spec(folder).notes.get(VARIANT_NOTE, "well_posed"))


def _parquet(files: Iterable[Path], needed: frozenset[str]) -> Iterator[Mapping[str, Any]]:
    """Rows of Parquet files, a few at a time."""
    import pyarrow.parquet as pq

    from maghub.reader import DAMAGE

    skipped = {"node_texts", "edge_texts", "context"}
    for file in files:
        try:
            parquet = pq.ParquetFile(file)
            columns = [name for name in parquet.schema_arrow.names if name not in skipped]
            for name in needed.difference(columns):
                raise MaghubError("the column is missing", where=place(file, name))
            for batch in parquet.iter_batches(batch_size=64, columns=columns):
                yield from batch.to_pylist()
        except DAMAGE as problem:
            raise MaghubError(f"cannot be read ({first_line(problem)})", where=file) from problem


def _read_something(audit: Audit, path: object) -> Audit:
    if not audit.graphs and not audit.questions:
        raise MaghubError("there is nothing to audit", where=path, fix="give a CLeGR set")
    return audit
