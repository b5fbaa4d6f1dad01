"""Builds a retrieval benchmark from any published knowledge graph (paper, section 3.1).

    filter -> mask -> ask -> qrels and answers -> augmented question images -> published folder

Nothing depends on the clock or on how often the run was interrupted: with the answers of a language
model in the cache, running it again gives the same bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from maghub import layout
from maghub.errors import MaghubError
from maghub.llm import Settings, short_name
from maghub.mkg.augment import published, question_picture
from maghub.mkg.built_card import built_card
from maghub.mkg.filter import Judged, judge_triplets
from maghub.mkg.kg import Bools, EntityPictures, Ints, KnowledgeGraph, read_graph
from maghub.mkg.masking import HIDDEN, TAIL
from maghub.mkg.records import Entity, Qrel, Query, Records, Relation, Triplet, record_id
from maghub.mkg.splits import SPLITS, released_split
from maghub.mkg.tables import Benchmark
from maghub.mkg.tasks import Questions, ask, heads_in_order
from maghub.mkg.writers import Writer, open_writer
from maghub.seeding import child_rng
from maghub.spec import BuilderInfo, FolderSpec
from maghub.writing import write_folder

BUILDER, VERSION = "mkg-build", "1.0.0"
GROUP_KINDS = ("mask_tail", "mask_relation")
ENTITY_PICTURE = "entities/"


@dataclass(frozen=True)
class Built:
    """A benchmark that was built: its folder's spec, and what this run took."""

    spec: FolderSpec
    counts: dict[str, int | float]


def build_benchmark(
    kg: str | Path,
    out: str | Path,
    *,
    llm: str = "rule",
    name: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    settings: Settings | None = None,
    workers: int = 1,
    overwrite: bool = False,
) -> Built:
    """Build a benchmark from a published knowledge graph.

    Args:
        kg: Its folder, name or repo.
        out: The folder to make.
        llm: Who judges and writes: ``rule``, ``openai:MODEL`` or ``local:FOLDER_OR_ID``.
        name: Name of the benchmark (``mkg-rag-`` and the name of the graph if None).
        seed: Seed of samples, templates and augmentation; also sent to the model.
        limit: Judge and ask about so many triplets only, drawn with the seed; the rest of the
            graph stays in the corpus.
        settings: How the model is reached.
        workers: Processes that read and augment pictures; the bytes do not depend on it.
        overwrite: Replace an existing folder.

    Raises:
        MaghubError: No knowledge graph there, no question left, ``out`` exists, or as the writer:
            no key, no server, a budget that is spent (run it again to go on).
    """
    graph = read_graph(kg)
    writer = open_writer(llm, seed=seed, settings=settings)
    try:
        judged, questions = _written(graph, _sample(len(graph), limit, seed), writer)
        counts, sources = writer.counts(), writer.sources()
    finally:
        writer.close()
    corpus, restored = _corpus(graph, judged, questions)
    notes = _notes(graph, judged, questions, restored)
    records = _records(graph, questions, corpus, writer.name)
    shown = short_name(llm)
    parameters = dict(settings.parameters) if settings else {}
    sources[graph.spec.name] = f"{graph.spec.dataset_version} ({graph.spec.builder.name})"
    builder = BuilderInfo(
        name=BUILDER,
        version=VERSION,
        seed=seed,
        options={"llm": shown, "limit": limit, "parameters": json.dumps(parameters)},
        sources=sources,
    )
    pictured = bool((graph.pictures > 0).any())
    pictures = _Pictures(graph, records.queries, seed) if pictured else None
    benchmark = Benchmark.of(records, pictures=pictures)
    tables = [*benchmark.tables(), judged.table(graph)]
    card = built_card(graph, benchmark, name, shown)
    facts = benchmark.facts(sources, notes)
    spec = write_folder(
        Path(out), tables, facts, builder, card, workers=workers, overwrite=overwrite
    )
    return Built(spec, counts)


def _written(graph: KnowledgeGraph, rows: Ints, writer: Writer) -> tuple[Judged, Questions]:
    """Verdicts on some triplets, and questions about the masked forms of those of use."""
    judged = judge_triplets(graph, rows, writer)
    kept = np.zeros(len(graph), bool)
    kept[judged.rows[judged.keep]] = True
    if not kept.any():
        what = "the filter keeps no triplet"
        raise MaghubError(what, where=graph.folder, fix="judge more triplets (--limit)")
    questions = ask(graph, kept, writer)
    if not questions.texts:
        raise MaghubError("no question could be written", where=graph.folder)
    return judged, questions


def _sample(triplets: int, limit: int | None, seed: int) -> Ints:
    """Rows of the triplets to be judged, ascending."""
    if limit is None or limit >= triplets:
        return np.arange(triplets)
    return np.sort(child_rng(seed, "mkg-limit").permutation(triplets)[:limit])


