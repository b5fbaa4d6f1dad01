"""Finds builders, importers, encoders, models, tasks and retrievers by name through entry points.

The core never imports them; a third-party package adds its own by declaring an entry point in one
of the groups below. A name with a colon is a member of a family: ``timm:resnet18`` is what the
entry point ``timm`` of the group ``maghub.encoder_families`` makes of ``resnet18``.
"""

from __future__ import annotations

import importlib.resources
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal

from maghub.cards import Card, read_card
from maghub.errors import MaghubError, nearest

Group = Literal[
    "builders", "importers", "encoders", "encoder_families", "models", "tasks", "retrievers"
]
_KINDS = {"encoder_families": "encoder family"}


@cache
def _entries(group: Group) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=f"maghub.{group}")}


def names(group: Group) -> list[str]:
    """Registered names of a group, sorted."""
    return sorted(_entries(group))


def get(group: Group, name: str) -> Any:
    """The object registered under ``name``; an encoder may be ``family:member``.

    Raises:
        MaghubError: Unknown name (the nearest are given), or its package fails to import.
    """
    family, colon, member = name.partition(":")
    if group == "encoders" and colon:
        return get("encoder_families", family)(member)
    entries, kind = _entries(group), _KINDS.get(group, group.removesuffix("s"))
    if name not in entries:
        raise nearest(name, entries, kind=kind)
    try:
        return entries[name].load()
    except Exception as error:  # whatever a third party's module does while it is imported
        raise MaghubError(
            f"{kind} '{name}' cannot be imported ({error})",
            fix="install the extra it needs, see: pip show maghub",
        ) from error


def card_path(name: str) -> Path:
    """Path of a dataset's card: the builder's own ``card_path``, else the one of its name."""
    if name in _entries("builders"):
        own = getattr(get("builders", name), "card_path", None)
        if own is not None:
            return Path(own)
    return Path(str(importlib.resources.files("maghub.dataset_cards"))) / f"{name}.md"


def card(name: str) -> Card:
    """The card of a registered dataset.

    Raises:
        MaghubError: No such dataset, or its card is missing or invalid.
    """
    path = card_path(name)
    if not path.is_file():
        if name not in _entries("builders"):
            raise nearest(name, _entries("builders"), kind="dataset")
        raise MaghubError("dataset has no card", where=name, fix=f"write dataset_cards/{name}.md")
    return read_card(path)
