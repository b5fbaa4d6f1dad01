"""Does the vector of row i belong to the text (or picture) of row i?

No encoder is needed. Each sampled row gets two profiles over the same reference rows: how similar
its input is to theirs (character trigrams, or colour thumbnails), and how similar its vector is.
``value`` is how often the profile of a row's own vector fits its input better than the vector of
another row does: 0.5 is chance. Stretches of rows and vectors shifted by one or two rows are looked
at on their own. Large datasets are sampled, so a fault in less than a tenth of the rows may be
missed; a shuffle among rows with nearly equal inputs cannot be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from maghub import layout
from maghub.audit.pictures import Prints
from maghub.audit.report import Check, Example, Verdict, skipped
from maghub.audit.subject import Ints, Rows, Subject
from maghub.audit.texts import shingles
from maghub.features import feature_view
from maghub.quality.numbers import unit
from maghub.seeding import child_rng
from maghub.spec import ConfigSpec

MATCH = "vectors match their rows"
ANCHORS, REFERENCES, STRETCHES, LEAST = 1_500, 1_000, 15, 60
FAIL_BELOW, WARN_BELOW, STEADY = 0.54, 0.6, 0.7
_BUCKETS, _SHIFTS = 1 << 16, (-2, -1, 1, 2)
_RULE = (
    f"fail: below {FAIL_BELOW} (0.5 is chance), or vectors fit better when moved by a row or two; "
    f"warn: below {WARN_BELOW}, or a stretch of rows fits no better than chance"
)
Floats = NDArray[np.float32]
Similar = Callable[[Ints, Ints], Floats]


@dataclass(frozen=True)
class Fit:
    """How often a row's own vector fits best, over all and per stretch; the best shift."""

    overall: float
    stretches: tuple[tuple[int, int, float], ...]  # first row, last row, value
    shift: int


def _standard(profile: Floats) -> Floats:
    centred = profile - profile.mean(axis=1, keepdims=True)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(centred / np.maximum(length, 1e-9), np.float32)


