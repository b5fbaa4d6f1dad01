"""Captioning: each picture becomes words (BLIP), then it is text retrieval (appendix 10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from pydantic import Field

from maghub import layout, registry
from maghub.baselines.rag._data import Ints, Questions, Vectors
from maghub.baselines.rag._retriever import Floats, Retriever, RetrieverConfig, dense_search
from maghub.baselines.rag.captions import Captioner
from maghub.encoding.base import Encoder
from maghub.errors import MaghubError
from maghub.search import Index

DEFAULT = "clip-vit-base-patch32"


class CaptioningConfig(RetrieverConfig):
    """Settings.

    Attributes:
        captioner: Folder or Hub id of any image-to-text model of transformers.
        encoder: The text encoder, whose published vectors serve what has no picture; None: the
            encoder that ``--encoder`` names.
        encoder_path: Folder with the encoder's files; None: the Hub or its cache.
        max_tokens: Longest caption.
        batch_size: Pictures at once.
        cache: File in which captions are kept; None: a common one in maghub's cache folder.
    """

    captioner: str = "Salesforce/blip-image-captioning-base"
    encoder: str | None = None
    encoder_path: Path | None = None
    max_tokens: int = Field(default=30, ge=1)
    batch_size: int = Field(default=16, ge=1)
    cache: Path | None = None


class CaptioningRetriever(Retriever):
    """The caption stands behind the text of a triplet or question that has a picture."""

    Config = CaptioningConfig
    config: CaptioningConfig
    uses = (layout.TEXT,)

    def prepare(self) -> None:
        """Caption and encode the triplets with pictures, index all."""
        config = self.config
        self._captioner = Captioner(
            config.captioner, config.max_tokens, config.batch_size, config.cache, self.device
        )
        self._encoder: Encoder | None = None
        self._seen: dict[str, Floats | None] = {}
        captioned = self._captioned(self.corpus.texts, self.corpus.pictures())
        self.index = Index.build(self._with(self.corpus.vectors(layout.TEXT), captioned).rows)

    def find(self, questions: Questions, k: int) -> tuple[Floats, Ints]:
        """Nearest captioned triplets by cosine; a question is captioned when it first comes."""
        if any(key not in self._seen for key in questions.ids):
            fresh = self._captioned(questions.texts, questions.pictures())
            self._seen |= {key: fresh.get(i) for i, key in enumerate(questions.ids)}
        known = {
            i: vector
            for i, key in enumerate(questions.ids)
            if (vector := self._seen[key]) is not None
        }
        vectors = self._with(questions.vectors(layout.TEXT), known)
        return dense_search(self.index, vectors, k, self.device)

    def _captioned(
        self, texts: Sequence[str], pictures: Iterator[bytes | None]
    ) -> dict[int, Floats]:
        """Vectors of text and caption, of what has a picture."""
        shown = ((i, data) for i, data in enumerate(pictures) if data is not None)
        whole = {i: f"{texts[i]} {said}".strip() for i, said in self._captioner.captions(shown)}
        return dict(zip(whole, self._encoded(list(whole.values())), strict=True))

    def _with(self, published: Vectors, captioned: Mapping[int, Floats]) -> Vectors:
        """Published vectors with those of captioned rows in their place."""
        if not captioned:
            return published
        at, own = np.fromiter(captioned, np.int64), np.stack(list(captioned.values()))
        if own.shape[1] != published.rows.shape[1]:
            raise self._mismatch(own.shape[1], published.rows.shape[1])
        rows, has = np.array(published.rows, np.float32), published.has.copy()
        rows[at], has[at] = own, True
        return Vectors(rows, has)

    def _name(self) -> str:
        return self.config.encoder or self.corpus.encoders.get(layout.TEXT, DEFAULT)

    def _mismatch(self, ours: int, theirs: int) -> MaghubError:
        return MaghubError(
            f"{self._name()} gives vectors of width {ours}, the published ones are {theirs}",
            fix="name the same encoder with --encoder NAME and --set encoder=NAME",
        )

    def _encoded(self, texts: list[str]) -> list[Floats]:
        if not texts:
            return []
        if self._encoder is None:
            from maghub.encoding.engine import Recipe, absolute

            factory = registry.get("encoders", self._name())
            path = absolute(self.config.encoder_path)
            self._encoder = Recipe(factory, self.device, None, path).load()
        size = self._encoder.spec.batch_size
        parts = [
            self._encoder.encode_texts(texts[start : start + size])
            for start in range(0, len(texts), size)
        ]
        return list(np.concatenate(parts))
