"""The card of a benchmark that was built here: its graph's card, its counts, its writer."""

from __future__ import annotations

import re

from maghub import layout
from maghub.cards import Card, CardSpec, Licences, UpstreamFile, read_card
from maghub.mkg.filter import FILTER
from maghub.mkg.kg import KnowledgeGraph
from maghub.mkg.tables import GROUP_RULE, RELEASED_RULE, Benchmark
from maghub.mkg.writers import RULE

CITATION = """\
@article{mkgragbench,
  title = {MKG-RAG-Bench},
  note  = {constructed by maghub as its section 3.1 describes}
}
"""


def default_name(graph: str) -> str:
    """Name of the benchmark of a graph."""
    return f"mkg-rag-{re.sub(r'[^a-z0-9-]+', '-', graph.lower()).strip('-')}"


def built_card(
    graph: KnowledgeGraph,
    benchmark: Benchmark,
    name: str | None,
    writer: str,
) -> Card:
    """The card; licences and redistribution policy are those of the graph."""
    path = graph.folder / layout.CARD_SOURCE_FILE
    origin = read_card(path).spec if path.is_file() else None
    records = benchmark.records
    queries, qrels, triplets = (
        table.num_rows for table in (records.queries, records.qrels, records.triplets)
    )
    source = f"{graph.spec.name} {graph.spec.dataset_version}"
    unknown = Licences(**dict.fromkeys(("graph", "text", "images", "embeddings"), "as the graph's"))
    by_rule = writer == RULE
    spec = CardSpec(
        name=name or default_name(graph.spec.name),
        pretty_name=f"MKG-RAG benchmark of {origin.pretty_name if origin else graph.spec.name}",
        summary=(
            f"{queries:,} questions and {qrels:,} relevance judgements over {triplets:,} triplets "
            f"of {graph.spec.name}, built by maghub"
            + (" with rules instead of a language model." if by_rule else f" with {writer}.")
        ),
        version="1.0.0",
        status="buildable",
        hub_license=origin.hub_license if origin else "other",
        licences=origin.licences if origin else unknown,
        policy=graph.spec.policy,
        language=("en",),
        tags=("knowledge-graph", "retrieval", "rag", "question-answering"),
        task_categories=("text-retrieval", "question-answering"),
        upstream=(
            UpstreamFile(
                name=f"the published folder {source}",
                revision=graph.spec.dataset_version,
                licence=origin.licences.graph if origin else "as the graph's",
                get=f"maghub build {graph.spec.name} --out FOLDER",
            ),
        ),
        splits={layout.RELEASED_RULE: RELEASED_RULE, layout.GROUP_RULE: GROUP_RULE},
        columns={FILTER: {"keep": "verdict of the utility filter", "reason": "why"}},
        quirks=_quirks(by_rule, writer),
        differences=(
            "The paper removes dropped triplets from the corpus; here those that answer a question "
            "stay, so that a query has all its positives.",
        ),
        citation=CITATION,
    )
    return Card(spec=spec, body=_body(source, queries, qrels, triplets, by_rule, writer))


def _quirks(by_rule: bool, writer: str) -> tuple[str, ...]:
    who = (
        "No language model took part: rules judged the triplets and templates asked the questions "
        "(column `writer` says `rule` in every row). Wording repeats far more than a model's."
        if by_rule
        else f"Triplets were judged and questions written by {writer} (column `writer`)."
    )
    return (
        who,
        "A masked form has one question, and its relevant triplets are all triplets of the whole "
        "graph with that form.",
        "A form whose words another form shares (entities of one name) is not asked about.",
        "No question contains one of its answers, or, about a picture, the name of its head.",
    )


def _body(source: str, queries: int, qrels: int, triplets: int, by_rule: bool, writer: str) -> str:
    how = "rules and templates (no language model)" if by_rule else f"`{writer}`"
    return f"""\
## About

{queries:,} queries with {qrels:,} relevance judgements over a corpus of {triplets:,} triplets, made
from {source} as section 3.1 of the MKG-RAG-Bench paper describes: triplets of little use are
filtered out, the tail or the relation of the rest is masked (never the head), and what is missing
is asked for by {how}. A question about a head that has a picture calls it `[Image]` and comes with
an augmented copy of it.

`filter` holds the verdict on every judged triplet, `qa` the gold answers. Read the folder with
MTEB's retrieval loader (config `group` for the split that puts no masked form on two sides), or
with `maghub.load`.
"""
