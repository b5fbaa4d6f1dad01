"""The architectures at full size: widths and numbers of parameters; nothing is allocated.

Counts are those that the model cards and papers state, or of a peer library's model of the same
name, on torch's meta device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from maghub import layout
from maghub.encoding.specs import all_specs

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.integration

from maghub.encoding import imagebind, pyramid_tnt, vig  # noqa: E402  (they import torch)


def parameters(module: Any, part: str = "") -> int:
    return sum(p.numel() for name, p in module.named_parameters() if part in name)


Maker = Callable[[], Any]
# The published configurations, and the numbers of parameters on the models' cards ("safetensors").
TEXT_MODELS: dict[str, tuple[Maker, int]] = {
    "xlm-roberta-base": (
        lambda: transformers.XLMRobertaModel(
            transformers.XLMRobertaConfig(
                vocab_size=250002, max_position_embeddings=514, type_vocab_size=1
            )
        ),
        278_043_648,
    ),
    "llama-3.2-1b-instruct": (
        lambda: transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=128256,
                hidden_size=2048,
                num_hidden_layers=16,
                num_key_value_heads=8,
                intermediate_size=8192,
                tie_word_embeddings=True,
            )
        ),
        1_235_814_400,
    ),
    "opt-125m": (
        lambda: transformers.OPTForCausalLM(transformers.OPTConfig()),
        125_239_296,
    ),
    "t5-large": (
        lambda: transformers.T5ForConditionalGeneration(
            transformers.T5Config(d_model=1024, d_ff=4096, num_layers=24, num_heads=16)
        ),
        737_668_096,
    ),
    "bert-base-nli-mean-tokens": (
        lambda: transformers.BertModel(transformers.BertConfig()),
        109_482_240,
    ),
    "bert-base-uncased": (
        lambda: transformers.BertModel(transformers.BertConfig()),
        109_482_240,
    ),
    "qwen2-7b-instruct": (
        lambda: transformers.Qwen2ForCausalLM(
            transformers.Qwen2Config(
                vocab_size=152064,
                hidden_size=3584,
                intermediate_size=18944,
                num_hidden_layers=28,
                num_attention_heads=28,
                num_key_value_heads=4,
            )
        ),
        7_615_616_512,
    ),
    "qwen2.5-3b-instruct": (
        lambda: transformers.Qwen2ForCausalLM(
            transformers.Qwen2Config(
                hidden_size=2048,
                intermediate_size=11008,
                num_hidden_layers=36,
                num_attention_heads=16,
                num_key_value_heads=2,
                tie_word_embeddings=True,
            )
        ),
        3_085_938_688,
    ),
    "qwen2-vl-7b-instruct": (
        lambda: transformers.Qwen2VLForConditionalGeneration(
            transformers.Qwen2VLConfig(
                text_config={
                    "vocab_size": 152064,
                    "hidden_size": 3584,
                    "intermediate_size": 18944,
                    "num_hidden_layers": 28,
                    "num_attention_heads": 28,
                    "num_key_value_heads": 4,
                },
                vision_config={"hidden_size": 3584, "embed_dim": 1280, "depth": 32},
            )
        ),
        8_291_375_616,
    ),
    "qwen2.5-vl-3b-instruct": (
        lambda: transformers.Qwen2_5_VLForConditionalGeneration(
            transformers.Qwen2_5_VLConfig(
                text_config={
                    "vocab_size": 151936,
                    "hidden_size": 2048,
                    "intermediate_size": 11008,
                    "num_hidden_layers": 36,
                    "num_attention_heads": 16,
                    "num_key_value_heads": 2,
                },
                vision_config={
                    "hidden_size": 1280,
                    "intermediate_size": 3420,
                    "out_hidden_size": 2048,
                    "depth": 32,
                },
                tie_word_embeddings=True,
            )
        ),
        3_754_622_976,
    ),
    "llama-3.2-11b-vision-instruct": (
        lambda: transformers.MllamaForConditionalGeneration(
            transformers.MllamaConfig(vision_config={"image_size": 560})
        ),
        10_670_220_835,
    ),
}


@pytest.mark.parametrize("name", TEXT_MODELS)
def test_language_models_at_full_size(name: str) -> None:
    make, published = TEXT_MODELS[name]
    with torch.device("meta"):
        model = make()
    assert parameters(model) == published
    width = model.config.get_text_config().hidden_size
    assert set(all_specs()[name].dim.values()) == {width}
    longest = getattr(model.config.get_text_config(), "max_position_embeddings", 512)
    assert all_specs()[name].max_length <= longest


IMAGE_MODELS: dict[str, tuple[Maker, str, int]] = {
    "convnextv2-base-22k-224": (
        lambda: transformers.ConvNextV2Model(
            transformers.ConvNextV2Config(hidden_sizes=[128, 256, 512, 1024], depths=[3, 3, 27, 3])
        ),
        "convnextv2_base",
        0,
    ),
    "swinv2-large-22k": (
        lambda: transformers.Swinv2Model(
            transformers.Swinv2Config(
                image_size=192,
                embed_dim=192,
                depths=[2, 2, 18, 2],
                num_heads=[6, 12, 24, 48],
                window_size=12,
            )
        ),
        "swinv2_large_window12_192",
        0,
    ),
    "dinov2-large": (
        lambda: transformers.Dinov2Model(
            transformers.Dinov2Config(
                hidden_size=1024,
                num_hidden_layers=24,
                num_attention_heads=16,
                image_size=518,
                patch_size=14,
            )
        ),
        "vit_large_patch14_dinov2",
        1024,  # the mask token, which timm leaves out
    ),
    "vit-base-patch16-224": (
        lambda: transformers.ViTModel(transformers.ViTConfig(), add_pooling_layer=False),
        "vit_base_patch16_224",
        0,
    ),
}


@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_image_models_at_full_size_are_timms(name: str) -> None:
    timm = pytest.importorskip("timm")
    make, peer, more = IMAGE_MODELS[name]
    with torch.device("meta"):
        model, same = make(), timm.create_model(peer, num_classes=0)
    assert parameters(model) == parameters(same) + more
    assert all_specs()[name].dim == {layout.IMAGE: same.num_features}
    size = all_specs()[name].image_size
    assert size == (224 if name == "dinov2-large" else same.default_cfg["input_size"][-1])


@pytest.mark.parametrize(
    ("name", "peer", "text", "vision"),
    [
        (
            "clip-vit-large-patch14",
            "ViT-L-14",
            {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12},
            {
                "hidden_size": 1024,
                "intermediate_size": 4096,
                "num_hidden_layers": 24,
                "num_attention_heads": 16,
                "patch_size": 14,
            },
        ),
        ("clip-vit-base-patch32", "ViT-B-32", {}, {}),
    ],
)
def test_clip_at_full_size_is_open_clips(
    name: str, peer: str, text: dict[str, int], vision: dict[str, int]
) -> None:
    open_clip = pytest.importorskip("open_clip")
    width = all_specs()[name].dim[layout.TEXT]
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=width)
    with torch.device("meta"):
        model = transformers.CLIPModel(config)
        same = open_clip.CLIP(**open_clip.get_model_config(peer))
    assert parameters(model) == parameters(same)
    assert all_specs()[name].max_length == config.text_config.max_position_embeddings


@pytest.mark.parametrize(
    ("channels", "blocks", "millions"), [(192, 12, 7.18), (320, 16, 22.75), (640, 16, 86.8)]
)
def test_vig_has_the_published_size(channels: int, blocks: int, millions: float) -> None:
    """Ti and S as mmpretrain's model zoo has them, B as the paper; with the classifier."""
    with torch.device("meta"):
        model = vig.ViG(vig.ViGConfig(channels=channels, blocks=blocks))
    classifier = channels * 1024 + 1024 + 2 * 1024 + 1024 * 1000 + 1000
    assert (parameters(model) + classifier) / 1e6 == pytest.approx(millions, abs=0.05)


