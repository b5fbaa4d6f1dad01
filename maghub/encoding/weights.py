"""Where a model's files are: a local folder, the Hub's cache or the Hub; and what can go wrong.

Everything an adapter loads comes from a folder that is found here, so that adapters never touch
the network, nothing is executed that came with a model, and every failure is one line.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maghub.encoding.base import EncoderSpec
from maghub.errors import MaghubError, MissingExtra

if TYPE_CHECKING:
    import torch

_COMMIT = re.compile(r"[0-9a-f]{40}")
_TEXT_FILES = (".json", ".txt", ".model", ".jinja")
_PICKLED = (".bin", ".pth")
_FOREIGN = ("original", "onnx", "openvino")  # folders with the same model in other formats
_OWN_WEIGHTS = ("*.safetensors", "*.pth", "*.pth.tar", "*.pt", "*.bin")
_TIMEOUT = 10.0


def require(packages: Sequence[str], extra: str = "encoders") -> None:
    """Raise one line if a package is not installed; imports none of them."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(package, extra)


def located(spec: EncoderSpec, model_path: str | Path | None) -> tuple[Path, str]:
    """The folder with a model's files, and the revision that they are.

    Raises:
        MaghubError: The folder does not exist, or the Hub does not give the files.
    """
    if model_path is None:
        folder = _fetched(spec)
    else:
        folder = Path(model_path)
        if not folder.is_dir():
            raise MaghubError(
                f"no such folder, {spec.name} cannot be loaded from it",
                where=model_path,
                fix="give the folder that holds the model's config and weights",
            )
    if folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name):
        return folder, folder.name
    return folder, f"local folder, sha256 {digest(folder)[:16]}"


def digest(folder: Path) -> str:
    """SHA-256 over the names and bytes of all files of a folder."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            part = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{path.relative_to(folder).as_posix()} {part}\n".encode())
    return total.hexdigest()


def _fetched(spec: EncoderSpec) -> Path:
    """The snapshot of a spec's repository: from the Hub, or from its cache when offline."""
    if spec.weights_url is not None:
        raise MaghubError(
            f"the weights of {spec.name} are not on the Hub",
            fix=f"download them from {spec.weights_url} and give their folder as the model path",
        )
    from huggingface_hub import HfApi, constants, errors, snapshot_download

    name, revision = spec.model_id, spec.revision
    try:
        if constants.HF_HUB_OFFLINE:
            return Path(snapshot_download(name, revision=revision, local_files_only=True))
        info = HfApi().model_info(name, revision=revision, timeout=_TIMEOUT)
        files = wanted_files([file.rfilename for file in info.siblings or []])
        return Path(
            snapshot_download(name, revision=revision, allow_patterns=files, etag_timeout=_TIMEOUT)
        )
    except errors.GatedRepoError as error:
        raise _gated(spec) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        if spec.gated:
            raise _gated(spec) from error
        raise MaghubError(
            f"the Hub has no model {spec.model_id} at revision {spec.revision}",
            fix="check the name, log in if it is private, or give a local folder as the model path",
        ) from error
    except Exception as error:  # every client library has its own errors for a dead network
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
            raise MaghubError(
                f"{spec.model_id} cannot be kept in the Hub's cache ({error})",
                fix="set HF_HOME to a folder with room for it",
            ) from error
        return _cached(spec, error)


def wanted_files(files: Sequence[str]) -> list[str]:
    """Which files of a repository to download: text files, and weights in one format.

    In each folder safetensors are preferred to pickled weights.
    """
    own = [name for name in files if not set(name.split("/")[:-1]) & set(_FOREIGN)]
    safe = {name.rpartition("/")[0] for name in own if name.endswith(".safetensors")}
    return [
        name
        for name in own
        if name.endswith((*_TEXT_FILES, ".safetensors"))
        or (name.endswith(_PICKLED) and name.rpartition("/")[0] not in safe)
    ]


