"""The released files of MKG-RAG-Bench, line by line, as records that know their file and line.

Per split folder six files: ``{mm,text}_queries.jsonl``, ``{mm,text}_corpus.jsonl``,
``{mm,text}_qrels.tsv``. The two modalities number queries and documents separately, both from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maghub import layout
from maghub.builders._formats.text import Record, read_jsonl, read_lines
from maghub.builders._source import require_raw
from maghub.errors import MaghubError, place
from maghub.features import file_sha256
from maghub.mkg.records import Mask, Qrel, Query, Triplet, record_id
from maghub.mkg.splits import SPLITS

TEXT, MULTIMODAL = "text", "mm"
MODALITIES = (TEXT, MULTIMODAL)
FOLDERS = {layout.TRAIN: ("train",), layout.VALIDATION: ("valid", "val"), layout.TEST: ("test",)}
UPSTREAM = "upstream"
GET = "your copy of XiaochenWang-PSU/MKG-RAG-Bench"
_KIND_KEYS = ("group_kind", "group_type")
_COUNT_KEYS = ("candidates_count", "positives")
_DIGITS = 18
"""Longer numbers are none that a table can hold."""


@dataclass
class Lines:
    """Where each row comes from: its file and its line, from 1 (picklable)."""

    files: list[str] = field(default_factory=list)
    rows: list[tuple[int, int]] = field(default_factory=list)

    def open(self, path: Path) -> None:
        """The next rows come from this file, named as ``train/mm_corpus.jsonl``."""
        self.files.append(f"{path.parent.name}/{path.name}")

    def add(self, line: int) -> None:
        """Note the next row."""
        self.rows.append((len(self.files) - 1, line))

    def __call__(self, row: int) -> str:
        if row >= len(self.rows):
            return ", ".join(self.files) or GET
        file, line = self.rows[row]
        return place(self.files[file], row=line)


@dataclass
class Released:
    """Everything the files say.

    Attributes:
        triplets, queries, qrels: Records in the order of the files.
        splits: Split code of each query, by the folder it lies in.
        lines: Table name -> where its rows come from.
        positives: How many relevant triplets each query says it has; None where it does not say.
        counts: What was met and treated, by name.
    """

    triplets: list[Triplet] = field(default_factory=list)
    queries: list[Query] = field(default_factory=list)
    qrels: list[Qrel] = field(default_factory=list)
    splits: list[int] = field(default_factory=list)
    lines: dict[str, Lines] = field(default_factory=dict)
    positives: list[int | None] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def read_released(
    name: str, raw_dir: Path | None, top: str, picture: Callable[[str], str]
) -> Released:
    """Read the files of one half of the benchmark.

    Args:
        name: Dataset name, for messages.
        raw_dir: The folder ``top``, or the one that holds it.
        top: ``MKG-RAG-BENCH-G`` or ``-M``.
        picture: The published path of a picture from the one in the files.

    Raises:
        MaghubError: With file and line: missing files, no UTF-8, no JSON, copies that differ, ...
    """
    root = raw_dir / top if raw_dir is not None and (raw_dir / top).is_dir() else raw_dir
    folders = _folders(name, root)
    tables = (layout.TRIPLETS, layout.QUERIES, layout.QRELS)
    found = Released(lines={table: Lines() for table in tables})
    for modality in MODALITIES:
        _read_corpus(found, folders, modality, picture)
    for code, split in enumerate(SPLITS):
        for modality in MODALITIES:
            _read_queries(found, folders[split] / f"{modality}_queries.jsonl", modality, code)
            _read_qrels(found, folders[split] / f"{modality}_qrels.tsv", modality)
    return found


def _folders(name: str, root: Path | None) -> dict[str, Path]:
    """The folder of each split; every missing file is named at once.

    Raises:
        MaghubError: Files are missing, or both names of a split's folder are there.
    """
    chosen: dict[str, str] = {}
    for split, names in FOLDERS.items():
        there = [one for one in names if root is not None and (root / one).is_dir()]
        if len(there) > 1:
            what = f"holds both {' and '.join(there)}, which are one split"
            raise MaghubError(what, where=root, fix="keep one of them")
        chosen[split] = there[0] if there else names[0]
    kinds = ("queries.jsonl", "qrels.tsv")
    files = {
        f"{own}/{m}_{kind}": GET for own in chosen.values() for m in MODALITIES for kind in kinds
    }
    for modality in MODALITIES:
        copies = [f"{own}/{modality}_corpus.jsonl" for own in chosen.values()]
        there = [one for one in copies if root is not None and (root / one).is_file()]
        files |= dict.fromkeys(
            there or copies[:1], GET if there else f"{GET}; one of the three copies"
        )
    folder = require_raw(name, root, files)
    return {split: folder / own for split, own in chosen.items()}


# -- corpus ----------------------------------------------------------------------------------


def _read_corpus(
    found: Released, folders: dict[str, Path], modality: str, picture: Callable[[str], str]
) -> None:
    """The triplets of one modality, from the first copy; the others must agree with it."""
    paths = [folder / f"{modality}_corpus.jsonl" for folder in folders.values()]
    there = [path for path in paths if path.is_file()]
    found.counts["corpus copies missing"] += len(paths) - len(there)
    found.lines[layout.TRIPLETS].open(there[0])
    for record in read_jsonl(there[0]):
        found.lines[layout.TRIPLETS].add(record.number)
        found.triplets.append(_triplet(record, modality, picture, found.counts))
    _require_equal(there)


def _require_equal(copies: Sequence[Path]) -> None:
    """Refuse copies of one corpus that hold different documents."""
    first = copies[0]
    for other in copies[1:]:
        if file_sha256(other) == file_sha256(first):
            continue
        wanted = {_key(record): record.values for record in read_jsonl(first)}
        left = Counter(_key(record) for record in read_jsonl(first))
        for record in read_jsonl(other):
            key = _key(record)
            left[key] -= 1
            if wanted.get(key) != record.values:
                raise record.fail(None, f"document {key} is not as in {first}")
            if left[key] < 0:
                raise record.fail(None, f"document {key} comes more often than in {first}")
        if missing := sorted(key for key, count in left.items() if count > 0):
            raise MaghubError(f"document {missing[0]} of {first} is missing", where=other)


def _key(record: Record) -> int:
    return _number(record, "doc_id")


def _number(record: Record, key: str) -> int:
    value = record.first(key)
    if type(value) is not int or not 0 <= value < 10**_DIGITS:
        raise record.fail(key, f"{str(value)[:40]!r} is not a number from 0 below 10^{_DIGITS}")
    return value


def _words(record: Record, key: str) -> str:
    """A text as it is (an entity may be called null); "" for null."""
    value = record.first(key)
    if not isinstance(value, str | None):
        raise record.fail(key, f"expected text, found a {type(value).__name__}")
    return (value or "").strip().encode("utf-8", "replace").decode()


def _triplet(
    record: Record, modality: str, picture: Callable[[str], str], counts: Counter[str]
) -> Triplet:
    ids = [record.identifier(key) for key in ("head_id", "rel_id", "tail_id")]
    texts = [_words(record, key) for key in ("head_text", "rel_text", "tail_text")]
    path = _words(record, "image_path")
    if path and modality == TEXT:
        raise record.fail("image_path", "a text triplet names a picture")
    number = record_id(_number(record, "doc_id"), multimodal=modality == MULTIMODAL)
    if path.startswith("/"):
        counts["picture paths with a leading slash"] += 1
    try:
        image = picture(path) if path else None
    except MaghubError as error:
        raise record.fail("image_path", error.what) from None
    triplet = Triplet(number, *ids, *texts, image)  # type: ignore[call-arg]
    if "triplet_text" in record.values and _words(record, "triplet_text") != triplet.text:
        counts["triplet texts made anew"] += 1
    return triplet


# -- queries and qrels -----------------------------------------------------------------------


def _read_queries(found: Released, path: Path, modality: str, split: int) -> None:
    found.lines[layout.QUERIES].open(path)
    for record in read_jsonl(path):
        found.lines[layout.QUERIES].add(record.number)
        found.queries.append(_query(record, modality, found.counts))
        found.splits.append(split)
        found.positives.append(_positives(record))


def _query(record: Record, modality: str, counts: Counter[str]) -> Query:
    """One question; the part that is asked for is blanked where upstream tells it."""
    multimodal = modality == MULTIMODAL
    if record.values.get("is_multimodal", multimodal) is not multimodal:
        raise record.fail("is_multimodal", f"does not fit the file {record.path.name}")
    masked = record.first("masked_type")
    if masked not in layout.MASKS:
        raise record.fail(
            "masked_type", f"{str(masked)[:40]!r} is none of {', '.join(layout.MASKS)}"
        )
    parts = {"rel_id": layout.MASK_RELATION, "tail_id": layout.MASK_TAIL}
    known: dict[str, str | None] = {}
    for key, mask in parts.items():
        known[key] = None
        if masked != mask:
            known[key] = record.identifier(key)
        elif record.first(key) is not None:
            counts[f"queries that told the masked {mask}"] += 1
    text = _words(record, "query")
    if not text:
        raise record.fail("query", "is empty")
    if multimodal and not text.lower().startswith("[image]"):
        counts["multimodal queries without [IMAGE]"] += 1
    return Query(
        id=record_id(_number(record, "qid"), multimodal=multimodal),
        text=text,
        masked=_mask(masked),
        head_id=record.identifier("head_id"),
        group_kind=str(next((record.values[k] for k in _KIND_KEYS if k in record.values), "")),
        writer=UPSTREAM,
        **known,
    )


def _mask(text: Any) -> Mask:
    return "tail" if text == layout.MASK_TAIL else "relation"


def _positives(record: Record) -> int | None:
    """How many relevant triplets a query says it has: a number, or a list of them."""
    value = next((record.values[key] for key in _COUNT_KEYS if key in record.values), None)
    if isinstance(value, list):
        return len(value)
    return value if type(value) is int else None


def _read_qrels(found: Released, path: Path, modality: str) -> None:
    multimodal = modality == MULTIMODAL
    found.lines[layout.QRELS].open(path)
    for line, (qid, doc, score) in _numbers(path, found.counts):
        if score <= 0:
            found.counts["qrels of relevance 0"] += 1
            continue
        query, triplet = (record_id(number, multimodal=multimodal) for number in (qid, doc))
        found.lines[layout.QRELS].add(line)
        found.qrels.append(Qrel(query, triplet, score))


def _numbers(path: Path, counts: Counter[str]) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """Line numbers and cells; the header that upstream's README shows is passed over."""
    for line, text in read_lines(path):
        cells = text.split("\t")
        if line == 1 and cells[0].lower() in ("qid", "query-id", "query_id"):
            counts["qrels files with a header"] += 1
            continue
        if len(cells) != 3 or not all(_is_number(cell.strip()) for cell in cells):
            what = f"{text[:40]!r} is not qid, doc_id and relevance with tabs between"
            raise MaghubError(what, where=place(path, row=line))
        yield line, (int(cells[0]), int(cells[1]), int(cells[2]))


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _DIGITS
