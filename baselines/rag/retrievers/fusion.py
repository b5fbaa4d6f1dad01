"""Late fusion: text and picture of a triplet, and of a question, as one vector (appendix 10)."""

from __future__ import annotations

from maghub import layout
from maghub.baselines.rag._data import Ints, Questions, Vectors, VectorSource
from maghub.baselines.rag._pairs import unit
from maghub.baselines.rag._retriever import Floats, Retriever, dense_search
from maghub.errors import MaghubError
from maghub.search import Index

_ONE = "take one encoder for both, e.g. --encoder clip-vit-base-patch32"


class FusionRetriever(Retriever):
    """The mean of the text vector and the vector of the head's picture, both of length 1, where
    there is one; made length 1 again. One encoder must give both, in one space (CLIP)."""

    uses = (layout.TEXT, layout.IMAGE)

    def prepare(self) -> None:
        """Index the fused triplets.

        Raises:
            MaghubError: Texts and pictures lie in two spaces.
        """
        text, image = (self.corpus.encoders.get(modality) for modality in self.uses)
        if text and image and text != image:
            raise MaghubError(
                f"vectors of texts by {text} and of pictures by {image} cannot be fused", fix=_ONE
            )
        self.index = Index.build(fused(self.corpus.vectors).rows)

    def find(self, questions: Questions, k: int) -> tuple[Floats, Ints]:
        """Nearest fused triplets by cosine."""
        return dense_search(self.index, fused(questions.vectors), k, self.device)


def fused(vectors: VectorSource) -> Vectors:
    """Mean of the modalities that each row has.

    Raises:
        MaghubError: Texts and pictures lie in spaces of different width.
    """
    text, image = vectors(layout.TEXT), vectors(layout.IMAGE)
    if text.rows.shape[1] != image.rows.shape[1]:
        raise MaghubError(
            f"texts are {text.rows.shape[1]} wide and pictures {image.rows.shape[1]}: they cannot "
            "be fused",
            fix=_ONE,
        )
    return Vectors(unit(unit(text.rows) + unit(image.rows)), text.has | image.has)
