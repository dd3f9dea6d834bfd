"""Theano's module of this name: the products of BLAS as expressions. Which library does them, and
in which storage, is decided when a function is made."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug.tensor._basic import batched_dot, dot, outer

__all__ = [
    "batched_dot",
    "gemm",
    "gemm_inplace",
    "gemm_no_inplace",
    "gemv",
    "gemv_inplace",
    "gemv_no_inplace",
    "ger",
    "ger_destructive",
]


def gemm(z: Any, a: Any, x: Any, y: Any, b: Any) -> _core.Variable:
    """b * z + a * dot(x, y)"""
    return _core.as_tensor(z, "gemm") * b + dot(x, y) * a


def gemv(y: Any, alpha: Any, a: Any, x: Any, beta: Any) -> _core.Variable:
    """beta * y + alpha * dot(a, x) of a matrix a and a vector x"""
    return gemm(y, alpha, a, x, beta)


def ger(a: Any, alpha: Any, x: Any, y: Any) -> _core.Variable:
    """a + alpha * outer(x, y)"""
    return _core.as_tensor(a, "ger") + outer(x, y) * alpha


gemm_inplace = gemm_no_inplace = gemm
gemv_inplace = gemv_no_inplace = gemv
ger_destructive = ger
