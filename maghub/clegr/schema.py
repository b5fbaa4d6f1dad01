"""Attribute vocabularies, sizes and column orders of both CLeGR domains.

Source: ../shared/specs/clegr.md and the paper's appendices B.1.2, C.2 and C.6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

Domain = Literal["subway", "computer-networks"]
QuestionSet = Literal["facts", "reasoning"]
Variant = Literal["compat", "well_posed"]

SUBWAY: Final = "subway"
NETWORK: Final = "computer-networks"
DOMAINS: Final = (SUBWAY, NETWORK)
SETS: Final = ("facts", "reasoning")
VARIANTS: Final = ("compat", "well_posed")
VARIANT_NOTE: Final = "variant"
"""Note of ``maghub.json`` that says how a folder's questions were drawn."""
BASE_SIZES: Final = ("small", "medium", "large")
SIZES: Final = (*BASE_SIZES, "mixed")

Values = Sequence[bool | int | str]

LINE_VALUES: Final[Mapping[str, Values]] = MappingProxyType(
    {
        "color": ("blue", "orange", "green", "red", "purple", "brown", "pink", "olive", "cyan"),
        "stroke": ("solid", "dashed", "dashdot", "dotted"),
        "built": ("1980", "1990", "2000", "2010", "2020", "2025"),
        "has_aircon": (True, False),
    }
)
STATION_VALUES: Final[Mapping[str, Values]] = MappingProxyType(
    {
        "disabled_access": (True, False),
        "has_rail": (True, False),
        "architecture": ("victorian", "modernist", "concrete", "glass", "art-deco", "new"),
        "cleanliness": ("clean", "dirty"),
        "music": ("classical", "rock", "electronic", "country", "none", "swing", "pop"),
        "size": ("tiny", "small", "medium-sized", "large"),
    }
)
SYSTEM_VALUES: Final[Mapping[str, Values]] = MappingProxyType(
    {
        "status": ("Operational", "Degraded", "Offline", "Maintenance", "Overloaded"),
        "security_level": ("Public", "Internal", "Confidential", "Restricted"),
        "location_sector": (
            "Sector_Red",
            "Sector_Blue",
            "Sector_Green",
            "Sector_Yellow",
            "Sector_Purple",
        ),
        "firmware_version": ("v1.0", "v1.1", "v2.0", "v2.1", "v3.0"),
        "power_consumption_units": (5, 15, 30, 75),
    }
)
LINK_VALUES: Final[Mapping[str, Values]] = MappingProxyType(
    {
        "bandwidth_units": (10, 100, 1000, 5000),
        "latency_ms": (5, 20, 50, 100, 200),
        "encryption_status": ("Encrypted", "Unencrypted", "Partial"),
    }
)
TRACK_COLUMNS: Final = (
    "line_id",
    "line_name",
    "line_color",
    "line_stroke",
    "line_has_aircon",
    "line_built",
)
LINE_COLUMNS: Final = ("id", "name", "color", "stroke", "built", "has_aircon")
NODE_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {SUBWAY: tuple(STATION_VALUES), NETWORK: tuple(SYSTEM_VALUES)}
)
EDGE_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {SUBWAY: TRACK_COLUMNS, NETWORK: tuple(LINK_VALUES)}
)
"""Attribute columns of nodes and edges, in published order, per domain."""


@dataclass(frozen=True)
class SubwaySize:
    """Base values of one subway size."""

    lines: int
    stations_per_line: int
    radius: float
    merge_distance: float
    merge_rounds: int


@dataclass(frozen=True)
class NetworkSize:
    """Base values of one computer-network size."""

    nodes: int
    degree: int
    radius: float
    merge_distance: float
    merge_rounds: int


SUBWAY_SIZES: Final[Mapping[str, SubwaySize]] = MappingProxyType(
    {
        "small": SubwaySize(6, 7, 8.0, 0.9, 10),
        "medium": SubwaySize(10, 10, 15.0, 0.85, 12),
        "large": SubwaySize(22, 20, 25.0, 0.8, 15),
    }
)
NETWORK_SIZES: Final[Mapping[str, NetworkSize]] = MappingProxyType(
    {
        "small": NetworkSize(25, 2, 8.0, 1.0, 10),
        "medium": NetworkSize(90, 3, 15.0, 0.8, 12),
        "large": NetworkSize(180, 3, 25.0, 0.75, 15),
    }
)
