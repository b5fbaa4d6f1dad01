"""``maghub init NAME``: a folder with a card to fill in and a builder to fill in."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from maghub import registry
from maghub.errors import MaghubError
from maghub.files import staged_folder, write_text

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_TAKEN = {"Any", "MaghubError", "Own", "Path", "SourceBuilder"}
"""What the builder's file means by these names."""

_CARD = """\
---
# Fill in what is marked TODO; maghub checks every field when it reads the card.
name: "@NAME@"
pretty_name: "@TITLE@"
summary: TODO one line that says what nodes and edges are.
version: 1.0.0
# The Hub's name of the licence, e.g. mit, cc-by-4.0, other.
hub_license: other
licences:
  graph: TODO
  text: TODO
  images: TODO
  embeddings: TODO
# public, gated, or local: a push leaves local parts out, and a local graph cannot be pushed at all.
policy:
  graph: local
  text: local
  images: local
  embeddings: local
language: [en]
tags: []
upstream:
  - name: TODO where the data comes from
    revision: "1"
    licence: TODO
edge_rule: TODO what makes an edge.
directed: false
# Further columns that are kept, with what they mean; all others are left out.
columns:
  nodes: {}
  edges: {}
citation: |
  @misc{@NAME@,
    title = {@TITLE@},
  }
---

## About

TODO what the data is good for, and what to beware of.
"""

_BUILDER = '''\
"""Builder of @NAME@: raw files in, tables out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maghub.builders._source import SourceBuilder, require_raw
from maghub.builders.own import OwnSource
from maghub.cards import read_card
from maghub.errors import MaghubError

CARD = Path(__file__).with_name("card.md")


def read_nodes(raw: Path) -> dict[str, list[Any]]:
    """Columns id, text, and as you have them label, image (path or bytes), split, and those that
    the card declares."""
    raise MaghubError("read_nodes is not filled in", where=__file__)


def read_edges(raw: Path) -> dict[str, list[Any]]:
    """Columns src and dst, which name ids, and as you have them relation, edge-split, and those
    that the card declares."""
    raise MaghubError("read_edges is not filled in", where=__file__)


class @CLASS@Source(OwnSource):
    """@NAME@ from its raw files."""

    name = "@NAME@"
    files: dict[str, str] = {}  # what must lie in the raw folder -> how to get it

    def __init__(self, raw_dir: Path | None = None, seed: int = 0, **options: Any) -> None:
        raw = require_raw(self.name, raw_dir or Path(), self.files)
        nodes, edges = read_nodes(raw), read_edges(raw)
        images = raw if "image" in nodes else None
        card = read_card(CARD)
        super().__init__(nodes, edges=edges, card=card, images=images, seed=seed, **options)


class @CLASS@(SourceBuilder):
    """``datasets`` builder of @NAME@."""

    SOURCE = @CLASS@Source
    card_path = CARD
'''

_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "maghub-@NAME@"
version = "1.0.0"
dependencies = ["maghub"]

[project.entry-points."maghub.builders"]
@NAME@ = "@MODULE@.builder:@CLASS@"

[tool.setuptools]
packages = ["@MODULE@"]
package-dir = {"@MODULE@" = "."}
package-data = {"@MODULE@" = ["card.md"]}
"""

_FILES = {
    "card.md": _CARD,
    "builder.py": _BUILDER,
    "__init__.py": '"""The dataset @NAME@ for maghub."""\n',
    "pyproject.toml": _PROJECT,
}


def init(name: str, folder: str | Path | None = None) -> Path:
    """Write a folder for a new dataset: a card, a builder, and what makes them a package.

    ``maghub build NAME --from ...`` needs the card only. To build from raw files by code, fill in
    ``builder.py`` and run ``pip install -e FOLDER``: then ``maghub build NAME`` finds it.

    Args:
        name: Name of the dataset: lower-case letters, digits and dashes between them.
        folder: The folder to make; the name by default.

    Raises:
        MaghubError: The name is not one, the folder exists, or the OS refuses to write.
    """
    if not _NAME.fullmatch(name):
        fix = "use lower-case letters, digits and dashes, e.g. my-graph"
        raise MaghubError(f"'{name[:60]}' cannot be the name of a dataset", fix=fix)
    if name in registry.names("builders"):
        what = f"'{name}' is the name of a dataset that maghub builds (maghub list)"
        raise MaghubError(what, fix="choose another name")
    words = name.replace("-", " ").split()
    class_name = "".join(word.capitalize() for word in words)
    plain = class_name[0].isalpha() and not keyword.iskeyword(class_name)
    values = {
        "NAME": name,
        "TITLE": " ".join(words).capitalize(),
        "CLASS": class_name if plain and class_name not in _TAKEN else f"Dataset{class_name}",
        "MODULE": "maghub_" + name.replace("-", "_"),
    }
    out = Path(folder) if folder is not None else Path(name)
    if out.exists():  # never replaced: what is in it may have been filled in
        raise MaghubError("already exists", where=out, fix="choose another folder with --out")
    with staged_folder(out) as staging:
        for file, text in _FILES.items():
            for key, value in values.items():
                text = text.replace(f"@{key}@", value)
            write_text(staging / file, text)
    return out
