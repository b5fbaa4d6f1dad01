"""Agreement of two writers: kappa against scikit-learn, questions with the real MiniLM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from maghub.errors import MaghubError
from maghub.llm import Settings
from maghub.mkg.agreement import agreement, filter_agreement
from maghub.mkg.pipeline import build_benchmark
from maghub.seeding import child_rng
from tests.helpers.kg_folders import Graph, rows_of, write_graph
from tests.helpers.llm_replies import construct
from tests.helpers.llm_server import KEY, LLMServer
from tests.mkg.test_pipeline import towns


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One graph, by the rules (a), by a model (b) and by the rules with another seed (c)."""
    root = tmp_path_factory.mktemp("agreement")
    kg = write_graph(towns(), root / "kg")
    build_benchmark(kg, root / "a")
    build_benchmark(kg, root / "c", seed=1)
    with pytest.MonkeyPatch.context() as patch, LLMServer(reply=construct) as server:
        patch.setenv("OPENAI_API_KEY", KEY)
        settings = Settings(server.url, cache=root / "cache.sqlite")
        build_benchmark(kg, root / "b", llm="openai:m", settings=settings)
    return root


@pytest.mark.parametrize("seed", range(5))
def test_kappa_equals_scikit_learn(seed: int) -> None:
    rng = child_rng(seed, "kappa")
    left, right = rng.random((2, 50)) < np.asarray([[0.7], [0.4]])
    found = filter_agreement(left, right)
    assert found.kappa == pytest.approx(cohen_kappa_score(left, right))
    assert found.agreement == pytest.approx((left == right).mean())
    assert found.both_keep + found.both_drop + found.only_a + found.only_b == found.triplets == 50
    assert found.only_a == sum(a and not b for a, b in zip(left, right, strict=True))


def test_kappa_without_any_choice() -> None:
    keep = np.ones(3, bool)
    assert filter_agreement(keep, keep).kappa is None


def test_a_writer_agrees_with_itself(built: Path) -> None:
    found = agreement(built / "a", built / "a", sample=20)
    assert found.filter is not None
    assert (found.filter.agreement, found.filter.only_a) == (1.0, 0)
    assert found.filter.kappa == pytest.approx(1.0)
    assert found.questions is not None
    assert found.questions.similarity == pytest.approx(1.0, abs=1e-4)
    assert found.questions.equal == 1.0
    assert found.questions.shuffled < 0.9


def test_rules_against_a_model(built: Path) -> None:
    found = agreement(built / "a", built / "b")
    assert found.writers == ("rule", "m")
    verdicts = [
        {
            (r["head_id"], r["rel_id"], r["tail_id"]): r["keep"]
            for r in rows_of(built / one, "filter")
        }
        for one in ("a", "b")
    ]
    shared = [(verdicts[0][key], verdicts[1][key]) for key in verdicts[0]]
    assert found.filter is not None
    assert found.filter.triplets == len(shared)
    assert found.filter.agreement == pytest.approx(np.mean([a == b for a, b in shared]))
    assert found.questions is not None
    assert found.questions.equal == 0.0
    assert found.questions.shuffled < found.questions.similarity < 1.0
    assert found.questions.compared == found.questions.shared
    sample = agreement(built / "a", built / "b", sample=10)
    assert sample.questions is not None
    assert (sample.questions.compared, sample.questions.shared) == (10, found.questions.shared)
    assert agreement(built / "a", built / "b", sample=10) == sample


def test_another_seed_writes_other_words_for_the_same_forms(built: Path) -> None:
    found = agreement(built / "a", built / "c", sample=30).questions
    assert found is not None
    assert (found.only_a, found.only_b) == (0, 0)
    assert 0 < found.equal < 1
    assert found.similarity > found.shuffled + 0.2


def test_nothing_in_common(built: Path, tmp_path: Path) -> None:
    other = Graph([("X", "R", "Y")], {"X": "left", "Y": "right"}, {"R": "faces"})
    build_benchmark(write_graph(other, tmp_path / "kg"), tmp_path / "out")
    with pytest.raises(MaghubError, match="neither a judged triplet nor a masked form in common"):
        agreement(built / "a", tmp_path / "out")


def test_a_folder_that_is_no_benchmark(built: Path) -> None:
    with pytest.raises(MaghubError, match="is no retrieval benchmark"):
        agreement(built / "a", built / "kg")
