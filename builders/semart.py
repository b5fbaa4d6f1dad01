"""SemArt: 21,382 paintings of the Web Gallery of Art with a comment and attributes.

Upstream: noagarcia/SemArt at bc695a0 and ``SemArt.zip`` of Aston University (eprint 380):
``semart_{train,val,test}.csv``, separated by tabs, in Latin-1, with a header row; ``Images/``.

Four kinds of edges, one relation each, joined by ``+`` in the option ``edges``: paintings by the
same author (all pairs); of the same school or timeframe (each painting draws a few of them, for
the groups have thousands); mutual nearest neighbours. ``openmag-knn`` is what the released code of
OpenMAG does (src/utils/build.py at 825b81b): mutual 10-NN on the mean of text and image vectors,
and all pairs of one author; its self loops are left out here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow as pa
from datasets import ClassLabel, Value
from numpy.typing import NDArray

from maghub import layout, schema
from maghub.builders._edges import Ids, group_pairs
from maghub.builders._fetch import Remote, raw_folder
from maghub.builders._formats.archives import open_archive
from maghub.builders._formats.tables import Column, Layout, Row, Table
from maghub.builders._formats.text import clean_text
from maghub.builders._graph import Graph, NodeReader, Rule, store_undirected
from maghub.builders._linked import MUTUAL_KNN, NEGATIVES_RULE, Edges, LinkedSource
from maghub.builders._pictures import ArchivePictures
from maghub.builders._source import SourceBuilder
from maghub.errors import MaghubError
from maghub.seeding import child_rng

REVISION = "bc695a0"
URL = "https://researchdata.aston.ac.uk/id/eprint/380/1/SemArt.zip"
PARTS = {"train": layout.TRAIN, "val": layout.VALIDATION, "test": layout.TEST}
AUTHOR = "author"
CAPPED = ("school", "timeframe")
RELATIONS = (AUTHOR, *CAPPED, MUTUAL_KNN)
RELEASED = "openmag-knn"
PUBLIC = "public"
ATTRIBUTES = ("title", "author", "school", "type", "timeframe", "technique", "date")
COLUMNS = [
    Column("IMAGE_FILE"),
    Column("DESCRIPTION"),
    *(Column(name.upper(), required=name not in ("technique", "date")) for name in ATTRIBUTES),
]
# cp1252 before Latin-1: equal where both fit, and its quotation marks are no control characters.
PAINTING_TABLE = Layout("\t", ("utf-8", "cp1252", "latin-1"), quoting="auto")


@dataclass(frozen=True)
class Paintings:
    """The three tables one after the other; node ids follow the rows."""

    files: list[str]
    texts: list[str]
    attributes: dict[str, list[str]]
    codes: NDArray[np.int8]
    notes: dict[str, object]


@contextmanager
def _tables(path: Path) -> Iterator[dict[str, Path]]:
    """The three tables as files: those of a folder, or copies of those in the zip."""
    names = {part: f"semart_{part}.csv" for part in PARTS}
    if path.is_dir():
        yield {part: path / name for part, name in names.items()}
        return
    with tempfile.TemporaryDirectory(prefix="maghub-semart-") as folder:
        with open_archive(path) as archive:
            index = archive.index(key=lambda name: PurePosixPath(name).name, suffixes=(".csv",))
            if missing := [name for name in names.values() if name not in index]:
                raise MaghubError(f"holds no {', '.join(missing)}", where=path, fix=f"get {URL}")
            for name in names.values():
                (Path(folder) / name).write_bytes(index.read(name) or b"")
        try:
            yield {part: Path(folder) / name for part, name in names.items()}
        except MaghubError as error:
            where = (error.where or str(path)).replace(folder, str(path))
            raise MaghubError(error.what, where=where, fix=error.fix) from None


def read_paintings(path: Path) -> Paintings:
    """Rows of the train, val and test table, in this order.

    Args:
        path: ``SemArt.zip`` or the folder that it unpacks to.
    """
    rows: list[Row] = []
    codes: list[int] = []
    written: dict[str, str] = {}
    with _tables(path) as tables:
        for part, file in tables.items():
            table = Table(file, COLUMNS, PAINTING_TABLE)
            found = list(table)
            if not found:
                raise MaghubError("holds no paintings", where=file)
            rows += found
            codes += [layout.SPLITS.index(PARTS[part])] * len(found)
            quotes = "quotes are text" if table.quoting == "none" else "quotes as in CSV"
            written[file.name] = f"{table.encoding}, {quotes}"
        files = [_image_file(row) for row in rows]
    attributes = {name: [clean_text(row.get(name.upper())) for row in rows] for name in ATTRIBUTES}
    notes: dict[str, object] = {
        "tables read as": written,
        "image files named by more than one row": len(files) - len(set(files)),
    }
    texts = [clean_text(row["DESCRIPTION"]) for row in rows]
    return Paintings(files, texts, attributes, np.asarray(codes, np.int8), notes)


def _image_file(row: Row) -> str:
    name = row["IMAGE_FILE"].strip()
    if not name:
        raise row.fail("IMAGE_FILE", "is empty")
    return name


def _groups(values: Sequence[str]) -> tuple[Ids, Ids]:
    """(group, node) of all nodes that have a value."""
    named = np.asarray(values, dtype=str)
    node = np.flatnonzero(named != "")
    _, group = np.unique(named[node], return_inverse=True)
    return group.astype(np.int64), node


class SemArtSource(LinkedSource):
    """The paintings. Options besides those of ``LinkedSource``:

    edges: author, school, timeframe, mutual-knn, several with ``+`` between them, or openmag-knn.
    cap: How many partners a painting draws within its school or timeframe.
    """

    name = "semart"
    inputs = {"noagarcia/SemArt": REVISION, "SemArt.zip": "eprint 380"}
    configs = (
        layout.NODES,
        layout.EDGES,
        layout.NODE_SPLITS,
        layout.EDGE_SPLITS,
        layout.negatives_config(NEGATIVES_RULE),
    )
    defaults = LinkedSource.defaults | {"edges": AUTHOR, "cap": 10}

    def check(self) -> None:
        """As ``LinkedSource``; ``edges`` may name several rules."""
        self.relations()
        for option, low in (("k", 1), ("cap", 1), ("negatives", 0)):
            self.whole(option, low)

    def relations(self) -> list[str]:
        """The kinds of edges asked for, in stored order."""
        given = str(self.options["edges"])
        asked = {MUTUAL_KNN, AUTHOR} if given == RELEASED else set(given.split("+"))
        if unknown := sorted(asked - set(RELATIONS)):
            what = f"option edges names {unknown[0]!r}; known: {', '.join(RELATIONS)}, {RELEASED}"
            raise MaghubError(what, where=self.name)
        return [relation for relation in RELATIONS if relation in asked]

    def location(self) -> tuple[Path, Path]:
        """Where the tables are, and where the images are: the zip, or folders."""
        raw = self.raw_dir
        for below in ("SemArt", "."):
            if raw is not None and any((raw / below / f"semart_{p}.csv").exists() for p in PARTS):
                names = [*(f"semart_{part}.csv" for part in PARTS), "Images"]
                files = {f"{below}/{name}".removeprefix("./"): f"from {URL}" for name in names}
                folder = raw_folder(self.name, raw, files) / below
                return folder, folder / "Images"
        archive = raw_folder(self.name, raw, {"SemArt.zip": Remote(URL)}) / "SemArt.zip"
        return archive, archive

    def read(self) -> Graph:
        """Paintings as nodes; a pair may carry several relations (key src, dst, relation)."""
        relations, cap = self.relations(), self.whole("cap")
        tables, images = self.location()
        found = read_paintings(tables)
        n = len(found.files)
        pictures = ArchivePictures(images, [PurePosixPath(file).stem for file in found.files])
        notes = {"images of no row": pictures.foreign, **found.notes}
        parts = [self._edges(relation, found, cap) for relation in relations]
        src, dst = np.concatenate([p.src for p in parts]), np.concatenate([p.dst for p in parts])
        kinds = np.repeat(
            [RELATIONS.index(name) for name in relations], [len(p.src) for p in parts]
        )
        columns: dict[str, tuple[object, object]] = {
            layout.RELATION: (ClassLabel(names=list(RELATIONS)), kinds)
        }
        if MUTUAL_KNN in relations:
            columns[layout.WEIGHT] = (Value("float32"), np.concatenate([p.weight for p in parts]))
        rule, negatives = self.link_prediction(src, dst, n)
        own = Rule(PUBLIC, found.codes, "the three files of upstream", origin="upstream")
        texts = {name: pa.array(values) for name, values in found.attributes.items()}
        rows = {layout.SOURCE_ID: pa.array(found.files), layout.TEXT: pa.array(found.texts)}
        for part in parts:
            notes |= part.notes
        return Graph(
            num_nodes=n,
            nodes=schema.nodes_features(None, dict.fromkeys(texts, Value("string"))),
            read_nodes=NodeReader(pa.table({**rows, **texts}), pictures),
            src=src,
            dst=dst,
            edge_columns=columns,
            edge_key=(layout.SRC, layout.DST, layout.RELATION),
            node_rules=(self.node_rule(n), own),
            edge_rules=(rule,),
            negatives=tuple(negatives),
            notes={"edge rule": self.options["edges"], **notes},
        )

    def _edges(self, relation: str, found: Paintings, cap: int) -> Edges:
        """Edges of one relation; the weight is 1 for a shared attribute."""
        if relation == MUTUAL_KNN:
            return self.knn(found.files)
        n = len(found.files)
        group, node = _groups(found.attributes[relation])
        rng = child_rng(self.seed, "edges", relation)
        pairs = group_pairs(group, node, cap if relation in CAPPED else None, rng)
        stored = store_undirected(pairs.src, pairs.dst, n)
        notes: dict[str, object] = {
            f"edges by {relation}": len(stored.src),
            f"nodes without {relation}": n - len(node),
        }
        return Edges(stored.src, stored.dst, np.ones(len(stored.src), np.float32), notes)


class SemArt(SourceBuilder):
    """``datasets`` builder of SemArt."""

    SOURCE = SemArtSource
