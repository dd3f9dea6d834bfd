"""Theano's module of this name: tensor types, and comparisons of their values."""

from snug._core import TensorType
from snug.tensor._helpers import (
    values_eq_approx,
    values_eq_approx_always_true,
    values_eq_approx_remove_inf,
    values_eq_approx_remove_inf_nan,
    values_eq_approx_remove_nan,
)

__all__ = [
    "TensorType",
    "values_eq_approx",
    "values_eq_approx_always_true",
    "values_eq_approx_remove_inf",
    "values_eq_approx_remove_inf_nan",
    "values_eq_approx_remove_nan",
]
