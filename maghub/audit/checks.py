"""All checks, one after the other."""

from __future__ import annotations

from pathlib import Path

from maghub import layout
from maghub.audit.edges import NEGATIVES, REPEATED, REVERSED, check_edges, check_negatives
from maghub.audit.facts import AGAIN, TWICE, check_facts
from maghub.audit.labels import BALANCE, check_labels
from maghub.audit.matching import check_matching
from maghub.audit.others import check_other_vectors
from maghub.audit.pictures import EXACT as EQUAL_PICTURES
from maghub.audit.pictures import NEAR as NEAR_PICTURES
from maghub.audit.pictures import check_pictures, prints
from maghub.audit.questions import check_questions
from maghub.audit.report import Check, Report, skipped
from maghub.audit.subject import Subject
from maghub.audit.texts import EXACT as EQUAL_TEXTS
from maghub.audit.texts import NEAR as NEAR_TEXTS
from maghub.audit.texts import check_texts
from maghub.audit.vectors import MODALITIES, check_modalities, check_vectors
from maghub.errors import MaghubError
from maghub.files import os_errors
from maghub.loading import load
from maghub.mag import MAG
from maghub.seeding import DEFAULT_SEED

EXAMPLES = 10
OF_GRAPHS = (
    EQUAL_TEXTS,
    NEAR_TEXTS,
    EQUAL_PICTURES,
    NEAR_PICTURES,
    REPEATED,
    REVERSED,
    AGAIN,
    TWICE,
    NEGATIVES,
    MODALITIES,
    BALANCE,
)
"""Checks that need one graph with nodes."""


def run(name: str | Path, *, seed: int = DEFAULT_SEED, examples: int = EXAMPLES) -> Report:
    """Look for what ``validate`` cannot see: leakage, misalignment, data that tells nothing.

    Of a folder that is no graph the question sets and their vectors are audited, and each check
    that needs a graph is skipped by name.

    Args:
        name: A folder, a bundled sample by its name, or a repo on the Hub.
        seed: Seed of samples and hash functions.
        examples: Most examples that a check keeps.

    Raises:
        MaghubError: There is no such dataset, or it holds neither a graph nor questions.
    """
    mag = _opened(name)
    is_graph = mag.spec.graph is not None and bool(mag.spec.of_kind("nodes"))
    split_rule = None
    with os_errors(mag.folder):
        checks = check_questions(mag, seed, examples)
        checks += check_other_vectors(mag, seed, examples)
        if is_graph:
            subject = Subject(mag, seed, examples)
            split_rule = subject.split_rule
            checks = [*_of_graph(subject), *checks]
        elif not checks:
            what = f"dataset {mag.spec.name} is not one graph and has no questions that are split"
            raise MaghubError(what, fix="audit one that is, or has")
        else:
            checks += [skipped(check, "the dataset is not one graph") for check in OF_GRAPHS]
    return Report(dataset=mag.spec.name, seed=seed, node_split=split_rule, checks=tuple(checks))


def _opened(name: str | Path) -> MAG:
    """The dataset; where it has no ``maghub.json``, the error says how to audit it all the same."""
    try:
        return load(name)
    except MaghubError as error:
        if layout.SPEC_FILE not in error.line():
            raise
        fix = "say what its columns are, e.g. --nodes CONFIG --edges CONFIG --map text=COLUMN"
        raise MaghubError(error.what, where=error.where, fix=fix) from None


def _of_graph(subject: Subject) -> list[Check]:
    found = prints(subject) if subject.has_images else None
    return [
        *check_texts(subject),
        *check_pictures(subject, found),
        *check_edges(subject),
        *check_facts(subject),
        *check_negatives(subject),
        *check_matching(subject, found),
        *check_vectors(subject, found),
        *check_modalities(subject, found),
        *check_labels(subject),
    ]
