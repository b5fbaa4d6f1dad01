"""Any text model of sentence-transformers by name: ``st:all-mpnet-base-v2``, ``st:org/name``.

The vectors are those of ``SentenceTransformer.encode``: its pooling, dense layers, normalisation
and default prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maghub import layout
from maghub.encoding.base import EncoderSpec
from maghub.encoding.torch_encoder import TorchEncoder

if TYPE_CHECKING:
    import torch

    from maghub.encoding.torch_encoder import Batch


class SentenceTransformers(TorchEncoder):
    """A sentence-transformers model."""

    PACKAGES = ("sentence_transformers", "transformers", "tokenizers")
    DISTRIBUTIONS = ("sentence-transformers", "transformers", "tokenizers")

    def resolve(self, spec: EncoderSpec, model_path: str | Path | None) -> EncoderSpec:
        """A name without an owner is one of sentence-transformers' own models."""
        if "/" in spec.model_id:
            return spec
        return spec.model_copy(update={"model_id": f"sentence-transformers/{spec.model_id}"})

    def load(self, folder: Path) -> torch.nn.Module:
        """The pipeline of modules; code that comes with a model is not executed."""
        from sentence_transformers import SentenceTransformer

        if not (folder / "modules.json").is_file():
            raise FileNotFoundError("no modules.json")
        return SentenceTransformer(
            str(folder),
            device=str(self.device),
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"weights_only": True},
        )

    @property
    def _model(self) -> Any:
        return self.module

    def _prompt(self) -> str:
        name = self._model.default_prompt_name
        return (self._model.prompts.get(name) or "") if name else ""

    def widths(self) -> dict[str, int]:
        """Width of the last module's vectors."""
        return {layout.TEXT: self._model.get_embedding_dimension()}

    def facts(self) -> dict[str, object]:
        """Length, pooling and normalisation of the pipeline."""
        names = [type(module).__name__ for module in self._model]
        return {
            "max_length": self._model.max_seq_length,
            "pooling": " > ".join(names),
            "normalized": "Normalize" in names,
            "note": f"Every text is preceded by '{self._prompt()}'." if self._prompt() else "",
        }

    def text_lengths(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Tokens of each text with the model's prompt, before truncation."""
        from maghub.encoding.transformers_text import token_counts

        return token_counts(self._model.tokenizer, [self._prompt() + text for text in texts])

    def text_batch(self, texts: Sequence[str]) -> Batch:
        """What the first module makes of the texts."""
        import torch

        batch = self._model.preprocess(list(texts), prompt=self._prompt() or None)
        tensors = {name: value for name, value in batch.items() if torch.is_tensor(value)}
        return {**batch, **self.to_device(tensors)}

    def embed_texts(self, batch: Batch) -> torch.Tensor:
        """The sentence embedding at the end of the pipeline."""
        return self._model(dict(batch))["sentence_embedding"]
