"""Models in this process, against ``generate`` of transformers itself, one request at a time."""

from __future__ import annotations

import io
from pathlib import Path

import PIL.Image
import pytest
import torch
import transformers

from maghub.errors import MaghubError
from maghub.llm import Message, Request, Settings, open_client
from tests.helpers.tiny_encoders import tiny

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
SEEING = (
    "{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{% if part.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
TEXTS = ["hi", "a much longer request, so that the batch needs padding", "猫?", "x"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny("qwen2-7b-instruct", tmp_path_factory.mktemp("lm") / "lm", width=64)


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a chat template."""
    made = tiny("qwen2-7b-instruct", tmp_path_factory.mktemp("chat") / "chat", width=64)
    tokenizer = transformers.AutoTokenizer.from_pretrained(made)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(made)
    return made


def one_by_one(folder: Path, prompts: list[str], length: int) -> list[str]:
    """What transformers generates, without batches and padding."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    texts = []
    for prompt in prompts:
        ids = tokenizer(prompt, return_tensors="pt")
        made = model.generate(**ids, max_new_tokens=length, do_sample=False)
        new = made[0, ids["input_ids"].shape[1] :].tolist()
        ends = {tokenizer.eos_token_id, model.generation_config.eos_token_id}
        end = next((i for i, token in enumerate(new) if token in ends), len(new))
        texts.append(tokenizer.decode(new[:end], skip_special_tokens=True).strip())
    return texts


def asked(text: str, length: int = 12) -> Request:
    return Request((Message("system", "be brief"), Message("user", text)), max_tokens=length)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_batches_equal_one_at_a_time(folder: Path, tmp_path: Path, batch_size: int) -> None:
    own = Settings(cache=tmp_path / "c.sqlite", batch_size=batch_size, device="cpu")
    client = open_client(f"local:{folder}", own)
    answers = list(client.map([asked(text) for text in TEXTS]))
    wanted = one_by_one(folder, [f"be brief\n\n{text}\n\n" for text in TEXTS], 12)
    assert [answer.text for answer in answers] == wanted
    assert len(set(wanted)) > 1
    assert all(answer.model == "local:lm" for answer in answers)
    assert client.counts["sent"] == len(TEXTS)
    client.close()
    again = open_client(f"local:{folder}", own)
    assert list(again.map([asked(text) for text in TEXTS])) == answers
    assert again.counts["sent"] == 0
    again.close()


def test_the_models_own_chat_template(talking: Path, tmp_path: Path) -> None:
    client = open_client(f"local:{talking}", Settings(cache=tmp_path / "c", device="cpu"))
    answers = [answer.text for answer in client.map([asked(text) for text in TEXTS])]
    prompts = [f"<system>be brief<user>{text}<assistant>" for text in TEXTS]
    assert answers == one_by_one(talking, prompts, 12)
    client.close()


def test_each_request_has_its_own_length(folder: Path, tmp_path: Path) -> None:
    own = Settings(cache=tmp_path / "c", batch_size=4, device="cpu")
    client = open_client(f"local:{folder}", own)
    answers = list(client.map([asked("hi", 3), asked("hi", 9)]))
    assert [answer.completion_tokens for answer in answers] == [3, 9]
    assert [answer.finish for answer in answers] == ["length", "length"]
    client.close()


def test_another_model_of_the_same_name_has_its_own_answers(tmp_path: Path) -> None:
    texts = []
    for seed in (0, 1):
        folder = tiny("qwen2-7b-instruct", tmp_path / str(seed) / "lm", width=64, seed=seed)
        client = open_client(f"local:{folder}", Settings(cache=tmp_path / "c", device="cpu"))
        texts.append([answer.text for answer in client.map([asked("hi")])])
        client.close()
    assert texts[0] != texts[1]


def test_a_model_that_sees(tmp_path: Path) -> None:
    folder = tiny("qwen2-vl-7b-instruct", tmp_path / "vl", width=64)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    processor.chat_template = SEEING
    processor.save_pretrained(folder)
    out = io.BytesIO()
    picture = PIL.Image.new("RGB", (60, 60), (200, 30, 30))
    picture.save(out, "PNG")
    shown = Request((Message("user", "what is it?", (out.getvalue(),)),), max_tokens=6)
    client = open_client(f"local:{folder}", Settings(cache=tmp_path / "c", device="cpu"))
    seen, unseen = client.map([shown, Request((Message("user", "what is it?"),), max_tokens=6)])
    client.close()
    client = open_client(f"local:{folder}", Settings(cache=tmp_path / "c", device="cpu"))
    with pytest.raises(MaghubError, match=r"begins 'what is it.': shows a picture that cannot be"):
        list(client.map([Request((Message("user", "what is it?", (b"\x89PNG no",)),))]))
    client.close()
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder).eval()
    text = "<user><|vision_start|><|image_pad|><|vision_end|>what is it?<assistant>"
    inputs = processor(text=[text], images=[[picture]], return_tensors="pt")
    with torch.inference_mode():
        made = model.generate(**inputs, max_new_tokens=6, do_sample=False)
    new = made[0, inputs["input_ids"].shape[1] :]
    assert seen.text == processor.tokenizer.decode(new, skip_special_tokens=True).strip()
    assert seen.prompt_tokens == inputs["input_ids"].shape[1] > unseen.prompt_tokens


def test_a_model_that_does_not_see(folder: Path, tmp_path: Path) -> None:
    client = open_client(f"local:{folder}", Settings(cache=tmp_path / "c", device="cpu"))
    out = io.BytesIO()
    PIL.Image.new("RGB", (4, 4)).save(out, "PNG")
    with pytest.raises(MaghubError, match="local:lm: reads no pictures"):
        list(client.map([Request((Message("user", "?", (out.getvalue(),)),))]))
    client.close()


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(MaghubError) as error:
        open_client(f"local:{tmp_path}", Settings(cache=tmp_path / "c"))
    line = error.value.line()
    assert "cannot be loaded" in line
    assert "config.json" in line
    assert "\n" not in line
