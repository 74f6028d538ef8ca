"""A step captured as a CUDA graph, with the same questions answered as by the tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from modelguard.runtime.tape import HostRead


class CudaCapture:
    """One captured step. Where its memory is freed meanwhile, what is read there is whatever the allocator put in its place."""

    def __init__(self) -> None:
        self.host_reads: list[HostRead] = []
        self._graph = torch.cuda.CUDAGraph()

    def record(self, step: Callable[[], Any]) -> Any:
        """Capture a step, and run it once: capturing runs no kernel.

        Raises:
            RuntimeError: CUDA refuses to capture an operator.
        """
        torch.cuda.synchronize()
        with torch.cuda.graph(self._graph):
            result = step()
        self.replay()
        return result

    def replay(self) -> None:
        """Launch the graph and wait for it."""
        self._graph.replay()
        torch.cuda.synchronize()

    def freed(self) -> list[int]:
        """Nothing: who owns the memory that a graph reads is not told."""
        return []

    def poison(self) -> None:
        """Let the allocator hand its free memory to somebody who writes to it."""
        free = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        taken = []
        for size in (1 << 21, 1 << 16, 1 << 9):
            for _ in range(min(256, free // size)):
                taken.append(torch.full((size // 4,), float("nan"), device="cuda"))
