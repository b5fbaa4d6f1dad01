"""Openclipart 0.18: public-domain clip art with title, keywords, author and category.

Source: the Debian packages openclipart-png and openclipart-svg 1:0.18+dfsg-19 (the same pictures
as PNG and as SVG; the SVG carries the metadata), as .deb files or unpacked. Equal pictures are
links in the packages and are nodes only once.
"""

from __future__ import annotations

import hashlib
import html
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow as pa
from datasets import ClassLabel, List, Value
from numpy.typing import NDArray

from maghub import layout, schema
from maghub.builders._formats.archives import Archive, Index, open_archive
from maghub.builders._formats.debfiles import LIMITS, open_deb
from maghub.builders._formats.svg import SvgMetadata, read_svg_metadata
from maghub.builders._graph import (
    Graph,
    GraphSource,
    NodeReader,
    edge_rule,
    stratified_rule,
    uniform_negatives,
)
from maghub.builders._keyed_pictures import KeyedPictures
from maghub.builders._source import SourceBuilder
from maghub.errors import MaghubError
from maghub.images import PixelRule

VERSION = "1:0.18+dfsg-19"
KINDS = ("png", "svg")
PACKAGES = tuple(f"openclipart-{kind}" for kind in KINDS)
FOLDERS = ("usr/share/openclipart", "openclipart", ".")
PUBLIC_DOMAIN = (
    "http://web.resource.org/cc/PublicDomain",
    "http://creativecommons.org/licenses/publicdomain/",
)
RELATIONS = ("shared-keyword", "same-author")
KEYWORD_USES = range(2, 21)
AUTHOR_STEPS = 5
NOBODY = ("", "anonymous", "unknown")
ARTEFACTS = frozenset({"hash"})  # a script wrote a Perl reference where a keyword should be
NODE_RULE, EDGE_RULE, NEGATIVES_RULE = "stratified", "random", "uniform"
MAX_SIDE = 256


def _locate(raw_dir: Path | None) -> dict[str, Path]:
    """Each package: its .deb, or the folder ``png`` or ``svg`` where it was unpacked."""
    fix = f"run in that folder: apt-get download {' '.join(PACKAGES)}"
    if raw_dir is None:
        raise MaghubError(f"openclipart needs --raw-dir with {' and '.join(PACKAGES)}", fix=fix)
    found = {}
    for kind, package in zip(KINDS, PACKAGES, strict=True):
        files = sorted(raw_dir.glob(f"{package}_*.deb"))
        if len(files) > 1:
            what = f"several versions of {package}: {', '.join(file.name for file in files)}"
            raise MaghubError(what, where=raw_dir, fix="leave one of them")
        folders = (raw_dir / folder / kind for folder in FOLDERS)
        if place := next((path for path in (*files, *folders) if path.exists()), None):
            found[kind] = place
    if missing := [f"openclipart-{kind}" for kind in KINDS if kind not in found]:
        what = f"Debian packages are missing: {', '.join(missing)} ({VERSION})"
        raise MaghubError(what, where=raw_dir, fix=fix)
    return found


def _key(name: str) -> str:
    """Path below the kind's folder without suffix: what the two packages share."""
    parts = PurePosixPath(name).with_suffix("").parts
    if parts[:3] == ("usr", "share", "openclipart"):
        parts = parts[4:]
    return "/".join(parts)


def _open(path: Path) -> Archive:
    return open_archive(path, LIMITS) if path.is_dir() else open_deb(path)


@dataclass(frozen=True)
class Clip:
    """One picture: its path without suffix, and what its SVG says."""

    key: str
    metadata: SvgMetadata

    @property
    def category(self) -> str:
        """Top folder, the class of the node."""
        return self.key.partition("/")[0]

    @property
    def author(self) -> str:
        """Creator, or the holder of the rights where none is named; without e-mail domains."""
        agents = self.metadata.agents
        name = html.unescape(agents.get("creator") or agents.get("rights", ""))
        return re.sub(r"@[\w.-]+", "", name).strip()

    @property
    def keywords(self) -> list[str]:
        """Keywords in upstream's order, lower case."""
        return [html.unescape(word) for word in self.metadata.keywords]

    def telling(self, categories: set[str]) -> list[str]:
        """Keywords that do not name a category: those would give the class away."""
        return [w for w in self.keywords if w not in categories and w not in ARTEFACTS]

    def text(self, categories: set[str]) -> str:
        """Title, description and telling keywords."""
        parts = [html.unescape(self.metadata.title), html.unescape(self.metadata.description)]
        parts.append(", ".join(self.telling(categories)))
        return "\n".join(dict.fromkeys(filter(None, parts)))


