"""Vectors that tell nothing: constant, shared by different inputs; modalities that are dead."""

from __future__ import annotations

import numpy as np

from maghub import layout
from maghub.audit.pictures import Prints
from maghub.audit.report import Check, Example, Verdict, by_share, worst
from maghub.audit.subject import Bools, Ints, Keys, Rows, Subject
from maghub.features import feature_view
from maghub.quality.numbers import blocks, zero_rows
from maghub.seeding import child_rng
from maghub.spec import ConfigSpec

DUPLICATED, MODALITIES = "vectors shared by different inputs", "modalities alive"
DUPLICATE_FAIL, CONSTANT_WARN = 0.05, 0.1


def row_keys(matrix: np.ndarray, seed: int) -> Keys:
    """64 bits per row, equal for equal rows (-0 is 0)."""
    rng = child_rng(seed, "audit", "row keys")
    unsigned = np.dtype(f"u{matrix.itemsize}")
    factors = rng.integers(1, 2**63, matrix.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    keys = np.empty(len(matrix), np.uint64)
    for part in blocks(len(matrix), 2_048):
        words = np.ascontiguousarray(matrix[part] + 0).view(unsigned).astype(np.uint64)
        words = (words + np.uint64(1)) * factors
        words ^= words >> np.uint64(31)
        keys[part] = (words * np.uint64(0x94D049BB133111EB)).sum(axis=1, dtype=np.uint64)
    return keys


def _inputs(subject: Rows, modality: str, found: Prints | None) -> Keys | None:
    """Keys of what was encoded; None where that is not in the folder."""
    if modality == layout.TEXT:
        return subject.text_keys
    return found.keys if modality == layout.IMAGE and found is not None else None


def check_vectors(subject: Subject, found: Prints | None) -> list[Check]:
    """Per vector column, rows whose vector an earlier row with another input has."""
    checks = []
    for spec, modality in subject.embeddings():
        config = subject.mag.config(spec.name)
        matrix = np.asarray(feature_view(subject.mag.folder, config, modality))
        present = np.flatnonzero(subject.present(config, modality))
        checks.append(check_matrix(subject, config, modality, matrix, present, found))
    return checks


def check_matrix(
    subject: Rows,
    config: ConfigSpec,
    modality: str,
    matrix: np.ndarray,
    present: Ints,
    found: Prints | None,
) -> Check:
    """The check of one column of vectors; ``present`` are the rows that have one."""
    name = f"{DUPLICATED}: {config.name} {modality}"
    keys = row_keys(matrix, subject.seed)[present]
    _, first, member = np.unique(keys, return_index=True, return_inverse=True)
    owner = present[first[member.ravel()]]
    inputs = _inputs(subject, modality, found)
    differs = owner != present if inputs is None else inputs[owner] != inputs[present]
    examples = [
        Example(ids=(int(node), int(other)), text=f"{node} has the vector of {other}")
        for node, other in zip(
            present[differs][: subject.limit], owner[differs][: subject.limit], strict=True
        )
    ]
    what = "vectors equal that of another input"
    check = by_share(name, int(differs.sum()), len(present), what, DUPLICATE_FAIL, examples)
    return _with_constants(check, matrix, present, modality)


def _with_constants(check: Check, matrix: np.ndarray, present: Ints, modality: str) -> Check:
    """The check with what is said of rows of zeros and of dimensions that never change."""
    summary = check.summary
    verdicts: list[Verdict] = [check.verdict]
    if zeros := int(zero_rows(matrix)[present].sum()):
        summary += f"; {zeros:,} are all zero though {layout.has_column(modality)} is set"
        verdicts.append("fail")
    if len(present) > 1:
        width, first = matrix.shape[1], matrix[present[0]]
        moving = np.zeros(width, bool)
        for part in blocks(len(present), 2_048):
            moving |= (matrix[present[part]] != first).any(axis=0)
        still = width - int(moving.sum())
        summary += f"; {still} of {width} dimensions are constant" if still else ""
        if still > CONSTANT_WARN * width:
            verdicts.append("fail" if still == width else "warn")
    rule = f"{check.rule}, or a row of zeros, or no dimension that varies"
    return check.model_copy(update={"summary": summary, "verdict": worst(verdicts), "rule": rule})


def check_modalities(subject: Subject, found: Prints | None) -> list[Check]:
    """Columns that no node fills, or all fill with the same."""
    columns: list[tuple[str, Bools, Keys | None]] = []
    columns.append((layout.TEXT, subject.has_text, subject.text_keys))
    if found is not None:
        columns.append((layout.IMAGE, found.present, found.keys))
    for spec, modality in subject.embeddings():
        flags = subject.present(subject.mag.config(spec.name), modality)
        columns.append((f"{spec.name} {modality}", flags, None))
    dead, shares = [], []
    verdicts: list[Verdict] = ["ok"]
    for name, present, keys in columns:
        shares.append(f"{name} {present.mean():.1%}")
        if not present.any():
            dead.append(f"{name}: no node has it")
            verdicts.append(
                "fail" if keys is None else "warn"
            )  # sources may be left out on purpose
        elif keys is not None and present.sum() > 1 and len(np.unique(keys[present])) == 1:
            dead.append(f"{name}: the same for all")
            verdicts.append("fail")
    return [
        Check(
            name=MODALITIES,
            verdict=worst(verdicts),
            value=float(len(dead)),
            count=len(dead),
            total=len(columns),
            summary=f"{len(dead)} of {len(columns)} are dead; filled: {', '.join(shares)}",
            rule="warn: no node has the text or picture; fail: the same for all, or no vectors",
            examples=tuple(Example(of="rows", ids=(), text=line) for line in dead),
        )
    ]
