"""Theano's module of this name: the classes of variables.

`snug.tensor.var` itself is the variance; this module is found by importing from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from snug._core import TensorConstant, TensorVariable

__all__ = [
    "AsTensorError",
    "TensorConstant",
    "TensorConstantSignature",
    "TensorVariable",
    "equal_slices",
]


class AsTensorError(TypeError):
    """Something is no tensor and does not become one."""


class TensorConstantSignature(tuple):
    """(type, data) of a constant; equal for equal values, NaN and the sign of 0 included."""

    def _key(self) -> tuple[Any, ...]:
        type, data = self
        data = np.asarray(data)
        return type, data.dtype.str, data.shape, data.tobytes()

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, TensorConstantSignature) and self._key() == other._key()

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._key())


def equal_slices(s1: slice, s2: slice) -> bool:
    """Whether two slices are the same."""
    return (s1.start, s1.stop, s1.step) == (s2.start, s2.stop, s2.step)
