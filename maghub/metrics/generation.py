"""How good generated texts and pictures are, in percent as OpenMAG's tables.

BLEU-4 is sacrebleu's, ROUGE-L rouge-score's, CIDEr pycocoevalcap's; the scores of pictures are
cosines of vectors of any encoder in the registry.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maghub import registry
from maghub.errors import MaghubError
from maghub.libraries import library
from maghub.metrics._inputs import numbers, same_length

if TYPE_CHECKING:
    from PIL.Image import Image

    from maghub.encoding.base import Encoder

Item = TypeVar("Item")
References = Sequence[str] | Sequence[Sequence[str]]
"""One text per prediction, or several."""

CLIP, DINO = "clip-vit-large-patch14", "dinov2-large"
# What COCO's caption evaluation drops before it counts words.
PUNCTUATION = frozenset("'`.?!,:;-()[]{}\"") | {"''", "``", "--", "..."}


def bleu4(predictions: Sequence[str], references: References) -> float:
    """Corpus BLEU with n-grams up to 4, 0..100 (Papineni et al. 2002; OpenMAG, equation 8).

    sacrebleu's defaults: tokenizer 13a, case counts, exponential smoothing of empty n-grams.

    Args:
        predictions: One text per item.
        references: One text per item, or a list of texts per item.

    Raises:
        MaghubError: Nothing to compare, unequal lengths, an item without reference, not texts.
        MissingExtra: sacrebleu is not installed.
    """
    several = _references(predictions, references)
    most = max(map(len, several))
    streams = [[own[i] if i < len(own) else None for own in several] for i in range(most)]
    corpus_bleu = library("sacrebleu", "sacrebleu", "metrics").corpus_bleu
    # equal texts come out as 100.00000000000004
    return min(100.0, float(corpus_bleu(list(predictions), streams).score))


def rouge_l(predictions: Sequence[str], references: References) -> float:
    """Mean F1 of the longest common subsequence of words, 0..100 (OpenMAG, equation 9, beta 1).

    Words are runs of a-z and 0-9 after lower-casing, without stemming: other scripts have none
    and count 0. With several references the best one counts. Arguments as ``bleu4``.

    Raises:
        MaghubError: See ``bleu4``.
        MissingExtra: rouge-score is not installed.
    """
    several = _references(predictions, references)
    scorer = library("rouge_score.rouge_scorer", "rouge-score", "metrics").RougeScorer(["rougeL"])
    scores = [
        scorer.score_multi(own, text)["rougeL"].fmeasure
        for text, own in zip(predictions, several, strict=True)
    ]
    return 100 * float(np.mean(scores))


def cider(predictions: Sequence[str], references: References) -> float:
    """CIDEr-D of COCO's caption evaluation times 100 (Vedantam et al. 2015); 1,000 at most.

    n-grams up to 4 are weighted by how few items' references have them, so the score of an item
    depends on the others. COCO's code adds clipping and a penalty on length to OpenMAG's equation
    10; captioning papers report that as CIDEr. Words are sacrebleu's 13a tokens, lower-cased and
    without punctuation (COCO's own tokenizer needs Java). Arguments as ``bleu4``.

    Raises:
        MaghubError: See ``bleu4``; also one item only, or references without a word.
        MissingExtra: pycocoevalcap or sacrebleu is not installed.
    """
    several = _references(predictions, references)
    if len(several) < 2:
        raise MaghubError(
            "CIDEr of one item is always 0", fix="give several items, or use bleu4 or rouge_l"
        )
    tokenize = library("sacrebleu.tokenizers.tokenizer_13a", "sacrebleu", "metrics").Tokenizer13a()
    scorer = library("pycocoevalcap.cider.cider_scorer", "pycocoevalcap", "metrics").CiderScorer()
    some = False
    for text, own in zip(predictions, several, strict=True):
        known = [_words(reference, tokenize) for reference in own]
        some = some or any(known)
        scorer += (_words(text, tokenize), known)
    if not some:
        raise MaghubError("no reference holds a word", fix="check the texts of the dataset")
    return 100 * float(scorer.compute_score()[0])


def clip_score(images: ArrayLike, texts: ArrayLike) -> float:
    """Mean of max(100 cos, 0) over pairs of vectors (Hessel et al. 2021; OpenMAG, equation 7).

    Without the factor 2.5 of Hessel et al., as OpenMAG.

    Args:
        images: float [N, D] vectors of pictures.
        texts: float [N, D] vectors of texts by the same model.

    Raises:
        MaghubError: Shapes differ, nothing to compare, NaN, or a vector of zeros.
    """
    return float(np.maximum(_cosines(images, texts), 0).mean() * 100)


def dinov2_score(generated: ArrayLike, reference: ArrayLike) -> float:
    """Mean of 100 cos over pairs of vectors of pictures (OpenMAG, equation 11), -100..100.

    Args:
        generated: float [N, D] vectors of generated pictures.
        reference: float [N, D] vectors of the real ones.

    Raises:
        MaghubError: See ``clip_score``.
    """
    return float(_cosines(generated, reference).mean() * 100)


def clip_score_of(
    images: Sequence[Image], texts: Sequence[str], encoder: str | Encoder = CLIP
) -> float:
    """``clip_score`` of pictures and texts themselves.

    Args:
        images: RGB pictures.
        texts: One for each.
        encoder: Name in the registry of encoders, or a loaded one; it must serve both modalities.

    Raises:
        MaghubError: See ``clip_score``; also an unknown encoder, or weights that cannot be had.
    """
    same_length(len(images), len(texts), "pictures", "texts")
    model = _loaded(encoder)
    pictures = _in_batches(model.encode_images, images, model.spec.batch_size)
    return clip_score(pictures, _in_batches(model.encode_texts, texts, model.spec.batch_size))


def dinov2_score_of(
    generated: Sequence[Image], reference: Sequence[Image], encoder: str | Encoder = DINO
) -> float:
    """``dinov2_score`` of pictures themselves; ``encoder`` and errors as ``clip_score_of``."""
    same_length(len(generated), len(reference), "generated pictures", "real pictures")
    model = _loaded(encoder)
    made = _in_batches(model.encode_images, generated, model.spec.batch_size)
    return dinov2_score(made, _in_batches(model.encode_images, reference, model.spec.batch_size))


def _loaded(encoder: str | Encoder) -> Encoder:
    if not isinstance(encoder, str):
        return encoder
    model: Encoder = registry.get("encoders", encoder)()
    return model


def _in_batches(encode: Any, items: Sequence[Item], size: int) -> NDArray[np.float32]:
    parts = [encode(items[start : start + size]) for start in range(0, len(items), size)]
    return np.concatenate(parts)


def _cosines(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    pair = []
    for vectors in (first, second):
        matrix = numbers(vectors, "vectors", 2).astype(np.float64)
        largest = np.abs(matrix).max(axis=1, keepdims=True)
        if not np.isfinite(largest).all():
            row = int(np.argmin(np.isfinite(largest)))
            raise MaghubError(
                f"the vector in row {row} is infinite", fix="look for an overflow in the encoder"
            )
        matrix /= np.where(largest > 0, largest, 1)  # squares of any length are then numbers
        norm = np.linalg.norm(matrix, axis=1, keepdims=True)
        if not (norm > 0).all():
            row = int(np.argmin(norm))
            raise MaghubError(
                f"the vector in row {row} is all zeros and has no direction",
                fix="leave out rows without this modality",
            )
        pair.append(matrix / norm)
    if pair[0].shape != pair[1].shape:
        raise MaghubError(
            f"vectors have the shapes {pair[0].shape} and {pair[1].shape}",
            fix="give one row for each and the same model's vectors",
        )
    return (pair[0] * pair[1]).sum(axis=1)


def _references(predictions: Sequence[str], references: References) -> list[list[str]]:
    """The references of each prediction as a list, all checked."""
    for given in (predictions, references):
        if isinstance(given, str) or not isinstance(given, Collection):
            what = "a single text was given" if isinstance(given, str) else f"no texts: {given!r}"
            raise MaghubError(what, fix="give a list of texts")
    same_length(len(predictions), len(references), "predictions", "references")
    several: list[list[Any]] = [list(own) if _is_list(own) else [own] for own in references]
    for row, (text, own) in enumerate(zip(predictions, several, strict=True)):
        if not own:
            raise MaghubError(f"item {row} has no reference", fix="leave the item out")
        for value in (text, *own):
            if not isinstance(value, str):
                raise MaghubError(f"item {row} holds {type(value).__name__}", fix="give texts")
    return several


def _is_list(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str)


def _words(text: str, tokenize: Any) -> str:
    tokens = tokenize(text.lower()).split()
    return " ".join(token for token in tokens if token not in PUNCTUATION)
