"""How far two writers agree on one knowledge graph (section 4.5): verdicts and questions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from maghub import layout, registry
from maghub.encoding.base import Encoder
from maghub.encoding.engine import Recipe
from maghub.errors import MaghubError
from maghub.loading import resolve
from maghub.mkg.filter import FILTER, KEEP, STRUCTURE
from maghub.progress import track
from maghub.reader import read_columns
from maghub.seeding import child_rng
from maghub.spec import FolderSpec, read_spec

DEFAULT_ENCODER = "all-minilm-l6-v2"
DEFAULT_SAMPLE = 2_000
NAMES = (layout.HEAD_ID, layout.REL_ID, layout.TAIL_ID)
_BATCH = 64


@dataclass(frozen=True)
class FilterAgreement:
    """Verdicts on the triplets that both writers judged.

    Attributes:
        triplets: How many.
        both_keep, both_drop, only_a, only_b: Who keeps how many of them.
        agreement: Share of equal verdicts.
        kappa: Cohen's kappa; None where chance agreement is certain.
    """

    triplets: int
    both_keep: int
    both_drop: int
    only_a: int
    only_b: int
    agreement: float
    kappa: float | None


@dataclass(frozen=True)
class QuestionAgreement:
    """Questions on the masked forms that both asked about.

    Attributes:
        shared: Masked forms with a question of both.
        only_a, only_b: Forms that only one of them asked about.
        compared: How many pairs were compared (a seeded sample of the shared ones).
        equal: Share of pairs that are the same word for word.
        similarity: Mean cosine of the pairs' vectors.
        p5: Its 5th percentile.
        shuffled: Mean cosine when the pairs are shuffled: what any two questions have in common.
        encoder: Whose vectors.
    """

    shared: int
    only_a: int
    only_b: int
    compared: int
    equal: float
    similarity: float
    p5: float
    shuffled: float
    encoder: str


@dataclass(frozen=True)
class Agreement:
    """What two benchmarks of one graph have in common."""

    writers: tuple[str, str]
    filter: FilterAgreement | None
    questions: QuestionAgreement | None

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON."""
        return asdict(self)


def agreement(
    a: str | Path,
    b: str | Path,
    *,
    encoder: str = DEFAULT_ENCODER,
    sample: int = DEFAULT_SAMPLE,
    seed: int = 0,
    device: str = "cpu",
) -> Agreement:
    """Compare two benchmarks that different writers made of one graph.

    Args:
        a, b: Their folders.
        encoder: Whose vectors say how similar two questions are.
        sample: Most pairs of questions to compare.
        seed: Of the sample and the shuffle.
        device: torch device of the encoder; ``auto`` takes a GPU where there is one.

    Raises:
        MaghubError: A folder is no benchmark, or they have nothing in common.
    """
    folders = [resolve(name) for name in (a, b)]
    specs = [read_spec(folder) for folder in folders]
    for folder, spec in zip(folders, specs, strict=True):
        if not spec.has(layout.QUERIES):
            fix = "build one with: maghub mkg build"
            raise MaghubError("is no retrieval benchmark", where=folder, fix=fix)
    judged = _filters(folders, specs)
    asked = [_questions(folder, spec) for folder, spec in zip(folders, specs, strict=True)]
    questions = _compare(asked, encoder, sample, seed, device)
    if judged is None and questions is None:
        raise MaghubError(
            "have neither a judged triplet nor a masked form in common",
            where=f"{folders[0]}, {folders[1]}",
            fix="build both from one graph",
        )
    writers = [one[layout.WRITER][0].as_py() for one in asked]
    return Agreement((writers[0], writers[1]), judged, questions)


def _filters(folders: list[Path], specs: list[FolderSpec]) -> FilterAgreement | None:
    """Verdicts of the writers themselves; what no writer judged (``structure``) is left out."""
    if not all(spec.has(FILTER) for spec in specs):
        return None
    found: list[dict[str, bool]] = []
    for folder, spec in zip(folders, specs, strict=True):
        table = read_columns(folder, spec.config(FILTER), [*NAMES, KEEP, layout.WRITER])
        table = table.filter(pc.not_equal(table[layout.WRITER], STRUCTURE))
        found.append(dict(zip(_keys(table, NAMES), table[KEEP].to_pylist(), strict=True)))
    shared = [key for key in found[0] if key in found[1]]
    if not shared:
        return None
    left, right = (np.asarray([one[key] for key in shared]) for one in found)
    return filter_agreement(left, right)


def filter_agreement(left: NDArray[np.bool_], right: NDArray[np.bool_]) -> FilterAgreement:
    """Agreement of two bool [N] vectors of verdicts."""
    equal = float((left == right).mean())
    keep = float(left.mean()), float(right.mean())
    chance = keep[0] * keep[1] + (1 - keep[0]) * (1 - keep[1])
    return FilterAgreement(
        triplets=len(left),
        both_keep=int((left & right).sum()),
        both_drop=int((~left & ~right).sum()),
        only_a=int((left & ~right).sum()),
        only_b=int((~left & right).sum()),
        agreement=equal,
        kappa=None if chance == 1 else (equal - chance) / (1 - chance),
    )


def _keys(table: pa.Table, names: tuple[str, ...]) -> list[str]:
    """One text per row from some columns; a masked (null) part is empty."""
    columns = [pc.fill_null(table[name], "") for name in names]
    joined: list[str] = pc.binary_join_element_wise(*columns, "\t").to_pylist()
    return joined


def _questions(folder: Path, spec: FolderSpec) -> pa.Table:
    return read_columns(
        folder,
        spec.config(layout.QUERIES),
        [layout.TEXT, layout.MASKED, layout.WRITER, *NAMES],
    )


def _compare(
    asked: list[pa.Table], encoder: str, sample: int, seed: int, device: str
) -> QuestionAgreement | None:
    by_form = [
        dict(zip(_keys(table, NAMES), table[layout.TEXT].to_pylist(), strict=True))
        for table in asked
    ]
    shared = sorted(by_form[0].keys() & by_form[1].keys())
    if not shared:
        return None
    rng = child_rng(seed, "mkg-agreement")
    chosen = [shared[row] for row in np.sort(rng.permutation(len(shared))[:sample])]
    model = Recipe(registry.get("encoders", encoder), device).load()
    pairs = [[texts[key] for key in chosen] for texts in by_form]
    left, right = (_vectors(model, texts) for texts in pairs)
    cosines = (left * right).sum(1)
    shuffled = (left * np.roll(right, 1, axis=0)[rng.permutation(len(right))]).sum(1)
    return QuestionAgreement(
        shared=len(shared),
        only_a=len(by_form[0]) - len(shared),
        only_b=len(by_form[1]) - len(shared),
        compared=len(chosen),
        equal=float(np.mean([a == b for a, b in zip(*pairs, strict=True)])),
        similarity=float(cosines.mean()),
        p5=float(np.percentile(cosines, 5)),
        shuffled=float(shuffled.mean()),
        encoder=encoder,
    )


def _vectors(model: Encoder, texts: list[str]) -> NDArray[np.float32]:
    """float32 [N, D] vectors of unit length, in batches of texts of like length."""
    order = np.argsort([len(text) for text in texts], kind="stable")
    parts = []
    for start in track(range(0, len(texts), _BATCH), "comparing questions"):
        parts.append(model.encode_texts([texts[row] for row in order[start : start + _BATCH]]))
    vectors = np.empty((len(texts), parts[0].shape[1]), np.float32)
    vectors[order] = np.concatenate(parts)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
