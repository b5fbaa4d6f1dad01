"""The architectures at full size, and our own modules against independent computations.

Parameter counts are those that the papers and the model cards state, or of a peer library's model
of the same name; nothing is allocated (torch's meta device). ImageBind's towers are OpenCLIP's
ViT-H by construction, so open_clip computes the expected vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maghub import layout, registry
from maghub.encoding.specs import all_specs
from maghub.errors import MaghubError
from tests.helpers.tiny_encoders import tiny

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.integration

from maghub.encoding import imagebind, pyramid_tnt, vig  # noqa: E402  (they import torch)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


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
    assert parameters(model) == parameters(open_clip.create_model(peer, device="meta"))
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
    peer = open_clip.create_model("ViT-H-14", device="meta")
    second_frame = 3 * 14 * 14 * 1280
    assert parameters(model, ".vision.") == parameters(peer.visual) + second_frame
    scale = 1  # the logit scale
    assert parameters(model, ".text.") == parameters(peer) - parameters(peer.visual) - scale
    assert set(all_specs()["imagebind-huge"].dim.values()) == {pixels.shape[-1]}


def towers_of(peer: Any) -> dict[str, Any]:
    """The weights of an open_clip CLIP under the names of ImageBind's checkpoint."""
    state = peer.state_dict()
    half = state["visual.conv1.weight"].unsqueeze(2) / 2
    pre, trunk, head = (f"modality_{part}" for part in ("preprocessors", "trunks", "heads"))
    out = {
        f"{pre}.vision.cls_token": state["visual.class_embedding"][None, None],
        f"{pre}.vision.pos_embedding_helper.pos_embed": state["visual.positional_embedding"][None],
        f"{pre}.vision.rgbt_stem.proj.1.weight": half.repeat(1, 1, 2, 1, 1),
        f"{pre}.text.token_embedding.weight": state["token_embedding.weight"],
        f"{pre}.text.pos_embed": state["positional_embedding"][None],
        f"{trunk}.vision.pre_transformer_layer.0.weight": state["visual.ln_pre.weight"],
        f"{trunk}.vision.pre_transformer_layer.0.bias": state["visual.ln_pre.bias"],
        f"{head}.vision.2.weight": state["visual.proj"].T,
        f"{head}.text.proj.1.weight": state["text_projection"].T,
    }
    for kind in ("weight", "bias"):
        out[f"{head}.vision.0.{kind}"] = state[f"visual.ln_post.{kind}"]
        out[f"{head}.text.proj.0.{kind}"] = state[f"ln_final.{kind}"]
    names = {"ln_1": "norm_1", "ln_2": "norm_2", "mlp.c_fc": "mlp.fc1", "mlp.c_proj": "mlp.fc2"}
    for name, value in state.items():
        tower = "vision" if name.startswith("visual.") else "text"
        _, found, rest = name.partition("transformer.resblocks.")
        if found:
            for theirs, ours in names.items():
                rest = rest.replace(theirs, ours)
            out[f"{trunk}.{tower}.blocks.{rest}"] = value
    return {name: value.contiguous() for name, value in out.items()}


