"""Tiny models with random weights in the layout of the real ones: shallow, but of full width.

``tiny(name, folder)`` writes what a download of the real model would hold: configuration, weights
under the names of the published checkpoint's class, tokenizer, preprocessing. Loading it through
``model_path`` is the code path of the real weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


def tokenizer(
    folder: Path, before: list[str], after: list[str], pad: str | None, *extra: str
) -> int:
    """A byte-level tokenizer with special tokens around each text; returns its size."""
    special = list(dict.fromkeys([*before, *([pad] if pad else []), *after, *extra]))
    vocabulary = {token: i for i, token in enumerate([*special, *BYTES])}
    core = Tokenizer(models.BPE(vocabulary, [], unk_token=special[0]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.post_processor = processors.TemplateProcessing(
        single=" ".join([*before, "$A", *after]),
        special_tokens=[(token, vocabulary[token]) for token in special],
    )
    names = {"bos_token": before[0] if before else None, "eos_token": special[-1], "pad_token": pad}
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core,
        additional_special_tokens=special,
        **{name: token for name, token in names.items() if token},
    )
    wrapped.save_pretrained(folder)
    return len(vocabulary)


def clip_tokenizer(folder: Path) -> None:
    """CLIP's real tokenizer; its merges come with open_clip."""
    from open_clip.tokenizer import SimpleTokenizer

    own = SimpleTokenizer()
    merges = [" ".join(pair) for pair in sorted(own.bpe_ranks, key=own.bpe_ranks.__getitem__)]
    names = {"<start_of_text>": "<|startoftext|>", "<end_of_text>": "<|endoftext|>"}
    vocabulary = {names.get(token, token): i for token, i in own.encoder.items()}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    transformers.CLIPTokenizer.from_pretrained(folder).save_pretrained(folder)


def _bert(folder: Path, width: int) -> Any:
    size = tokenizer(folder, ["[CLS]"], ["[SEP]"], "[PAD]")
    config = transformers.BertConfig(
        vocab_size=size,
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=12,
        intermediate_size=64,
    )
    return transformers.BertModel(config)


def _xlm_roberta(folder: Path, width: int) -> Any:
    size = tokenizer(folder, ["<s>"], ["</s>"], "<pad>")
    config = transformers.XLMRobertaConfig(
        vocab_size=size,
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=12,
        intermediate_size=64,
        max_position_embeddings=514,
        pad_token_id=1,
    )
    return transformers.XLMRobertaForMaskedLM(config)


def _llama(folder: Path, width: int) -> Any:
    size = tokenizer(folder, ["<|begin_of_text|>"], [], None, "<|eot_id|>")
    config = transformers.LlamaConfig(
        vocab_size=size,
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        intermediate_size=64,
        tie_word_embeddings=True,
    )
    return transformers.LlamaForCausalLM(config)


def _opt(folder: Path, width: int) -> Any:
    size = tokenizer(folder, ["</s>"], [], "<pad>")
    config = transformers.OPTConfig(
        vocab_size=size,
        hidden_size=width,
        word_embed_proj_dim=width,
        ffn_dim=64,
        num_hidden_layers=2,
        num_attention_heads=12,
        pad_token_id=1,
    )
    return transformers.OPTForCausalLM(config)


def _t5(folder: Path, width: int) -> Any:
    size = tokenizer(folder, [], ["</s>"], "<pad>")
    config = transformers.T5Config(
        vocab_size=size, d_model=width, d_kv=16, d_ff=64, num_layers=2, num_heads=4
    )
    return transformers.T5ForConditionalGeneration(config)


def _qwen2(folder: Path, width: int) -> Any:
    size = tokenizer(folder, [], [], "<|endoftext|>", "<|im_end|>")
    config = transformers.Qwen2Config(
        vocab_size=size,
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        intermediate_size=64,
        max_window_layers=2,
    )
    return transformers.Qwen2ForCausalLM(config)


