"""The name that pooling had in old programs."""

from __future__ import annotations

from snug.tensor.signal.pool import max_pool_2d_same_size, pool_2d

__all__ = ["max_pool_2d", "max_pool_2d_same_size", "pool_2d"]

max_pool_2d = pool_2d
