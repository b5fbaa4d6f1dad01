"""All checks, one after the other."""

from __future__ import annotations

from pathlib import Path

from maghub.audit.edges import check_edges, check_negatives
from maghub.audit.labels import check_labels
from maghub.audit.matching import check_matching
from maghub.audit.pictures import check_pictures, prints
from maghub.audit.report import Report
from maghub.audit.subject import Subject
from maghub.audit.texts import check_texts
from maghub.audit.vectors import check_modalities, check_vectors
from maghub.errors import MaghubError
from maghub.files import os_errors
from maghub.loading import load
from maghub.seeding import DEFAULT_SEED

EXAMPLES = 10


def run(name: str | Path, *, seed: int = DEFAULT_SEED, examples: int = EXAMPLES) -> Report:
    """Look for what ``validate`` cannot see: leakage, misalignment, data that tells nothing.

    Args:
        name: A folder, a bundled sample by its name, or a repo on the Hub.
        seed: Seed of samples and hash functions.
        examples: Most examples that a check keeps.

    Raises:
        MaghubError: There is no such dataset, or it is not one graph.
    """
    mag = load(name)
    if mag.spec.graph is None or not mag.spec.of_kind("nodes"):
        raise MaghubError(f"dataset {mag.spec.name} is not one graph", fix="audit one that is")
    subject = Subject(mag, seed, examples)
    with os_errors(mag.folder):
        found = prints(subject) if subject.has_images else None
        checks = [
            *check_texts(subject),
            *check_pictures(subject, found),
            *check_edges(subject),
            *check_negatives(subject),
            *check_matching(subject, found),
            *check_vectors(subject, found),
            *check_modalities(subject, found),
            *check_labels(subject),
        ]
    return Report(
        dataset=mag.spec.name, seed=seed, node_split=subject.split_rule, checks=tuple(checks)
    )
