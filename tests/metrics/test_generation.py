"""Metrics of generated texts and pictures against hand cases and second implementations."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from nltk.translate.bleu_score import corpus_bleu
from numpy.typing import NDArray
from PIL import Image

from maghub import metrics, registry
from maghub.encoding.base import Encoder
from maghub.errors import MaghubError, MissingExtra
from maghub.metrics import generation
from tests.helpers.tiny_encoders import tiny

PREDICTED = [
    "a dog runs over the green grass",
    "two people sit on a bench near the river",
    "the cat is sleeping",
    "a red red car",
]
REFERENCES = [
    ["a brown dog runs over green grass", "the dog runs over the grass in a park"],
    ["two people sit on a bench near a river", "people near the river"],
    ["a cat sleeps on the sofa"],
    ["a red car on the road", "the red car", "a car that is red"],
]
Matrix = NDArray[np.float64]
TEXT_METRICS = ("bleu4", "rouge_l", "cider")


def grams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def test_bleu_equals_nltks() -> None:
    split = [[text.split() for text in own] for own in REFERENCES]
    wanted = 100 * corpus_bleu(split, [text.split() for text in PREDICTED])
    assert wanted > 10
    assert metrics.bleu4(PREDICTED, REFERENCES) == pytest.approx(wanted, rel=1e-9)


def test_hand_case_of_bleu() -> None:
    # 5 words against 6: precisions 5/5, 4/4, 3/3, 2/2 and the brevity penalty exp(1 - 6/5).
    found = metrics.bleu4(["the cat sat on the"], ["the cat sat on the mat"])
    assert found == pytest.approx(100 * np.exp(-0.2))
    assert metrics.bleu4(["xx yy"], ["the cat"]) == 0


def test_equal_texts_have_exactly_the_largest_bleu_and_rouge() -> None:
    for words in range(4, 40):
        texts = [" ".join(f"w{i}" for i in range(n)) for n in (words, words + 1)]
        assert metrics.bleu4(texts, texts) == 100
        assert metrics.rouge_l(texts, texts) == 100


def test_hand_case_of_rouge_l() -> None:
    # "police kill the gunman" against "police killed the gunman" (Lin 2004): LCS 3 of 4 and 4.
    assert metrics.rouge_l(["police kill the gunman"], ["Police killed the gunman."]) == 75
    # LCS a c of 2 and 4 words: precision 1, recall 1/2; the better of two references counts.
    assert metrics.rouge_l(["a c"], ["a b c d"]) == pytest.approx(200 / 3)
    assert metrics.rouge_l(["a c"], [["x y", "a b c d"]]) == pytest.approx(200 / 3)
    assert metrics.rouge_l(["a c", ""], ["a b c d", "a"]) == pytest.approx(100 / 3)


def test_rouge_l_equals_a_plain_longest_common_subsequence() -> None:
    def longest(a: list[str], b: list[str]) -> int:
        table = np.zeros((len(a) + 1, len(b) + 1), int)
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                near = max(table[i, j + 1], table[i + 1, j])
                table[i + 1, j + 1] = table[i, j] + 1 if x == y else near
        return int(table[-1, -1])

    scores = []
    for text, own in zip(PREDICTED, REFERENCES, strict=True):
        a = text.split()
        scores.append(max(2 * longest(a, r.split()) / (len(a) + len(r.split())) for r in own))
    assert metrics.rouge_l(PREDICTED, REFERENCES) == pytest.approx(100 * np.mean(scores))


def weighted(text: str, n: int, idf: dict[tuple[str, ...], float]) -> Matrix:
    """Counts of the n-grams that ``idf`` names, times their weight."""
    counts = grams(text.split(), n)
    return np.array([counts[gram] * weight for gram, weight in idf.items()])


def cider_d(predicted: list[str], references: list[list[str]]) -> float:
    """CIDEr-D with dense vectors from the formulas of Vedantam et al. 2015, section 6."""
    items = len(references)
    scores = np.zeros(items)
    for n in range(1, 5):
        known = [{g for text in own for g in grams(text.split(), n)} for own in references]
        spoken = {g for text in predicted for g in grams(text.split(), n)}
        idf = {
            gram: np.log(items / max(1, sum(gram in own for own in known)))
            for gram in sorted(spoken.union(*known))
        }
        for i, (text, own) in enumerate(zip(predicted, references, strict=True)):
            g = weighted(text, n, idf)
            for reference in own:
                r = weighted(reference, n, idf)
                norm = np.linalg.norm(g) * np.linalg.norm(r)
                gap = len(text.split()) - len(reference.split())
                if norm > 0:
                    cosine = np.minimum(g, r) @ r / norm
                    scores[i] += 10 / 4 / len(own) * cosine * np.exp(-(gap**2) / (2 * 6**2))
    return float(100 * scores.mean())


def test_cider_equals_the_formula() -> None:
    assert metrics.cider(PREDICTED, REFERENCES) == pytest.approx(cider_d(PREDICTED, REFERENCES))


def test_hand_cases_of_cider() -> None:
    # Equal texts without shared n-grams: every cosine is 1, so 10 * 100.
    same = ["one two three four", "five six seven eight"]
    assert metrics.cider(same, same) == pytest.approx(1000)
    assert metrics.cider(same, same[::-1]) == 0
    # n-grams that every item's references have weigh nothing.
    assert metrics.cider(["a b c d", "a b c d"], ["a b c d", "a b c d"]) == 0
    shouted = [text.upper().replace(" ", " , ") + " !" for text in same]
    assert metrics.cider(shouted, same) == pytest.approx(1000)


@pytest.mark.parametrize("name", TEXT_METRICS)
def test_order_of_items_and_references_changes_nothing(name: str) -> None:
    metric = metrics.get_metric(name)
    value = metric(PREDICTED, REFERENCES)
    turned = [own[::-1] for own in REFERENCES]
    assert metric(PREDICTED[::-1], turned[::-1]) == pytest.approx(value)
    assert 0 < value < metric([own[0] for own in REFERENCES], REFERENCES)


@pytest.mark.parametrize("name", TEXT_METRICS)
def test_bad_texts_are_one_line(name: str) -> None:
    metric = metrics.get_metric(name)
    with pytest.raises(MaghubError, match=r"^1 predictions but 2 references. Give one for each$"):
        metric(["a"], ["a", "b"])
    with pytest.raises(MaghubError, match=r"^there are no predictions: nothing can be measured$"):
        metric([], [])
    with pytest.raises(MaghubError, match=r"^item 1 has no reference. Leave the item out$"):
        metric(["a", "b"], [["a"], []])
    with pytest.raises(MaghubError, match=r"^item 1 holds NoneType. Give texts$"):
        metric(["a", None], ["a", "b"])
    with pytest.raises(MaghubError, match=r"^item 1 holds int. Give texts$"):
        metric(["a", "b"], ["a", 5])
    with pytest.raises(MaghubError, match=r"^no texts: None. Give a list of texts$"):
        metric(["a"], None)
    with pytest.raises(MaghubError, match=r"^a single text was given. Give a list of texts$"):
        metric("a", ["a"])


def test_cider_refuses_what_its_weights_cannot_do() -> None:
    with pytest.raises(MaghubError, match=r"^CIDEr of one item is always 0. Give several items"):
        metrics.cider(["a"], ["a"])
    with pytest.raises(MaghubError, match=r"^no reference holds a word. Check the texts"):
        metrics.cider(["a", "b"], ["", "..."])


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("bleu4", "sacrebleu", "sacrebleu"),
        ("rouge_l", "rouge_score.rouge_scorer", "rouge-score"),
        ("cider", "pycocoevalcap.cider.cider_scorer", "pycocoevalcap"),
    ],
)
def test_a_missing_library_is_one_line(
    name: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    line = rf"^this needs the package {package}, which is not installed. Run: pip install 'maghub"
    with pytest.raises(MissingExtra, match=line):
        metrics.get_metric(name)(["a", "b"], ["a", "b"])


# -- pictures --------------------------------------------------------------------------------------


def test_scores_of_vectors() -> None:
    a = np.array([[1.0, 0], [0, 2], [3, 3], [1, 0]], np.float16)
    b = np.array([[5.0, 0], [0, -1], [0, 1], [0, 7]])
    cosines = np.array([1, -1, np.sqrt(0.5), 0])
    assert metrics.dinov2_score(a, b) == pytest.approx(100 * cosines.mean())
    assert metrics.clip_score(a, b) == pytest.approx(100 * np.maximum(cosines, 0).mean())
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 300, 64)).astype(np.float32)
    theirs = torch.cosine_similarity(torch.from_numpy(x), torch.from_numpy(y))
    assert metrics.dinov2_score(x, y) == pytest.approx(100 * theirs.mean().item(), abs=1e-4)
    clipped = (100 * theirs).clamp(min=0).mean().item()
    assert metrics.clip_score(x, y) == pytest.approx(clipped, abs=1e-4)
    for size in (1e-300, 1e300):  # whose squares are no numbers
        assert metrics.clip_score(x.astype(np.float64) * size, y) == pytest.approx(
            clipped, abs=1e-4
        )


@pytest.mark.parametrize("name", ["clip_score", "dinov2_score"])
def test_bad_vectors_are_one_line(name: str) -> None:
    metric = metrics.get_metric(name)
    with pytest.raises(MaghubError, match=r"^vectors have the shapes \(1, 2\) and \(2, 2\). Give"):
        metric(np.ones((1, 2)), np.ones((2, 2)))
    with pytest.raises(MaghubError, match=r"^the vector in row 1 is all zeros and has no directio"):
        metric(np.ones((2, 2)), np.array([[1.0, 1], [0, 0]]))
    with pytest.raises(MaghubError, match=r"^1 of 4 vectors are NaN, the first in row 1"):
        metric(np.ones((2, 2)), np.array([[1.0, 1], [0, np.nan]]))
    with pytest.raises(
        MaghubError, match=r"^the vector in row 1 is infinite. Look for an overflow"
    ):
        metric(np.ones((2, 2)), np.array([[1.0, 1], [np.inf, 1]]))
    with pytest.raises(MaghubError, match=r"^vectors cannot be made an array \("):
        metric(np.ones((2, 2)), [[1.0, 1], [1.0]])
    with pytest.raises(MaghubError, match=r"^there are no vectors: nothing can be measured$"):
        metric(np.empty((0, 2)), np.empty((0, 2)))


def pictures(count: int, seed: int) -> list[Image.Image]:
    rng = np.random.default_rng(seed)
    return [
        Image.fromarray(rng.integers(0, 256, (40 + i, 50, 3), dtype=np.uint8)) for i in range(count)
    ]


def test_scores_of_pictures_go_through_registered_encoders(tmp_path: Path) -> None:
    name = "clip-vit-base-patch32"  # random weights, loaded as the real ones are
    clip: Encoder = registry.get("encoders", name)(model_path=tiny(name, tmp_path / name))
    images, texts = pictures(3, 0), ["a cat", "a longer text about a dog", "x"]
    a, b = clip.encode_images(images), clip.encode_texts(texts)
    cosines = [x @ y / np.sqrt((x @ x) * (y @ y)) for x, y in zip(a, b, strict=True)]
    wanted = 100 * np.mean(np.maximum(cosines, 0))
    assert metrics.clip_score_of(images, texts, clip) == pytest.approx(wanted, abs=1e-3)
    assert metrics.dinov2_score_of(images, images, clip) == pytest.approx(100, abs=1e-3)
    assert metrics.dinov2_score_of(images, pictures(3, 1), clip) < 99.99
    with pytest.raises(MaghubError, match=r"^3 pictures but 1 texts. Give one for each$"):
        metrics.clip_score_of(images, texts[:1], clip)
    with pytest.raises(MaghubError, match=r"^unknown encoder 'dinov2-larg'. Did you mean dinov2-l"):
        metrics.dinov2_score_of(images, images, "dinov2-larg")
    assert {generation.CLIP, generation.DINO} <= set(registry.names("encoders"))