def _clips(path: Path, pictures: Index) -> Iterator[Clip]:
    """The metadata of every SVG that has a picture of its own, in the order of the files."""
    with _open(path) as archive:
        for name, data in archive.members():
            key = _key(name)
            if not name.endswith(".svg") or key not in pictures:
                continue
            if "/" not in key:
                raise MaghubError("lies in no category folder", where=f"{path}, {name}")
            try:
                yield Clip(key, read_svg_metadata(data))
            except ValueError as error:
                raise MaghubError(str(error), where=f"{path}, {name}") from None


def _public(found: list[Clip], pictures: Index) -> tuple[list[Clip], dict[str, int]]:
    """The clips in the public domain, sorted by key, and why others were left out."""
    kept = [clip for clip in found if clip.metadata.licence in PUBLIC_DOMAIN]
    licences = Counter(clip.metadata.licence or "none" for clip in found)
    counts = {f"licence {licence}": licences[licence] for licence in sorted(licences)}
    counts["pictures without metadata"] = len(pictures) - len(found)
    if not kept:
        raise MaghubError("no picture in the public domain", fix="check the raw files")
    return sorted(kept, key=lambda clip: clip.key), counts


def _edges(
    clips: list[Clip], categories: set[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Undirected edges (src < dst, relation), each once, sorted."""
    users, works = defaultdict(list), defaultdict(list)
    for node, clip in enumerate(clips):
        for word in clip.telling(categories):
            users[word].append(node)
        works[clip.author.casefold()].append(node)
    found: set[tuple[int, int, int]] = set()
    for nodes in users.values():
        if len(nodes) in KEYWORD_USES:
            found |= {(a, b, 0) for a, b in itertools.combinations(nodes, 2)}
    for author, nodes in works.items():
        if author not in NOBODY:
            found |= {(*sorted(pair), 1) for pair in _ring(nodes, clips)}  # type: ignore[misc]
    table = np.asarray(sorted(found), dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _ring(nodes: list[int], clips: list[Clip]) -> Iterator[tuple[int, int]]:
    """Pairs of one author: each with the next few in an order that says nothing (of a hash)."""
    order = sorted(nodes, key=lambda node: hashlib.sha256(clips[node].key.encode()).digest())
    for place, node in enumerate(order):
        for step in range(1, AUTHOR_STEPS + 1):
            other = order[(place + step) % len(order)]
            if other != node:
                yield node, other


class OpenclipartSource(GraphSource):
    """Openclipart 0.18 from its two Debian packages."""

    name = "openclipart"
    inputs = dict.fromkeys(PACKAGES, VERSION)
    configs = (
        layout.NODES,
        layout.EDGES,
        layout.NODE_SPLITS,
        layout.EDGE_SPLITS,
        layout.negatives_config(NEGATIVES_RULE),
    )

    def read(self) -> Graph:
        """Undirected, no loops; a pair may carry both relations (key src, dst, relation)."""
        places = _locate(self.raw_dir)
        pictures = KeyedPictures(partial(_open, places["png"]), _key, (".png",))
        found = list(_clips(places["svg"], pictures.index))
        clips, counts = _public(found, pictures.index)
        names = sorted({clip.category for clip in clips})
        categories = {word for name in names for word in (name, name.replace("_", " "))}
        labels = np.asarray([names.index(clip.category) for clip in clips], np.int64)
        src, dst, relation = _edges(clips, categories)
        edges = edge_rule(EDGE_RULE, src, dst, len(clips), self.seed)
        rows = pa.table(
            {
                layout.SOURCE_ID: [clip.key for clip in clips],
                layout.TEXT: [clip.text(categories) for clip in clips],
                layout.LABEL: labels,
                "author": [clip.author for clip in clips],
                "keywords": pa.array([clip.keywords for clip in clips], pa.list_(pa.string())),
            }
        )
        extra = {"author": Value("string"), "keywords": List(Value("string"))}
        pictures.keys = tuple(clip.key for clip in clips)
        return Graph(
            num_nodes=len(clips),
            nodes=schema.nodes_features(names, extra),
            read_nodes=NodeReader(rows, pictures, PixelRule(max_side=MAX_SIDE)),
            src=src,
            dst=dst,
            edge_columns={layout.RELATION: (ClassLabel(names=list(RELATIONS)), relation)},
            edge_key=(layout.SRC, layout.DST, layout.RELATION),
            node_rules=(stratified_rule(NODE_RULE, labels, self.seed, within="category"),),
            edge_rules=(edges,),
            negatives=(uniform_negatives(NEGATIVES_RULE, edges, src, dst, len(clips), self.seed),),
            notes={"pictures": counts},
        )


class Openclipart(SourceBuilder):
    """``datasets`` builder: ``Openclipart(config_name="nodes", raw_dir=...)``."""

    SOURCE = OpenclipartSource
