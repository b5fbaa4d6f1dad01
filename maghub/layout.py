"""Names of everything in a published folder: configs, splits, columns and files.

Every other module takes these names from here.
"""

from __future__ import annotations

CARD_FILE = "README.md"
SPEC_FILE = "maghub.json"
CARD_SOURCE_FILE = "card.md"
CROISSANT_FILE = "croissant.json"
PICTURE_FILE = "statistics.svg"

# Splits. ``all`` is a reserved keyword in ``datasets``, hence ``full``.
FULL = "full"
TRAIN, VALIDATION, TEST, UNASSIGNED = "train", "validation", "test", "unassigned"
SPLITS = (TRAIN, VALIDATION, TEST, UNASSIGNED)

# Configs.
NODES, EDGES = "nodes", "edges"
NODE_SPLITS, EDGE_SPLITS = "node-splits", "edge-splits"
NEGATIVES_PREFIX, EMBEDDINGS_PREFIX = "negatives-", "embeddings-"
GRAPHS_SUFFIX = "-graphs"

# Columns.
NODE_ID, SOURCE_ID, TEXT, IMAGE, LABEL = "node_id", "source_id", "text", "image", "label"
EDGE_ID, SRC, DST, RELATION, WEIGHT = "edge_id", "src", "dst", "relation", "weight"
QUERY, POSITIVE, NEG = "query", "positive", "neg"
MODALITIES = (TEXT, IMAGE)

# Tables with a whole graph in each row, and the vectors of those graphs' elements.
GRAPH_ID, PART, POSITION = "graph_id", "part", "position"
NODE_TEXTS, EDGE_TEXTS = "node_texts", "edge_texts"
PARTS = ("node", "edge")

# Retrieval benchmarks made from a knowledge graph. Corpus, queries and qrels are named, and their
# ids called, as MTEB's retrieval loader wants them.
CORPUS, QUERIES, QRELS = "corpus", "queries", "qrels"
ENTITIES, RELATIONS, QA, TRIPLETS = "entities", "relations", "qa", "triplets"
GROUP_PREFIX = "group-"
RELEASED_RULE, GROUP_RULE = "released", "group_split"
RULE_PREFIXES = {RELEASED_RULE: "", GROUP_RULE: GROUP_PREFIX}
"""Split rule -> how the names of its configs begin."""
ID, QUERY_ID, CORPUS_ID, SCORE = "id", "query-id", "corpus-id", "score"
HEAD_ID, REL_ID, TAIL_ID = "head_id", "rel_id", "tail_id"
HEAD_TEXT, REL_TEXT, TAIL_TEXT = "head_text", "rel_text", "tail_text"
MASKED, GROUP_KIND, WRITER = "masked", "group_kind", "writer"
MASK_TAIL, MASK_RELATION = "tail", "relation"
MASKS = (MASK_TAIL, MASK_RELATION)
IS_MULTIMODAL, IMAGE_PATH, IMAGE_PATHS = "is_multimodal", "image_path", "image_paths"
NAME, DESCRIPTION, IMAGES = "name", "description", "images"
QUESTION, ANSWERS, ANSWER_IDS = "question", "answers", "answer_ids"
TEXT_ID, MM_ID = "text-", "mm-"
"""Beginnings of the ids of text-only and multimodal queries and triplets: ``text-12``, ``mm-7``."""


def negatives_config(rule: str) -> str:
    """Config name of the fixed negatives of a rule, e.g. ``negatives-random``."""
    return NEGATIVES_PREFIX + rule


def embeddings_config(encoder: str) -> str:
    """Config name of an encoder's vectors, e.g. ``embeddings-all-minilm-l6-v2``."""
    return EMBEDDINGS_PREFIX + encoder


def graphs_config(name: str) -> str:
    """Config name of the graphs that the questions of ``name`` are about."""
    return name + GRAPHS_SUFFIX


def set_embeddings_config(encoder: str, name: str) -> str:
    """Config name of an encoder's vectors of the graphs of one question set."""
    return f"{embeddings_config(encoder)}-{name}"


def group_config(config: str) -> str:
    """Config name of a table under the group-safe split, e.g. ``group-queries``."""
    return GROUP_PREFIX + config


def has_column(modality: str) -> str:
    """Name of the boolean column telling which rows have a real vector of ``modality``."""
    return f"has_{modality}"


def data_file(config: str, split: str, index: int, count: int) -> str:
    """Path of one shard relative to the folder, e.g. ``nodes/train-00000-of-00001.parquet``."""
    return f"{config}/{split}-{index:05d}-of-{count:05d}.parquet"


def data_glob(config: str, split: str) -> str:
    """Pattern of all shards of one split, as the card's ``configs`` name them."""
    return f"{config}/{split}-*.parquet"
