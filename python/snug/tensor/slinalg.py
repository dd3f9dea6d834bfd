"""Factorisations and linear systems."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._errors import error

__all__ = ["cholesky", "solve", "solve_lower_triangular", "solve_upper_triangular"]


def cholesky(x: Any, lower: bool = True) -> _core.Variable:
    """L with dot(L, L.T) = x, or with lower=False U with dot(U.T, U) = x. A call raises
    numpy.linalg.LinAlgError if x is not positive definite."""
    return _core.cholesky(x, lower)


def solve(
    a: Any, b: Any, assume_a: str = "gen", lower: bool = False, trans: bool = False
) -> _core.Variable:
    """The x with dot(a, x) = b. assume_a: "gen", "pos" (positive definite), "lower" or "upper"
    (triangular)."""
    kinds = {
        "gen": "general",
        "general": "general",
        "pos": "positive",
        "positive": "positive",
        "lower": "lower",
        "upper": "upper",
    }
    if assume_a not in kinds:
        raise error(
            ValueError,
            f"solve: assume_a is {assume_a!r}",
            "choose 'gen', 'pos', 'lower' or 'upper'",
        )
    return _core.solve(a, b, kinds[assume_a], trans)


def solve_lower_triangular(a: Any, b: Any, trans: bool = False) -> _core.Variable:
    """The x with dot(a, x) = b for a lower triangular a."""
    return _core.solve(a, b, "lower", trans)


def solve_upper_triangular(a: Any, b: Any, trans: bool = False) -> _core.Variable:
    """The x with dot(a, x) = b for an upper triangular a."""
    return _core.solve(a, b, "upper", trans)
