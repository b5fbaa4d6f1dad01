"""Captions by a tiny BLIP with random weights, and retrieval with them."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch
import transformers
from PIL import Image

from maghub import registry
from maghub.baselines.rag._data import Vectors
from maghub.baselines.rag._retriever import get_retriever
from maghub.baselines.rag.captions import Captioner
from maghub.errors import MaghubError
from maghub.llm import AnswerCache
from tests.helpers.graphs import png
from tests.helpers.ragged import corpus_of, questions_of, ranked, unit64
from tests.helpers.stand_in import WIDTH, StandIn


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A download of BLIP as it lies on the disk, but tiny."""
    folder = tmp_path_factory.mktemp("blip")
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "[DEC]",
        "[ENC]",
        *map(chr, range(97, 123)),
    ]
    (folder / "vocab.txt").write_text("\n".join(words))
    tokenizer = transformers.BertTokenizer(str(folder / "vocab.txt"))
    pixels = transformers.BlipImageProcessor(size={"height": 16, "width": 16})
    transformers.BlipProcessor(pixels, tokenizer).save_pretrained(folder)
    text = {
        "vocab_size": len(words), "hidden_size": 16, "num_hidden_layers": 1,
        "encoder_hidden_size": 16,
        "num_attention_heads": 2, "intermediate_size": 16, "bos_token_id": 5, "eos_token_id": 2,
        "sep_token_id": 3, "pad_token_id": 0, "initializer_range": 1.0,
    }  # fmt: skip
    vision = {
        "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 16, "image_size": 16, "patch_size": 8, "initializer_range": 1.0,
    }  # fmt: skip
    torch.manual_seed(1)
    config = transformers.BlipConfig(text_config=text, vision_config=vision)
    transformers.BlipForConditionalGeneration(config).save_pretrained(folder)
    return folder


PICTURES = [png(20), png(90), png(200)]


def test_captions_are_the_models_own_and_kept(blip: Path, tmp_path: Path) -> None:
    cache = tmp_path / "captions.sqlite"
    captioner = Captioner(str(blip), 8, 2, cache, "cpu")
    asked = [(4, PICTURES[0]), (2, b"no picture"), (9, PICTURES[1]), (1, PICTURES[0])]
    found = list(captioner.captions(asked))
    assert [number for number, _ in found] == [4, 2, 9, 1]
    texts = dict(found)
    assert texts[2] == ""
    assert texts[4] == texts[1]
    processor = transformers.AutoProcessor.from_pretrained(blip)
    model = transformers.BlipForConditionalGeneration.from_pretrained(blip).eval()
    for number, data in ((4, PICTURES[0]), (9, PICTURES[1])):
        image = Image.open(io.BytesIO(data)).convert("RGB")
        with torch.no_grad():
            made = model.generate(
                **processor(images=image, return_tensors="pt"), max_new_tokens=8, do_sample=False
            )
        wanted = processor.batch_decode(made, skip_special_tokens=True)[0]
        assert texts[number] == " ".join(wanted.split())
    assert texts[4]
    assert len(AnswerCache(cache)) == 3
    again = Captioner(str(blip), 8, 2, cache, "cpu")
    assert dict(again.captions(asked)) == texts
    assert again._loaded is None  # nothing was left to describe


def test_a_model_that_is_none(tmp_path: Path) -> None:
    captioner = Captioner(str(tmp_path / "none"), 8, 2, tmp_path / "c.sqlite", "cpu")
    with pytest.raises(MaghubError, match=r"none: cannot be loaded .*--set captioner=FOLDER"):
        list(captioner.captions([(0, PICTURES[0])]))


def test_the_caption_stands_behind_the_text(
    blip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = registry.get
    monkeypatch.setattr(
        registry, "get", lambda group, name: StandIn if name == "stand-in" else real(group, name)
    )
    encoder = StandIn()
    base = corpus_of(triplets=40)
    shown = [PICTURES[i % 3] if i % 4 == 0 else None for i in range(40)]

    def encoded(texts: list[str]) -> np.ndarray:  # one by one: its vectors tell their batch
        return np.concatenate([encoder.encode_texts([text]) for text in texts])[:, : WIDTH - 2]

    class Alone(StandIn):
        def encode_texts(self, texts: list[str]) -> np.ndarray:  # type: ignore[override]
            return encoded(list(texts))

    monkeypatch.setattr(registry, "get", lambda g, n: Alone if n == "stand-in" else real(g, n))
    published = Vectors(encoded(base.texts), np.ones(40, bool))
    corpus = replace(
        base,
        vectors=lambda m: published,
        pictures=lambda: iter(shown),
        encoders={"text": "stand-in"},
    )
    few = questions_of(base, 6)
    asked = [PICTURES[2] if i % 2 else None for i in range(6)]
    own = Vectors(encoded(list(few.texts)), np.ones(6, bool))
    reads = []

    def pictures() -> object:
        reads.append(1)
        return iter(asked)

    questions = replace(few, vectors=lambda m: own, pictures=pictures)
    kind = get_retriever("rag-captioning")
    config = kind.Config(captioner=str(blip), max_tokens=8, cache=tmp_path / "c.sqlite")
    retriever = kind(corpus, config, device="cpu")
    _, rows = retriever.search(questions, 10)
    said = dict(Captioner(str(blip), 8, 4, None, "cpu").captions(enumerate(PICTURES)))
    described = {data: said[i] for i, data in enumerate(PICTURES)}
    documents = [
        f"{text} {described[data]}" if data else text
        for text, data in zip(base.texts, shown, strict=True)
    ]
    wanted_questions = [
        f"{text} {described[data]}" if data else text
        for text, data in zip(few.texts, asked, strict=True)
    ]
    wanted = unit64(encoded(wanted_questions)) @ unit64(encoded(documents)).T
    assert rows.tolist() == ranked(wanted, 10).tolist()
    retriever.search(questions, 10)
    assert len(reads) == 1  # captions and vectors of questions are kept
    wide = Vectors(np.ones((40, 3), np.float32), np.ones(40, bool))
    with pytest.raises(MaghubError, match="width 6, the published ones are 3"):
        kind(replace(corpus, vectors=lambda m: wide), config, device="cpu")
