"""ogbn-arxiv: OGB's files of the graph, and titleabs.tsv for the texts.

Sources: ``arxiv.zip`` of OGB, unzipped (``raw/``, ``split/time/``, ``mapping/``, all csv.gz), and
``titleabs.tsv.gz`` beside it. Facts of both: the OGB loader (ogb 1.3), and the issues cited where
they matter. Columns of numbers go through Arrow's CSV reader: the features are 21 million cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from datasets import Value
from numpy.typing import NDArray

from maghub import layout, schema
from maghub.builders._fetch import raw_folder
from maghub.builders._formats.tables import Column, Layout, Repair, Table, join_extra
from maghub.builders._formats.text import clean_text
from maghub.builders._graph import Graph, GraphSource, NodeReader, Rule, store_directed
from maghub.builders._matrix_config import text_vectors
from maghub.builders._source import SourceBuilder
from maghub.errors import MaghubError, place
from maghub.spec import EncoderProvenance

ZIP = "unzip arxiv.zip of OGB, http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"
TSV = "https://snap.stanford.edu/ogb/data/misc/ogbn_arxiv/titleabs.tsv.gz"
TEXTS = "titleabs.tsv.gz"
SPLITS = {"train": layout.TRAIN, "valid": layout.VALIDATION, "test": layout.TEST}
LABELS = "mapping/labelidx2arxivcategeory.csv.gz"  # upstream's spelling
FILES = (
    "raw/num-node-list.csv.gz",
    "raw/edge.csv.gz",
    "raw/node-feat.csv.gz",
    "raw/node-label.csv.gz",
    "raw/node_year.csv.gz",
    *(f"split/time/{part}.csv.gz" for part in SPLITS),
    "mapping/nodeidx2paperid.csv.gz",
    LABELS,
)
FOLDERS = ("arxiv", "ogbn_arxiv", ".")
YEAR, ENCODER = "year", "skipgram"


def _no_abstract(cells: list[str], width: int) -> list[str] | None:
    """A repair: an id and a title, or an id alone."""
    return [*cells, *[""] * (width - len(cells))] if len(cells) < width else None


REPAIRS: dict[str, Repair] = {"tab in abstract": join_extra(2, "\t"), "no abstract": _no_abstract}


def _numbers(path: Path, kind: pa.DataType, columns: int, rows: int | None = None) -> NDArray:
    """A headerless csv.gz of numbers as an array [rows, columns].

    Raises:
        MaghubError: Damaged, not numbers, or of another shape.
    """
    names = [f"c{i}" for i in range(columns)]
    convert = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, kind), null_values=[])
    try:
        table = pa.csv.read_csv(
            path, pa.csv.ReadOptions(column_names=names), convert_options=convert
        )
    except (pa.ArrowInvalid, OSError) as error:
        reason = " ".join(str(error).split())[:160]
        raise MaghubError(f"cannot be read ({reason})", where=path, fix="get it again") from None
    if rows is not None and table.num_rows != rows:
        raise MaghubError(f"{table.num_rows} rows, expected {rows}", where=path, fix="get it again")
    if columns == 1:
        return table.column(0).to_numpy()[:, None]
    return np.column_stack([column.to_numpy() for column in table.columns])


def _ids(path: Path, columns: int, count: int, rows: int | None = None) -> NDArray[np.int64]:
    """Integers from 0 to ``count`` - 1."""
    values = _numbers(path, pa.int64(), columns, rows)
    bad = np.flatnonzero(((values < 0) | (values >= count)).any(axis=1))
    if len(bad):
        what = f"{values[bad[0]].tolist()} is not within 0..{count - 1}"
        raise MaghubError(what, where=place(path, row=int(bad[0]) + 1))
    return values


@dataclass(frozen=True)
class _Slice:
    """Rows of a matrix in memory."""

    matrix: NDArray[np.float32]

    def __call__(self, start: int, stop: int) -> NDArray[np.floating]:
        return self.matrix[start:stop]


def _mapping(path: Path, names: Sequence[str]) -> list[tuple[int, str]]:
    """The pairs of a mapping file, in its order."""
    rows = Table(path, [Column(name) for name in names])
    return [(row.integer(names[0]), row[names[1]].strip()) for row in rows]


def _class_name(category: str) -> str:
    """``arxiv cs na`` is written cs.NA elsewhere."""
    archive, _, subject = category.removeprefix("arxiv ").partition(" ")
    return f"{archive}.{subject.upper()}" if subject else archive


def _texts(path: Path, papers: dict[str, int]) -> tuple[list[str], dict[str, int]]:
    """Texts by node, joined by paper id (the file has more papers, in another order).

    Its first line is no paper and some ids are no numbers (ogb issues 222 and 478, dgl 7270).
    """
    columns = ("paper id", "title", "abstract")
    rows = Table(path, None, Layout("\t", quoting="none", header=columns, repairs=REPAIRS))
    texts = [""] * len(papers)
    counts = dict.fromkeys(("rows", "not a paper id", "papers that are no node", "repeated"), 0)
    for row in rows:
        paper = row["paper id"].strip()
        paper = paper.removesuffix(".0")
        counts["rows"] += 1
        if not paper.isdigit():
            counts["not a paper id"] += 1
        elif (node := papers.get(paper)) is None:
            counts["papers that are no node"] += 1
        elif texts[node]:
            counts["repeated"] += 1
        else:
            parts = (clean_text(row["title"]), clean_text(row["abstract"]))
            texts[node] = "\n".join(filter(None, parts))
    return texts, counts | {f"repaired: {name}": n for name, n in sorted(rows.repairs.items())}


class OgbnArxivSource(GraphSource):
    """The citation graph of arXiv's computer-science papers."""

    name = "ogbn-arxiv"
    inputs = {"arxiv.zip": "ogbn-arxiv, OGB version 1", TEXTS: "as OGB serves it"}
    configs = (
        layout.NODES,
        layout.EDGES,
        layout.NODE_SPLITS,
        layout.embeddings_config(ENCODER),
    )

    def _folder(self) -> tuple[Path, Path]:
        """The unzipped folder, and the file of texts."""
        base = self.raw_dir
        prefix = "arxiv"
        if base is not None:
            found = (name for name in FOLDERS if (base / name / "raw").is_dir())
            prefix = next(found, prefix)
        files = {(Path(prefix) / file).as_posix(): ZIP for file in FILES}
        folder = raw_folder(self.name, base, {**files, TEXTS: f"from {TSV}"})
        return folder / prefix, folder / TEXTS

    def read(self) -> Graph:
        """Directed, from the citing paper to the cited one."""
        folder, texts_file = self._folder()
        n = int(_numbers(folder / FILES[0], pa.int64(), 1, 1)[0, 0])
        ends = _ids(folder / "raw/edge.csv.gz", 2, n)
        stored = store_directed(ends[:, 0], ends[:, 1], n)
        names = dict(_mapping(folder / LABELS, ("label idx", "arxiv category")))
        if sorted(names) != list(range(len(names))):
            raise MaghubError("labels are not 0, 1, 2, ...", where=folder / LABELS)
        labels = _ids(folder / "raw/node-label.csv.gz", 1, len(names), n)[:, 0]
        mapping = folder / "mapping/nodeidx2paperid.csv.gz"
        papers = {paper: node for node, paper in _mapping(mapping, ("node idx", "paper id"))}
        if sorted(papers.values()) != list(range(n)):
            raise MaghubError(f"does not give each of {n} nodes a paper of its own", where=mapping)
        texts, counts = _texts(texts_file, papers)
        matrix = _numbers(folder / "raw/node-feat.csv.gz", pa.float32(), 128, n)
        provenance = self._provenance(matrix)
        columns = {
            layout.SOURCE_ID: sorted(papers, key=papers.__getitem__),
            layout.TEXT: texts,
            layout.LABEL: labels,
            YEAR: _numbers(folder / "raw/node_year.csv.gz", pa.int64(), 1, n)[:, 0],
        }
        return Graph(
            num_nodes=n,
            nodes=schema.nodes_features(
                [_class_name(names[label]) for label in sorted(names)],
                {YEAR: Value("int64")},
                image=False,
            ),
            read_nodes=NodeReader(pa.table(columns)),
            src=stored.src,
            dst=stored.dst,
            directed=True,
            node_rules=(_time(folder, n),),
            extra=(text_vectors(provenance, _Slice(matrix), np.any(matrix, axis=1)),),
            encoders=(provenance,),
            notes={"edges": stored.counts, TEXTS: counts},
            part_size=10_000,
            parallel=False,
        )

    def _provenance(self, matrix: NDArray[np.float32]) -> EncoderProvenance:
        return EncoderProvenance(
            origin="upstream",
            encoder=ENCODER,
            config=layout.embeddings_config(ENCODER),
            modalities=(layout.TEXT,),
            model_id="skip-gram over the MAG corpus (OGB)",
            revision="not recorded",
            library="OGB",
            licence="ODC-BY",
            dim={layout.TEXT: matrix.shape[1]},
            pooling="mean of the word vectors of title and abstract",
            normalized=False,
            dtype="float32",
            missing={layout.TEXT: int((~matrix.any(axis=1)).sum())},
        )


def _time(folder: Path, n: int) -> Rule:
    """OGB's split: papers until 2017, of 2018, since 2019."""
    codes = np.full(n, layout.SPLITS.index(layout.UNASSIGNED), np.int8)
    for part, name in SPLITS.items():
        path = folder / f"split/time/{part}.csv.gz"
        ids = _ids(path, 1, n)[:, 0]
        if (codes[ids] != layout.SPLITS.index(layout.UNASSIGNED)).any():
            raise MaghubError("holds a node of another part too", where=path)
        codes[ids] = layout.SPLITS.index(name)
    text = "OGB: train until 2017, validation 2018, test since 2019"
    return Rule("time", codes, text, "upstream")


class OgbnArxiv(SourceBuilder):
    """``datasets`` builder: ``OgbnArxiv(config_name="nodes", raw_dir=...)``."""

    SOURCE = OgbnArxivSource
