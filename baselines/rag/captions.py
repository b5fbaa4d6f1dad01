"""Pictures in words by an image-to-text model of ``transformers`` (BLIP); captions are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from PIL import Image

from maghub.encoding.engine import chosen_device
from maghub.encoding.weights import digest
from maghub.features import cache_folder
from maghub.images import decode
from maghub.libraries import library, loading
from maghub.llm import Answer, AnswerCache

Item = tuple[int, bytes]


class Captioner:
    """A model that is loaded when the first picture comes whose caption is not known.

    Args:
        path: Folder or Hub id.
        max_tokens: Longest caption.
        batch_size: Pictures at once.
        cache: File of captions; None: a common one in maghub's cache folder.
        device: torch device.
    """

    def __init__(
        self, path: str, max_tokens: int, batch_size: int, cache: Path | None, device: str
    ) -> None:
        self.path, self.max_tokens, self.batch_size = path, max_tokens, batch_size
        self.device = chosen_device(device)
        self._cache = AnswerCache(cache or cache_folder() / "captions.sqlite")
        folder = Path(path)
        self._name = digest(folder) if folder.is_dir() else path
        self._loaded: tuple[Any, Any] | None = None

    def captions(self, pictures: Iterable[Item]) -> Iterator[tuple[int, str]]:
        """(number, caption) of each picture, "" where it cannot be decoded; a batch in memory."""
        rest = iter(pictures)
        while batch := list(islice(rest, self.batch_size)):
            keys = [self._key(data) for _, data in batch]
            known = {key: self._cache.get(key) for key in keys}
            new = {
                key: data for key, (_, data) in zip(keys, batch, strict=True) if known[key] is None
            }
            for key, text in self._described(new):
                known[key] = Answer(text, model=self.path)
                self._cache.put(key, Answer(text, model=self.path))
            for key, (number, _) in zip(keys, batch, strict=True):
                answer = known[key]
                yield number, "" if answer is None else answer.text

    def _key(self, data: bytes) -> str:
        picture = hashlib.sha256(data).hexdigest()
        return hashlib.sha256(f"{self._name} {self.max_tokens} {picture}".encode()).hexdigest()

    def _described(self, pictures: dict[str, bytes]) -> Iterator[tuple[str, str]]:
        """(key, caption) of pictures, described in one batch."""
        decoded: dict[str, Image.Image] = {}
        for key, data in pictures.items():
            image = decode(data)
            if image is None:
                yield key, ""
            else:
                decoded[key] = image
        if not decoded:
            return
        torch = library("torch", "torch", "rag")
        processor, model = self._model()
        inputs = processor(images=list(decoded.values()), return_tensors="pt").to(self.device)
        with torch.inference_mode():
            made = model.generate(**inputs, max_new_tokens=self.max_tokens, do_sample=False)
        texts = processor.batch_decode(made, skip_special_tokens=True)
        yield from zip(decoded, (" ".join(text.split()) for text in texts), strict=True)

    def _model(self) -> tuple[Any, Any]:
        if self._loaded is None:
            transformers = library("transformers", "transformers", "rag")
            fix = "give a folder with --set captioner=FOLDER, or a Hub id"
            with loading(self.path, fix):
                processor = transformers.AutoProcessor.from_pretrained(self.path)
                model = transformers.AutoModelForImageTextToText.from_pretrained(self.path)
            self._loaded = processor, model.to(self.device).eval()
        return self._loaded