def _convnextv2(folder: Path, width: int) -> Any:
    transformers.ConvNextImageProcessor(
        size={"shortest_edge": 224}, crop_pct=0.875
    ).save_pretrained(folder)
    config = transformers.ConvNextV2Config(hidden_sizes=[8, 8, 8, width], depths=[1, 1, 1, 1])
    return transformers.ConvNextV2ForImageClassification(config)


def _swinv2(folder: Path, width: int) -> Any:
    transformers.ViTImageProcessor(
        size={"height": 192, "width": 192}, image_mean=[0.485, 0.456, 0.406]
    ).save_pretrained(folder)
    config = transformers.Swinv2Config(
        image_size=192,
        embed_dim=width // 8,
        depths=[1, 1, 1, 1],
        num_heads=[2, 2, 2, 2],
        window_size=12,
        mlp_ratio=0.25,
    )
    return transformers.Swinv2ForImageClassification(config)


def _dinov2(folder: Path, width: int) -> Any:
    transformers.BitImageProcessor(
        size={"shortest_edge": 256}, crop_size={"height": 224, "width": 224}
    ).save_pretrained(folder)
    config = transformers.Dinov2Config(
        hidden_size=width,
        num_hidden_layers=1,
        num_attention_heads=16,
        mlp_ratio=1,
        image_size=518,
        patch_size=14,
    )
    return transformers.Dinov2Model(config)


def _vit(folder: Path, width: int) -> Any:
    transformers.ViTImageProcessor().save_pretrained(folder)
    config = transformers.ViTConfig(
        hidden_size=width, num_hidden_layers=2, num_attention_heads=12, intermediate_size=64
    )
    return transformers.ViTForImageClassification(config)


def _clip(folder: Path, width: int) -> Any:
    clip_tokenizer(folder)
    transformers.CLIPImageProcessor().save_pretrained(folder)
    shape = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    config = transformers.CLIPConfig(
        text_config={**shape, "vocab_size": 49408, "eos_token_id": 49407, "bos_token_id": 49406},
        vision_config={**shape, "patch_size": 14, "image_size": 224},
        projection_dim=width,
    )
    return transformers.CLIPModel(config)


def _mllama(folder: Path, width: int) -> Any:
    size = tokenizer(folder, ["<|begin_of_text|>"], [], "<|finetune_right_pad_id|>", "<|image|>")
    image = transformers.MllamaImageProcessor(size={"height": 56, "width": 56}, max_image_tiles=2)
    own = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    transformers.MllamaProcessor(image, own).save_pretrained(folder)
    vision = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_global_layers": 1,
        "attention_heads": 2,
        "intermediate_size": 64,
        "vision_output_dim": 64,
        "image_size": 56,
        "patch_size": 14,
        "max_num_tiles": 2,
        "intermediate_layers_indices": [0],
        "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]],
    }
    text = {
        "vocab_size": size,
        "hidden_size": width,
        "num_hidden_layers": 2,
        "num_attention_heads": 32,
        "num_key_value_heads": 1,
        "intermediate_size": 64,
        "cross_attention_layers": [1],
        "pad_token_id": 1,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    }
    config = transformers.MllamaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=own.convert_tokens_to_ids("<|image|>"),
    )
    model = transformers.MllamaForConditionalGeneration(config)
    for name, weight in model.named_parameters():
        if name.endswith("_gate"):  # closed in a new model, which then sees no image
            torch.nn.init.ones_(weight)
    return model


