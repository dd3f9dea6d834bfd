"""snug.function."""

from snug._function import In, Out, function

__all__ = ["In", "Out", "function"]
