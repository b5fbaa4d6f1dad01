"""Pickled numpy arrays (Planetoid files, object arrays of .npz) and pickled lists of integers."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from .pickles import Handlers, Refused, StandIn, Token, of_type


class ArrayStandIn(StandIn):
    """A pickled numpy array; ``value`` is an ndarray, or a list of items for dtype object."""

    value: np.ndarray | list[Any]

    def __init__(self) -> None:
        self.value, self.shape = np.zeros(0), (0,)

    def build(self, state: Any) -> None:
        """Take (version, shape, dtype, fortran order, data)."""
        _, shape, dtype, fortran, data = of_type(state, tuple)
        if type(shape) is not tuple or not all(type(n) is int and n >= 0 for n in shape):
            raise Refused("a damaged array shape")
        kind, count = of_type(dtype, DtypeStandIn).value, math.prod(shape)
        self.shape = shape
        if kind.kind == "O":
            if len(of_type(data, list)) != count:
                raise Refused(f"an array of {len(data)} objects for shape {shape}")
            self.value = data
            return
        if len(of_type(data, bytes)) != count * kind.itemsize:
            raise Refused(f"an array of {len(data)} bytes for shape {shape} of {kind}")
        flat = np.frombuffer(data, dtype=kind)
        self.value = flat.reshape(shape, order="F" if fortran else "C")


class DtypeStandIn(StandIn):
    """A pickled numpy dtype."""

    def __init__(self, name: Any, *_: Any) -> None:
        text = name.decode("ascii") if isinstance(name, bytes) else of_type(name, str)
        if not re.fullmatch(r"[biuf][1248]|[SU]\d{1,6}|O[48]?", text):
            raise Refused(f"an array of the type {text[:20]!r}")
        self.value = np.dtype("O" if text[0] == "O" else text)

    def build(self, state: Any) -> None:
        """Take (version, byte order, ...)."""
        order = of_type(state, tuple)[1]
        order = order.decode("ascii") if isinstance(order, bytes) else of_type(order, str)
        if order not in ("<", ">", "=", "|"):
            raise Refused("an array of an unknown byte order")
        self.value = self.value.newbyteorder("=" if order == "|" else order)  # type: ignore[arg-type]


def _reconstruct(kind: Any, shape: Any, code: Any) -> ArrayStandIn:
    if not isinstance(kind, Token) or type(shape) is not tuple or shape != (0,):
        raise Refused("an array that is not built from an empty one")
    if code not in (b"b", "b"):
        raise Refused("a damaged array")
    return ArrayStandIn()


def _scalar(dtype: Any, raw: Any) -> Any:
    array = ArrayStandIn()
    array.build((1, (1,), dtype, False, raw))
    return array.value[0] if isinstance(array.value, list) else array.value[0].item()


def _encode(text: Any, encoding: Any) -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise Refused("refusing the encoding of a pickled text")
    return of_type(text, str).encode("latin-1")


NUMPY: Handlers = {
    ("numpy", "ndarray"): Token("ndarray"),
    ("numpy", "dtype"): DtypeStandIn,
    ("_codecs", "encode"): _encode,
    **{
        (f"numpy.{core}.multiarray", name): handler
        for core in ("core", "_core")
        for name, handler in (("_reconstruct", _reconstruct), ("scalar", _scalar))
    },
}


def int_array(value: Any, *, pairs: bool = False) -> np.ndarray:
    """An int64 array from what a pickled list of integers, or of pairs, came out as.

    Takes lists (with or without blocks, see ``runs``), tuples as pairs, and integer arrays.

    Raises:
        Refused: if anything in it is not an integer (a bool is not), or not a pair.
    """
    if isinstance(value, np.ndarray):
        blocks = [value]
    elif isinstance(value, list | tuple):
        blocks, loose = [], []  # type: ignore[var-annotated]
        for item in value:
            if isinstance(item, np.ndarray):
                if loose:
                    blocks.append(_loose(loose, pairs))
                    loose = []
                blocks.append(item)
            else:
                loose.append(item)
        if loose or not blocks:
            blocks.append(_loose(loose, pairs))
    else:
        raise Refused(f"expected a list of integers, found a {type(value).__name__}")
    for block in blocks:
        shape_ok = block.shape[1:] == ((2,) if pairs else ()) and block.ndim
        if block.dtype.kind not in "iu" or not shape_ok:
            what = "pairs of integers" if pairs else "integers"
            raise Refused(f"expected {what}, found shape {block.shape} of {block.dtype}")
    return np.concatenate(blocks).astype(np.int64, copy=False)


def _loose(items: list[Any], pairs: bool) -> np.ndarray:
    for at, item in enumerate(items):
        numbers = item if pairs and type(item) in (list, tuple) and len(item) == 2 else [item]
        if (pairs and len(numbers) != 2) or any(type(number) is not int for number in numbers):
            what = "a pair of integers" if pairs else "an integer"
            raise Refused(f"expected {what}, found a {type(item).__name__} (item {at})")
    try:
        return np.array(items, dtype=np.int64).reshape((-1, 2) if pairs else -1)
    except OverflowError:
        raise Refused("an integer of more than 64 bits") from None
