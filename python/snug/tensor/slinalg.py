"""Factorisations and linear systems, with the names Theano takes from SciPy."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._errors import error
from snug._op_class import OpClass, Table, make_classes

__all__ = [
    "Solve",
    "cho_solve",
    "cholesky",
    "eigvalsh",
    "expm",
    "kron",
    "solve",
    "solve_lower_triangular",
    "solve_symmetric",
    "solve_triangular",
    "solve_upper_triangular",
]

MATRIX_STRUCTURES = (
    "general",
    "symmetric",
    "lower_triangular",
    "upper_triangular",
    "hermitian",
    "banded",
    "diagonal",
    "toeplitz",
)


def cholesky(x: Any, lower: bool = True) -> _core.Variable:
    """L with dot(L, L.T) = x, or with lower=False U with dot(U.T, U) = x. A call raises
    numpy.linalg.LinAlgError if x is not positive definite."""
    return _core.cholesky(x, lower)


def solve(a: Any, b: Any, assume_a: str = "gen", trans: bool = False) -> _core.Variable:
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


def cho_solve(c_and_lower: Any, b: Any, check_finite: bool = True) -> _core.Variable:
    """The x with dot(a, x) = b, of the Cholesky factor of a and whether it is the lower one."""
    factor, lower = c_and_lower
    kind = "lower" if lower else "upper"
    return _core.solve(factor, _core.solve(factor, b, kind, not lower), kind, bool(lower))


def solve_triangular(a: Any, b: Any, trans: bool = False, lower: bool = False) -> _core.Variable:
    """The x with dot(a, x) = b (trans: dot(a.T, x) = b) for a triangular a."""
    return _core.solve(a, b, "lower" if lower else "upper", bool(trans))


def solve_lower_triangular(a: Any, b: Any, trans: bool = False) -> _core.Variable:
    """The x with dot(a, x) = b for a lower triangular a."""
    return _core.solve(a, b, "lower", trans)


def solve_upper_triangular(a: Any, b: Any, trans: bool = False) -> _core.Variable:
    """The x with dot(a, x) = b for an upper triangular a."""
    return _core.solve(a, b, "upper", trans)


def solve_symmetric(a: Any, b: Any) -> _core.Variable:
    """The x with dot(a, x) = b for a symmetric a. All of a is read and has a gradient, as in
    Theano; solve(..., assume_a="pos") uses positive definiteness."""
    return _core.solve(a, b, "general", False)


class Solve(OpClass):
    """`Solve(A_structure, lower)(a, b)`: Theano's form of `solve`. Only triangular structures make
    a difference; overwriting is decided by the memory plan."""

    rows = frozenset(["solve"])
    __props__ = ("A_structure", "lower", "overwrite_A", "overwrite_b")

    def __init__(
        self,
        A_structure: str = "general",
        lower: bool = False,
        overwrite_A: bool = False,
        overwrite_b: bool = False,
    ) -> None:
        if A_structure not in MATRIX_STRUCTURES:
            raise error(
                ValueError,
                f"Solve: A_structure is {A_structure!r}",
                f"choose one of {', '.join(map(repr, MATRIX_STRUCTURES))}",
            )
        self.A_structure = A_structure
        self.lower = lower
        self.overwrite_A = overwrite_A
        self.overwrite_b = overwrite_b

    def build(self, A: Any, b: Any) -> _core.Variable:
        kinds = {"lower_triangular": "lower", "upper_triangular": "upper"}
        return _core.solve(A, b, kinds.get(self.A_structure, "general"), False)


def eigvalsh(a: Any, b: Any = None, lower: bool = True) -> _core.Variable:
    """The eigenvalues of a symmetric a, rising; with b the w in dot(a, v) = w * dot(b, v) for a
    positive definite b. One triangle of each is read."""
    if b is None:
        return _core.eigvalsh(a, bool(lower))
    return _core.eigvalsh_of_pair(a, b, bool(lower))


def kron(a: Any, b: Any) -> _core.Variable:
    """The Kronecker product, as scipy.linalg.kron."""
    return _core.kron(a, b)


def expm(A: Any) -> _core.Variable:
    """The matrix exponential of a square matrix."""
    return _core.expm(A)


# ---- Theano's op classes: see `snug._op_class`

_TABLE: Table = {
    "Cholesky": (
        ["cholesky"],
        {"lower": True, "destructive": False, "on_error": "raise"},
        lambda op, x: cholesky(x, op.lower),
        "The Cholesky factor.",
    ),
    "Eigvalsh": (
        ["eigvalsh"],
        {"lower": True},
        lambda op, a, b=None: eigvalsh(a, b, op.lower),
        "The eigenvalues of a symmetric matrix, or of a pair.",
    ),
    "Expm": (["expm"], {}, lambda op, A: expm(A), "The matrix exponential."),
}
_classes = make_classes(_TABLE, __name__)
globals().update(_classes)
__all__ += [*_classes]
