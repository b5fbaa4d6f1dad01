"""Annotations of Flickr30k Entities: boxes of things in a picture, phrases of its captions.

``annotations.zip`` of BryanPlummer/flickr30k_entities at 68b3d6f: ``Annotations/{id}.xml`` in the
VOC style and ``Sentences/{id}.txt``, five lines with phrases marked ``[/EN#chain/type words]``.
A chain is one thing, or several of a kind, in one picture; chain 0 marks words that name nothing
visible and is no thing. Boxes count from 1 upstream and from 0 here, both corners inside, as
upstream's own reader does. An object may have several names: its box belongs to each of the chains.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
from datasets import Features, List, Value

from maghub import layout
from maghub.builders._edges import Ids
from maghub.builders._formats.archives import open_archive
from maghub.builders._source import Table, in_memory
from maghub.errors import MaghubError, place
from maghub.schema import BOOL, INT64, STRING

NOT_VISUAL = 0
SENTENCES = 5
CORNERS = ("xmin", "ymin", "xmax", "ymax")
ARTICLES = ("a ", "an ", "the ")
_PHRASE = re.compile(r"\[/EN#(\d{1,18})/(\S+) ([^\[\]]*)\]")


@dataclass(frozen=True)
class Phrase:
    """Words of one caption that name a chain; ``word`` is the place of the first, from 0."""

    sentence: int
    word: int
    text: str
    chain: int
    types: tuple[str, ...]


@dataclass
class Chain:
    """What the picture shows of one chain: boxes (from 0), or why there are none."""

    boxes: list[tuple[int, ...]] = field(default_factory=list)
    scene: bool = False
    no_box: bool = False


@dataclass
class Annotations:
    """Phrases, captions without markup, and chains of each node that has any."""

    phrases: dict[int, list[Phrase]] = field(default_factory=dict)
    sentences: dict[int, list[str]] = field(default_factory=dict)
    chains: dict[int, dict[int, Chain]] = field(default_factory=dict)
    foreign: int = 0
    outside: int = 0

    def tables(self) -> list[Table]:
        """The configs ``entities`` and ``phrases``."""
        return [self._entities(), self._phrases()]

    def _entities(self) -> Table:
        columns: dict[str, list[object]] = {name: [] for name in ENTITY_COLUMNS}
        for node in sorted(self.chains.keys() | self.phrases.keys()):
            chains = self.chains.get(node, {})
            named: dict[int, list[Phrase]] = {}
            for phrase in self.phrases.get(node, []):
                named.setdefault(phrase.chain, []).append(phrase)
            for number in sorted((chains.keys() | named.keys()) - {NOT_VISUAL}):
                chain, phrases = chains.get(number, Chain()), named.get(number, [])
                row = (
                    node,
                    number,
                    [list(box) for box in chain.boxes],
                    chain.scene,
                    chain.no_box,
                    [phrase.text for phrase in phrases],
                    [phrase.sentence for phrase in phrases],
                )
                for name, value in zip(columns, row, strict=True):
                    columns[name].append(value)
        return _table("entities", ENTITY_COLUMNS, columns)

    def _phrases(self) -> Table:
        rows = [(node, phrase) for node in sorted(self.phrases) for phrase in self.phrases[node]]
        columns: dict[str, list[object]] = {
            layout.NODE_ID: [node for node, _ in rows],
            "caption": [phrase.sentence for _, phrase in rows],
            "first_word": [phrase.word for _, phrase in rows],
            "phrase": [phrase.text for _, phrase in rows],
            "entity": [None if p.chain == NOT_VISUAL else p.chain for _, p in rows],
            "types": [list(phrase.types) for _, phrase in rows],
        }
        return _table("phrases", PHRASE_COLUMNS, columns)

    def shared(self, most: int) -> tuple[Ids, Ids]:
        """(phrase, node) of the phrases for visible things that 2 to ``most`` pictures have.

        Phrases are equal where their words are, without case and a leading article.
        """
        codes: dict[str, int] = {}
        found = {
            (codes.setdefault(_plain(phrase.text), len(codes)), node)
            for node, phrases in sorted(self.phrases.items())
            for phrase in phrases
            if phrase.chain != NOT_VISUAL
        }
        group, node = np.asarray(sorted(found), np.int64).reshape(-1, 2).T
        uses = np.bincount(group)[group] if len(group) else group
        kept = (uses >= 2) & (uses <= most)
        return group[kept], node[kept]


ENTITY_COLUMNS = Features(
    {
        layout.NODE_ID: INT64,
        "entity": INT64,
        "boxes": List(List(Value("int32"), length=4)),
        "scene": BOOL,
        "no_box": BOOL,
        "phrases": List(STRING),
        "captions": List(INT64),
    }
)
PHRASE_COLUMNS = Features(
    {
        layout.NODE_ID: INT64,
        "caption": INT64,
        "first_word": INT64,
        "phrase": STRING,
        "entity": INT64,
        "types": List(STRING),
    }
)


def _table(config: str, features: Features, columns: dict[str, list[object]]) -> Table:
    arrays = pa.table(columns, schema=pa.schema(list(features.arrow_schema)))
    return in_memory(config, "table", features, arrays, target=layout.NODES)


def _plain(phrase: str) -> str:
    text = phrase.lower()
    return next((text[len(a) :] for a in ARTICLES if text.startswith(a)), text)


def read_annotations(path: Path, image_ids: Sequence[str]) -> Annotations:
    """Everything in the archive (or folder) on the pictures with these ids; others are counted."""
    node_of = {image: node for node, image in enumerate(image_ids)}
    found = Annotations()
    with open_archive(path) as archive:
        for name, data in archive.members():
            member = PurePosixPath(name)
            kind = (member.parent.name, member.suffix)
            if kind not in (("Annotations", ".xml"), ("Sentences", ".txt")) or name[0] in "._":
                continue
            node = node_of.get(member.stem)
            if node is None:
                found.foreign += 1
            elif member.suffix == ".xml":
                found.chains[node], outside = _chains(f"{path}, {name}", data)
                found.outside += outside
            else:
                parsed = _sentences(f"{path}, {name}", data)
                found.sentences[node], found.phrases[node] = parsed
    if not found.phrases and not found.chains:
        raise MaghubError("holds no annotation of these pictures", where=path)
    return found


def _sentences(where: str, data: bytes) -> tuple[list[str], list[Phrase]]:
    """Five captions without markup, and their phrases in order."""
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise MaghubError(f"not UTF-8 ({error.reason})", where=where) from None
    if len(lines) != SENTENCES:
        raise MaghubError(f"has {len(lines)} lines, expected {SENTENCES}", where=where)
    plain, phrases = [], []
    for number, line in enumerate(lines):
        text, end = "", 0
        for match in _PHRASE.finditer(line):
            text += line[end : match.start()]
            types = tuple(match[2].split("/"))
            phrases.append(Phrase(number, len(text.split()), match[3], int(match[1]), types))
            text, end = text + match[3], match.end()
        text += line[end:]
        if "[/EN#" in text:
            raise MaghubError("broken markup of a phrase", where=place(where, row=number + 1))
        plain.append(" ".join(text.split()))
    return plain, phrases


def _chains(where: str, data: bytes) -> tuple[dict[int, Chain], int]:
    """The chains of one picture, and how many boxes reach beyond it."""
    if b"<!" in data:  # a document type could define entities that unfold without end
        raise MaghubError("not a plain annotation: it holds a declaration", where=where)
    try:
        root = ElementTree.fromstring(data)
        width, height = (_number(root, f"size/{side}") for side in ("width", "height"))
        chains: dict[int, Chain] = {}
        outside = 0
        for item in root.iter("object"):
            box = item.find("bndbox")
            corners = None if box is None else tuple(_number(box, at) - 1 for at in CORNERS)
            if corners is not None:
                outside += min(corners) < 0 or corners[2] >= width or corners[3] >= height
            for name in item.findall("name"):
                chain = chains.setdefault(int(name.text or ""), Chain())
                chain.boxes += [] if corners is None else [corners]
                chain.scene |= item.findtext("scene", "0").strip() == "1"
                chain.no_box |= item.findtext("nobndbox", "0").strip() == "1"
    except (ElementTree.ParseError, ValueError) as error:
        raise MaghubError(f"not an annotation ({error})", where=where) from None
    return chains, outside


def _number(item: ElementTree.Element, path: str) -> int:
    text = (item.findtext(path) or "").strip()
    if not re.fullmatch(r"-?\d{1,9}", text):
        raise ValueError(f"{path} is {text[:20]!r}")
    return int(text)
