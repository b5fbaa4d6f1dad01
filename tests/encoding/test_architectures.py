"""Our own modules against independent computations, and their checkpoints.

ImageBind's towers are OpenCLIP's ViT-H by construction, so open_clip computes the expected vectors;
ViG's and PyramidTNT's parts are computed again with loops or torch's own layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maghub import registry
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
