"""Answers of the computer-network templates (paper Tables 11 and 12); see ``solver``."""

from __future__ import annotations

from maghub.clegr.index import FAR, Index
from maghub.clegr.solver import Arguments, hops_avoiding, mode


def with_status(index: Index, args: Arguments) -> int:
    """How many nodes have a status."""
    return index.nodes["status"].count(args[0])


def in_sector(index: Index, args: Arguments) -> tuple[str, ...]:
    """Names of the nodes in a sector."""
    sectors = index.nodes["location_sector"]
    both = zip(index.names, sectors, strict=True)
    return tuple(sorted(name for name, sector in both if sector == args[0]))


def common_firmware(index: Index, _args: Arguments) -> str | None:
    """The most common firmware version; None on a tie."""
    return mode(index.nodes["firmware_version"])


def with_two_properties(index: Index, args: Arguments) -> int:
    """How many nodes of a sector have a security level."""
    both = zip(index.nodes["location_sector"], index.nodes["security_level"], strict=True)
    return sum(pair == args for pair in both)


def operational_neighbours(index: Index, args: Arguments) -> int:
    """How many neighbours are operational."""
    status = index.nodes["status"]
    return sum(status[node] == "Operational" for node in index.neighbours[args[0]])


def nodes_on_path(index: Index, args: Arguments) -> int | None:
    """Nodes on a shortest path, both ends included."""
    hops = index.distances(args[0])[args[1]]
    return None if hops == FAR else hops + 1


def path_avoiding_status(index: Index, args: Arguments) -> bool:
    """Whether some path keeps off a status; the two ends always stay."""
    return hops_avoiding(index, args, "status") < FAR
