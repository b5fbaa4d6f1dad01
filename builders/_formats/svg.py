"""Reads the RDF metadata of an SVG file: title, keywords, creator, licence.

Inkscape and Openclipart write it as ``metadata / rdf:RDF / cc:Work`` with Dublin Core elements
(https://www.w3.org/TR/SVG11/metadata.html). Parsed by expat as a stream: no external entity is ever
fetched, no entity may hold another one, and nothing but the texts below ``cc:Work`` is kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.parsers import expat

from .text import clean_text

CC = ("http://web.resource.org/cc/", "http://creativecommons.org/ns#")
DC = "http://purl.org/dc/elements/1.1/"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RESOURCE = f"{RDF}|resource"
AGENTS = ("creator", "rights", "publisher")
MAX_BYTES, MAX_DEPTH, MAX_ENTITIES, MAX_ENTITY, MAX_TEXT = 64 << 20, 256, 256, 512, 1 << 16


@dataclass(frozen=True)
class SvgMetadata:
    """What the first ``cc:Work`` says; "" or () where it says nothing.

    ``licence`` is the resource of ``cc:license``; ``agents`` the titles of creator, rights and
    publisher by element name.
    """

    title: str = ""
    description: str = ""
    language: str = ""
    licence: str = ""
    keywords: tuple[str, ...] = ()
    agents: dict[str, str] = field(default_factory=dict)


class _Reader:
    """Collects texts by their path below ``cc:Work``, e.g. ``dc:creator/title``."""

    def __init__(self) -> None:
        self.path: list[str] = []
        self.work = 0  # depth of the open cc:Work, 0 outside
        self.done = False
        self.texts: dict[str, list[str]] = {}
        self.licence = ""
        self.entities = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        space, _, local = name.rpartition("|")
        self.path.append(local)
        if len(self.path) > MAX_DEPTH:
            raise ValueError(f"is nested more than {MAX_DEPTH} deep")
        if local == "Work" and space in CC and not self.work and not self.done:
            self.work = len(self.path)
        elif self.work:
            if local == "license" and len(self.path) == self.work + 1:
                self.licence = self.licence or attributes.get(RESOURCE, "")
            self.texts.setdefault(self._key(), []).append("")

    def end(self, _: str) -> None:
        if len(self.path) == self.work:
            self.work, self.done = 0, True
        self.path.pop()

    def text(self, data: str) -> None:
        if self.work and len(self.path) > self.work:
            found = self.texts[self._key()]
            if len(found[-1]) < MAX_TEXT:
                found[-1] += data

    def entity(self, _: str, parameter: int, value: str | None, *__: object) -> None:
        """Illustrator declares namespaces as entities; nothing longer or nested has a use here."""
        self.entities += 1
        too_long = value is not None and (len(value) > MAX_ENTITY or "&" in value)
        if self.entities > MAX_ENTITIES or too_long:
            raise ValueError("declares an entity that could grow")

    def _key(self) -> str:
        below = self.path[self.work :]
        return f"{below[0]}/{below[-1]}" if len(below) > 1 else below[0]

    def all(self, key: str) -> list[str]:
        """The texts of this key that are not empty, white space folded."""
        cleaned = (clean_text(re.sub(r"\s+", " ", text)) for text in self.texts.get(key, []))
        return [text for text in cleaned if text]

    def first(self, *keys: str) -> str:
        """The first such text, or ""."""
        return next((text for key in keys for text in self.all(key)), "")


def read_svg_metadata(data: bytes) -> SvgMetadata:
    """The metadata of an SVG file.

    Raises:
        ValueError: It is not well-formed XML, or it asks for more than a picture needs.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"is longer than {MAX_BYTES} bytes")
    reader = _Reader()
    parser = expat.ParserCreate(namespace_separator="|")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler, parser.EntityDeclHandler = reader.text, reader.entity
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ValueError(f"is not XML ({error})") from None
    agents = {kind: reader.first(f"{kind}/title", kind) for kind in AGENTS}
    return SvgMetadata(
        title=reader.first("title"),
        description=reader.first("description"),
        language=reader.first("language"),
        licence=reader.licence,
        keywords=tuple(dict.fromkeys(text.lower() for text in reader.all("subject/li"))),
        agents={kind: name for kind, name in agents.items() if name},
    )