@pytest.mark.parametrize(
    ("outer", "inner", "heads", "depths", "size", "millions"),
    [
        (80, 5, (2, 1), (2, 6, 3, 2), 192, 10.6),
        (128, 8, (4, 2), (2, 8, 4, 2), 256, 32.0),
        (192, 12, (4, 2), (2, 8, 6, 2), 256, 85.0),
        (256, 16, (4, 2), (2, 10, 6, 2), 256, 157.0),
    ],
)
def test_pyramid_tnt_has_the_papers_size(
    outer: int, inner: int, heads: tuple[int, int], depths: Any, size: int, millions: float
) -> None:
    """Parameters in the authors' table, with a linear classifier."""
    config = pyramid_tnt.PyramidTNTConfig(
        image_size=size,
        depths=depths,
        outer=outer,
        inner=inner,
        outer_heads=heads[0],
        inner_heads=heads[1],
    )
    with torch.device("meta"):
        model = pyramid_tnt.PyramidTNT(config)
        shape = model(torch.zeros(1, 3, size, size)).shape
    assert shape == (1, 4 * outer)
    classifier = 4 * outer * 1000 + 1000
    assert (parameters(model) + classifier) / 1e6 == pytest.approx(millions, abs=0.06)


def test_imagebinds_towers_are_openclips_vit_h() -> None:
    open_clip = pytest.importorskip("open_clip")
    with torch.device("meta"):
        model = imagebind.ImageBind(imagebind.ImageBindConfig())
        pixels = model.images(torch.zeros(1, 3, 224, 224))
        peer = open_clip.CLIP(**open_clip.get_model_config("ViT-H-14"))
    second_frame = 3 * 14 * 14 * 1280
    assert parameters(model, ".vision.") == parameters(peer.visual) + second_frame
    scale = 1  # the logit scale
    assert parameters(model, ".text.") == parameters(peer) - parameters(peer.visual) - scale
    assert set(all_specs()["imagebind-huge"].dim.values()) == {pixels.shape[-1]}
