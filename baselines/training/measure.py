"""Peak memory of a run, on the CPU and on the GPU."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

_KIB = 1024


class PeakMemory:
    """Starts counting when made.

    On Linux the kernel's high-water mark of this process is reset, so that the peak is that of the
    run; elsewhere it is that of the process so far.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", "ascii")
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)

    def cpu(self) -> int:
        """Largest resident memory since the start, in bytes."""
        with suppress(OSError, StopIteration, ValueError, IndexError):
            lines = Path("/proc/self/status").read_text("ascii").splitlines()
            peak = next(line for line in lines if line.startswith("VmHWM"))
            return int(peak.split()[1]) * _KIB
        unit = 1 if sys.platform == "darwin" else _KIB
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    def gpu(self) -> int | None:
        """Largest memory allocated on the GPU since the start, in bytes; None without one."""
        if self.device.type != "cuda":
            return None
        return int(torch.cuda.max_memory_allocated(self.device))