def fit(inputs: Similar, vectors: Similar, rows: Ints, rng: np.random.Generator) -> Fit | None:
    """Compare the two similarities on a sample of rows; None where there are too few."""
    chosen = rng.permutation(rows)[: ANCHORS + REFERENCES]
    cut = max(len(chosen) - REFERENCES, len(chosen) * 2 // 3)
    anchors, references = np.sort(chosen[:cut]), np.sort(chosen[cut:])
    wanted = inputs(anchors, references)
    anchors, wanted = anchors[wanted.std(axis=1) > 1e-6], wanted[wanted.std(axis=1) > 1e-6]
    if len(anchors) < LEAST or len(references) < LEAST // 2:
        return None
    wanted = _standard(wanted)
    scores = wanted @ _standard(vectors(anchors, references)).T
    own = scores.diagonal()[:, None]
    better = ((scores < own).sum(axis=1) + 0.5 * ((scores == own).sum(axis=1) - 1)) / (
        len(anchors) - 1
    )
    parts = np.array_split(np.arange(len(anchors)), min(STRETCHES, len(anchors) // (LEAST // 2)))
    stretches = [(int(anchors[p[0]]), int(anchors[p[-1]]), float(better[p].mean())) for p in parts]
    shift = _best_shift(wanted, vectors, rows, anchors, references, float(own.mean()))
    return Fit(float(better.mean()), tuple(stretches), shift)


def _best_shift(
    wanted: Floats, vectors: Similar, rows: Ints, anchors: Ints, references: Ints, own: float
) -> int:
    """By how many rows the vectors must be moved to fit best."""
    best, found = own, 0
    for shift in _SHIFTS:
        left = rows[(np.searchsorted(rows, anchors) + shift) % len(rows)]
        right = rows[(np.searchsorted(rows, references) + shift) % len(rows)]
        score = float((wanted * _standard(vectors(left, right))).sum(axis=1).mean())
        if score > best + 0.01:
            best, found = score, shift
    return found


def text_similarity(subject: Rows) -> Similar:
    """How similar the texts of rows are: cosine of their weighted character trigrams."""

    def bags(rows: Ints) -> csr_array:
        hashes, counts = shingles([f" {subject.texts[row]} " for row in rows.tolist()], 3)
        columns = (hashes >> np.uint64(48)).astype(np.int64)
        place = np.repeat(np.arange(len(rows)), counts)
        return csr_array(
            (np.ones(len(columns), np.float32), (place, columns)), shape=(len(rows), _BUCKETS)
        )

    def similar(left: Ints, right: Ints) -> Floats:
        one, other = bags(left), bags(right)
        seen = np.bincount(other.indices, minlength=_BUCKETS)
        weight = np.log((len(right) + 1) / (seen + 1)).astype(np.float32) + 0.1
        matrices = []
        for matrix in (one, other):
            matrix.data = np.log1p(matrix.data) * weight[matrix.indices]
            square = np.bincount(
                np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)),
                matrix.data**2,
                matrix.shape[0],
            )
            scale = 1 / np.sqrt(np.maximum(square, 1e-9))
            matrix.data *= np.repeat(scale, np.diff(matrix.indptr)).astype(np.float32)
            matrices.append(matrix)
        return np.asarray((matrices[0] @ matrices[1].T).toarray(), np.float32)

    return similar


def _picture_similarity(found: Prints) -> Similar:
    colours = found.colours.astype(np.float32)
    colours -= colours[found.readable].mean(axis=0)
    units = unit(colours)

    def similar(left: Ints, right: Ints) -> Floats:
        return np.asarray(units[left] @ units[right].T, np.float32)

    return similar


def check_matching(subject: Subject, found: Prints | None) -> list[Check]:
    """One check per vector column of texts and pictures."""
    checks = []
    for spec, modality in subject.embeddings():
        name = f"{MATCH}: {spec.name} {modality}"
        usable, inputs = subject.has_text, text_similarity(subject)
        if modality == layout.IMAGE:
            if found is None or not found.readable.any():
                checks.append(skipped(name, "the pictures are not in this dataset"))
                continue
            usable, inputs = found.readable, _picture_similarity(found)
        config = subject.mag.config(spec.name)
        rows = np.flatnonzero(usable & subject.present(config, modality))
        checks.append(check_column(subject, name, config, modality, rows, inputs))
    return checks


def check_column(
    subject: Rows,
    name: str,
    config: ConfigSpec,
    modality: str,
    rows: Ints,
    inputs: Similar,
) -> Check:
    """The check of one column of vectors against the inputs of some rows."""
    matrix = np.asarray(feature_view(subject.mag.folder, config, modality))

    def vectors(left: Ints, right: Ints) -> Floats:
        return np.asarray(unit(matrix[left]) @ unit(matrix[right]).T, np.float32)

    rng = child_rng(subject.seed, "audit", "matching", config.name, modality)
    fitted = fit(inputs, vectors, rows, rng) if len(rows) else None
    if fitted is None:
        return skipped(name, f"fewer than {LEAST * 3 // 2} rows can be compared")
    # What a stretch must reach lies a fifth of the way from chance to the whole.
    least = 0.5 + (fitted.overall - 0.5) / 5 if fitted.overall >= STEADY else 0.0
    poor = [part for part in fitted.stretches if part[2] < least]
    verdict: Verdict = "warn" if poor or fitted.overall < WARN_BELOW else "ok"
    if fitted.overall < FAIL_BELOW or fitted.shift:
        verdict = "fail"
    summary = f"a row's own vector fits better than another's in {fitted.overall:.1%} of cases"
    if fitted.shift:
        summary += f"; moved by {fitted.shift:+d} rows they fit better"
    return Check(
        name=name,
        verdict=verdict,
        value=round(fitted.overall, 4),
        count=len(poor),
        total=len(fitted.stretches),
        summary=summary,
        rule=_RULE,
        examples=tuple(
            Example(of="rows", ids=(first, last), text=f"rows {first} to {last}: {value:.2f}")
            for first, last, value in poor[: subject.limit]
        ),
    )
