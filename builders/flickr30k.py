"""Flickr30k: 31,783 photographs with five captions each, boxes and phrases of Flickr30k Entities.

Upstream: captions in ``results_20130124.token`` or in ``results.csv`` as it circulates on Kaggle
(one row lacks a delimiter); the photographs, given on request by the University of Illinois; split
lists, ``UNRELATED_CAPTIONS`` and ``annotations.zip`` of BryanPlummer/flickr30k_entities at 68b3d6f.

A node is a photograph, as in Table 7 of OpenMAG. OpenMAG publishes no rule for the edges of its
graph, which look like mutual nearest neighbours of embeddings. The edges here are ours:
``shared-phrase`` joins photographs whose captions name a visible thing with the same words, where
not too many do; ``mutual-knn`` is the other rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from datasets import List, Value

from maghub import layout, schema
from maghub.builders._edges import group_pairs
from maghub.builders._entities import SENTENCES, Annotations, read_annotations
from maghub.builders._fetch import raw_folder
from maghub.builders._formats.tables import (
    Column,
    Layout,
    Table,
    join_extra,
    split_number_and_text,
)
from maghub.builders._formats.text import clean_text, read_lines
from maghub.builders._graph import Graph, NodeReader, Rule
from maghub.builders._linked import MUTUAL_KNN, NEGATIVES_RULE, Edges, LinkedSource, counted_edges
from maghub.builders._pictures import ArchivePictures
from maghub.builders._source import SourceBuilder
from maghub.errors import MaghubError, place

REVISION = "68b3d6f"
REPOSITORY = "https://github.com/BryanPlummer/flickr30k_entities"
REQUEST = "https://shannon.cs.illinois.edu/DenotationGraph"
TOKEN, KAGGLE = "results_20130124.token", "results.csv"
IMAGES = (
    "flickr30k-images",
    "flickr30k-images.tar.gz",
    "flickr30k-images.tar",
    "flickr30k-images.zip",
)
ANNOTATIONS, UNRELATED = "annotations.zip", "UNRELATED_CAPTIONS"
LISTS = {"train.txt": layout.TRAIN, "val.txt": layout.VALIDATION, "test.txt": layout.TEST}
SHARED_PHRASE, ENTITIES = "shared-phrase", "entities"
CAPTIONS = tuple(f"caption_{number}" for number in range(SENTENCES))
KAGGLE_COLUMNS = [Column("image_name"), Column("comment_number"), Column("comment")]
KAGGLE_TABLE = Layout(
    "|",
    quoting="none",
    repairs={
        "delimiter missing before the caption": split_number_and_text,
        "delimiters inside the caption": join_extra(2, "|"),
    },
)


@dataclass(frozen=True)
class Captions:
    """Image ids, ascending by number, and the five captions of each."""

    ids: list[str]
    texts: list[list[str]]
    notes: dict[str, object]


def _token_rows(path: Path) -> Iterator[tuple[int, str, str, str]]:
    for number, line in read_lines(path):
        key, tab, text = line.partition("\t")
        image, _, caption = key.partition("#")
        if not tab:
            raise MaghubError("no tab after the image and number", where=place(path, row=number))
        yield number, image, caption, text


def _rows(table: Table) -> Iterator[tuple[int, str, str, str]]:
    for row in table:
        image, caption, text = (row[column.name].strip() for column in KAGGLE_COLUMNS)
        yield row.number, image, caption, text


def read_captions(path: Path) -> Captions:
    """``results_20130124.token`` or ``results.csv``; every image must have captions 0 to 4."""
    found: dict[str, list[str | None]] = {}
    table = Table(path, KAGGLE_COLUMNS, KAGGLE_TABLE) if path.name == KAGGLE else None
    for number, name, caption, text in _token_rows(path) if table is None else _rows(table):
        where = place(path, row=number)
        image = re.fullmatch(r"(\d{1,18})\.jpg", name)
        if image is None or caption not in ("0", "1", "2", "3", "4"):
            what = (
                f"expected ID.jpg and a number from 0 to 4, found {name[:30]!r}, {caption[:10]!r}"
            )
            raise MaghubError(what, where=where)
        five = found.setdefault(image[1], [None] * SENTENCES)
        if five[int(caption)] is not None:
            raise MaghubError(f"caption {caption} of {name} comes again", where=where)
        five[int(caption)] = clean_text(text)
    texts = {}
    for image_id, five in found.items():
        if missing := [str(at) for at, caption in enumerate(five) if caption is None]:
            raise MaghubError(f"{image_id}.jpg has no caption {', '.join(missing)}", where=path)
        texts[image_id] = [caption or "" for caption in five]
    if not texts:
        raise MaghubError("holds no captions", where=path)
    ids = sorted(texts, key=int)
    notes = {"captions from": path.name, **({} if table is None else table.repairs)}
    return Captions(ids, [texts[image] for image in ids], notes)


def read_lists(folder: Path, ids: Sequence[str]) -> Rule:
    """The split of Flickr30k Entities: a list of image ids per part."""
    node_of = {image: node for node, image in enumerate(ids)}
    codes = np.full(len(ids), layout.SPLITS.index(layout.UNASSIGNED), np.int8)
    for name, part in LISTS.items():
        for number, line in read_lines(folder / name):
            node, where = node_of.get(line.strip()), place(folder / name, row=number)
            if node is None:
                raise MaghubError(f"image {line.strip()[:20]!r} has no captions", where=where)
            if layout.SPLITS[codes[node]] != layout.UNASSIGNED:
                raise MaghubError(f"image {line.strip()} is listed before", where=where)
            codes[node] = layout.SPLITS.index(part)
    text = "train.txt, val.txt and test.txt of Flickr30k Entities"
    return Rule(ENTITIES, codes, text, origin="upstream")


def read_unrelated(path: Path, ids: Sequence[str]) -> list[list[int]]:
    """For each node the captions (from 0) that do not describe it; the file counts from 1."""
    node_of = {image: node for node, image in enumerate(ids)}
    flagged: list[list[int]] = [[] for _ in ids]
    for number, line in read_lines(path):
        if line.startswith("#"):
            continue
        match = re.fullmatch(r"(\d{1,18})\s+([1-5])", line.strip())
        if match is None or match[1] not in node_of:
            what = f"expected an image with captions and a number from 1 to 5, found {line[:40]!r}"
            raise MaghubError(what, where=place(path, row=number))
        flagged[node_of[match[1]]].append(int(match[2]) - 1)
    return [sorted(set(captions)) for captions in flagged]


class Flickr30kSource(LinkedSource):
    """The photographs. Options besides those of ``LinkedSource``:

    max_uses: A phrase that more photographs share joins none of them (``shared-phrase``).
    """

    name = "flickr30k"
    edge_rules = (SHARED_PHRASE, MUTUAL_KNN)
    inputs = {"BryanPlummer/flickr30k_entities": REVISION, "Flickr30k captions": "20130124"}
    configs = (
        layout.NODES,
        layout.EDGES,
        layout.NODE_SPLITS,
        layout.EDGE_SPLITS,
        layout.negatives_config(NEGATIVES_RULE),
        "entities",
        "phrases",
    )
    defaults = LinkedSource.defaults | {"edges": SHARED_PHRASE, "max_uses": 20}

    def check(self) -> None:
        """As ``LinkedSource``, and ``max_uses``."""
        super().check()
        self.whole("max_uses", 2)

    def files(self) -> tuple[Path, str, str]:
        """The raw folder once all is there, the captions' file and the images' in it."""
        raw = self.raw_dir
        captions, images = (
            next((name for name in names if raw is not None and (raw / name).exists()), names[0])
            for names in ((TOKEN, KAGGLE), IMAGES)
        )
        own = f"from {REPOSITORY} at {REVISION}"
        wanted = dict.fromkeys((*LISTS, UNRELATED, ANNOTATIONS), own)
        wanted[captions] = f"or {KAGGLE}; on request from {REQUEST}"
        wanted[images] = f"a folder or archive; on request from {REQUEST}"
        return raw_folder(self.name, raw, wanted), captions, images

    def read(self) -> Graph:
        """Photographs as nodes; undirected edges with a weight: phrases shared, or the cosine."""
        folder, captions, images = self.files()
        found = read_captions(folder / captions)
        n = len(found.ids)
        public = read_lists(folder, found.ids)
        unrelated = read_unrelated(folder / UNRELATED, found.ids)
        annotations = read_annotations(folder / ANNOTATIONS, found.ids)
        pictures = ArchivePictures(folder / images, found.ids)
        notes = {"images without captions": pictures.foreign, **found.notes}
        edges = self._edges(annotations, found.ids)
        rule, negatives = self.link_prediction(edges.src, edges.dst, n)
        texts = [pa.array(column) for column in zip(*found.texts, strict=True)]
        rows = {layout.SOURCE_ID: pa.array(found.ids), layout.TEXT: texts[0]}
        rows |= dict(zip(CAPTIONS, texts, strict=True))
        rows["unrelated"] = pa.array(unrelated, pa.list_(pa.int64()))
        extra = {**dict.fromkeys(CAPTIONS, Value("string")), "unrelated": List(Value("int64"))}
        return Graph(
            num_nodes=n,
            nodes=schema.nodes_features(None, extra),
            read_nodes=NodeReader(pa.table(rows), pictures),
            src=edges.src,
            dst=edges.dst,
            edge_columns={layout.WEIGHT: (Value("float32"), edges.weight)},
            node_rules=(self.node_rule(n), public),
            edge_rules=(rule,),
            negatives=tuple(negatives),
            extra=tuple(annotations.tables()),
            notes={
                **notes,
                **_counted(annotations, found),
                "edge rule": self.options["edges"],
                **edges.notes,
            },
        )

    def _edges(self, annotations: Annotations, ids: list[str]) -> Edges:
        """Edges by the chosen rule."""
        if self.options["edges"] == MUTUAL_KNN:
            return self.knn(ids)
        group, node = annotations.shared(self.whole("max_uses"))
        edges = counted_edges(group_pairs(group, node), len(ids))
        return edges._replace(notes={"phrases that join": len(np.unique(group)), **edges.notes})


def _counted(annotations: Annotations, captions: Captions) -> dict[str, object]:
    """What differs between annotations and captions."""
    other = sum(
        plain != " ".join(text.split())
        for node, sentences in annotations.sentences.items()
        for plain, text in zip(sentences, captions.texts[node], strict=True)
    )
    return {
        "annotations of no image": annotations.foreign,
        "images without annotated boxes": len(captions.ids) - len(annotations.chains),
        "images without annotated sentences": len(captions.ids) - len(annotations.phrases),
        "annotated sentences that differ from the caption": other,
        "boxes that reach beyond their image": annotations.outside,
    }


class Flickr30k(SourceBuilder):
    """``datasets`` builder of Flickr30k."""

    SOURCE = Flickr30kSource
