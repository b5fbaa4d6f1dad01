"""Vectors of what is no node (elements of graphs, queries, a corpus), against the texts."""

from __future__ import annotations

import numpy as np

from maghub import layout
from maghub.audit.matching import MATCH, check_column, text_similarity
from maghub.audit.question_sets import graph_texts
from maghub.audit.report import Check, skipped
from maghub.audit.subject import TextRows, present
from maghub.audit.vectors import check_matrix
from maghub.features import feature_view
from maghub.mag import MAG
from maghub.reader import read_columns
from maghub.schema import features_from_dict, vector_columns
from maghub.spec import VECTOR_KINDS, ConfigSpec


def check_other_vectors(mag: MAG, seed: int, limit: int) -> list[Check]:
    """Shared and misplaced vectors of every vector column that does not belong to the nodes."""
    checks = []
    for config in mag.spec.configs:
        if config.kind not in VECTOR_KINDS or config.target in (None, layout.NODES):
            continue
        texts = _texts(mag, config)
        for modality in vector_columns(features_from_dict(config.features)):
            name = f"{config.name} {modality}"
            if modality != layout.TEXT or texts is None:
                checks.append(skipped(f"{MATCH}: {name}", "only texts are compared here"))
                continue
            rows = TextRows(mag, seed, limit, texts)
            checks += _checks(rows, mag.config(config.name), modality, name)
    return checks


def _texts(mag: MAG, config: ConfigSpec) -> list[str] | None:
    """The texts that a config has vectors of, row by row; None where that is not known."""
    target = mag.spec.config(str(config.target))
    if config.kind == "element_embeddings" and layout.NODE_TEXTS in target.features:
        return graph_texts(mag, target).flat()
    if config.kind == "embeddings" and layout.TEXT in target.features:
        table = read_columns(mag.folder, mag.config(target.name), [layout.TEXT])
        found: list[str] = table[layout.TEXT].to_pylist()
        return found
    return None


def _checks(rows: TextRows, config: ConfigSpec, modality: str, name: str) -> list[Check]:
    flags = present(rows.mag, config, modality)
    if len(flags) != len(rows.texts):
        why = f"{len(flags):,} vectors, {len(rows.texts):,} texts"
        return [skipped(f"{MATCH}: {name}", why)]
    matrix = np.asarray(feature_view(rows.mag.folder, config, modality))
    usable = np.flatnonzero(flags & rows.has_text)
    return [
        check_column(rows, f"{MATCH}: {name}", config, modality, usable, text_similarity(rows)),
        check_matrix(rows, config, modality, matrix, np.flatnonzero(flags), None),
    ]