def _corpus(graph: KnowledgeGraph, judged: Judged, questions: Questions) -> tuple[Ints, int]:
    """Rows of the corpus: what the filter did not drop, and whatever answers a question.

    Dropped triplets that answer a question are restored, so that every query has all its
    positives; their number is the second result.
    """
    there = np.ones(len(graph), bool)
    there[judged.rows[~judged.keep]] = False
    needed = np.unique(questions.forms.members)
    restored = int((~there[needed]).sum())
    there[needed] = True
    return heads_in_order(graph, np.flatnonzero(there)), restored


def _notes(
    graph: KnowledgeGraph, judged: Judged, questions: Questions, restored: int
) -> dict[str, object]:
    """What was counted on the way, as ``{of: {row: {column: number}}}``: tables of the README."""
    report = judged.report(graph)
    dropped, kept = report["dropped"], int(judged.keep.sum())
    assert isinstance(dropped, dict)
    rows = {
        "judged triplets": {
            "of use": kept,
            **{f"dropped: {reason}": count for reason, count in dropped.items()},
        },
        "corpus": {
            "of use": kept,
            "not judged": len(graph) - len(judged.rows),
            "dropped, but they answer a question": restored,
        },
        "graph": {what: count for what, count in graph.counts.items() if count},
    }
    return {
        "utility_filter": {
            of: {what: {"number": count} for what, count in counts.items()}
            for of, counts in rows.items()
            if counts
        },
        "question_synthesis": {"masked forms": questions.report},
        "examples_of_dropped_triplets": report["examples"],
    }


def _records(graph: KnowledgeGraph, questions: Questions, corpus: Ints, writer: str) -> Records:
    """Triplets, queries and qrels, numbered by modality."""
    shown = graph.pictures[graph.heads[corpus]] > 0
    ids = _numbered(shown)
    document = dict(zip(corpus.tolist(), ids, strict=True))
    triplets = [
        Triplet(key, *graph.ids(row), *graph.words(row), _picture_path(graph, row))
        for row, key in document.items()
    ]
    queries, qrels = _queries(graph, questions, document, writer)
    entities, relations = graph.entities, graph.relations
    return Records.of(
        triplets=triplets,
        queries=queries,
        qrels=qrels,
        entities=(
            Entity(key, name, text, tuple(f"{ENTITY_PICTURE}{key}/{n}" for n in range(count)))
            for key, name, text, count in zip(
                entities.ids,
                entities.names,
                entities.descriptions,
                graph.pictures.tolist(),
                strict=True,
            )
        ),
        relations=map(Relation, relations.ids, relations.names, relations.descriptions),
    )


def _numbered(multimodal: Bools) -> list[str]:
    """Ids by position within each modality."""
    numbers = np.where(multimodal, np.cumsum(multimodal), np.cumsum(~multimodal)) - 1
    pairs = zip(numbers.tolist(), multimodal.tolist(), strict=True)
    return [record_id(number, multimodal=flag) for number, flag in pairs]


def _picture_path(graph: KnowledgeGraph, row: int) -> str | None:
    head = graph.heads[row]
    return f"{ENTITY_PICTURE}{graph.entities.ids[head]}/0" if graph.pictures[head] else None


def _queries(
    graph: KnowledgeGraph, questions: Questions, document: dict[int, str], writer: str
) -> tuple[list[Query], list[Qrel]]:
    forms = questions.forms
    ids = _numbered(questions.grounded)
    splits = released_split(pa.chunked_array([ids], pa.string()))
    queries, qrels = [], []
    for row, (key, text) in enumerate(zip(ids, questions.texts, strict=True)):
        mask, relation, tail = int(forms.mask[row]), int(forms.rels[row]), int(forms.tails[row])
        path = question_picture(SPLITS[splits[row]], key)
        queries.append(
            Query(
                id=key,
                text=text,
                masked="tail" if mask == TAIL else "relation",
                head_id=graph.entities.ids[forms.heads[row]],
                rel_id=None if relation == HIDDEN else graph.relations.ids[relation],
                tail_id=None if tail == HIDDEN else graph.entities.ids[tail],
                image_path=path if questions.grounded[row] else None,
                group_kind=GROUP_KINDS[mask],
                writer=writer,
            )
        )
        qrels += [Qrel(key, document[member]) for member in forms.positives(row).tolist()]
    return queries, qrels


class _Pictures:
    """Bytes of the pictures of entities and of the augmented pictures of questions (picklable)."""

    def __init__(self, graph: KnowledgeGraph, queries: pa.Table, seed: int) -> None:
        self._entities = EntityPictures(graph)
        self._row = {
            key: row
            for row, (key, count) in enumerate(
                zip(graph.entities.ids, graph.pictures.tolist(), strict=True)
            )
            if count
        }
        shown = queries.filter(queries[layout.IS_MULTIMODAL])
        columns = (shown[name].to_pylist() for name in (layout.IMAGE_PATH, layout.HEAD_ID))
        self._head = dict(zip(*columns, strict=True))
        self._seed = seed

    def __call__(self, path: str) -> bytes | None:
        if path.startswith(ENTITY_PICTURE):
            key, _, number = path.removeprefix(ENTITY_PICTURE).rpartition("/")
            return self._entities(self._row[key])[int(number)]
        images = self._entities(self._row[self._head[path]])
        return published(path, images, seed=self._seed)
