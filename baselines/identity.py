"""What a result record says of its origin: the bytes that were read, and the software."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from maghub.mag import MAG
from maghub.results import DatasetIdentity

PACKAGES = ("maghub", "torch", "torch-geometric", "numpy")
"""Packages that decide what a trained model gives."""


def identify(mag: MAG, configs: Iterable[str], split: str | None) -> DatasetIdentity:
    """Which bytes of a dataset a run reads.

    Args:
        mag: The dataset.
        configs: Names of the configs that decide the result.
        split: The split rule that was read.
    """
    checksums = {}
    for name in configs:
        digests = [entry.sha256 for entry in mag.spec.config(name).files]
        checksums[name] = hashlib.sha256("".join(digests).encode()).hexdigest()
    return DatasetIdentity(
        name=mag.spec.name,
        version=mag.spec.dataset_version,
        revision=mag.revision,
        checksums=checksums,
        split=split,
    )


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Versions of the packages that decide a result; those that are not installed are left out."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
