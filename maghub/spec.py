"""The typed contract of a published folder: what ``maghub.json`` says.

Unknown fields are refused when writing and when reading the same schema version; a file of a newer
minor version is read with its extra fields ignored, one of another major version is refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from maghub import layout
from maghub.errors import MaghubError

SCHEMA_VERSION = "1.0"

Kind = Literal[
    "nodes",
    "edges",
    "node_splits",
    "edge_splits",
    "negatives",
    "embeddings",
    "element_embeddings",
    "picture_embeddings",
    "corpus",
    "queries",
    "qrels",
    "entities",
    "relations",
    "qa",
    "table",
]
"""What a config is. ``embeddings`` has one vector per row of its target, ``element_embeddings`` one
per node and edge of the graphs that are the rows of its target, ``picture_embeddings`` one per
picture of the column ``images`` of its target."""
VECTOR_KINDS = ("embeddings", "element_embeddings", "picture_embeddings")
RETRIEVAL_KINDS = ("corpus", "queries", "qrels", "entities", "relations", "qa")
TABLE_KINDS = ("table", *RETRIEVAL_KINDS)
"""Tables that are no part of a graph."""
Access = Literal["public", "gated", "local"]
Origin = Literal["maghub", "upstream"]


class Model(BaseModel):
    """Base of all contract models: immutable, no unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FileEntry(Model):
    """One Parquet shard: path relative to the folder, rows, bytes and SHA-256 (hex)."""

    path: str
    split: str
    rows: int
    bytes: int
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")

    @field_validator("path")
    @classmethod
    def _inside(cls, value: str) -> str:
        parts = value.split("/")
        if not value or parts[0] == "" or ".." in parts or set("\\\0") & set(value):
            raise ValueError(f"'{value}' leads out of the folder")
        return value


class ConfigSpec(Model):
    """One config (table) of the folder.

    ``features`` is ``datasets.Features.to_dict()``; ``target`` names the config whose rows an
    embedding or split config is keyed to; ``splits`` maps a split to its rows; ``num_bytes`` to its
    size in Arrow memory.
    """

    name: str
    kind: Kind
    target: str | None = None
    features: dict[str, Any]
    splits: dict[str, int]
    num_bytes: dict[str, int]
    files: tuple[FileEntry, ...]

    @property
    def rows(self) -> int:
        """Rows over all splits."""
        return sum(self.splits.values())


class GraphSpec(Model):
    """Declared nature of the graph and its measured counts.

    Undirected edges are stored once with ``src <= dst``. ``key`` names the columns that identify an
    edge; ``unique_pairs`` counts distinct unordered (undirected) or ordered (directed) node pairs.
    """

    directed: bool
    self_loops: bool = False
    multi_edges: bool = False
    key: tuple[str, ...] = (layout.SRC, layout.DST)
    num_nodes: int
    num_edges: int
    unique_pairs: int


class Statistics(Model):
    """What was measured on the tables as written (undirected view for components and degrees).

    ``homophily`` is the share of edges between two labelled nodes that join equal labels;
    ``degrees`` counts nodes by degree in classes that double in width (0, 1, 2-3, 4-7 and so on);
    ``text_chars``, ``text_words`` and ``image_pixels`` hold the percentiles 0, 50, 95 and 100 of
    text length in characters and in words (what stands between blanks), and of the longer image
    side in pixels.
    """

    self_loops: int
    duplicate_edges: int
    isolated_nodes: int
    components: int
    largest_component: int
    mean_degree: float
    max_degree: int
    degrees: dict[str, int] = {}
    homophily: float | None = None
    classes: dict[str, int] = {}
    unlabelled: int = 0
    with_text: int = 0
    with_image: int = 0
    text_chars: dict[str, int] = {}
    text_words: dict[str, int] = {}
    image_pixels: dict[str, int] = {}


class TextLengths(Model):
    """Lengths of the texts of one column, the empty ones left out: how many, and the percentiles 0,
    50, 95 and 100 of their characters and words."""

    texts: int
    chars: dict[str, int]
    words: dict[str, int]


class SplitRule(Model):
    """A named way to split nodes, edges or queries, ours (seeded) or upstream's own."""

    name: str
    of: Literal["nodes", "edges", "queries"]
    origin: Origin
    description: str
    seed: int | None = None
    counts: dict[str, int]


class NegativesRule(Model):
    """Fixed negatives for link prediction: ``k`` per positive edge of an edge-split rule."""

    name: str
    edge_split: str
    origin: Origin
    description: str
    k: int
    seed: int | None = None


class TokenLengths(Model):
    """How long the texts that an encoder was given are, in its own tokens before truncation.

    Its special tokens count. A percentile is the least length that so many texts do not exceed.
    """

    texts: int
    mean: float
    p50: int
    p95: int
    max: int


