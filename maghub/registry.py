"""Finds builders, encoders, models, tasks and retrievers by name through entry points.

The core never imports them; a third-party package adds its own by declaring an entry point in one
of the groups below.
"""

from __future__ import annotations

import importlib.resources
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal

from maghub.cards import Card, read_card
from maghub.errors import MaghubError, nearest

Group = Literal["builders", "encoders", "models", "tasks", "retrievers"]


@cache
def _entries(group: Group) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=f"maghub.{group}")}


def names(group: Group) -> list[str]:
    """Registered names of a group, sorted."""
    return sorted(_entries(group))


def get(group: Group, name: str) -> Any:
    """The object registered under ``name``.

    Raises:
        MaghubError: Unknown name (the nearest are given), or its package fails to import.
    """
    entries = _entries(group)
    if name not in entries:
        raise nearest(name, entries, kind=group.removesuffix("s"))
    try:
        return entries[name].load()
    except (ImportError, AttributeError) as error:
        raise MaghubError(
            f"{group.removesuffix('s')} '{name}' cannot be imported ({error})",
            fix="install the extra it needs, see: pip show maghub",
        ) from error


def card_path(name: str) -> Path:
    """Path of a dataset's card: the builder's own ``card_path``, else ``dataset_cards/<name>.md``."""
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
