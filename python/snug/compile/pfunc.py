"""snug.function under its second name."""

from snug._function import In, Out, Param
from snug._function import function as pfunc

__all__ = ["In", "Out", "Param", "pfunc"]
