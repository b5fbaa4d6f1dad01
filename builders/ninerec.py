"""NineRec: nine recommendation domains whose items have a cover and a title in two languages.

Upstream: westlake-repl/NineRec at baef644 (2024-10-06); its data lie on Google Drive only and may
not be offered again in modified form, so folders built from it stay on this machine.

``{X}_pair.csv`` has no header: the README says user, item, time, upstream's own get_behaviour.py
reads item, user, time. Which column holds items is therefore seen from the item table. QB and TN
have no times; their order is that of ``{X}_behaviour.tsv``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from datasets import Value

from maghub import layout, schema
from maghub.builders._edges import Ids, Pairs, adjacent_pairs
from maghub.builders._fetch import raw_folder
from maghub.builders._formats.tables import Layout, Table, join_extra
from maghub.builders._formats.text import clean_text, read_lines
from maghub.builders._graph import Graph, NodeReader
from maghub.builders._linked import MUTUAL_KNN, NEGATIVES_RULE, Edges, LinkedSource, counted_edges
from maghub.builders._pictures import ArchivePictures
from maghub.builders._source import SourceBuilder
from maghub.errors import MaghubError, place

REVISION = "baef644"
DRIVE = "https://drive.google.com/drive/folders/15RlthgPczrFbP4U7l6QflSImK5wSGP5K"
ADJACENT = "maghub-v1"
TEXTS = {"english": "text_en", "chinese": "text_cn"}
ITEM_TABLE = Layout(
    header=("item", "text_cn", "text_en"),
    repairs={"commas outside quotes, joined into the English text": join_extra(2, ",")},
)


@dataclass(frozen=True)
class Items:
    """The item table in node order: ascending by the number in the id."""

    ids: list[str]
    chinese: list[str]
    english: list[str]
    notes: dict[str, object]


@dataclass(frozen=True)
class Interactions:
    """Who met which item, users together, each user's items in order; unknown items are gone."""

    user: Ids
    item: Ids
    notes: dict[str, object] = field(default_factory=dict)


def _order(item: str) -> tuple[str, int, str]:
    """Ids sort by prefix and number (``v9`` before ``v10``), others as text."""
    match = re.fullmatch(r"(\D*)(\d{1,18})", item)
    return (match[1], int(match[2]), item) if match else (item, -1, item)


def read_items(path: Path) -> Items:
    """``{X}_item.csv``: id, Chinese text, English text; no header, rows in no order."""
    table = Table(path, None, ITEM_TABLE)
    rows: dict[str, tuple[str, str]] = {}
    again = 0
    for row in table:
        item = row["item"].strip()
        if not item:
            raise row.fail("item", "is empty")
        again += item in rows
        rows.setdefault(item, (clean_text(row["text_cn"]), clean_text(row["text_en"])))
    if not rows:
        raise MaghubError("holds no items", where=path)
    ids = sorted(rows, key=_order)
    chinese, english = zip(*(rows[item] for item in ids), strict=True)
    notes: dict[str, object] = {"items listed again, first row kept": again, **table.repairs}
    return Items(ids, list(chinese), list(english), notes)


def read_pairs(path: Path, node_of: dict[str, int]) -> Interactions:
    """``{X}_pair.csv``, ordered by time where it has times (ties as in the file), else as it is."""
    width = next((len(line.split(",")) for _, line in read_lines(path)), 0)
    if width not in (2, 3):
        raise MaghubError(f"has {width} columns, expected 2 or 3", where=place(path, row=1))
    first, second, times = [], [], []
    for row in Table(path, None, Layout(header=("first", "second", "time")[:width])):
        first.append(row["first"].strip())
        second.append(row["second"].strip())
        times.append(row.integer("time") if width == 3 else 0)
    values = [set(column) for column in (first, second)]
    known = [len(held & node_of.keys()) for held in values]
    if not max(known):
        what, fix = "neither column holds ids of the item table", "take both files from one domain"
        raise MaghubError(what, where=path, fix=fix)
    # Ids of users may be ids of items too: the column of items has the values of the item table.
    alike = [len(held & node_of.keys()) / len(held | node_of.keys()) for held in values]
    user_first = alike[1] > alike[0]
    items, users = (second, first) if user_first else (first, second)
    columns = ("user", "item") if user_first else ("item", "user")
    notes: dict[str, object] = {
        "columns of the pair file": ", ".join((*columns, "time")[:width]),
        "different values of its first, second column": [len(held) for held in values],
        "of these in the item table": known,
    }
    return _known(users, items, np.asarray(times, np.int64), node_of, notes)


