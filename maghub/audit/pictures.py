"""Pictures that stand in two splits: equal bytes, or nearly equal pixels.

Two pictures are near duplicates when both hold: of 512 signs of brightness steps (16 x 16, across
and down) at most 24 differ, and their 8 x 8 colour thumbnails differ by at most 5 of 256 levels
(root mean square). Copies in another size or format pass, and so do pictures that differ in a
detail: of emoji's held-out pictures 1%, clock faces an hour apart among them, hence a warning and
no failure. Candidates are neighbours by 2 x 2 colour means, a lower bound of the colour distance,
so that the search is exact up to the number of neighbours kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.spatial import cKDTree

from maghub.audit.report import Check, skipped
from maghub.audit.subject import UNASSIGNED, Bools, Ints, Keys, Subject, key_of
from maghub.audit.twins import Twins, check_of, equal_twins, keep_best
from maghub.images import decode
from maghub.progress import track

EXACT, NEAR = "equal pictures across splits", "near-equal pictures across splits"
EXACT_FAIL, NEAR_FAIL = 0.05, 0.2
MAX_BITS, MAX_COLOUR = 24, 5.0
_SIDE, _COLOUR, _STEP, _NEIGHBOURS = 16, 8, 4, 16


@dataclass(frozen=True)
class Prints:
    """By node id: which have a picture, a key of its bytes, which decode, and what they look like.

    ``bits`` is uint8 [N, 64] (512 packed signs), ``colours`` uint8 [N, 192] (8 x 8 RGB).
    """

    present: Bools
    keys: Keys
    readable: Bools
    bits: NDArray[np.uint8]
    colours: NDArray[np.uint8]


def fingerprint(image: Image.Image) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Packed brightness signs and colour thumbnail of an RGB picture."""
    smooth = Image.Resampling.BILINEAR
    small = image.resize((_SIDE + 1, _SIDE + 1), smooth).convert("L")
    grey = np.asarray(small, np.int16)
    across = grey[:-1, 1:] > grey[:-1, :-1] + _STEP  # a step, so that noise on flat areas is none
    down = grey[1:, :-1] > grey[:-1, :-1] + _STEP
    thumb = image.resize((_COLOUR, _COLOUR), Image.Resampling.BOX)
    return np.packbits(np.concatenate([across.ravel(), down.ravel()])), np.asarray(thumb).ravel()


def prints(subject: Subject) -> Prints:
    """Fingerprints of all pictures."""
    n = subject.n
    found = Prints(
        np.zeros(n, bool),
        np.zeros(n, np.uint64),
        np.zeros(n, bool),
        np.zeros((n, 2 * _SIDE * _SIDE // 8), np.uint8),
        np.zeros((n, 3 * _COLOUR * _COLOUR), np.uint8),
    )
    known: dict[int, int] = {}
    for node, data in track(subject.images(), "looking at pictures"):
        key = key_of(data)
        found.present[node], found.keys[node] = True, key
        if (same := known.setdefault(key, node)) != node:
            found.readable[node] = found.readable[same]
            found.bits[node], found.colours[node] = found.bits[same], found.colours[same]
        elif (image := decode(data)) is not None:
            found.readable[node] = True
            found.bits[node], found.colours[node] = fingerprint(image)
    return found


def _means(colours: NDArray[np.uint8]) -> NDArray[np.float64]:
    """2 x 2 colour means scaled so that distances bound the root mean square of all 8 x 8."""
    half = _COLOUR // 2
    cells = colours.reshape(-1, 2, half, 2, half, 3).astype(np.float64)
    return cells.mean(axis=(2, 4)).reshape(-1, 12) / np.sqrt(12)


def _alike(found: Prints, left: Ints, right: Ints) -> NDArray[np.float64]:
    """How alike pictures are (1 is equal); below 0 where they are no near duplicates."""
    bits = np.bitwise_count(found.bits[left] ^ found.bits[right]).sum(axis=1, dtype=np.int64)
    steps = found.colours[left].astype(np.float32) - found.colours[right]
    colour = np.sqrt((steps**2).mean(axis=1))
    near = (bits <= MAX_BITS) & (colour <= MAX_COLOUR)
    return np.where(near, 1 - bits / (8 * found.bits.shape[1]) - colour / 255, -1.0)


def _near_twins(subject: Subject, found: Prints) -> Twins:
    twins: Twins = {}
    usable = found.readable & (subject.codes != UNASSIGNED)
    for code in (1, 2):
        own = np.flatnonzero(usable & (subject.codes == code))
        others = np.flatnonzero(usable & (subject.codes != code))
        if not len(own) or not len(others):
            continue
        tree = cKDTree(_means(found.colours[others]))
        size = min(_NEIGHBOURS, len(others))
        points = _means(found.colours[own])
        _, places = tree.query(points, np.arange(1, size + 1), distance_upper_bound=MAX_COLOUR)
        hit = places < len(others)
        left = np.broadcast_to(own[:, None], places.shape)[hit]
        right = others[places[hit]]
        different = found.keys[left] != found.keys[right]
        left, right = left[different], right[different]
        scores = _alike(found, left, right)
        keep_best(twins, left[scores >= 0], right[scores >= 0], scores[scores >= 0], subject)
    return twins


def check_pictures(subject: Subject, found: Prints | None) -> list[Check]:
    """The two checks of pictures."""
    if found is None or subject.split_rule is None or not found.present.any():
        why = "nodes are not split" if subject.split_rule is None else "no node has a picture"
        return [skipped(EXACT, why), skipped(NEAR, why)]

    def describe(node: int, twin: int, score: float) -> str:
        sides = f"{subject.side(node)} and {subject.side(twin)}"
        alike = "" if score == 1.0 else f", {score:.3f} alike"
        return f"{sides}: {subject.quoted(node, 30)}, {subject.quoted(twin, 30)}{alike}"

    what = "held-out pictures {} stand in another split"
    equal = equal_twins(subject, found.keys, found.present)
    near = _near_twins(subject, found)
    return [
        check_of(subject, EXACT, equal, found.present, what.format("also"), EXACT_FAIL, describe),
        check_of(subject, NEAR, near, found.readable, what.format("nearly"), NEAR_FAIL, describe),
    ]
