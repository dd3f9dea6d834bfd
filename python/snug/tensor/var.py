"""Theano's module of this name: the classes of variables.

`snug.tensor.var` itself is the variance; this module is found by importing from it.
"""

from snug._core import TensorConstant, TensorVariable

__all__ = ["AsTensorError", "TensorConstant", "TensorConstantSignature", "TensorVariable"]


def __getattr__(name: str):
    # This module is the first of the package to load, so that the function takes its name.
    from snug.tensor import _helpers

    if name in __all__:
        return getattr(_helpers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