def read_behaviour(path: Path, node_of: dict[str, int]) -> Interactions:
    """``{X}_behaviour.tsv``: a user, a tab, the user's items in order with spaces between them."""
    users, items = [], []
    for number, line in read_lines(path):
        user, tab, sequence = line.partition("\t")
        found = sequence.split()
        if not tab or not found:
            raise MaghubError("expected a user, a tab and items", where=place(path, row=number))
        users += [user.strip()] * len(found)
        items += found
    if not any(item in node_of for item in items):
        raise MaghubError("holds no id of the item table", where=path)
    return _known(users, items, np.zeros(len(items), np.int64), node_of, {})


def _known(
    users: list[str],
    items: list[str],
    times: Ids,
    node_of: dict[str, int],
    notes: dict[str, object],
) -> Interactions:
    """Rows of items that have a text, sorted by user and time, in file order where times tie."""
    node = np.asarray([node_of.get(item, -1) for item in items], np.int64)
    codes: dict[str, int] = {}
    user = np.asarray([codes.setdefault(name, len(codes)) for name in users], np.int64)
    known = node >= 0
    order = np.lexsort((times[known], user[known]))  # stable
    notes |= {
        "users": len(codes),
        "interactions": len(items),
        "interactions with items that have no text, dropped": int((~known).sum()),
    }
    return Interactions(user[known][order], node[known][order], notes)


def adjacent(found: Interactions, least: int, window: int) -> tuple[Pairs, int]:
    """Pairs of the rule ``maghub-v1``, and how many users had too few interactions."""
    count = np.bincount(found.user)
    kept = count[found.user] >= least
    short = int(((count > 0) & (count < least)).sum())
    return adjacent_pairs(found.user[kept], found.item[kept], window), short


class NineRecSource(LinkedSource):
    """One domain. Options besides those of ``LinkedSource``:

    min_interactions: Users with fewer are left out (``maghub-v1``).
    window: Items at most so many places apart in one user's order are joined (``maghub-v1``).
    text: Which language the column ``text`` holds, english or chinese; both have their own column.
    """

    domain: ClassVar[str]
    timed: ClassVar[bool] = True
    edge_rules = (ADJACENT, MUTUAL_KNN)
    inputs = {"westlake-repl/NineRec": REVISION}
    configs = (
        layout.NODES,
        layout.EDGES,
        layout.EDGE_SPLITS,
        layout.negatives_config(NEGATIVES_RULE),
    )
    defaults = LinkedSource.defaults | {
        "edges": ADJACENT,
        "min_interactions": 5,
        "window": 1,
        "text": "english",
    }

    def check(self) -> None:
        """As ``LinkedSource``, and the options of ``maghub-v1``."""
        super().check()
        self.choice("text", tuple(TEXTS))
        self.whole("min_interactions", 1)
        self.whole("window", 1)

    def folder(self) -> Path:
        """The domain's folder, once all its files are there."""
        raw, x = self.raw_dir, self.domain
        places = [x, f"Downstream_datasets/{x}", "."]
        held = (p for p in places if raw is not None and (raw / p / f"{x}_item.csv").exists())
        below = next(held, x)
        order = f"{x}_pair.csv" if self.timed else f"{x}_behaviour.tsv"
        names = (f"{x}_item.csv", order, f"{x}_cover")
        how = f"NineRec, Downstream_datasets/{x} of {DRIVE}"
        raw = raw_folder(
            self.name, raw, {f"{below}/{name}".removeprefix("./"): how for name in names}
        )
        return raw / below

    def read(self) -> Graph:
        """Items as nodes; undirected edges with a weight: how often adjacent, or the cosine."""
        language = TEXTS[str(self.options["text"])]
        folder = self.folder()
        items = read_items(folder / f"{self.domain}_item.csv")
        pictures = ArchivePictures(folder / f"{self.domain}_cover", items.ids)
        notes = {"covers of no item": pictures.foreign, **items.notes}
        edges = self._edges(folder, items.ids)
        rule, negatives = self.link_prediction(edges.src, edges.dst, len(items.ids))
        texts = {"text_cn": pa.array(items.chinese), "text_en": pa.array(items.english)}
        columns = {layout.SOURCE_ID: pa.array(items.ids), layout.TEXT: texts[language], **texts}
        return Graph(
            num_nodes=len(items.ids),
            nodes=schema.nodes_features(None, dict.fromkeys(texts, Value("string"))),
            read_nodes=NodeReader(pa.table(columns), pictures),
            src=edges.src,
            dst=edges.dst,
            edge_columns={layout.WEIGHT: (Value("float32"), edges.weight)},
            edge_rules=(rule,),
            negatives=tuple(negatives),
            notes={"edge rule": self.options["edges"], **notes, **edges.notes},
        )

    def _edges(self, folder: Path, ids: list[str]) -> Edges:
        """Edges by the chosen rule."""
        if self.options["edges"] == MUTUAL_KNN:
            return self.knn(ids)
        node_of = {item: node for node, item in enumerate(ids)}
        if self.timed:
            found = read_pairs(folder / f"{self.domain}_pair.csv", node_of)
        else:
            found = read_behaviour(folder / f"{self.domain}_behaviour.tsv", node_of)
        least = self.whole("min_interactions")
        pairs, short = adjacent(found, least, self.whole("window"))
        edges = counted_edges(pairs, len(ids))
        left_out = {f"users with fewer than {least} interactions, left out": short}
        return edges._replace(notes={**found.notes, **left_out, **edges.notes})