def test_imagebind_loads_a_checkpoint_and_computes_what_open_clip_computes(tmp_path: Path) -> None:
    """A checkpoint in the authors' layout, other modalities and all, against an independent CLIP.

    The image is seen twice by a convolution over two frames, so halves of a CLIP's give the same.
    """
    open_clip = pytest.importorskip("open_clip")
    torch.manual_seed(0)
    peer = open_clip.CLIP(
        embed_dim=1024,
        vision_cfg={
            "image_size": 224,
            "patch_size": 56,
            "layers": 2,
            "width": 32,
            "head_width": 16,
        },
        text_cfg={"context_length": 77, "vocab_size": 49408, "layers": 2, "width": 32, "heads": 2},
    ).eval()
    for module in peer.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = imagebind.EPSILON
    tower = imagebind.TowerConfig(width=32, blocks=2, heads=2)
    config = imagebind.ImageBindConfig(vision=tower, text=tower, patch=56)
    (tmp_path / "config.json").write_text(config.model_dump_json())
    foreign = {
        "modality_preprocessors.text.mask": torch.zeros(77, 77),
        "modality_trunks.audio.blocks.0.norm_1.weight": torch.zeros(3),
        "modality_postprocessors.text.1.log_logit_scale": torch.zeros(()),
    }
    torch.save({**towers_of(peer), **foreign}, tmp_path / "imagebind_tiny.pth")
    encoder = registry.get("encoders", "imagebind-huge")(model_path=tmp_path)
    texts = ["a dog", "a grinning face and a cat, 猫", "x " * 100]
    images = [_noise(300, 200), _noise(224, 224)]
    transform = open_clip.image_transform(224, is_train=False)
    with torch.inference_mode():
        tokens = open_clip.get_tokenizer("ViT-H-14")(texts)
        text = peer.encode_text(tokens, normalize=True)
        image = peer.encode_image(torch.stack([transform(i) for i in images]), normalize=True)
    np.testing.assert_allclose(encoder.encode_texts(texts), text, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_images(images), image, atol=1e-5)


def _noise(height: int, width: int) -> Any:
    from PIL import Image

    rng = np.random.default_rng(height)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


def test_vigs_graph_convolution_against_loops() -> None:
    """Neighbours and x' = W [x_i, max_j (x_j - x_i)] patch by patch, in numpy."""
    torch.manual_seed(0)
    channels, count, dilation = 8, 3, 2
    layer = vig.MaxRelative(channels, count, dilation).eval()
    x = torch.randn(2, channels, 4, 4)
    weights = layer.gconv["nn"][0]
    weight = weights.weight.detach().numpy()[..., 0, 0]  # [2C, 2C / 4]
    bias = weights.bias.detach().numpy()
    out = np.zeros((2, 2 * channels, 16))
    for b, patches in enumerate(x.flatten(2).transpose(1, 2).numpy()):
        unit = patches / np.linalg.norm(patches, axis=1, keepdims=True)
        for i, own in enumerate(patches):
            order = np.argsort(((unit - unit[i]) ** 2).sum(1), kind="stable")
            near = order[: count * dilation : dilation]
            assert near[0] == i
            relative = (patches[near] - own).max(0)
            both = np.stack([own, relative], axis=1).ravel()
            group = 2 * channels // vig.HEADS
            for g in range(vig.HEADS):
                rows = slice(g * group, (g + 1) * group)
                out[b, rows, i] = weight[rows] @ both[rows] + bias[rows]
    scaled = torch.from_numpy(out).float() / (1 + 1e-5) ** 0.5  # a new batch norm in eval mode
    expected = torch.nn.functional.gelu(scaled).reshape(2, -1, 4, 4)
    np.testing.assert_allclose(layer(x).detach(), expected, atol=1e-5)


def test_vig_does_not_depend_on_the_order_of_patches_but_for_their_positions() -> None:
    torch.manual_seed(0)
    grapher = vig.Grapher(16, 4, 1).eval()
    x = torch.randn(1, 16, 25, 1)
    order = torch.randperm(25)
    np.testing.assert_allclose(
        grapher(x[:, :, order]).detach(), grapher(x)[:, :, order].detach(), atol=1e-5
    )