class EncoderProvenance(Model):
    """Everything needed to make the vectors of one embedding config again.

    ``dtype`` is how vectors are stored, ``compute`` the precision of the model's arithmetic.
    Vectors taken from upstream (``origin`` upstream) say what upstream says of them; what nobody
    recorded is None.
    """

    origin: Origin = "maghub"

    encoder: str
    config: str
    modalities: tuple[str, ...]
    model_id: str
    revision: str
    library: str
    licence: str
    dim: dict[str, int]
    pooling: str
    normalized: bool
    dtype: str
    max_length: int | None = None
    image_size: int | None = None
    projection: str | None = None
    batch_size: int | None = None
    batch_plan: str | None = None
    compute: str | None = None
    device: str | None = None
    versions: dict[str, str] = {}
    missing: dict[str, int]
    truncated_texts: int | None = None
    text_tokens: TokenLengths | None = None
    note: str | None = None


class Policy(Model):
    """Redistribution policy per part: on a public repo, behind a gate, or on this machine only."""

    graph: Access
    text: Access
    images: Access
    embeddings: Access


class BuilderInfo(Model):
    """Which builder made the folder, from what, with which seed and options."""

    name: str
    version: str
    seed: int
    options: dict[str, str | int | float | bool | None] = {}
    sources: dict[str, str] = {}


class FolderSpec(Model):
    """The whole of ``maghub.json``.

    ``text_lengths`` is by ``config.column``, for texts outside the nodes.
    """

    schema_version: str = SCHEMA_VERSION
    name: str
    dataset_version: str
    builder: BuilderInfo
    policy: Policy
    graph: GraphSpec | None = None
    statistics: Statistics | None = None
    text_lengths: dict[str, TextLengths] = Field(default={}, exclude_if=lambda found: not found)
    default_split: str | None = None
    node_splits: tuple[SplitRule, ...] = ()
    edge_splits: tuple[SplitRule, ...] = ()
    query_splits: tuple[SplitRule, ...] = Field(default=(), exclude_if=lambda rules: not rules)
    negatives: tuple[NegativesRule, ...] = ()
    encoders: tuple[EncoderProvenance, ...] = ()
    images: dict[str, int] = {}
    notes: dict[str, Any] = {}
    configs: tuple[ConfigSpec, ...]

    def config(self, name: str) -> ConfigSpec:
        """The config called ``name``.

        Raises:
            MaghubError: There is none; the nearest names are given.
        """
        from maghub.errors import nearest

        for config in self.configs:
            if config.name == name:
                return config
        raise nearest(name, [config.name for config in self.configs], kind="config")

    def has(self, name: str) -> bool:
        """Whether the folder has a config of that name."""
        return any(config.name == name for config in self.configs)

    def of_kind(self, kind: Kind) -> list[ConfigSpec]:
        """All configs of one kind, in stored order."""
        return [config for config in self.configs if config.kind == kind]

    def encoder_names(self) -> list[str]:
        """Names of the encoders whose vectors the folder holds."""
        return [encoder.encoder for encoder in self.encoders]

    def to_json(self) -> str:
        """Stable JSON text: same spec, same bytes."""
        return json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"


def parse_spec(text: str, where: object) -> FolderSpec:
    """Read the text of a ``maghub.json``.

    Raises:
        MaghubError: Not JSON, of another major version, or not matching the contract.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MaghubError(f"is not JSON ({error})", where=where, fix="build it again") from None
    version = str(data.get("schema_version", "")) if isinstance(data, dict) else ""
    major, _, minor = version.partition(".")
    own_major, _, own_minor = SCHEMA_VERSION.partition(".")
    if not (major.isdigit() and minor.isdigit()) or major != own_major:
        raise MaghubError(
            f"has schema version '{version}', this maghub reads {own_major}.x",
            where=where,
            fix="install the maghub version that wrote it, or build it again",
        )
    newer = int(minor) > int(own_minor)
    try:
        return FolderSpec.model_validate_json(text, extra="ignore" if newer else "forbid")
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise MaghubError(
            f"field {field}: {first['msg']}{more}", where=where, fix="build it again"
        ) from None


def read_spec(folder: Path) -> FolderSpec:
    """Read ``maghub.json`` of a folder.

    Raises:
        MaghubError: The folder or file is missing or unreadable, or the text is not a valid spec.
    """
    path = folder / layout.SPEC_FILE
    if not folder.is_dir():
        raise MaghubError("is not a folder", where=folder, fix="give the path of a built dataset")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MaghubError(
            f"holds no {layout.SPEC_FILE}, so it is not a published folder",
            where=folder,
            fix="build one with: maghub build NAME --out FOLDER",
        ) from None
    except UnicodeDecodeError:
        raise MaghubError("is not UTF-8", where=path, fix="build it again") from None
    except OSError as error:
        raise MaghubError(f"cannot be read ({error.strerror})", where=path) from None
    return parse_spec(text, path)
