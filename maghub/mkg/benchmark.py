"""A loaded retrieval benchmark: queries, corpus, qrels, answers, entities and vectors.

Texts and ids are read column by column when they are first asked for; pictures only by range and
vectors through their memory-mapped file, so that nothing large is ever held as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from maghub import layout
from maghub.errors import MaghubError, nearest
from maghub.features import FeatureView, feature_view
from maghub.mag import MAG
from maghub.mkg.records import Ints, rows_of
from maghub.reader import RowReader, read_columns
from maghub.schema import retrieval_columns
from maghub.spec import ConfigSpec

_CHECK = "find out why with: maghub validate FOLDER"
_PICTURES = (layout.IMAGE, layout.IMAGES)


class KGRag(MAG):
    """A published retrieval benchmark opened for reading; nothing is read before it is asked for.

    Tables come as Arrow tables without their pictures (``pictures`` reads those). Rows of vectors
    are rows of their target in stored order, whatever the split: ``query_rows`` says where the
    queries of a split are.

    Example:
        >>> import maghub
        >>> rag = maghub.load("mkg-rag-bench-g")  # doctest: +SKIP
        >>> rag.queries("test")["text"][0]  # doctest: +SKIP
    """

    def __repr__(self) -> str:
        names = (layout.QUERIES, layout.QRELS, layout.CORPUS)
        counts = ", ".join(f"{name} {self.spec.config(name).rows:,}" for name in names)
        return f"KGRag({self.spec.name}: {counts})"

    # -- tables ------------------------------------------------------------------------------

    def _read(self, name: str, split: str | None = None) -> pa.Table:
        """The columns of a config that are no pictures, those that its kind asks for first."""
        config = self.config(name)
        kind = name.removeprefix(layout.GROUP_PREFIX)
        if config.kind != kind:
            what = f"config {name} is of kind {config.kind}, must be {kind}"
            raise MaghubError(what, where=layout.SPEC_FILE, fix=_CHECK)
        if split is not None and split not in config.splits:
            raise nearest(split, config.splits, kind=f"split of {name}")
        own = (column for column in config.features if column not in _PICTURES)
        columns = list(dict.fromkeys([*retrieval_columns(config.kind), *own]))
        return read_columns(self.folder, config, columns, split)

    def _named(self, config: str, rule: str) -> str:
        if rule not in layout.RULE_PREFIXES:
            raise nearest(rule, layout.RULE_PREFIXES, kind="split rule")
        return layout.RULE_PREFIXES[rule] + config

    def queries(self, split: str | None = None, rule: str = layout.RELEASED_RULE) -> pa.Table:
        """Queries of one split, or of all, splits one after the other.

        Args:
            split: ``train``, ``validation`` or ``test``.
            rule: ``released``, or ``group_split``, which leaks no masked form.

        Raises:
            MaghubError: No such split or rule; the nearest are given.
        """
        return self._read(self._named(layout.QUERIES, rule), split)

    def qrels(self, split: str | None = None, rule: str = layout.RELEASED_RULE) -> pa.Table:
        """query-id, corpus-id and score of the queries of one split, or of all."""
        return self._read(self._named(layout.QRELS, rule), split)

    def qa(self, split: str | None = None) -> pa.Table:
        """Questions and gold answers of one split of the released rule, or of all."""
        return self._read(layout.QA, split)

    @cached_property
    def corpus(self) -> pa.Table:
        """The triplets in stored order."""
        return self._read(layout.CORPUS)

    @cached_property
    def entities(self) -> pa.Table:
        """The entities in stored order.

        Raises:
            MaghubError: The benchmark was made without any.
        """
        return self._read(self._there(layout.ENTITIES))

    @cached_property
    def relations(self) -> pa.Table:
        """The relations in stored order.

        Raises:
            MaghubError: The benchmark was made without any.
        """
        return self._read(self._there(layout.RELATIONS))

    def _there(self, name: str) -> str:
        if not self.spec.has(name):
            raise MaghubError(f"dataset {self.spec.name} has no table of {name}")
        return name

    # -- rows --------------------------------------------------------------------------------

    @cached_property
    def _query_ids(self) -> pa.ChunkedArray:
        return read_columns(self.folder, self.config(layout.QUERIES), [layout.ID])[layout.ID]

    def query_rows(self, split: str | None = None, rule: str = layout.RELEASED_RULE) -> Ints:
        """int64 [Q]: row of ``queries`` (and of its vectors) of each query of a split, in the
        order of ``queries(split, rule)``."""
        name = self._named(layout.QUERIES, rule)
        return self._rows(name, self._read(name, split)[layout.ID], layout.QUERIES)

    def _rows(self, config: str, ids: pa.ChunkedArray, of: str) -> Ints:
        """Row of each id in ``queries`` or ``corpus``.

        Raises:
            MaghubError: One is in none.
        """
        known = self._query_ids if of == layout.QUERIES else self.corpus[layout.ID]
        found = rows_of(ids, known)
        if (found < 0).any():
            row = int(np.argmax(found < 0))
            what = f"'{ids[row]}' is no id of {of}"
            raise MaghubError(what, where=f"{config}, row {row}", fix=_CHECK)
        return found

    def corpus_rows(self, multimodal: bool | None = None) -> Ints:
        """int64: rows of the multimodal triplets, of the text-only ones, or of all (None)."""
        if multimodal is None:
            return np.arange(len(self.corpus))
        wanted = pc.equal(self.corpus[layout.IS_MULTIMODAL], multimodal)
        return np.flatnonzero(np.asarray(wanted))

    def relevant(
        self, split: str | None = None, rule: str = layout.RELEASED_RULE
    ) -> tuple[Ints, Ints]:
        """int64 [n] each: the qrels of a split as rows of ``queries`` and rows of ``corpus``."""
        name = self._named(layout.QRELS, rule)
        qrels = self._read(name, split)
        return (
            self._rows(name, qrels[layout.QUERY_ID], layout.QUERIES),
            self._rows(name, qrels[layout.CORPUS_ID], layout.CORPUS),
        )

    # -- pictures and vectors ----------------------------------------------------------------

    def pictures(self, config: str, start: int = 0, stop: int | None = None) -> Iterator[object]:
        """Pictures of rows ``start..stop`` of ``corpus``, ``queries`` or ``entities``, row by row.

        Yields:
            The encoded bytes or None; of entities a list of these.

        Raises:
            MaghubError: The folder was built without pictures.
        """
        found = self.config(config)
        column = next((name for name in _PICTURES if name in found.features), None)
        if column is None:
            what = f"config {config} of {self.spec.name} holds no pictures"
            raise MaghubError(what, fix="build it with the folder of pictures")
        reader = RowReader(self.folder, found, [column])
        for table in reader(start, found.rows if stop is None else stop):
            for value in table[column].to_pylist():
                several = column == layout.IMAGES
                yield [_bytes(one) for one in value or ()] if several else _bytes(value)

    def _vectors(self, encoder: str, target: str) -> ConfigSpec:
        name = layout.set_embeddings_config(encoder, target)
        if not self.spec.has(name):
            known = sorted({own.encoder for own in self.spec.encoders})
            error = nearest(encoder, known, kind=f"encoder of {target} in this folder")
            make = f"maghub encode {self.folder} --encoder {encoder}"
            raise MaghubError(error.what, fix=f"{error.fix}; make it with: {make}")
        config = self.config(name)
        rows = self.spec.config(target).rows
        if target != layout.ENTITIES and config.rows != rows:  # of entities: a row per picture
            what = f"holds {config.rows:,} vectors, {target} has {rows:,} rows"
            raise MaghubError(what, where=name, fix=_CHECK)
        return config

    def features(  # type: ignore[override]
        self, encoder: str, target: str = layout.CORPUS, modality: str = layout.TEXT
    ) -> FeatureView:
        """[N, D] vectors, memory-mapped, in the stored dtype.

        Args:
            encoder: Name of the encoder.
            target: ``corpus``, ``queries``, or ``entities`` (a row per picture, see
                ``picture_rows``; modality ``image``).
            modality: ``text`` or ``image``; a row without it is zeros (see ``has``).

        Raises:
            MaghubError: The folder has no such vectors.
        """
        return feature_view(self.folder, self._vectors(encoder, target), modality)

    def has(  # type: ignore[override]
        self, encoder: str, target: str = layout.CORPUS, modality: str = layout.TEXT
    ) -> NDArray[np.bool_]:
        """bool [N]: which rows really have a vector of that modality."""
        column = layout.has_column(modality)
        table = read_columns(self.folder, self._vectors(encoder, target), [column])
        return np.asarray(table[column].combine_chunks().to_numpy(zero_copy_only=False))

    def picture_rows(self, encoder: str) -> Ints:
        """int64 [N]: row of ``entities`` that each picture vector belongs to."""
        config = self._vectors(encoder, layout.ENTITIES)
        ids = read_columns(self.folder, config, [layout.ID])[layout.ID]
        return rows_of(ids, self.entities[layout.ID])


def _bytes(value: object) -> bytes | None:
    return value.get("bytes") if isinstance(value, dict) else None
