"""Theano's module of this name: `add_inplace` and so on.

Each is the function without the suffix: expressions are pure here, and the plan of a function lets
an op write over its operand wherever nothing reads it later.
"""

from __future__ import annotations

from typing import Any

import snug.tensor as T

_NAMES = [
    "abs_",
    "add",
    "and_",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "ceil",
    "chi2sf",
    "conj",
    "cos",
    "cosh",
    "deg2rad",
    "eq",
    "erf",
    "erfc",
    "erfcx",
    "exp",
    "exp2",
    "expm1",
    "fill",
    "floor",
    "gamma",
    "gammaln",
    "ge",
    "gt",
    "i0",
    "i1",
    "int_div",
    "inv",
    "invert",
    "iv",
    "j0",
    "j1",
    "jv",
    "le",
    "log",
    "log10",
    "log1p",
    "log2",
    "lt",
    "maximum",
    "minimum",
    "mod",
    "mul",
    "neg",
    "neq",
    "or_",
    "pow",
    "psi",
    "rad2deg",
    "round_half_away_from_zero",
    "round_half_to_even",
    "second",
    "sgn",
    "sin",
    "sinh",
    "sqr",
    "sqrt",
    "sub",
    "tan",
    "tanh",
    "transpose",
    "tri_gamma",
    "true_div",
    "trunc",
    "xor",
]
__all__ = [f"{name}_inplace" for name in _NAMES]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(T, name.removesuffix("_inplace"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
