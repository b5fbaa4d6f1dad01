"""emoji: 1,911 emoji with picture, label and tags; edges from composition and shared tags.

Upstream: npm packages emojibase-data 17.0.0 (MIT; labels, tags, groups) and emoji-datasource-google
16.0.0 (data MIT, Noto pictures Apache-2.0; 64 px PNG). Without ``raw_dir`` the sample folder that
ships with maghub is the input; it was built from those two packages by this file.
"""

from __future__ import annotations

import itertools
import json
import tarfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from datasets import ClassLabel, Value
from numpy.typing import NDArray

from maghub import layout, schema
from maghub.builders._graph import (
    Graph,
    GraphSource,
    NodeReader,
    edge_rule,
    stratified_rule,
    uniform_negatives,
)
from maghub.builders._source import SourceBuilder
from maghub.errors import MaghubError
from maghub.files import os_errors
from maghub.loading import sample_path
from maghub.reader import int_columns, read_columns
from maghub.spec import read_spec

DATA_PACKAGE, DATA_VERSION = "emojibase-data", "17.0.0"
IMAGE_PACKAGE, IMAGE_VERSION = "emoji-datasource-google", "16.0.0"
RELATIONS = ("composition", "shared-tag")
TAG_USES = range(2, 21)
NODE_RULE, EDGE_RULE, NEGATIVES_RULE = "stratified", "random", "uniform"
JOINER, VARIATION = "-200D-", "-FE0F"


@dataclass(frozen=True)
class Entry:
    """One emoji as upstream describes it."""

    hexcode: str
    character: str
    label: str
    tags: tuple[str, ...]
    group: int
    subgroup: str


@dataclass(frozen=True)
class Raw:
    """Everything the tables are made of, in node order."""

    rows: pa.Table  # source_id, text, image bytes, label, subgroup, emoji
    groups: tuple[str, ...]
    src: NDArray[np.int64]
    dst: NDArray[np.int64]
    relation: NDArray[np.int64]


class _Package:
    """Files of one npm package: the ``.tgz`` that ``npm pack`` writes, or an unpacked folder."""

    def __init__(self, path: Path, version: str) -> None:
        self.path = path
        if path.is_dir():
            with os_errors(path):
                found = json.loads((path / "package.json").read_text("utf-8"))["version"]
            if found != version:
                raise MaghubError(f"is version {found}, need {version}", where=path)

    @staticmethod
    def find(raw_dir: Path, name: str, version: str) -> Path | None:
        """Where the package lies below the raw folder."""
        archive = raw_dir / f"{name}-{version}.tgz"
        folders = [raw_dir / name, raw_dir / "node_modules" / name]
        return next((path for path in [archive, *folders] if path.exists()), None)

    def read(self, wanted: set[str]) -> dict[str, bytes]:
        """Contents of the wanted files (paths inside the package) in one pass."""
        if self.path.is_dir():
            with os_errors(self.path):
                return {name: (self.path / name).read_bytes() for name in sorted(wanted)}
        found = {}
        try:
            with tarfile.open(self.path, "r|gz") as tar:
                for member in tar:
                    name = member.name.removeprefix("package/")
                    if member.isfile() and name in wanted:
                        stream = tar.extractfile(member)
                        assert stream is not None
                        found[name] = stream.read()
        except (tarfile.TarError, OSError, EOFError) as error:
            raise MaghubError(
                f"is not a whole .tgz ({error})", where=self.path, fix="run npm pack again"
            ) from None
        if missing := sorted(wanted - set(found)):
            raise MaghubError(f"holds no {missing[0]}", where=self.path, fix="run npm pack again")
        return found


def _packages(raw_dir: Path) -> list[_Package]:
    """Both packages; the error names every one that is missing."""
    wanted = {DATA_PACKAGE: DATA_VERSION, IMAGE_PACKAGE: IMAGE_VERSION}
    paths = {name: _Package.find(raw_dir, name, version) for name, version in wanted.items()}
    if missing := [f"{name}@{wanted[name]}" for name, path in paths.items() if path is None]:
        raise MaghubError(
            f"npm packages are missing: {', '.join(missing)}",
            where=raw_dir,
            fix=f"run in that folder: npm pack {' '.join(missing)}",
        )
    return [_Package(path, wanted[name]) for name, path in paths.items() if path is not None]


def _plain(hexcode: str) -> str:
    """A hexcode without variation selectors, upper case: how the two packages are joined."""
    return hexcode.upper().replace(VARIATION, "")


def _read_packages(raw_dir: Path) -> Raw:
    """Parse the two npm packages."""
    data, pictures = _packages(raw_dir)
    try:
        return _parsed(data, pictures)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        what = f"JSON is not that of {DATA_PACKAGE} and {IMAGE_PACKAGE} ({error!r})"
        raise MaghubError(what, where=raw_dir, fix="run npm pack again") from None


