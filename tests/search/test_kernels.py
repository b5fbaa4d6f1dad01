"""FAISS's BLAS takes kernels that fit the processor, and nothing else is changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from maghub.search.kernels import CORETYPE, KERNELS, fast_blas, fastest_kernels, processor_flags

pytest.importorskip("faiss")
SCRIPT = """
import ctypes, os
from maghub.search.backend import library
library()
maps = [line.split()[-1] for line in open("/proc/self/maps") if "openblas" in line]
paths = {path for path in maps if "faiss" in path}
kernels = ""
if paths:
    core = ctypes.CDLL(paths.pop()).openblas_get_corename
    core.restype = ctypes.c_char_p
    kernels = core().decode()
print(kernels, os.environ.get("OPENBLAS_CORETYPE"))
"""


def loaded(**more: str) -> list[str]:
    env = {key: value for key, value in os.environ.items() if key != CORETYPE} | more
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, check=True, capture_output=True, text=True
    )
    return done.stdout.rsplit(" ", 1)


@pytest.mark.integration
def test_faiss_multiplies_with_the_kernels_of_this_processor() -> None:
    wanted = fastest_kernels(processor_flags())
    if wanted is None or not loaded()[0]:
        pytest.skip("no x86 processor with AVX2, or a FAISS without OpenBLAS")
    assert loaded() == [wanted, "None\n"]
    assert loaded(**{CORETYPE: "Haswell"}) == ["Haswell", "Haswell\n"]


def test_kernels_need_all_their_flags(tmp_path: Path) -> None:
    every = frozenset().union(*KERNELS.values())
    assert fastest_kernels(every) == "SkylakeX"
    assert fastest_kernels(every - {"avx512vl"}) == "Haswell"
    assert fastest_kernels(every - {"fma", "avx512f"}) is None
    assert processor_flags(tmp_path / "absent") == frozenset()
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu avx2 fma\nvmx flags\t: ept\n")
    assert processor_flags(tmp_path / "cpuinfo") == {"fpu", "avx2", "fma"}
    (tmp_path / "arm").write_text("processor\t: 0\nFeatures\t: fp asimd\n")
    assert processor_flags(tmp_path / "arm") == frozenset()


def test_the_variable_is_taken_away_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CORETYPE, raising=False)
    with pytest.raises(ImportError), fast_blas():
        raise ImportError
    assert CORETYPE not in os.environ