def _qwen_vl(folder: Path, width: int, newer: bool) -> Any:
    names = {"vision_start": "", "vision_end": "", "image": "_pad", "video": "_pad"}
    tokens = [f"<|{name}{tail}|>" for name, tail in names.items()]
    size = tokenizer(folder, [], [], "<|endoftext|>", *tokens, "<|im_end|>")
    own = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    numbers = own.convert_tokens_to_ids(tokens)
    ids = {f"{name}_token_id": i for name, i in zip(names, numbers, strict=True)}
    text = {
        "vocab_size": size,
        "hidden_size": width,
        "num_hidden_layers": 1,
        "num_attention_heads": width // 16,
        "num_key_value_heads": 1,
        "intermediate_size": 64,
        "bos_token_id": None,
        "eos_token_id": size - 1,
        "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3]},
    }
    vision = {"depth": 2, "num_heads": 2, "patch_size": 14}
    if newer:
        vision |= {"hidden_size": 32, "intermediate_size": 64, "out_hidden_size": width}
        config = transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **ids)
        model = transformers.Qwen2_5_VLForConditionalGeneration(config)
    else:
        vision |= {"embed_dim": 32, "mlp_ratio": 2, "hidden_size": width}
        config = transformers.Qwen2VLConfig(text_config=text, vision_config=vision, **ids)
        model = transformers.Qwen2VLForConditionalGeneration(config)
    processor = transformers.Qwen2_5_VLProcessor if newer else transformers.Qwen2VLProcessor
    processor(
        image_processor=transformers.Qwen2VLImageProcessor(min_pixels=56**2, max_pixels=112**2),
        tokenizer=own,
        video_processor=transformers.Qwen2VLVideoProcessor(),
    ).save_pretrained(folder)
    return model


def _own(folder: Path, config: Any, build: Callable[[Any], torch.nn.Module]) -> None:
    module = build(config)
    (folder / "config.json").write_text(config.model_dump_json())
    save_file(module.state_dict(), folder / "model.safetensors")


def _vig(folder: Path, width: int) -> None:
    from maghub.encoding.vig import ViG, ViGConfig

    _own(folder, ViGConfig(channels=width, blocks=2), ViG)


def _pyramid_tnt(folder: Path, width: int) -> None:
    from maghub.encoding.pyramid_tnt import PyramidTNT, PyramidTNTConfig

    _own(folder, PyramidTNTConfig(depths=(1, 1, 1, 1), outer=width // 4), PyramidTNT)


def _imagebind(folder: Path, width: int) -> None:
    from maghub.encoding.imagebind import ImageBind, ImageBindConfig, TowerConfig

    tower = TowerConfig(width=32, blocks=2, heads=2)
    _own(folder, ImageBindConfig(vision=tower, text=tower, out=width), ImageBind)


MAKERS: dict[str, Callable[[Path, int], Any]] = {
    "convnextv2-base-22k-224": _convnextv2,
    "swinv2-large-22k": _swinv2,
    "dinov2-large": _dinov2,
    "vit-base-patch16-224": _vit,
    "vig": _vig,
    "pyramid-tnt": _pyramid_tnt,
    "xlm-roberta-base": _xlm_roberta,
    "llama-3.2-1b-instruct": _llama,
    "opt-125m": _opt,
    "t5-large": _t5,
    "bert-base-nli-mean-tokens": _bert,
    "qwen2-7b-instruct": _qwen2,
    "qwen2.5-3b-instruct": _qwen2,
    "clip-vit-large-patch14": _clip,
    "llama-3.2-11b-vision-instruct": _mllama,
    "imagebind-huge": _imagebind,
    "qwen2-vl-7b-instruct": partial(_qwen_vl, newer=False),
    "qwen2.5-vl-3b-instruct": partial(_qwen_vl, newer=True),
    "bert-base-uncased": _bert,
    "clip-vit-base-patch32": _clip,
}


def tiny(name: str, folder: Path, width: int | None = None, seed: int = 0) -> Path:
    """Write a tiny model of an encoder's architecture and return its folder.

    Args:
        name: Name of the encoder.
        folder: Folder to make.
        width: Width of the vectors; None takes the spec's.
        seed: Seed of the weights.
    """
    from maghub.encoding.specs import all_specs

    folder.mkdir(parents=True)
    dim = all_specs()[name].dim
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = MAKERS[name](folder, width or next(iter(dim.values())))
    if model is not None:
        model.eval().save_pretrained(folder)
    return folder