def _parsed(data: _Package, pictures: _Package) -> Raw:
    texts = data.read({"en/data.json", "en/messages.json"})
    entries = json.loads(texts["en/data.json"])
    messages = json.loads(texts["en/messages.json"])
    groups = tuple(g["key"] for g in sorted(messages["groups"], key=lambda g: g["order"]))
    subgroups = {g["order"]: g["key"] for g in messages["subgroups"]}
    listing = json.loads(pictures.read({"emoji.json"})["emoji.json"])
    files = {
        _plain(item["unified"]): f"img/google/64/{item['image']}"
        for item in listing
        if item["has_img_google"]
    }
    kept = [
        Entry(
            hexcode=entry["hexcode"],
            character=entry["emoji"],
            label=entry["label"],
            tags=tuple(entry.get("tags", ())),
            group=entry["group"],
            subgroup=subgroups[entry["subgroup"]],
        )
        for entry in sorted(entries, key=lambda entry: entry.get("order", 0))
        if "group" in entry and _plain(entry["hexcode"]) in files
    ]
    blobs = pictures.read({files[_plain(emoji.hexcode)] for emoji in kept})
    rows = pa.table(
        {
            layout.SOURCE_ID: [emoji.hexcode for emoji in kept],
            layout.TEXT: [": ".join(filter(None, (e.label, ", ".join(e.tags)))) for e in kept],
            layout.IMAGE: [blobs[files[_plain(emoji.hexcode)]] for emoji in kept],
            layout.LABEL: [emoji.group for emoji in kept],
            "subgroup": [emoji.subgroup for emoji in kept],
            "emoji": [emoji.character for emoji in kept],
        }
    )
    return Raw(rows, groups, *_edges(kept))


def _edges(
    emoji: list[Entry],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Undirected edges (src < dst, relation), each once, sorted."""
    index = {_plain(item.hexcode): node for node, item in enumerate(emoji)}
    found: set[tuple[int, int, int]] = set()
    users: dict[str, list[int]] = defaultdict(list)
    for node, item in enumerate(emoji):
        if JOINER in item.hexcode:
            parts = {index.get(_plain(part)) for part in item.hexcode.split(JOINER)}
            found |= {(*sorted((node, p)), 0) for p in parts if p is not None and p != node}  # type: ignore[misc]
        for tag in set(item.tags):
            users[tag].append(node)
    for nodes in users.values():
        if len(nodes) in TAG_USES:
            found |= {(a, b, 1) for a, b in itertools.combinations(sorted(nodes), 2)}
    table = np.asarray(sorted(found), dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _read_sample() -> Raw:
    """The same content from the folder that ships with maghub."""
    folder = sample_path("emoji")
    if folder is None:
        raise MaghubError(
            "the bundled emoji sample is missing", fix="give the npm packages with --raw-dir"
        )
    spec = read_spec(folder)
    nodes, edges = spec.config(layout.NODES), spec.config(layout.EDGES)
    label = schema.features_from_dict(nodes.features)[layout.LABEL]
    table = read_columns(folder, nodes, list(nodes.features)).sort_by(layout.NODE_ID)
    image = table.column_names.index(layout.IMAGE)
    blobs = pa.chunked_array([c.field("bytes") for c in table[layout.IMAGE].chunks])
    rows = table.set_column(image, layout.IMAGE, blobs).drop_columns([layout.NODE_ID])
    columns = [layout.SRC, layout.DST, layout.RELATION]
    return Raw(rows.combine_chunks(), tuple(label.names), *int_columns(folder, edges, columns))


@dataclass(frozen=True)
class _Pictures:
    """Upstream bytes of each node's picture (picklable)."""

    blobs: pa.ChunkedArray

    def __call__(self, node: int) -> bytes | None:
        return self.blobs[node].as_py()


class EmojiSource(GraphSource):
    """The emoji graph from its two npm packages, or from the bundled sample."""

    name = "emoji"
    inputs = {DATA_PACKAGE: DATA_VERSION, IMAGE_PACKAGE: IMAGE_VERSION}
    configs = (
        layout.NODES,
        layout.EDGES,
        layout.NODE_SPLITS,
        layout.EDGE_SPLITS,
        layout.negatives_config(NEGATIVES_RULE),
    )

    def read(self) -> Graph:
        """Undirected, no loops; a pair may carry both relations (key src, dst, relation)."""
        raw = _read_sample() if self.raw_dir is None else _read_packages(self.raw_dir)
        n = raw.rows.num_rows
        labels = np.asarray(raw.rows[layout.LABEL].combine_chunks(), dtype=np.int64)
        edges = edge_rule(EDGE_RULE, raw.src, raw.dst, n, self.seed)
        extra = {"subgroup": Value("string"), "emoji": Value("string")}
        pictures = _Pictures(raw.rows[layout.IMAGE])
        # Upstream bytes stay as they are: transparent 64 px PNG that encoders put on white.
        reader = NodeReader(raw.rows.drop_columns([layout.IMAGE]), pictures, rule=None)
        return Graph(
            num_nodes=n,
            nodes=schema.nodes_features(raw.groups, extra),
            read_nodes=reader,
            src=raw.src,
            dst=raw.dst,
            edge_columns={layout.RELATION: (ClassLabel(names=list(RELATIONS)), raw.relation)},
            edge_key=(layout.SRC, layout.DST, layout.RELATION),
            node_rules=(stratified_rule(NODE_RULE, labels, self.seed, within="group"),),
            edge_rules=(edges,),
            negatives=(uniform_negatives(NEGATIVES_RULE, edges, raw.src, raw.dst, n, self.seed),),
        )


class Emoji(SourceBuilder):
    """``datasets`` builder of the emoji graph: ``Emoji(config_name="nodes", raw_dir=...)``."""

    SOURCE = EmojiSource
