"""MarKG, a knowledge graph of Wikidata with pictures, and MARS, the analogies asked on it.

Source: zjunlp/MKG_Analogy (MIT), folders MarT/dataset/MarKG (tab separated, no header) and
MarT/dataset/MARS (JSON lines). Pictures are on a drive of theirs, one folder ``Qid`` per entity,
and belong to third parties: they are read from the user's own copy and stay on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from datasets import ClassLabel, Features, Value

from maghub import layout
from maghub.builders._fetch import Remote, raw_folder
from maghub.builders._formats.archives import open_archive, parent
from maghub.builders._formats.tables import Layout
from maghub.builders._formats.tables import Table as TextTable
from maghub.builders._formats.text import Record, read_jsonl
from maghub.builders._keyed_pictures import KeyedPictures
from maghub.builders._source import Facts, Source, SourceBuilder, Table, in_memory
from maghub.builders._triplets import (
    ENTITIES,
    RELATIONS,
    STRING,
    TRIPLETS,
    Names,
    Triplet,
    distinct,
    entity_table,
    triplet_table,
    unused,
)
from maghub.errors import MaghubError

COMMIT = "a7225385c037a28298f013758bf830119690da9e"
URL = f"https://raw.githubusercontent.com/zjunlp/MKG_Analogy/{COMMIT}/MarT/dataset"
MARS = "mars"
PARTS = {"train": layout.TRAIN, "dev": layout.VALIDATION, "test": layout.TEST}
KINDS = ("entity", "relation")
FILES = (
    "MarKG/wiki_tuple_ids.txt",
    *(f"MarKG/{kind}2text{length}.txt" for kind in KINDS for length in ("", "long")),
    *(f"MARS/{part}.json" for part in PARTS),
)
IMAGES = ("MARS/images", "images")
SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp")
MODES = ("text-pair-image-question", "image-pair-text-question", "mixed-pair-image-question")
"""Modes 0, 1, 2 of the released code: (T1,T2)->(I1,?), (I1,I2)->(T1,?), (I1,T1)->(I2,?)."""


def _rows(path: Path, *header: str) -> Iterator[tuple[int, list[str]]]:
    """Row numbers and cells of a tab-separated file without a header."""
    for row in TextTable(path, None, Layout("\t", quoting="none", header=header)):
        yield row.number, [row[name].strip() for name in header]


def _names(folder: Path, kind: str) -> Names:
    """Names and descriptions, which upstream keeps in two files with the same ids."""
    found: list[dict[str, str]] = []
    for length in ("", "long"):
        path = folder / f"MarKG/{kind}2text{length}.txt"
        texts: dict[str, str] = {}
        for row, (key, text) in _rows(path, "id", "text"):
            if key in texts:
                raise MaghubError(f"{key} comes twice", where=f"{path}, row {row}")
            texts[key] = text  # as it is: one entity is called null, and rightly so
        if found and set(texts) != set(found[0]):
            odd = sorted(set(texts) ^ set(found[0]))[0]
            what = f"{odd} is in only one of {kind}2text.txt and {kind}2textlong.txt"
            raise MaghubError(what, where=path, fix="take both files from one revision")
        found.append(texts)
    return Names(found[0], found[1])


def _triplets(path: Path, entities: Names, relations: Names) -> Iterator[Triplet]:
    for row, (head, rel, tail) in _rows(path, "head", "relation", "tail"):
        for key, known in ((head, entities), (rel, relations), (tail, entities)):
            if key not in known.names:
                raise MaghubError(f"unknown id {key[:40]!r}", where=f"{path}, row {row}")
        yield head, rel, tail


def _analogy(record: Record, entities: Names, relations: Names) -> dict[str, object]:
    """One question of MARS, every id known."""
    example, mode = record.first("example"), record.first("mode")
    if not isinstance(example, list) or len(example) != 2:
        raise record.fail("example", "is not a pair")
    if mode not in range(len(MODES)):
        raise record.fail("mode", f"{mode!r} is none of 0, 1, 2")
    row = {"example_head": example[0], "example_tail": example[1]}
    row |= {name: record.identifier(name) for name in ("question", "answer", "relation")}
    for name, key in row.items():
        known = relations if name == "relation" else entities
        if not isinstance(key, str) or key not in known.names:
            raise record.fail(name, f"unknown id {str(key)[:40]!r}")
    return row | {"mode": mode}


class MarkgSource(Source):
    """MarKG and MARS from the repository's files."""

    name = "markg"
    configs = (TRIPLETS, ENTITIES, RELATIONS, MARS)

    @cached_property
    def _folder(self) -> Path:
        return raw_folder(self.name, self.raw_dir, {f: Remote(f"{URL}/{f}") for f in FILES})

    @cached_property
    def _read(self) -> tuple[Names, Names, list[Triplet], dict[str, object]]:
        entities, relations = (_names(self._folder, kind) for kind in KINDS)
        path = self._folder / FILES[0]
        kept, counts = distinct(list(_triplets(path, entities, relations)), path)
        ends = [end for head, _, tail in kept for end in (head, tail)]
        notes: dict[str, object] = {
            "triplets": counts,
            "entities in no triplet": unused(list(entities.names), ends),
            "relations in no triplet": unused(list(relations.names), [rel for _, rel, _ in kept]),
        }
        return entities, relations, kept, notes

    def tables(self) -> list[Table]:
        """triplets (the default), entities, relations and MARS."""
        entities, relations, kept, _ = self._read
        places = (self._folder / name for name in IMAGES)
        images = next((place for place in places if place.is_dir()), None)
        pictures = None
        if images is not None:  # several an entity, in no order: the first by name
            keys = tuple(entities.names)
            pictures = KeyedPictures(partial(open_archive, images), parent, SUFFIXES, keys)
        text = {"name": STRING, "description": STRING}
        relation_columns = relations.columns("rel_id")
        own = [key.startswith("A") for key in relations.names]
        return [
            triplet_table(kept, entities.names, relations.names),
            entity_table(
                entities.columns("entity_id"),
                {"entity_id": STRING, **text},
                pictures,
            ),
            in_memory(
                RELATIONS,
                "table",
                Features({"rel_id": STRING, **text, "own": Value("bool")}),
                {**relation_columns, "own": own},
            ),
            self._mars(entities, relations),
        ]

    def _mars(self, entities: Names, relations: Names) -> Table:
        """The analogies in upstream's three parts."""
        rows, codes = [], []
        for code, part in enumerate(PARTS):
            for record in read_jsonl(self._folder / f"MARS/{part}.json"):
                rows.append(_analogy(record, entities, relations))
                codes.append(code)
        names = ("example_head", "example_tail", "question", "answer", "relation")
        columns = {name: [row[name] for row in rows] for name in (*names, "mode")}
        features = Features({**dict.fromkeys(names, STRING), "mode": ClassLabel(names=list(MODES))})
        return in_memory(
            MARS,
            "table",
            features,
            columns,
            split_names=layout.SPLITS,
            split_ids=np.asarray(codes, np.int8),
        )

    def facts(self) -> Facts:
        """What was dropped and what is in no triplet."""
        return Facts(sources={"MKG_Analogy": COMMIT}, notes=self._read[3])


class Markg(SourceBuilder):
    """``datasets`` builder: ``Markg(config_name="triplets", raw_dir=...)``."""

    SOURCE = MarkgSource
    DEFAULT_CONFIG_NAME = TRIPLETS
