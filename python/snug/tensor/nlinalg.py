"""Matrix functions, with the names Theano takes from numpy.linalg."""

from __future__ import annotations

from functools import reduce
from typing import Any

from snug import _core
from snug._errors import error
from snug._op_class import REQUIRED, Table, make_classes

__all__ = [
    "alloc_diag",
    "complex_eig",
    "det",
    "diag",
    "eig",
    "eigh",
    "extract_diag",
    "inv",
    "lstsq",
    "matrix_dot",
    "matrix_inverse",
    "matrix_power",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "svd",
    "tensorinv",
    "tensorsolve",
    "trace",
]


def matrix_inverse(x: Any) -> _core.Variable:
    """The inverse of a square matrix. To apply it to something, `slinalg.solve` is faster and
    exacter. A call raises numpy.linalg.LinAlgError if x is singular."""
    return _core.inverse(x)


inv = matrix_inverse


def pinv(x: Any, rcond: float = 1e-15) -> _core.Variable:
    """The Moore-Penrose inverse. Singular values up to rcond times the largest count as zero."""
    return _core.pinv(x, rcond)


def det(x: Any) -> _core.Variable:
    """The determinant of a square matrix."""
    return _core.det(x)


def slogdet(x: Any) -> tuple[_core.Variable, _core.Variable]:
    """The sign of the determinant and the logarithm of its magnitude."""
    return _core.slogdet(x)


def matrix_dot(*args: Any) -> _core.Variable:
    """The product of several matrices."""
    return reduce(_core.dot, args)


def matrix_power(M: Any, n: int) -> _core.Variable:
    """The n-th power of a square matrix by repeated squaring; negative n: of its inverse."""
    return _core.matrix_power(M, n)


def trace(X: Any) -> _core.Variable:
    """The sum of the diagonal of a matrix."""
    return _core.trace(X)


def qr(a: Any, mode: str = "reduced") -> Any:
    """q with orthonormal columns and an upper triangular r with dot(q, r) = a. mode: "reduced"
    (also "full", its old name) gives min(rows, columns) columns of q, "complete" all of them, "r"
    gives r alone."""
    found = _core.qr(a, mode)
    return found[0] if mode == "r" else found


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """u, s, v with dot(u * s, v) = a, or s alone. Signs of vectors are arbitrary, so vectors have a
    gradient only up to them; those of full_matrices=True beyond min(rows, columns) have none."""
    found = _core.svd(a, bool(full_matrices), bool(compute_uv))
    return found if compute_uv else found[0]


def complex_eig(a: Any) -> tuple[_core.Variable, _core.Variable]:
    """Eigenvalues and eigenvectors (columns, of length 1) of a square matrix, complex."""
    return _core.eig(a)


def eig(a: Any) -> tuple[_core.Variable, _core.Variable]:
    """Eigenvalues and eigenvectors (columns, of length 1) of a square matrix, in its dtype. If they
    are not real, the call is an AssertionError: complex_eig has them."""
    from snug.tensor.opt import Assert

    w, v = _core.eig(a)
    real = _core.all(_core.eq(_core.imag(w), 0))
    check = Assert("eig: the eigenvalues are not real; complex_eig gives them")
    return check(_core.real(w), real), check(_core.real(v), real)


def eigh(a: Any, UPLO: str = "L") -> tuple[_core.Variable, _core.Variable]:
    """Eigenvalues, rising, and eigenvectors (columns) of a symmetric matrix; one triangle of it is
    read."""
    if UPLO not in ("L", "U"):
        raise error(ValueError, f"eigh: UPLO is {UPLO!r}", "choose 'L' or 'U'")
    return _core.eigh(a, UPLO == "L")


