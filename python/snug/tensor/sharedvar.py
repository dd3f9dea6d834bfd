"""The classes of shared variables."""

from snug._core import SharedVariable, TensorSharedVariable

ScalarSharedVariable = TensorSharedVariable  # a scalar is a 0-d tensor

__all__ = ["ScalarSharedVariable", "SharedVariable", "TensorSharedVariable", "tensor_constructor"]


def tensor_constructor(value, name=None, strict=False, allow_downcast=None, **kwargs):
    """snug.shared"""
    from snug._shared import shared

    return shared(value, name, strict, allow_downcast, **kwargs)
