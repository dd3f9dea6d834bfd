"""x log x and its kin, which are 0 at 0."""

from snug._core import xlogx, xlogy0

__all__ = ["xlogx", "xlogy0"]
