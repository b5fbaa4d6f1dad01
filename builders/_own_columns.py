"""What the cells of a user's table mean: ids, classes, splits, and columns of any type."""

from __future__ import annotations

from collections.abc import Mapping
from math import isinf
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
from datasets.features.features import generate_from_arrow_type
from numpy.typing import NDArray

from maghub import layout
from maghub.builders._own_read import Frame
from maghub.errors import MaghubError

SPLIT_WORDS = {
    **dict.fromkeys(("train", "training"), 0),
    **dict.fromkeys(("validation", "valid", "val", "dev"), 1),
    **dict.fromkeys(("test", "testing"), 2),
    **dict.fromkeys(("", "none", layout.UNASSIGNED), 3),
}


def identifiers(frame: Frame, field: str) -> list[str]:
    """A column of ids, none of them empty."""
    ids = frame.texts(field)
    if "" in ids:
        raise frame.fail(field, ids.index(""), "no id", "give every row one")
    return ids


def places(frame: Frame, ids: list[str]) -> dict[str, int]:
    """Where each node's id stands.

    Raises:
        MaghubError: An id stands twice.
    """
    index: dict[str, int] = {}
    for row, name in enumerate(ids):
        first = index.setdefault(name, row)
        if first != row:
            what = f"id '{name[:40]}' is already in row {frame.numbers[first]}"
            raise frame.fail("id", row, what, "keep one row per node")
    return index


def ends(frame: Frame, field: str, index: Mapping[str, int], nodes: str) -> NDArray[np.int64]:
    """The nodes that a column of edges names.

    Raises:
        MaghubError: It names one that is not there.
    """
    names = identifiers(frame, field)
    found = np.fromiter((index.get(name, -1) for name in names), np.int64, len(names))
    if (bad := np.flatnonzero(found < 0)).size:
        row = int(bad[0])
        more = f" ({bad.size - 1:,} more rows do so)" if bad.size > 1 else ""
        what = f"no node '{names[row][:40]}' in {nodes}{more}"
        raise frame.fail(field, row, what, "add the node or remove the edge")
    return found


def classes(frame: Frame, field: str) -> tuple[list[str], NDArray[np.int64]]:
    """Names in order (as numbers where all are), and the code of each row, -1 for an empty cell."""
    texts = frame.texts(field)
    names = sorted(set(texts) - {""})
    if all(name.isascii() and name.isdigit() for name in names):
        names.sort(key=lambda name: (len(name.lstrip("0")), name.lstrip("0"), name))
    codes = {name: code for code, name in enumerate(names)} | {"": -1}
    return names, np.fromiter((codes[text] for text in texts), np.int64, len(texts))


def splits(frame: Frame, field: str) -> NDArray[np.int8]:
    """The codes of a column of splits; an empty cell is unassigned."""
    words = [text.strip().lower() for text in frame.texts(field)]
    for row, word in enumerate(words):
        if word not in SPLIT_WORDS:
            fix = "write train, validation or test, or leave it empty"
            raise frame.fail(field, row, f"'{word[:40]}' is no split", fix)
    return np.fromiter((SPLIT_WORDS[word] for word in words), np.int8, len(words))


def extra(frame: Frame, field: str) -> tuple[object, pa.Array]:
    """A declared column: its type in ``datasets``, and its values.

    A column of text whose cells are all whole numbers, or all numbers, becomes one; an empty cell
    is null there.
    """
    values, where = list(frame.columns[field]), f"{frame.where}, column {frame.names[field]}"
    if all(value is None or isinstance(value, str) for value in values):
        values = _numbers(frame.texts(field))
    try:
        array = pa.array(values, from_pandas=True)
    except OverflowError:
        fix = "write it as text"
        raise MaghubError("a number is beyond 64 bits", where=where, fix=fix) from None
    except (pa.ArrowException, UnicodeEncodeError) as error:
        reason = str(error).split("\n")[0]
        raise MaghubError(f"cells of several types ({reason})", where=where) from None
    if _is_hollow(array.type):
        raise MaghubError("holds objects without a single field", where=where)
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    feature = generate_from_arrow_type(array.type)
    return feature, array.cast(datasets.Features({field: feature}).arrow_schema.field(0).type)


def _is_hollow(kind: pa.DataType) -> bool:
    """Whether it is or holds a struct without fields, which Parquet has not."""
    inner = [kind.field(i).type for i in range(kind.num_fields)]
    return (pa.types.is_struct(kind) and not inner) or any(map(_is_hollow, inner))


def _numbers(texts: list[str]) -> list[Any]:
    """Numbers where every filled cell is one and says no more than the number (no ``007``)."""
    filled = [text for text in texts if text]
    for kind in (int, float):
        try:
            exact = not any(_padded(t) if kind is float else str(int(t)) != t for t in filled)
            if filled and exact:
                values = [kind(text) if text else None for text in texts]
                pa.array(values)
                return values
        except (ValueError, OverflowError, pa.ArrowException):
            continue
    return texts


def _padded(text: str) -> bool:
    """Whether something would be lost: a leading zero, ``_``, or more than a float holds."""
    digits = text.lstrip("+-")
    if digits.isdigit():
        return digits != "0" and str(int(float(digits))) != digits
    zero = digits[:1] == "0" and digits[1:2].isdigit()
    return zero or "_" in text or (digits[:1].isdigit() and isinf(float(text)))
