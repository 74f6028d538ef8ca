"""Find module state that PyTorch models write in `forward`, which a replayed CUDA graph gets silently wrong."""

__version__ = "0.1.0"
