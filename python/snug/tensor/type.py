"""Theano's module of this name: tensor types, and comparisons of their values."""

from __future__ import annotations

from typing import Any

import numpy as np

from snug._core import TensorType
from snug.tensor import _helpers
from snug.tensor._helpers import values_eq_approx_always_true

__all__ = [
    "TensorType",
    "values_eq_approx",
    "values_eq_approx_always_true",
    "values_eq_approx_remove_inf",
    "values_eq_approx_remove_inf_nan",
    "values_eq_approx_remove_nan",
]


def values_eq_approx(
    a: Any,
    b: Any,
    allow_remove_inf: bool = False,
    allow_remove_nan: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
) -> bool:
    """Whether two arrays have one dtype and shape and, as floats, nearly the same elements; where
    the first is infinite or NaN, not compared if that is allowed."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    width = a.dtype.itemsize * 8 // (2 if a.dtype.kind == "c" else 1)
    rtol = getattr(_helpers, f"float{width}_rtol") if rtol is None else rtol
    atol = getattr(_helpers, f"float{width}_atol") if atol is None else atol
    near = np.isclose(a, b, rtol, atol, equal_nan=True)
    if allow_remove_inf:
        near |= np.isinf(a)
    if allow_remove_nan:
        near |= np.isnan(a)
    return bool(near.all())


def values_eq_approx_remove_inf(a: Any, b: Any) -> bool:
    """values_eq_approx where the first array is not infinite."""
    return values_eq_approx(a, b, True)


def values_eq_approx_remove_nan(a: Any, b: Any) -> bool:
    """values_eq_approx where the first array is not NaN."""
    return values_eq_approx(a, b, False, True)


def values_eq_approx_remove_inf_nan(a: Any, b: Any) -> bool:
    """values_eq_approx where the first array is finite."""
    return values_eq_approx(a, b, True, True)
