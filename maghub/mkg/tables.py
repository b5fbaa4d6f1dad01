"""From records to the published configs of a retrieval benchmark, and to a whole folder.

``queries`` (the default config), ``qrels`` and ``corpus`` are what MTEB's retrieval loader reads;
``group-queries``, ``group-qrels`` and ``group-corpus`` (its ``config="group"``) are the same under
the split that leaks no masked form. ``qa``, ``entities`` and ``relations`` are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from datasets import Features, Image, List

from maghub import layout, schema
from maghub.cards import Card
from maghub.images import ImageResult, ImageSummary, PixelRule, normalise
from maghub.mkg.defects import Summary, sound
from maghub.mkg.derived import qa_table, record_counts
from maghub.mkg.records import Picture, Records
from maghub.mkg.splits import SPLITS, Codes, group_split, leaks, released_split
from maghub.spec import BuilderInfo, FolderSpec, Kind, Origin, SplitRule
from maghub.tables import IMAGE_COUNTS, Counted, Facts, Table, in_memory
from maghub.writing import write_folder

PICTURES_AT_ONCE = 128
RECORDS_NOTE, LEAKS_NOTE = "records", "leaks"
DEFECTS_NOTE, FIRST_NOTE = "defects", "first of each defect"
RELEASED_RULE = 'both query sets merged, sorted by sha1("markg_v1::{qid}"), cut 8:1:1'
GROUP_RULE = (
    "all queries of one (head, relation, masked part) together, "
    'groups sorted by sha1("group_v1::{group}"), cut 8:1:1'
)
_IMAGE = pa.struct({"bytes": pa.binary(), "path": pa.string()})


@dataclass(frozen=True)
class Benchmark:
    """A benchmark that can be written: sound records, two splits, pictures.

    Attributes:
        records: Sound records (``maghub.mkg.defects.sound``).
        released, group: Split code of each query under the two rules.
        defects: What was wrong with the records, as ``sound`` counts it.
        pictures: Bytes of a picture by its path; None leaves the picture columns out.
        pixel_rule: What is done to pictures.
        origin: Whether ``released`` is upstream's own or made here by the same rule.
    """

    records: Records
    released: Codes
    group: Codes
    defects: Summary
    pictures: Picture | None = None
    pixel_rule: PixelRule = field(default_factory=PixelRule)
    origin: Origin = "maghub"

    @classmethod
    def of(
        cls,
        records: Records,
        *,
        pictures: Picture | None = None,
        released: Callable[[Records], Codes] | None = None,
        strict: bool = True,
    ) -> Benchmark:
        """Check records and split them.

        Args:
            records: As they came.
            pictures: Bytes of a picture by its path.
            released: Upstream's split of the sound records, where upstream has one.
            strict: Whether a fatal defect is an error, or leaves its rows out and counts them.

        Raises:
            MaghubError: A fatal defect.
        """
        good, defects = sound(records, strict=strict)
        codes = released_split(good.queries[layout.ID]) if released is None else released(good)
        origin: Origin = "maghub" if released is None else "upstream"
        return cls(
            good, codes, group_split(good.queries), defects, pictures=pictures, origin=origin
        )

    # -- configs -----------------------------------------------------------------------------

    def tables(self) -> list[Table]:
        """All configs, the default one (``queries``) first."""
        released = self._retrieval(self.released, lambda config: config)
        group = self._retrieval(self.group, layout.group_config)
        qa = in_memory(
            layout.QA,
            "qa",
            Features(schema.retrieval_columns("qa")),
            qa_table(self.records),
            split_names=SPLITS,
            split_ids=self.released,
            target=layout.QUERIES,
        )
        entities = self._with_pictures(layout.ENTITIES, "entities", self.records.entities)
        relations = in_memory(
            layout.RELATIONS,
            "relations",
            Features(schema.retrieval_columns("relations")),
            self.records.relations,
        )
        return [*released, qa, entities, relations, *group]

    def _retrieval(self, codes: Codes, name: Callable[[str], str]) -> list[Table]:
        """queries, qrels and corpus under one split; ``name`` gives the name of its config."""
        records = self.records
        queries = self._with_pictures(
            name(layout.QUERIES), "queries", records.queries, split_names=SPLITS, split_ids=codes
        )
        query, _ = records.qrel_rows()
        qrels = in_memory(
            name(layout.QRELS),
            "qrels",
            Features(schema.retrieval_columns("qrels")),
            records.qrels,
            split_names=SPLITS,
            split_ids=codes[query],
            target=name(layout.QUERIES),
        )
        corpus = self._with_pictures(name(layout.CORPUS), "corpus", records.triplets)
        return [queries, qrels, corpus]

    def _with_pictures(
        self,
        config: str,
        kind: Kind,
        rows: pa.Table,
        split_names: tuple[str, ...] = (layout.FULL,),
        split_ids: Codes | None = None,
    ) -> Table:
        """A table with the pictures that its paths name, where any row has one."""
        column, paths = _PICTURES[kind]
        features = schema.retrieval_columns(kind)
        shown = self.pictures is not None and _any_path(rows[paths])
        if shown:
            features[column] = Image() if column == layout.IMAGE else List(Image())
        counted = not config.startswith(layout.GROUP_PREFIX)  # the same pictures once more
        pictures = self.pictures if shown else None
        read = _Reader(rows, column, paths, pictures, self.pixel_rule, counted)
        return Table(
            config=config,
            kind=kind,
            features=Features(features),
            num_rows=rows.num_rows,
            read=read,
            split_names=split_names,
            split_ids=split_ids,
            part_size=PICTURES_AT_ONCE if shown else max(1, rows.num_rows),
            parallel=shown,
        )

    # -- facts -------------------------------------------------------------------------------

    def facts(
        self, sources: Mapping[str, str] | None = None, notes: Mapping[str, object] | None = None
    ) -> Facts:
        """Split rules, and what was counted: records, defects, leaks under each rule."""
        rules: tuple[tuple[str, Codes, Origin, str], ...] = (
            (layout.RELEASED_RULE, self.released, self.origin, RELEASED_RULE),
            (layout.GROUP_RULE, self.group, "maghub", GROUP_RULE),
        )
        counted = {name: leaks(self.records, codes) for name, codes, _, _ in rules}
        return Facts(
            query_splits=tuple(
                SplitRule(
                    name=name, of="queries", origin=origin, description=how, counts=_counts(codes)
                )
                for name, codes, origin, how in rules
            ),
            sources=dict(sources or {}),
            notes={
                RECORDS_NOTE: record_counts(self.records),
                LEAKS_NOTE: counted,
                DEFECTS_NOTE: self.defects.counts,
                FIRST_NOTE: self.defects.first,
                **(notes or {}),
            },
        )


_PICTURES: dict[str, tuple[str, str]] = {
    "corpus": (layout.IMAGE, layout.IMAGE_PATH),
    "queries": (layout.IMAGE, layout.IMAGE_PATH),
    "entities": (layout.IMAGES, layout.IMAGE_PATHS),
}


def _any_path(paths: pa.ChunkedArray) -> bool:
    """Whether any row names a picture."""
    if pa.types.is_list(paths.type):
        return bool(pc.sum(pc.list_value_length(paths)).as_py())
    return paths.null_count < len(paths)


def _counts(codes: Codes) -> dict[str, int]:
    return {name: int((codes == code).sum()) for code, name in enumerate(SPLITS)}


@dataclass(frozen=True)
class _Reader:
    """Rows of a table in memory with their pictures, and what became of these (picklable)."""

    rows: pa.Table
    column: str
    paths: str
    pictures: Picture | None
    rule: PixelRule
    counted: bool

    def __call__(self, start: int, stop: int) -> pa.Table | Counted:
        rows = self.rows.slice(start, stop - start)
        if self.pictures is None:
            return rows
        summary = ImageSummary()
        known: dict[str, ImageResult | None] = {}  # triplets of one head share its picture

        def one(path: str) -> dict[str, object] | None:
            if path not in known:
                known[path] = self._made(path)
            result = known[path]
            summary.add(result)
            kept = result.data if result is not None else None
            return None if kept is None else {"bytes": kept, "path": None}

        paths = rows[self.paths].to_pylist()
        if self.column == layout.IMAGE:
            images: list[object] = [None if path is None else one(path) for path in paths]
            column = pa.array(images, _IMAGE)
        else:  # an unreadable picture keeps its place in the list
            column = pa.array([[one(path) for path in own] for own in paths], pa.list_(_IMAGE))
        rows = rows.append_column(self.column, column)
        return Counted(rows, {IMAGE_COUNTS: summary.flat()} if self.counted else {})

    def _made(self, path: str) -> ImageResult | None:
        """What the pixel rule makes of a picture; None where there is none."""
        data = self.pictures(path) if self.pictures is not None else None
        return None if data is None else normalise(data, self.rule)


def write_benchmark(
    records: Records,
    card: Card,
    out: str | Path,
    *,
    builder: BuilderInfo,
    pictures: Picture | None = None,
    notes: Mapping[str, object] | None = None,
    strict: bool = True,
    workers: int = 1,
    overwrite: bool = False,
) -> FolderSpec:
    """Write records as a published folder; it appears at ``out`` complete or not at all.

    Args:
        records: The benchmark, e.g. of the construction pipeline.
        card: Its card; must declare the split rules ``released`` and ``group_split``.
        out: The folder to make.
        builder: What made the records, from what, with which seed and options.
        pictures: Bytes of a picture by its path; None leaves the picture columns out.
        notes: What else was counted while making them; ``{config: {row: {column: number}}}`` is
            shown as a table in the README.
        strict: Whether a fatal defect is an error, or leaves its rows out and counts them.
        workers: Processes that read pictures; the bytes written do not depend on it.
        overwrite: Replace an existing folder.

    Raises:
        MaghubError: A fatal defect of the records, ``out`` exists, or the disk refuses.
    """
    benchmark = Benchmark.of(records, pictures=pictures, strict=strict)
    facts = benchmark.facts(builder.sources, notes)
    tables = benchmark.tables()
    return write_folder(
        Path(out), tables, facts, builder, card, workers=workers, overwrite=overwrite
    )