def test_vigs_stages_widen_their_neighbourhood_as_the_paper_says() -> None:
    """K grows from 9 to 18 with the depth, dilation by one every four blocks."""
    with torch.device("meta"):
        model = vig.ViG(vig.ViGConfig())
    layers = [block[0].graph_conv for block in model.backbone]
    assert [layers[0].count, layers[-1].count] == [9, 18]
    assert [layer.dilation for layer in layers] == [i // 4 + 1 for i in range(16)]
    assert all(layer.count * layer.dilation <= 14 * 14 for layer in layers)


def test_merged_words_lie_as_in_the_image() -> None:
    """Words numbered by their place in the image, merged without a convolution, keep it."""
    side = 4
    total = side * pyramid_tnt.SIDE
    image = torch.arange(total * total, dtype=torch.float32).reshape(1, 1, total, total)
    words = torch.nn.functional.unfold(image, pyramid_tnt.SIDE, stride=pyramid_tnt.SIDE)
    words = words.transpose(1, 2).reshape(1, side * side, pyramid_tnt.WORDS, 1)

    def every_second(grid: Any) -> Any:
        return grid[:, ::2, ::2]

    merged = pyramid_tnt.merged_words(every_second, words, side)
    half = image[..., ::2, ::2]
    expected = torch.nn.functional.unfold(half, pyramid_tnt.SIDE, stride=pyramid_tnt.SIDE)
    assert merged.shape == (1, 4, 16, 1)
    np.testing.assert_array_equal(merged[..., 0], expected.transpose(1, 2))


def test_pooled_attention_against_torchs_own() -> None:
    """nn.MultiheadAttention with the same weights, keys averaged over 2 x 2 tokens."""
    torch.manual_seed(0)
    width, heads = 16, 4
    ours = pyramid_tnt.Attention(width, heads, 2)
    peer = torch.nn.MultiheadAttention(width, heads, batch_first=True)
    with torch.no_grad():
        peer.in_proj_weight.copy_(torch.cat([ours.q.weight, ours.kv.weight]))
        peer.in_proj_bias.zero_()
        peer.out_proj.load_state_dict(ours.proj.state_dict())
    x = torch.randn(2, 36, width)
    position = torch.randn(1, heads, 36, 9)
    blocks = x.reshape(2, 3, 2, 3, 2, width).mean((2, 4)).reshape(2, 9, width)
    keys = ours.norm(ours.linear(blocks))
    mask = position.expand(2, -1, -1, -1).reshape(2 * heads, 36, 9)
    expected = peer(x, keys, keys, attn_mask=mask, need_weights=False)[0]
    np.testing.assert_allclose(ours(x, position).detach(), expected.detach(), atol=1e-5)


def test_own_modules_are_in_neither_timm_nor_transformers() -> None:
    """Why we write them; fails on the day that a library has them."""
    timm = pytest.importorskip("timm")
    assert not timm.list_models("*vig*")
    assert not [name for name in timm.list_models("*tnt*") if "pyramid" in name or "ptnt" in name]
    known = set(transformers.models.auto.configuration_auto.CONFIG_MAPPING_NAMES)
    assert not known & {"vig", "vision-gnn", "pyramid-tnt", "tnt", "imagebind"}


@pytest.mark.parametrize("name", ["vig", "pyramid-tnt"])
def test_authors_checkpoints_load_with_their_wrapping_and_classifier(
    tmp_path: Path, name: str
) -> None:
    folder = tiny(name, tmp_path / "a")
    expected = registry.get("encoders", name)(model_path=folder)
    head = {"vig": "prediction.0.weight", "pyramid-tnt": "head.weight"}[name]
    state = {f"module.{k}": v for k, v in expected.module.state_dict().items()}
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "config.json").write_text((folder / "config.json").read_text())
    wrapped = {"state_dict": {**state, f"module.{head}": torch.zeros(3)}}
    torch.save(wrapped, tmp_path / "b" / "checkpoint.pth.tar")
    again = registry.get("encoders", name)(model_path=tmp_path / "b")
    images = [_noise(80, 60)]
    np.testing.assert_array_equal(expected.encode_images(images), again.encode_images(images))
    torch.save({**state, "neck.weight": torch.zeros(3)}, tmp_path / "b" / "checkpoint.pth.tar")
    with pytest.raises(
        MaghubError, match=r"1 weights belong to another model, e\.g\. neck\.weight"
    ):
        registry.get("encoders", name)(model_path=tmp_path / "b")


def test_untrained_modules_say_so_and_are_seeded() -> None:
    spec = all_specs()["vig"]
    config = vig.ViGConfig(channels=16, blocks=2)
    first, same, other = (vig.ViGEncoder.untrained(spec, seed, config=config) for seed in (0, 0, 1))
    assert first.spec.revision == "random weights, seed 0"
    assert first.module.training
    assert all(p.requires_grad for p in first.module.parameters())
    weights = [encoder.module.stem.convs[0].weight for encoder in (first, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
