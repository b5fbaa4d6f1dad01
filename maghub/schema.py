"""Column types of every kind of config, and the check of a stored table against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import datasets
from datasets import ClassLabel, Features, Image, List, Value

from maghub import layout
from maghub.errors import MaghubError, first_line
from maghub.spec import RETRIEVAL_KINDS, VECTOR_KINDS, Kind

INT64 = Value("int64")
STRING = Value("string")
BOOL = Value("bool")
VECTOR_TYPES = ("float16", "float32")


def nodes_features(
    label_names: Sequence[str] | None = None,
    extra: Mapping[str, object] | None = None,
    *,
    image: bool = True,
) -> Features:
    """Features of ``nodes``; ``label_names`` None leaves the label out, likewise ``image``."""
    columns: dict[str, object] = {
        layout.NODE_ID: INT64,
        layout.SOURCE_ID: STRING,
        layout.TEXT: STRING,
    }
    if image:
        columns[layout.IMAGE] = Image()
    if label_names is not None:
        columns[layout.LABEL] = ClassLabel(names=list(label_names))
    return Features({**columns, **(extra or {})})


def edges_features(extra: Mapping[str, object] | None = None) -> Features:
    """Features of ``edges``: edge_id, src, dst and the extra columns the card declares."""
    return Features({layout.EDGE_ID: INT64, layout.SRC: INT64, layout.DST: INT64, **(extra or {})})


def splits_features(key: str, rules: Sequence[str]) -> Features:
    """Features of ``node-splits`` or ``edge-splits``: the key and one ClassLabel per rule."""
    label = ClassLabel(names=list(layout.SPLITS))
    return Features({key: INT64, **dict.fromkeys(rules, label)})


def negatives_features(k: int) -> Features:
    """Features of ``negatives-<rule>``: ``k`` fixed negatives per positive edge."""
    return Features(
        {
            layout.EDGE_ID: INT64,
            layout.QUERY: INT64,
            layout.POSITIVE: INT64,
            layout.NEG: List(INT64, length=k),
        }
    )


def embeddings_features(
    dims: Mapping[str, int], dtype: str = "float16", key: str = layout.NODE_ID
) -> Features:
    """Features of ``embeddings-<encoder>``: a fixed-length vector and has_* flag per modality."""
    columns: dict[str, object] = {**required_columns("embeddings", key)}
    columns |= {modality: List(Value(dtype), length=dim) for modality, dim in dims.items()}
    columns |= {layout.has_column(modality): BOOL for modality in dims}
    return Features(columns)


def element_embeddings_features(dim: int, dtype: str = "float16") -> Features:
    """Features of ``embeddings-<encoder>-<set>``: a vector per node and edge of each graph."""
    columns: dict[str, object] = {**required_columns("element_embeddings")}
    columns[layout.TEXT] = List(Value(dtype), length=dim)
    columns[layout.has_column(layout.TEXT)] = BOOL
    return Features(columns)


def picture_embeddings_features(dim: int, dtype: str = "float16") -> Features:
    """Features of ``embeddings-<encoder>-<config>``: a vector per picture of a list column."""
    columns: dict[str, object] = {**required_columns("picture_embeddings")}
    columns[layout.IMAGE] = List(Value(dtype), length=dim)
    columns[layout.has_column(layout.IMAGE)] = BOOL
    return Features(columns)


def describe(feature: object) -> str:
    """A short readable type, e.g. ``int64`` or ``List(float16, length=384)``."""
    if isinstance(feature, Value):
        return str(feature.dtype)
    if isinstance(feature, List):
        inner = describe(feature.feature)
        return (
            f"List({inner}, length={feature.length})" if feature.length > -1 else f"List({inner})"
        )
    return type(feature).__name__ if not isinstance(feature, dict) else "struct"


def _is_vector(feature: object) -> bool:
    return (
        isinstance(feature, List)
        and feature.length > 0
        and isinstance(feature.feature, Value)
        and feature.feature.dtype in VECTOR_TYPES
    )


def vector_columns(features: Features) -> dict[str, int]:
    """Names and widths of the fixed-length float vectors of a table."""
    return {name: feature.length for name, feature in features.items() if _is_vector(feature)}


def required_columns(kind: Kind, key: str | None = None) -> dict[str, object]:
    """Columns every config of this kind must have, with their exact types."""
    match kind:
        case "nodes":
            return {layout.NODE_ID: INT64, layout.SOURCE_ID: STRING, layout.TEXT: STRING}
        case "edges":
            return {layout.EDGE_ID: INT64, layout.SRC: INT64, layout.DST: INT64}
        case "node_splits":
            return {layout.NODE_ID: INT64}
        case "edge_splits":
            return {layout.EDGE_ID: INT64}
        case "negatives":
            return {layout.EDGE_ID: INT64, layout.QUERY: INT64, layout.POSITIVE: INT64}
        case "embeddings":
            return {key or layout.NODE_ID: STRING if key == layout.ID else INT64}
        case "picture_embeddings":
            return {layout.ID: STRING, layout.POSITION: INT64}
        case "element_embeddings":
            part = ClassLabel(names=list(layout.PARTS))
            return {layout.GRAPH_ID: STRING, layout.PART: part, layout.POSITION: INT64}
        case _ if kind in RETRIEVAL_KINDS:
            return retrieval_columns(kind)
        case _:
            return {}


def retrieval_columns(kind: Kind) -> dict[str, object]:
    """Columns of a config of a retrieval benchmark, without its pictures; see ``nullable``."""
    mask = ClassLabel(names=list(layout.MASKS))
    ids = dict.fromkeys((layout.HEAD_ID, layout.REL_ID, layout.TAIL_ID), STRING)
    texts = dict.fromkeys((layout.HEAD_TEXT, layout.REL_TEXT, layout.TAIL_TEXT), STRING)
    shown = {layout.IS_MULTIMODAL: BOOL, layout.IMAGE_PATH: STRING}
    match kind:
        case "corpus":
            return {layout.ID: STRING, layout.TEXT: STRING, **ids, **texts, **shown}
        case "queries":
            made = {layout.GROUP_KIND: STRING, layout.WRITER: STRING}
            return {
                layout.ID: STRING, layout.TEXT: STRING, layout.MASKED: mask, **ids, **shown, **made
            }  # fmt: skip
        case "qrels":
            return {layout.QUERY_ID: STRING, layout.CORPUS_ID: STRING, layout.SCORE: INT64}
        case "qa":
            answers = dict.fromkeys((layout.ANSWERS, layout.ANSWER_IDS), List(STRING))
            return {
                layout.QUERY_ID: STRING, layout.QUESTION: STRING, **answers, layout.MASKED: mask
            }  # fmt: skip
        case _:
            named = dict.fromkeys((layout.ID, layout.NAME, layout.DESCRIPTION), STRING)
            paths = {layout.IMAGE_PATHS: List(STRING)} if kind == "entities" else {}
            return {**named, **paths}


def nullable(kind: Kind) -> tuple[str, ...]:
    """Required columns that may hold nulls: no picture, or the part of a triplet asked for."""
    match kind:
        case "corpus":
            return (layout.IMAGE_PATH,)
        case "queries":
            return (layout.IMAGE_PATH, layout.REL_ID, layout.TAIL_ID)
        case _:
            return ()


def schema_problems(
    kind: Kind, features: Features, key: str | None = None
) -> list[tuple[str, str]]:
    """What is wrong with the columns of a table, as (column, message) pairs."""
    problems = []
    for name, wanted in required_columns(kind, key).items():
        if name not in features:
            problems.append((name, "column is missing"))
        elif features[name] != wanted:
            problems.append((name, f"is {describe(features[name])}, must be {describe(wanted)}"))
    if kind == "nodes":
        for name, cls in ((layout.IMAGE, Image), (layout.LABEL, ClassLabel)):
            if name in features and not isinstance(features[name], cls):
                problems.append((name, f"is {describe(features[name])}, must be {cls.__name__}"))
    elif kind in ("node_splits", "edge_splits"):
        problems += [
            (name, f"is {describe(feature)}, must be ClassLabel")
            for name, feature in features.items()
            if name not in required_columns(kind) and not isinstance(feature, ClassLabel)
        ]
    elif kind == "negatives":
        neg = features.get(layout.NEG)
        if not (isinstance(neg, List) and neg.length > 0 and neg.feature == INT64):
            problems.append((layout.NEG, "must be List(int64, length=K)"))
    elif kind in VECTOR_KINDS:
        problems += _embedding_problems(features)
    return problems


def _embedding_problems(features: Features) -> list[tuple[str, str]]:
    problems = []
    modalities = [m for m in layout.MODALITIES if m in features]
    if not modalities:
        problems.append((layout.TEXT, "neither a text nor an image vector column"))
    for modality in modalities:
        if not _is_vector(features[modality]):
            wanted = "List(float16 or float32, length=D)"
            problems.append((modality, f"is {describe(features[modality])}, must be {wanted}"))
        flag = layout.has_column(modality)
        if features.get(flag) != BOOL:
            problems.append((flag, "must be a bool column"))
    return problems


def features_from_dict(data: Mapping[str, object]) -> Features:
    """``datasets.Features`` from the form stored in ``maghub.json``.

    Raises:
        MaghubError: ``datasets`` cannot read them.
    """
    try:
        features = datasets.Features.from_dict(dict(data))
        _ = features.arrow_schema
    except Exception as error:  # datasets raises many types for a malformed description
        what = f"declares columns that datasets cannot read ({first_line(error)})"
        raise MaghubError(what, where=layout.SPEC_FILE, fix="run: maghub validate FOLDER") from None
    return features
