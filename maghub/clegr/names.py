"""Invented, pronounceable names for stations, lines and systems; all drawn from the graph's seed.

Source: ../shared/specs/clegr.md ("Subway domain"): an invented word plus a place suffix, in title
case and unique within a graph; a line is its colour plus one of five endings.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from maghub.clegr.draws import Draws

LINE_ENDINGS: Final = (" Line", " Rail", " Way", " Express", " Tube")
PLACE_SUFFIXES: Final = (
    " Street", " Road", " Lane", " Square", " Court", " Grove", " Park", " Green",
    " Cross", " Hill", " Market", " Gate", "bridge", " Bridge", "ham", "ton",
    "wich", "ington", "ford", "bury", " Palace", " On Trent", " Upon Thames", " International",
)  # fmt: skip
SYSTEM_SUFFIXES: Final = ("Server", "Router", "Gateway", "Switch", "Terminal", "Mainframe", "Hub")

_ONSETS: Final = (
    "b", "br", "c", "ch", "cl", "cr", "d", "dr", "f", "fl", "fr", "g", "gl", "gr", "h", "j", "k",
    "l", "m", "n", "p", "pl", "pr", "qu", "r", "s", "sc", "sh", "sk", "sl", "sn", "sp", "st", "str",
    "sw", "t", "th", "tr", "tw", "v", "w", "y", "z",
)  # fmt: skip
_VOWELS: Final = ("a", "e", "i", "o", "u", "ai", "ea", "ee", "oa", "oo", "ou")
_MIDDLES: Final = (
    "b", "bl", "d", "dd", "g", "l", "ll", "m", "mbl", "n", "nd", "nt", "p", "pp", "r", "rd", "rl",
    "s", "st", "t", "tt", "v", "x", "zz",
)  # fmt: skip
_CODAS: Final = ("b", "ck", "d", "g", "l", "m", "n", "nd", "p", "r", "rk", "rm", "sk", "st", "t")


def invented_word(draws: Draws) -> str:
    """A word of two syllables such as ``Sporroun``, capitalised."""
    pick = draws.pick
    word = pick(_ONSETS) + pick(_VOWELS) + pick(_MIDDLES) + pick(_VOWELS) + pick(_CODAS)
    return word.capitalize()


def station_name(draws: Draws, taken: Collection[str]) -> str:
    """A station name that is not in ``taken``."""
    while (name := invented_word(draws) + draws.pick(PLACE_SUFFIXES)) in taken:
        pass
    return name


def system_name(draws: Draws, taken: Collection[str]) -> str:
    """A computer-network node name, such as ``Sporroun_Router``, that is not in ``taken``."""
    while (name := f"{invented_word(draws)}_{draws.pick(SYSTEM_SUFFIXES)}") in taken:
        pass
    return name


def integer_name(draws: Draws, taken: Collection[str], limit: int) -> str:
    """An integer below ``limit``, as a string, that is not in ``taken``."""
    while (name := str(draws.below(limit))) in taken:
        pass
    return name
