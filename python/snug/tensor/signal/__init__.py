"""Functions of images: pooling and plain convolutions."""

from __future__ import annotations

from snug.tensor.signal import conv, downsample, pool

__all__ = ["conv", "downsample", "pool"]
