"""MedMKG: chest X-ray studies of MIMIC-CXR joined with UMLS concepts; the user's own copy only.

Source: XiaochenWang-PSU/MedMKG @d110e64 (no licence; the files were emptied and restored since, so
the commit matters). Names are UMLS terms and paths name MIMIC-CXR subjects, whose data use
agreement forbids sharing: nothing is downloaded, and what is built stays on this machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from datasets import ClassLabel, Features, Value

from maghub import layout
from maghub.builders._fetch import raw_folder
from maghub.builders._formats.tables import Column, Row
from maghub.builders._formats.tables import Table as TextTable
from maghub.builders._formats.text import clean_text
from maghub.builders._source import Facts, Source, SourceBuilder, Table, in_memory
from maghub.builders._triplets import (
    ENTITIES,
    RELATIONS,
    STRING,
    TRIPLETS,
    Triplet,
    distinct,
    entity_table,
    triplet_table,
)
from maghub.files import os_errors

COMMIT = "d110e64"
GRAPH, MAPPING = "MedMKG.csv", "image_mapping.csv"
FILES = dict.fromkeys((GRAPH, MAPPING), f"your copy of XiaochenWang-PSU/MedMKG at {COMMIT}")
COLUMNS = tuple(map(Column, ("Head", "Relation", "Tail", "Head_Name", "Tail_Name")))
KINDS = ("concept", "image")


def _check(row: Row, key: str, column: str) -> None:
    """UMLS concepts start with C, image studies with I."""
    if key[:1] not in ("C", "I") or not key[1:]:
        raise row.fail(column, f"{key[:40]!r} is neither a concept C... nor an image I...")


def _triplets(path: Path, names: dict[str, str]) -> Iterator[Triplet]:
    """The triplets; fills ``names`` with the first name of each entity."""
    for row in TextTable(path, COLUMNS):
        head, relation, tail = (row[name].strip() for name in ("Head", "Relation", "Tail"))
        if not relation:
            raise row.fail("Relation", "is empty")
        for key, column in ((head, "Head"), (tail, "Tail")):
            _check(row, key, column)
            names.setdefault(key, clean_text(row[f"{column}_Name"]))
        yield head, relation, tail


def _paths(path: Path) -> dict[str, str]:
    """Path of the first picture of each image study."""
    found: dict[str, str] = {}
    for row in TextTable(path, (Column("IID"), Column("Image_Path"))):
        place = PurePosixPath(row["Image_Path"].strip().lstrip("/"))
        if ".." in place.parts:
            raise row.fail("Image_Path", "leads out of the folder")
        found.setdefault(row["IID"].strip(), str(place))
    return found


@dataclass(frozen=True)
class _Pictures:
    """Bytes of the user's own MIMIC-CXR-JPG files, where they lie at the mapped paths."""

    folder: Path
    paths: tuple[str, ...]

    def __call__(self, row: int) -> bytes | None:
        path = self.folder / self.paths[row]
        if not self.paths[row] or not path.is_file():
            return None
        with os_errors(path):
            return path.read_bytes()


class MedmkgSource(Source):
    """MedMKG from the user's own files."""

    name = "medmkg"
    configs = (TRIPLETS, ENTITIES, RELATIONS)

    @cached_property
    def _folder(self) -> Path:
        return raw_folder(self.name, self.raw_dir, FILES)

    @cached_property
    def _read(self) -> tuple[dict[str, str], list[Triplet], dict[str, int]]:
        names: dict[str, str] = {}
        kept, counts = distinct(list(_triplets(self._folder / GRAPH, names)), GRAPH)
        return names, kept, counts

    @cached_property
    def _places(self) -> tuple[str, ...]:
        """Path of each entity's picture, in entity order; "" for concepts."""
        mapped = _paths(self._folder / MAPPING)
        return tuple(mapped.get(key, "") for key in self._read[0])

    def tables(self) -> list[Table]:
        """triplets (the default), entities and relations."""
        names, kept, _ = self._read
        keys = list(names)
        present = any(place and (self._folder / place).is_file() for place in self._places)
        columns: dict[str, object] = {
            "entity_id": keys,
            "kind": [int(key[0] == "I") for key in keys],
            "name": [names[key] for key in keys],
            "image_path": list(self._places),
        }
        types = dict.fromkeys(columns, STRING) | {"kind": ClassLabel(names=list(KINDS))}
        pictures = _Pictures(self._folder, self._places) if present else None
        uses = Counter(rel for _, rel, _ in kept)
        relations = sorted(uses)
        return [
            triplet_table(kept, names, {rel: rel.replace("_", " ") for rel in relations}),
            entity_table(columns, types, pictures),
            in_memory(
                RELATIONS,
                "table",
                Features({"rel_id": STRING, "triplets": Value("int64")}),
                {"rel_id": relations, "triplets": [uses[rel] for rel in relations]},
            ),
        ]

    def facts(self) -> Facts:
        """Counts of triplets and entities."""
        names, _, counts = self._read
        images = sum(key[0] == "I" for key in names)
        kinds = {"concepts": len(names) - images, layout.IMAGE + "s": images}
        return Facts(sources={"MedMKG": COMMIT}, notes={TRIPLETS: counts, ENTITIES: kinds})


class Medmkg(SourceBuilder):
    """``datasets`` builder: ``Medmkg(config_name="triplets", raw_dir=...)``."""

    SOURCE = MedmkgSource
    DEFAULT_CONFIG_NAME = TRIPLETS
