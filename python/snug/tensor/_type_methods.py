"""Methods of TensorType that Theano's has."""

from __future__ import annotations

import numpy as np

from snug import _core
from snug._attach import attach
from snug._core import TensorType
from snug._errors import error
from snug.tensor._basic import patternbroadcast
from snug.tensor._helpers import values_eq_approx


class _Methods:
    def dtype_specs(self):
        """The NumPy class of the dtype, its name in C, and NumPy's number of it, by name."""
        return (self.numpy_dtype.type, f"npy_{self.dtype}", f"NPY_{self.dtype.upper()}")

    def filter_inplace(self, value, storage, strict=False, allow_downcast=None):
        """The value as `filter` gives it, written to `storage` where it fits."""
        data = self.filter(value, strict, allow_downcast)
        fits = isinstance(storage, np.ndarray) and storage.dtype == data.dtype
        if not fits or storage.shape != data.shape:
            return data
        storage[...] = data
        return storage

    def filter_variable(self, other, allow_convert=True):
        """`other` as an expression of this type."""
        if not isinstance(other, _core.Variable):
            return _core.constant(self.filter(other), "", None)
        if other.type == self:
            return other
        converted = self.convert_variable(other) if allow_convert else None
        if converted is None:
            raise error(TypeError, f"filter_variable: {other} is {other.type}, not {self}")
        return converted

    def is_super(self, otype):
        """Whether every value of the other type is one of this type."""
        return (
            isinstance(otype, TensorType)
            and otype.dtype == self.dtype
            and otype.ndim == self.ndim
            and all(
                o or not s for s, o in zip(self.broadcastable, otype.broadcastable, strict=True)
            )
        )

    def convert_variable(self, var):
        """The variable with this type, or None if its type has other values."""
        if var.type == self:
            return var
        if not self.is_super(var.type):
            return None
        return patternbroadcast(var, self.broadcastable)

    def make_constant(self, value, name=None):
        """A constant of this type."""
        return _core.constant(self.filter(value), name or "", None)

    def value_zeros(self, shape):
        """An array of zeros of this dtype."""
        return np.zeros(shape, self.numpy_dtype)

    def values_eq(self, a, b, force_same_dtype=True):
        """Equal arrays; nan equals nan."""
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or (force_same_dtype and a.dtype != b.dtype):
            return False
        equal = a == b
        if a.dtype.kind in "fc" and b.dtype.kind in "fc":
            equal = equal | (np.isnan(a) & np.isnan(b))
        return bool(np.all(equal))

    def values_eq_approx(
        self, a, b, allow_remove_inf=False, allow_remove_nan=False, rtol=None, atol=None
    ):
        """Equal but for rounding; integers exactly."""
        return values_eq_approx(a, b, allow_remove_inf, allow_remove_nan, rtol, atol)

    @staticmethod
    def may_share_memory(a, b):
        """Whether two arrays may overlap."""
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.may_share_memory(a, b)


attach(TensorType, _Methods)
