"""Names of dtypes, tuples of types, and tolerances of comparisons, as Theano has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from snug import _core

__all__ = [
    "Tensor",
    "all_dtypes",
    "complex_dtypes",
    "complex_matrix_types",
    "complex_scalar_types",
    "complex_types",
    "complex_vector_types",
    "continuous_dtypes",
    "discrete_dtypes",
    "float16_atol",
    "float16_rtol",
    "float32_atol",
    "float32_rtol",
    "float64_atol",
    "float64_rtol",
    "float_dtypes",
    "float_matrix_types",
    "float_scalar_types",
    "float_types",
    "float_vector_types",
    "int_dtypes",
    "int_matrix_types",
    "int_scalar_types",
    "int_types",
    "int_vector_types",
    "integer_dtypes",
    "uint_dtypes",
]

int_dtypes = ["int8", "int16", "int32", "int64"]
uint_dtypes = ["uint8", "uint16", "uint32", "uint64"]
integer_dtypes = int_dtypes + uint_dtypes
float_dtypes = ["float16", "float32", "float64"]
complex_dtypes = ["complex64", "complex128"]
discrete_dtypes = ["bool", *integer_dtypes]
continuous_dtypes = float_dtypes + complex_dtypes
all_dtypes = discrete_dtypes + continuous_dtypes


def _types(dtypes: Sequence[str], ndim: int) -> tuple[Any, ...]:
    return tuple(_core.TensorType(dtype, (False,) * ndim) for dtype in dtypes)


int_types = int_scalar_types = _types(int_dtypes, 0)
int_vector_types = _types(int_dtypes, 1)
int_matrix_types = _types(int_dtypes, 2)
# float16 is not among them in Theano either: these are the types of its C functions.
float_types = float_scalar_types = _types(["float32", "float64"], 0)
float_vector_types = _types(["float32", "float64"], 1)
float_matrix_types = _types(["float32", "float64"], 2)
complex_types = complex_scalar_types = _types(complex_dtypes, 0)
complex_vector_types = _types(complex_dtypes, 1)
complex_matrix_types = _types(complex_dtypes, 2)
Tensor = _core.TensorType

# Tolerances of comparisons of values of these dtypes.
float16_atol = float16_rtol = 1e-3
float32_atol = float32_rtol = 1e-5
float64_atol, float64_rtol = 1e-8, 1e-5
