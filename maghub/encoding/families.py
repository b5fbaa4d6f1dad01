"""Whole libraries as encoders: any model of timm, sentence-transformers or open_clip by its name.

``registry.get("encoders", "timm:resnet18")`` finds the function here through the entry-point group
``maghub.encoder_families`` and gives it what follows the colon.
"""

from __future__ import annotations

import re

from maghub.encoding.base import EncoderSpec
from maghub.encoding.factory import EncoderFactory


def _by_name(family: str, name: str, library: str, adapter: str, **more: object) -> EncoderFactory:
    """A model of a library; what only the loaded model knows is filled in then."""
    slug = re.sub(r"[^a-z0-9._-]+", "-", f"{family}-{name}".lower()).strip("-")
    fields = {
        "name": slug,
        "model_id": name,
        "revision": "main",
        "library": library,
        "licence": "see the model's card",
        "dim": {},
        "pooling": "projection",
        "normalized": False,
        **more,
    }
    return EncoderFactory(EncoderSpec.model_validate(fields), f"maghub.encoding.{adapter}")


def timm(name: str) -> EncoderFactory:
    """Any timm model, ``timm:vit_small_patch16_224.augreg_in21k``."""
    pooling = "timm's own, before the classifier"
    return _by_name("timm", name, "timm", "timm_image:TimmImage", pooling=pooling)


def sentence_transformers(name: str) -> EncoderFactory:
    """Any sentence-transformers model, ``st:all-mpnet-base-v2`` or ``st:org/name``."""
    adapter = "sentence_transformers:SentenceTransformers"
    return _by_name("st", name, "sentence-transformers", adapter)


def open_clip(name: str) -> EncoderFactory:
    """Any open_clip model, ``open_clip:ViT-B-32/laion2b_s34b_b79k``."""
    return _by_name("open_clip", name, "open_clip", "open_clip:OpenClip")
