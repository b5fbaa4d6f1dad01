"""Kernels of the BLAS inside FAISS's wheels.

That OpenBLAS takes its oldest kernels, a quarter as fast, on x86 processors newer than itself. It
reads a variable that names better ones while it is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CORETYPE = "OPENBLAS_CORETYPE"
KERNELS = {  # OpenBLAS's names, fastest first, and what a processor must have
    "SkylakeX": frozenset({"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"}),
    "Haswell": frozenset({"avx2", "fma"}),
}


def processor_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Extensions that the processor has, as Linux names them on x86; none where it does not."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return frozenset()
    found = (line.partition(":")[2] for line in lines if line.partition(":")[0].strip() == "flags")
    return frozenset(next(found, "").split())


def fastest_kernels(flags: frozenset[str]) -> str | None:
    """Name of the fastest kernels for a processor, None if OpenBLAS had better choose."""
    return next((name for name, needed in KERNELS.items() if needed <= flags), None)


@contextmanager
def fast_blas() -> Iterator[None]:
    """While libraries are loaded: name the fastest kernels, unless the user has named some.

    The variable is taken away again, so that worker processes compute as this one does.
    """
    name = fastest_kernels(processor_flags())
    if name is None or CORETYPE in os.environ:
        yield
        return
    os.environ[CORETYPE] = name
    try:
        yield
    finally:
        del os.environ[CORETYPE]
