"""What datasets there are and what is known about one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maghub import registry
from maghub.cards import Card, read_card
from maghub.errors import MaghubError
from maghub.hub.opening import is_hub_id
from maghub.layout import CARD_SOURCE_FILE
from maghub.loading import load, sample_path
from maghub.spec import FolderSpec, read_spec


def list_datasets() -> list[str]:
    """Names of all datasets maghub can build, sorted."""
    return registry.names("builders")


def _find(name: str) -> tuple[Card, FolderSpec | None]:
    """The card of a dataset, folder or repo, and its spec where it stands built."""
    folder = Path(name)
    if folder.is_dir():
        spec = read_spec(folder)
        return read_card(folder / CARD_SOURCE_FILE), spec
    if is_hub_id(name):
        mag = load(name)
        return read_card(mag.folder / CARD_SOURCE_FILE), mag.spec
    card = registry.card(name)
    bundled = sample_path(name)
    return card, read_spec(bundled) if bundled is not None else None


def info(name: str) -> dict[str, Any]:
    """Facts of a dataset: its card, and where it is built (or bundled) what was measured.

    Args:
        name: A dataset name, the folder of a built dataset, or ``ORG/NAME[@REVISION]`` on the Hub.

    Returns:
        JSON-ready dictionary with ``card`` and, where built, ``graph``, ``statistics``,
        ``configs`` (rows per split), ``node_splits``, ``edge_splits``, ``query_splits``,
        ``encoders``, ``builder``.

    Raises:
        MaghubError: Unknown name (the nearest are given), or no such repo.
    """
    card, spec = _find(name)
    facts: dict[str, Any] = {"name": card.spec.name, "card": card.spec.model_dump(mode="json")}
    if spec is not None:
        data = spec.model_dump(mode="json")
        keep = ("graph", "statistics", "node_splits", "edge_splits", "encoders", "builder")
        facts |= {key: data[key] for key in keep} | {"query_splits": data.get("query_splits", [])}
        facts["configs"] = {config.name: config.splits for config in spec.configs}
    return facts


__all__ = ["MaghubError", "info", "list_datasets"]