def lstsq(x: Any = None, y: Any = None, rcond: float | None = None) -> Any:
    """The b that makes dot(x, b) nearest to y, the sums of the squared differences (empty if x has
    not full column rank or no more rows than columns), the rank of x and its singular values. Those
    up to rcond times the largest count as zero; None: the precision times the larger size.
    `lstsq()(x, y, rcond)` is Theano's form."""
    if x is None:
        return lstsq
    if rcond is not None:
        rcond = float(getattr(rcond, "data", rcond))
    return _core.lstsq(x, y, rcond)


def norm(x: Any, ord: Any = None) -> _core.Variable:
    """The norm of a vector or matrix. ord: None (the root of the sum of squares), "inf" and "-inf"
    or the numbers; for vectors 0 (how many are not 0) and any other number; for matrices "fro",
    "nuc", 1, -1, 2, -2."""
    if ord is None:
        ord = "fro"
    if isinstance(ord, str):
        return _core.norm_named(x, ord)
    return _core.norm_of_order(x, float(ord))


def tensorinv(a: Any, ind: int = 2) -> _core.Variable:
    """The inverse of a as a map from its last dimensions to the first `ind`."""
    return _core.tensorinv(a, ind)


def tensorsolve(a: Any, b: Any, axes: Any = None) -> _core.Variable:
    """The x with tensordot(a, x, x.ndim) = b; `axes` of a are moved behind the others first."""
    return _core.tensorsolve(a, b, list(axes or []))


def extract_diag(x: Any) -> _core.Variable:
    """The diagonal of a matrix."""
    return _core.diagonal(x, 0, 0, 1)


def alloc_diag(x: Any) -> _core.Variable:
    """A matrix with this vector in its diagonal and 0 elsewhere."""
    return _core.alloc_diagonal(x, 0, 0, 1)


def diag(x: Any) -> _core.Variable:
    """The diagonal of a matrix, or a matrix with this vector in its diagonal."""
    return _core.diag(x, 0)


# ---- Theano's op classes: see `snug._op_class`

_TABLE: Table = {
    "AllocDiag": (
        [],
        {},
        lambda op, x: alloc_diag(x),
        "This vector as a diagonal.",
    ),
    "Det": (["det"], {}, lambda op, x: det(x), "The determinant."),
    "Eig": (["eig"], {}, lambda op, x: list(eig(x)), "Eigenvalues and eigenvectors."),
    "Eigh": (
        ["eigh"],
        {"UPLO": "L"},
        lambda op, x: list(eigh(x, op.UPLO)),
        "Eigenvalues and eigenvectors of a symmetric matrix.",
    ),
    "ExtractDiag": (
        [],
        {"view": False},
        lambda op, x: extract_diag(x),
        "The diagonal of a matrix.",
    ),
    "MatrixInverse": (["inverse"], {}, lambda op, x: matrix_inverse(x), "The inverse."),
    "MatrixPinv": (
        [],
        {"rcond": 1e-15},
        lambda op, x: pinv(x, op.rcond),
        "The Moore-Penrose inverse.",
    ),
    "QRFull": (["qr"], {"mode": REQUIRED}, lambda op, x: list(qr(x, op.mode)), "q and r."),
    "QRIncomplete": (["qr_r"], {"mode": REQUIRED}, lambda op, x: qr(x, op.mode), "r alone."),
    "SVD": (
        ["svd", "svdvals"],
        {"full_matrices": True, "compute_uv": True},
        lambda op, x: _listed(svd(x, op.full_matrices, op.compute_uv)),
        "Singular vectors and values, or the values alone.",
    ),
    "TensorInv": ([], {"ind": 2}, lambda op, a: tensorinv(a, op.ind), "The inverse of a map."),
    "TensorSolve": (
        [],
        {"axes": None},
        lambda op, a, b: tensorsolve(a, b, op.axes),
        "The x with tensordot(a, x, x.ndim) = b.",
    ),
}


def _listed(found: Any) -> Any:
    return found if isinstance(found, _core.Variable) else list(found)


_classes = make_classes(_TABLE, __name__)
globals().update(_classes)
__all__ += [*_classes]
