"""The registry of encoders: what it holds and how names are found."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from maghub import layout, registry
from maghub.encoding import specs
from maghub.encoding.factory import EncoderFactory
from maghub.errors import MaghubError

SIXTEEN = {  # appendix B of the OpenMAG paper, with the widths that it states or implies
    "convnextv2-base-22k-224": 1024,
    "swinv2-large-22k": 1536,
    "dinov2-large": 1024,
    "vit-base-patch16-224": 768,
    "vig": 640,
    "pyramid-tnt": 1024,
    "xlm-roberta-base": 768,
    "llama-3.2-1b-instruct": 2048,
    "opt-125m": 768,
    "t5-large": 1024,
    "bert-base-nli-mean-tokens": 768,
    "qwen2-7b-instruct": 3584,
    "qwen2.5-3b-instruct": 2048,
    "clip-vit-large-patch14": 768,
    "llama-3.2-11b-vision-instruct": 4096,
    "imagebind-huge": 1024,
}
BESIDE = {
    "bert-base-uncased",  # CLeGR
    "clip-vit-base-patch32",  # MKG-RAG-Bench
    "qwen2-vl-7b-instruct",  # these two are what OpenMAG's released code loads
    "qwen2.5-vl-3b-instruct",
    "all-minilm-l6-v2",
    "efficientnet-lite0",
}


def test_all_sixteen_of_openmag_are_there_with_their_widths() -> None:
    found = {f.spec.name: set(f.spec.dim.values()) for f in specs.OPENMAG}
    assert found == {name: {width} for name, width in SIXTEEN.items()}
    assert len(specs.OPENMAG) == 16
    kinds = [{tuple(f.spec.dim) for f in group} for group in (specs.VISUAL, specs.TEXTUAL)]
    assert kinds == [{(layout.IMAGE,)}, {(layout.TEXT,)}]


def test_each_is_registered_under_its_name_without_torch() -> None:
    shipped = set(specs.all_specs())
    assert shipped == {*SIXTEEN, *BESIDE}
    assert shipped <= set(registry.names("encoders"))
    for name in shipped:
        assert registry.get("encoders", name).spec == specs.all_specs()[name]
    code = "import sys, maghub.encoding.specs, maghub.encoding.offline; print(sorted(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "transformers", "timm"} & set(re.findall(r"'([^']+)'", out.stdout))


@pytest.mark.parametrize("name", specs.all_specs())
def test_a_spec_states_all_that_provenance_needs(name: str) -> None:
    spec = specs.all_specs()[name]
    assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", spec.name)
    assert spec.licence
    assert spec.dtype == "float16"
    assert (spec.max_length is None) == (layout.TEXT not in spec.dim)
    any_size = "Any image size" in spec.note
    assert (spec.image_size is None) == (layout.IMAGE not in spec.dim or any_size)
    hub = spec.weights_url is None and "==" not in spec.revision
    if hub:
        assert "/" in spec.model_id
        assert spec.revision == "main" or re.fullmatch(r"[0-9a-f]{40}", spec.revision)
    if spec.library == "maghub":
        assert "could not be checked" in spec.note
        assert spec.weights_url.startswith("https://")
        assert spec.pixels is not None
        assert spec.pixels.size == spec.image_size


def test_gated_and_trainable_ones() -> None:
    by = specs.all_specs().values()
    assert {s.name for s in by if s.gated} == {
        "llama-3.2-1b-instruct",
        "llama-3.2-11b-vision-instruct",
    }
    assert {s.name for s in by if s.trainable} == {
        "vit-base-patch16-224",
        "vig",
        "pyramid-tnt",
        "bert-base-nli-mean-tokens",
    }


def test_unpinned_revisions_are_few_and_known() -> None:
    """Their commits were found in no public source; a run records the commit it loaded."""
    unpinned = {s.name for s in specs.all_specs().values() if s.revision == "main"}
    assert unpinned == {
        "convnextv2-base-22k-224",
        "swinv2-large-22k",
        "bert-base-nli-mean-tokens",
    }


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("dinov3-large", "dinov2-large"),
        ("CLIP-ViT-Large-Patch14-336", "clip-vit-large-patch14"),
        ("llama-3.2-1b", "llama-3.2-1b-instruct"),
        ("pyramidtnt", "pyramid-tnt"),
    ],
)
def test_an_unknown_name_gets_the_nearest(name: str, close: str) -> None:
    with pytest.raises(MaghubError, match=re.escape(close)) as caught:
        registry.get("encoders", name)
    assert str(caught.value).startswith(f"unknown encoder '{name}'. Did you mean")


@pytest.mark.parametrize(
    ("name", "slug", "line"),
    [
        ("timm:resnet81", "timm-resnet81", "unknown timm model 'resnet81'. Did you mean resnet18"),
        ("timm:resnet18.x_in1k", "timm-resnet18.x_in1k", "choose one of .*resnet18.a1_in1k"),
        ("open_clip:ViT-B-32/laion2b", "open_clip-vit-b-32-laion2b", "several weights 'laion2b'"),
        ("open_clip:ViT-B-32/x", "open_clip-vit-b-32-x", "no weights 'x' of ViT-B-32. Choose one"),
        ("open_clip:ViTB", "open_clip-vitb", "unknown open_clip model 'ViTB'. Did you mean ViT-B"),
        ("st:all-mpnet-base-v2", "st-all-mpnet-base-v2", None),
    ],
)
def test_families_by_name(name: str, slug: str, line: str | None) -> None:
    pytest.importorskip("timm")
    pytest.importorskip("open_clip")
    factory = registry.get("encoders", name)
    assert isinstance(factory, EncoderFactory)
    assert factory.spec.name == slug
    if line is not None:
        with pytest.raises(MaghubError, match=f"(?i){line}"):
            factory()


def test_families_resolve_to_repositories_of_the_hub() -> None:
    timm_image = pytest.importorskip("maghub.encoding.timm_image")
    from maghub.encoding import open_clip
    from maghub.encoding.sentence_transformers import SentenceTransformers

    def resolved(name: str, adapter: Any) -> str:
        encoder = adapter.__new__(adapter)
        return encoder.resolve(registry.get("encoders", name).spec, None).model_id

    pytest.importorskip("timm")
    image = timm_image.TimmImage
    assert resolved("timm:resnet18.a1_in1k", image) == "timm/resnet18.a1_in1k"
    assert resolved("timm:resnet18", image) == "timm/resnet18.a1_in1k"
    assert resolved("timm:me/mine", image) == "me/mine"
    st = SentenceTransformers
    assert resolved("st:all-mpnet-base-v2", st) == "sentence-transformers/all-mpnet-base-v2"
    assert resolved("st:BAAI/bge-small-en", st) == "BAAI/bge-small-en"
    clip = open_clip.OpenClip
    laion = "laion/CLIP-ViT-B-32-laion2B-s34B-b79K"
    assert resolved("open_clip:ViT-B-32/laion2b_s34b_b79k", clip) == laion
    assert resolved("open_clip:ViT-B-32/laion2b_s34b", clip) == laion
    assert resolved(f"open_clip:{laion}", clip) == laion


def test_an_unknown_family_gets_the_nearest() -> None:
    with pytest.raises(MaghubError, match=r"unknown encoder family 'tim'\. Did you mean timm"):
        registry.get("encoders", "tim:resnet18")
