"""Optional libraries, imported when first used; a missing one is one line with the pip command."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maghub.errors import MaghubError, MissingExtra


def library(module: str, package: str, extra: str) -> Any:
    """The imported module.

    Args:
        module: What is imported.
        package: What pip calls it.
        extra: The extra of maghub that brings it.

    Raises:
        MissingExtra: Its package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise MissingExtra(package, extra) from None


@contextmanager
def loading(path: str, fix: str) -> Iterator[None]:
    """Turn what a library raises on files that are no model of its into one line.

    Raises:
        MaghubError: The model at ``path`` cannot be loaded; ``fix`` says what to give instead.
    """
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise MaghubError(f"cannot be loaded ({reason})", where=path, fix=fix) from None
