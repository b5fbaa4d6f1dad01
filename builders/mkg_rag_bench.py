"""mkg-rag-bench-g and mkg-rag-bench-m: the released retrieval benchmarks, from the user's copy.

Source: XiaochenWang-PSU/MKG-RAG-Bench at 93f6ac0 (G) and c451e8b (M), which carry no licence:
nothing is downloaded and what is built stays on this machine. Beside the released folder may lie
what they were made from: ``MarKG/entity2textlong.txt`` and ``relation2textlong.txt`` (descriptions)
and a folder of pictures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from maghub import layout
from maghub.builders._formats.text import read_lines
from maghub.builders._mkg_rag_files import Released, read_released
from maghub.builders._mkg_rag_pictures import BenchmarkPictures, Folder
from maghub.builders._source import Facts, Source, SourceBuilder, Table
from maghub.cards import Card
from maghub.errors import MaghubError, place
from maghub.mkg.augment import question_picture
from maghub.mkg.records import Entity, Records, Relation, rows_of
from maghub.mkg.splits import SPLITS, Codes, leak_sentence, released_split
from maghub.mkg.tables import LEAKS_NOTE, Benchmark

RETRIEVAL = (layout.QUERIES, layout.QRELS, layout.CORPUS)
MET, RULE, COUNTS = "met in the released files", "split rule", "relevant triplets"


class MkgRagSource(Source):
    """One half of the released benchmark."""

    configs = (
        *RETRIEVAL,
        layout.QA,
        layout.ENTITIES,
        layout.RELATIONS,
        *(layout.group_config(name) for name in RETRIEVAL),
    )
    defaults: ClassVar[dict[str, str | int | float | bool | None]] = {"strict": True}
    top: ClassVar[str]
    commit: ClassVar[str]
    images: ClassVar[Mapping[str, str]]
    """A folder beside the benchmark -> where the paths of pictures start if it is there."""

    @cached_property
    def _pictures(self) -> Folder:
        """The first of the folders that may hold pictures."""
        for name, root in self.images.items():
            if self.raw_dir is not None and (self.raw_dir / name).is_dir():
                return Folder(self.raw_dir / root)
        return Folder(None)

    @cached_property
    def _read(self) -> tuple[Benchmark, dict[str, object]]:
        strict = self.options["strict"]
        if not isinstance(strict, bool):
            raise MaghubError(
                f"option strict is {strict!r}, must be true or false", where=self.name
            )
        found = read_released(self.name, self.raw_dir, self.top, self._pictures.name)
        entities, relations, naming = self._named(found)
        found.counts.update(naming)
        heads = self._question_pictures(found, entities)
        records = Records.of(
            triplets=found.triplets,
            queries=found.queries,
            qrels=found.qrels,
            entities=entities,
            relations=relations,
            places=found.lines,
        )
        codes = np.asarray(found.splits, np.int8)

        def released(good: Records) -> Codes:
            return codes[rows_of(good.queries[layout.ID], records.queries[layout.ID])]

        pictures = BenchmarkPictures(self._pictures, heads, self.seed)
        benchmark = Benchmark.of(
            records,
            pictures=pictures if self._pictures.root is not None else None,
            released=released,
            strict=strict,
        )
        return benchmark, _notes(found, benchmark)

    def _named(self, found: Released) -> tuple[list[Entity], list[Relation], dict[str, int]]:
        """Entities and relations of the triplets, in order of appearance, with what is known."""
        entities: dict[str, str] = {}
        relations: dict[str, str] = {}
        several: set[str] = set()
        images: dict[str, dict[str, None]] = {}
        for one in found.triplets:
            for key, text, names in (
                (one.head_id, one.head_text, entities),
                (one.tail_id, one.tail_text, entities),
                (one.rel_id, one.rel_text, relations),
            ):
                if names.setdefault(key, text) != text and text:
                    if names[key]:
                        several.add(key)
                    else:
                        names[key] = text
            if one.image_path is not None:
                images.setdefault(one.head_id, {})[one.image_path] = None
        known = {kind: self._descriptions(kind) for kind in ("entity", "relation")}
        made = []
        for key, name in entities.items():
            paths = dict.fromkeys([*self._pictures.of_entity(key), *images.get(key, {})])
            made.append(Entity(key, name, known["entity"].get(key, ""), tuple(paths)))
        named = [
            Relation(key, name, known["relation"].get(key, "")) for key, name in relations.items()
        ]
        return made, named, {"ids with more than one name": len(several)}

    def _descriptions(self, kind: str) -> dict[str, str]:
        """Descriptions by id from the files of MarKG, where they lie beside the benchmark."""
        path = self.raw_dir / f"MarKG/{kind}2textlong.txt" if self.raw_dir is not None else None
        if path is None or not path.is_file():
            return {}
        found = {}
        for line, text in read_lines(path):
            key, tab, description = text.partition("\t")
            if not tab:
                raise MaghubError("is not an id, a tab and a text", where=place(path, row=line))
            found[key.strip()] = description.strip()
        return found

    def _question_pictures(
        self, found: Released, entities: Iterable[Entity]
    ) -> dict[str, tuple[tuple[str, ...], int]]:
        """Names the augmented picture of each multimodal query; what it is made of, by name."""
        if self._pictures.root is None:
            return {}
        paths = {one.id: one.image_paths for one in entities if one.image_paths}
        in_corpus = {one.head_id: one.image_path for one in found.triplets if one.image_path}
        heads = {}
        for row, query in enumerate(found.queries):
            if query.is_multimodal and query.head_id in paths:
                own = paths[query.head_id]
                name = question_picture(SPLITS[found.splits[row]], query.id)
                heads[name] = (own, own.index(in_corpus.get(query.head_id) or own[0]))
                found.queries[row] = replace(query, image_path=name)
        return heads

    def tables(self) -> list[Table]:
        """queries (the default), qrels, corpus, qa, entities, relations, the group-safe split."""
        return self._read[0].tables()

    def complete(self, card: Card) -> Card:
        """The card, with what was measured of leaks."""
        counted = self.facts().notes[LEAKS_NOTE]
        body = f"{card.body.strip()}\n\n## Leaks\n\n{leak_sentence(counted)}\n"  # type: ignore[arg-type]
        return card.model_copy(update={"body": body})

    def facts(self) -> Facts:
        """Both split rules, leaks, defects, and what was met in the files."""
        benchmark, notes = self._read
        return benchmark.facts({"MKG-RAG-Bench": self.commit}, notes)


def _notes(found: Released, benchmark: Benchmark) -> dict[str, object]:
    """What was met in the files; how many queries the split rule and their own counts agree on."""
    records = benchmark.records
    ids = records.queries[layout.ID]
    same = released_split(ids) == benchmark.released
    query, _ = records.qrel_rows()
    stated: dict[str, int | None] = {}
    for one, count in zip(found.queries, found.positives, strict=True):
        stated.setdefault(one.id, count)
    wanted = [stated[key] for key in ids.to_pylist()]
    counted = np.bincount(query, minlength=len(ids)).tolist()
    told = [(want, have) for want, have in zip(wanted, counted, strict=True) if want is not None]
    return {
        MET: {"files": {what: {"count": n} for what, n in sorted(found.counts.items())}},
        RULE: {
            "queries": {
                "in the split that sha1 gives": {"count": int(same.sum())},
                "in another": {"count": int((~same).sum())},
            }
        },
        COUNTS: {
            "queries": {
                "as many as the query says": {"count": sum(w == h for w, h in told)},
                "another number": {"count": sum(w != h for w, h in told)},
            }
        },
    }


class MkgRagGSource(MkgRagSource):
    """The general half, made from MarKG."""

    name = "mkg-rag-bench-g"
    top = "MKG-RAG-BENCH-G"
    commit = "93f6ac0"
    images = {"MARS/images": "MARS/images", "images": "images"}


class MkgRagMSource(MkgRagSource):
    """The medical half, made from MedMKG."""

    name = "mkg-rag-bench-m"
    top = "MKG-RAG-BENCH-M"
    commit = "c451e8b"
    images = {"images": "images", "physionet.org": "."}


class MkgRagBenchG(SourceBuilder):
    """``datasets`` builder: ``MkgRagBenchG(config_name="queries", raw_dir=...)``."""

    SOURCE = MkgRagGSource
    DEFAULT_CONFIG_NAME = layout.QUERIES


class MkgRagBenchM(SourceBuilder):
    """``datasets`` builder of the medical half."""

    SOURCE = MkgRagMSource
    DEFAULT_CONFIG_NAME = layout.QUERIES