class BiliCartoonSource(NineRecSource):
    """Cartoons on Bilibili."""

    name, domain = "bili-cartoon", "Bili_Cartoon"


class BiliDanceSource(NineRecSource):
    """Dance on Bilibili."""

    name, domain = "bili-dance", "Bili_Dance"


class BiliFoodSource(NineRecSource):
    """Food on Bilibili."""

    name, domain = "bili-food", "Bili_Food"


class BiliMovieSource(NineRecSource):
    """Film and television on Bilibili."""

    name, domain = "bili-movie", "Bili_Movie"


class BiliMusicSource(NineRecSource):
    """Music on Bilibili."""

    name, domain = "bili-music", "Bili_Music"


class DySource(NineRecSource):
    """Short videos on Douyin."""

    name, domain = "dy", "DY"


class KuSource(NineRecSource):
    """Short videos on Kuaishou."""

    name, domain = "ku", "KU"


class QbSource(NineRecSource):
    """Videos of the service that NineRec calls QB."""

    name, domain, timed = "qb", "QB", False


class TnSource(NineRecSource):
    """News of the platform that NineRec calls TN."""

    name, domain, timed = "tn", "TN", False


class BiliCartoon(SourceBuilder):
    """``datasets`` builder of bili-cartoon."""

    SOURCE = BiliCartoonSource


class BiliDance(SourceBuilder):
    """``datasets`` builder of bili-dance."""

    SOURCE = BiliDanceSource


class BiliFood(SourceBuilder):
    """``datasets`` builder of bili-food."""

    SOURCE = BiliFoodSource


class BiliMovie(SourceBuilder):
    """``datasets`` builder of bili-movie."""

    SOURCE = BiliMovieSource


class BiliMusic(SourceBuilder):
    """``datasets`` builder of bili-music."""

    SOURCE = BiliMusicSource


class Dy(SourceBuilder):
    """``datasets`` builder of dy."""

    SOURCE = DySource


class Ku(SourceBuilder):
    """``datasets`` builder of ku."""

    SOURCE = KuSource


class Qb(SourceBuilder):
    """``datasets`` builder of qb."""

    SOURCE = QbSource


class Tn(SourceBuilder):
    """``datasets`` builder of tn."""

    SOURCE = TnSource
