"""maghub: multimodal-attributed graphs, knowledge-graph RAG and graph QA data in one line.

The public surface; everything is imported when first used, so that ``import maghub`` is instant and
never pulls in torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_EXPORTS = {
    "MAG": "maghub.mag",
    "MaghubError": "maghub.errors",
    "build": "maghub.building",
    "build_own": "maghub.building",
    "encode": "maghub.encoding",
    "find": "maghub.search",
    "info": "maghub.catalog",
    "init": "maghub.scaffold",
    "list_datasets": "maghub.catalog",
    "load": "maghub.loading",
    "pull": "maghub.hub.pull",
    "push": "maghub.hub.push",
    "run": "maghub.running",
    "validate": "maghub.validation",
}

if TYPE_CHECKING:
    from maghub.building import build as build
    from maghub.building import build_own as build_own
    from maghub.catalog import info as info
    from maghub.catalog import list_datasets as list_datasets
    from maghub.encoding import encode as encode
    from maghub.errors import MaghubError as MaghubError
    from maghub.hub.pull import pull as pull
    from maghub.hub.push import push as push
    from maghub.loading import load as load
    from maghub.mag import MAG as MAG
    from maghub.running import run as run
    from maghub.scaffold import init as init
    from maghub.search import find as find
    from maghub.validation import validate as validate

__all__ = [*_EXPORTS, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(import_module(_EXPORTS[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'maghub' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
