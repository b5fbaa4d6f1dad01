"""Dataset cards: typed YAML front matter plus prose, read from Markdown and written back.

``dataset_cards/<name>.md`` is the source of truth for a dataset's facts. ``maghub.rendering`` turns
a card and the measured folder into the README that the Hub shows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, ValidationError, field_validator

from maghub import layout
from maghub.errors import MaghubError
from maghub.files import os_errors
from maghub.spec import Model, Policy

PARTS = ("graph", "text", "images", "embeddings")


class Licences(Model):
    """Licence of each part, as an SPDX id or a short phrase."""

    graph: str
    text: str
    images: str
    embeddings: str


class UpstreamFile(Model):
    """A file or package the builder reads; ``get`` says how a person obtains it."""

    name: str
    revision: str
    licence: str
    url: str | None = None
    get: str | None = None
    attribution: str | None = None


class PaperStatistics(Model):
    """What a paper's table states about the dataset, to stand beside what was measured."""

    source: str
    nodes: int | None = None
    edges: int | None = None
    classes: int | None = None
    note: str | None = None


class CardSpec(Model):
    """The front matter of a dataset card."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    pretty_name: str
    summary: str
    version: str = Field(pattern=r"^\d+\.\d+\.\d+$")
    status: Literal["buildable", "bundled", "local-copy-needed"] = "buildable"
    hub_license: str
    licences: Licences
    policy: Policy
    language: tuple[str, ...]
    tags: tuple[str, ...] = ()
    task_categories: tuple[str, ...] = ("graph-ml",)
    upstream: tuple[UpstreamFile, ...]
    edge_rule: str | None = None
    directed: bool | None = None
    columns: dict[str, dict[str, str]] = {}
    default_split: str | None = None
    splits: dict[str, str] = {}
    negatives: dict[str, str] = {}
    paper: tuple[PaperStatistics, ...] = ()
    quirks: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    citation: str
    contact: str | None = None

    @field_validator("summary")
    @classmethod
    def _one_line(cls, value: str) -> str:
        if "\n" in value.strip():
            raise ValueError("must be one line")
        return value.strip()


class Card(Model):
    """A parsed card: typed front matter and Markdown body."""

    spec: CardSpec
    body: str

    def to_markdown(self) -> str:
        """The card as Markdown text; ``parse_card`` of it gives an equal card."""
        data = self.spec.model_dump(mode="json", exclude_defaults=True)
        return f"---\n{dump_yaml(data)}---\n\n{self.body.strip()}\n"


class _Dumper(yaml.SafeDumper):
    """Quotes text with Unicode line breaks, which PyYAML would fold away."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if set(text) & set("\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_yaml(data: object) -> str:
    """YAML text in insertion order, Unicode kept readable."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def split_front_matter(text: str, where: object) -> tuple[dict[str, object], str, int]:
    """Front matter, body and the line on which the front matter starts.

    Raises:
        MaghubError: No front matter, or it is not a YAML mapping (with the line).
    """
    lines = text.replace("\r\n", "\n").lstrip("\ufeff").split("\n")
    if lines[0].rstrip() != "---" or "---" not in (line.rstrip() for line in lines[1:]):
        raise MaghubError(
            "has no YAML front matter",
            where=where,
            fix="start it with a block between two --- lines",
        )
    end = next(i for i, line in enumerate(lines[1:], 1) if line.rstrip() == "---")
    try:
        data = yaml.safe_load("\n".join(lines[1:end]))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 2}" if mark is not None else ""
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise MaghubError(f"front matter is not YAML ({reason})", where=f"{where}{line}") from None
    if not isinstance(data, dict):
        raise MaghubError("front matter is not a mapping of fields", where=where)
    return data, "\n".join(lines[end + 1 :]).strip() + "\n", 2


def parse_card(text: str, where: object = "card") -> Card:
    """Read and validate the text of a card; every problem is named in the one error line."""
    data, body, _ = split_front_matter(text, where)
    try:
        return Card(spec=CardSpec.model_validate(data), body=body)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
            for item in error.errors()[:10]
        )
        raise MaghubError(f"card is not valid: {problems}", where=where) from None


def read_card(path: Path) -> Card:
    """Read a card file."""
    with os_errors(path):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise MaghubError(f"is not UTF-8 (byte {error.start})", where=path) from None
    return parse_card(text, path)


def card_problems(card: Card, configs: dict[str, list[str]], splits: list[str]) -> list[str]:
    """What a card leaves undeclared about a built folder (extra columns, split rules)."""
    core = {
        layout.NODES: {layout.NODE_ID, layout.SOURCE_ID, layout.TEXT, layout.IMAGE, layout.LABEL},
        layout.EDGES: {layout.EDGE_ID, layout.SRC, layout.DST},
    }
    problems = []
    for config, known in core.items():
        declared = card.spec.columns.get(config, {})
        for column in configs.get(config, []):
            if column not in known and column not in declared:
                problems.append(f"column {config}.{column} is not declared in the card")
    problems += [
        f"split rule {n} is not declared in the card" for n in splits if n not in card.spec.splits
    ]
    return problems
