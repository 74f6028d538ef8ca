"""Find module state that PyTorch models write in `forward`, which a replayed CUDA graph gets silently wrong."""

from modelguard import scan

__all__ = ["__version__", "scan"]

__version__ = "0.1.0"
