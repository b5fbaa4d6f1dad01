"""Any causal language model of ``transformers``, in this process; vision-language models see.

A folder or a Hub id. Decoding is greedy, so the same model on the same device says the same; the
last bits of a batch depend on what else is in it, which can flip a near tie between two words.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maghub.encoding.engine import chosen_device
from maghub.encoding.weights import digest
from maghub.errors import MaghubError
from maghub.images import decode
from maghub.libraries import library, loading
from maghub.llm.messages import Answer, Message, Request

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image


class LocalBackend:
    """A model loaded once; requests are answered in batches.

    Args:
        path: Folder with the model's files, or a Hub id.
        device: torch device; ``auto`` takes a GPU where there is one.
        batch_size: Requests at once.
        revision: Of a Hub id.
    """

    concurrency = 1

    def __init__(
        self,
        path: str,
        *,
        device: str = "auto",
        batch_size: int = 8,
        revision: str | None = None,
    ) -> None:
        self._torch = library("torch", "torch", "encoders")
        transformers = library("transformers", "transformers", "encoders")
        self.batch_size = batch_size
        self.model = f"local:{Path(path).name if Path(path).is_dir() else path}"
        self.device = chosen_device(device)
        with loading(path, "give a folder with config.json, weights and tokenizer, or a Hub id"):
            config = transformers.AutoConfig.from_pretrained(path, revision=revision)
            self.sees = hasattr(config, "vision_config")
            kind = "AutoModelForImageTextToText" if self.sees else "AutoModelForCausalLM"
            reader = "AutoProcessor" if self.sees else "AutoTokenizer"
            self._reader: Any = getattr(transformers, reader).from_pretrained(
                path, revision=revision
            )
            model: Any = getattr(transformers, kind).from_pretrained(
                path, revision=revision, dtype="auto"
            )
            self._model: Any = model.to(self.device).eval()
        folder = Path(path)
        commit = getattr(config, "_commit_hash", None)
        self._weights = digest(folder) if folder.is_dir() else commit or revision or "main"
        self._tokenizer: Any = getattr(self._reader, "tokenizer", self._reader)
        self._tokenizer.padding_side = "left"
        if self._tokenizer.pad_token_id is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token

    def parameters(self, request: Request) -> dict[str, Any]:
        """Decoding is greedy, so only the length matters, and which weights they are."""
        length = request.max_tokens
        return {"max_tokens": length, "decoding": "greedy", "weights": self._weights}

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """Answers of one batch, see ``Backend.answer``."""
        inputs = self._inputs(requests).to(self.device)
        width = int(inputs["input_ids"].shape[1])
        with self._torch.inference_mode():
            made = self._model.generate(
                **inputs,
                max_new_tokens=max(request.max_tokens for request in requests),
                do_sample=False,
                pad_token_id=self._tokenizer.pad_token_id,
            )
        read = inputs["attention_mask"].sum(1).tolist()
        pairs = zip(requests, made[:, width:], read, strict=True)
        return [self._answer(request, tokens, count) for request, tokens, count in pairs]

    def _answer(self, request: Request, tokens: torch.Tensor, read: int) -> Answer:
        """One row of what was generated, cut at its end token and at its own length."""
        ends = self._model.generation_config.eos_token_id
        ends = set(ends) if isinstance(ends, list) else {ends, self._tokenizer.eos_token_id}
        ids = tokens.tolist()[: request.max_tokens]
        end = next((at for at, token in enumerate(ids) if token in ends), len(ids))
        finish = "stop" if end < len(ids) else "length"
        text = self._tokenizer.decode(ids[:end], skip_special_tokens=True).strip()
        return Answer(text, finish, read, end, self.model)

    def _inputs(self, requests: Sequence[Request]) -> Any:
        """Token ids and masks of a batch, padded on the left; pixels where there are pictures."""
        texts = [self._prompt(request) for request in requests]
        images = [_pictures(request) for request in requests]
        if not any(images):
            # A chat template writes the special tokens itself.
            special = self._template() is None
            return self._tokenizer(
                texts, return_tensors="pt", padding=True, add_special_tokens=special
            )
        if not self.sees:
            raise MaghubError("reads no pictures", where=self.model, fix="take a model that sees")
        return self._reader(text=texts, images=images, return_tensors="pt", padding=True)

    def _template(self) -> str | None:
        return getattr(self._reader, "chat_template", None) or self._tokenizer.chat_template

    def _prompt(self, request: Request) -> str:
        """The conversation as the model's chat template writes it, or as plain paragraphs."""
        if self._template() is None:
            return "\n\n".join(message.text for message in request.messages) + "\n\n"
        turns = [self._turn(message) for message in request.messages]
        return self._reader.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)

    def _turn(self, message: Message) -> dict[str, Any]:
        if not self.sees:
            return {"role": message.role, "content": message.text}
        parts: list[dict[str, str]] = [{"type": "image"} for _ in message.images]
        return {"role": message.role, "content": [*parts, {"type": "text", "text": message.text}]}

    def close(self) -> None:
        """Let go of the model."""
        del self._model


def _pictures(request: Request) -> list[Image]:
    """The pictures of all turns, decoded.

    Raises:
        MaghubError: One cannot be.
    """
    found = []
    for message in request.messages:
        for blob in message.images:
            if (image := decode(blob)) is None:
                where = f"a request that begins '{request.messages[-1].text[:60]}'"
                what = "shows a picture that cannot be decoded"
                raise MaghubError(what, where=where, fix="find it with: maghub validate FOLDER")
            found.append(image)
    return found