def _cached(spec: EncoderSpec, cause: Exception) -> Path:
    """The snapshot in the Hub's cache, when the Hub itself does not answer."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(spec.model_id, revision=spec.revision, local_files_only=True))
    except Exception:
        raise MaghubError(
            f"{spec.name} needs {spec.model_id}, which is not in the Hub's cache, and the Hub "
            f"does not answer",
            fix="connect to the network, or give a local folder with the model as the model path",
        ) from cause


def _gated(spec: EncoderSpec) -> MaghubError:
    return MaghubError(
        f"the Hub gives {spec.model_id} only to accounts that accepted its licence",
        fix=f"accept it at https://huggingface.co/{spec.model_id} and run: hf auth login",
    )


@contextmanager
def loading(spec: EncoderSpec, folder: Path) -> Iterator[None]:
    """Turn whatever a library raises on a folder that is not its model into one line."""
    try:
        yield
    except MaghubError:
        raise
    except Exception as error:  # libraries raise nearly anything on files that are not theirs
        reason = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        raise MaghubError(
            f"is not a model that {spec.library} can load as {spec.name} ({reason[:200]})",
            where=folder,
            fix="give the folder that holds the model's config and weights",
        ) from error


def from_pretrained(
    auto: Any, folder: Path, dtype: torch.dtype, unused: Sequence[str] = ("pooler",)
) -> torch.nn.Module:
    """A transformers model with every weight from the folder; none may be left random.

    Args:
        auto: The transformers class to load with.
        folder: The model's folder.
        dtype: Precision of the weights.
        unused: Names of parts that no vector depends on and that may therefore be missing.

    Raises:
        MaghubError: A weight that is used is not in the folder, or has another shape.
    """
    with _silent_transformers():  # it would report every head that is left out, on purpose here
        model, info = auto.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            weights_only=True,
            dtype=dtype,
            output_loading_info=True,
        )
    keys = [*info["missing_keys"], *(str(key) for key in info.get("mismatched_keys", ()))]
    refuse_missing([key for key in keys if not any(part in key for part in unused)], folder)
    return model


@contextmanager
def _silent_transformers() -> Iterator[None]:
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def refuse_missing(keys: Sequence[str], folder: Path) -> None:
    """Raise if weights are missing: a vector from random weights looks like any other."""
    if keys:
        raise MaghubError(
            f"{len(keys)} weights are missing or have another shape, e.g. {sorted(keys)[0]}",
            where=folder,
            fix="give the folder of the model that the encoder is named after",
        )


def read_state(folder: Path) -> dict[str, torch.Tensor]:
    """The state dictionary in a folder with one weights file; nothing pickled is executed."""
    import torch

    found = [path for pattern in _OWN_WEIGHTS for path in sorted(folder.glob(pattern))]
    if not found:
        raise MaghubError(
            "holds no weights", where=folder, fix=f"expected one of {', '.join(_OWN_WEIGHTS)}"
        )
    if found[0].suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(found[0])
    state: Any = torch.load(found[0], map_location="cpu", weights_only=True)
    for key in ("model", "state_dict"):
        if isinstance(state, Mapping) and isinstance(state.get(key), Mapping):
            state = state[key]
    return {name.removeprefix("module."): value for name, value in state.items()}


def load_state(module: torch.nn.Module, folder: Path, ignored: Sequence[str] = ()) -> None:
    """Fill one of our own modules from the authors' checkpoint.

    Args:
        module: The module; every one of its weights must be in the checkpoint.
        folder: Where the checkpoint is.
        ignored: Prefixes of the checkpoint's names that are no part of the module.

    Raises:
        MaghubError: Weights are missing, have another shape, or belong to something else.
    """
    state = read_state(folder)
    own = module.state_dict()
    missing = [n for n, v in own.items() if n not in state or state[n].shape != v.shape]
    refuse_missing(missing, folder)
    foreign = [n for n in state if n not in own and not n.startswith(tuple(ignored))]
    if foreign:
        raise MaghubError(
            f"{len(foreign)} weights belong to another model, e.g. {sorted(foreign)[0]}",
            where=folder,
        )
    module.load_state_dict({name: state[name] for name in own})
