"""More functions over tensors."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._config import config
from snug._core import compress, cumprod, cumsum, searchsorted, squeeze
from snug._errors import error
from snug._op_class import OpClass, Table, make_classes

__all__ = [
    "Unique",
    "bartlett",
    "bincount",
    "compress",
    "cpu_contiguous",
    "cumprod",
    "cumsum",
    "diff",
    "fill_diagonal",
    "fill_diagonal_offset",
    "ravel_multi_index",
    "repeat",
    "searchsorted",
    "squeeze",
    "to_one_hot",
    "unique",
    "unravel_index",
]


def diff(x: Any, n: int = 1, axis: int = -1) -> _core.Variable:
    """Differences of neighbours along an axis, n times."""
    return _core.diff(x, n, axis)


def bincount(
    x: Any, weights: Any = None, minlength: Any = None, assert_nonneg: bool = False
) -> _core.Variable:
    """How often 0, 1, ... occur in a vector of integers; with weights, their sums. A negative one
    is an error at the call, whatever `assert_nonneg` says."""
    return _core.bincount(x, weights, minlength)


def repeat(x: Any, repeats: Any, axis: int | None = None) -> _core.Variable:
    """Each element several times along an axis: a number, or a vector of one per element."""
    return _core.repeat(x, repeats, axis)


def bartlett(M: Any) -> _core.Variable:
    """The triangular window of M points that starts and ends with 0."""
    return _core.bartlett(M, config.floatX)


def fill_diagonal(a: Any, val: Any) -> _core.Variable:
    """a with a number on its main diagonal."""
    return _core.fill_diagonal(a, val)


def fill_diagonal_offset(a: Any, val: Any, offset: Any) -> _core.Variable:
    """The matrix a with a number on a diagonal; those with a positive offset are to the right."""
    return _core.fill_diagonal_offset(a, val, offset)


def to_one_hot(y: Any, nb_class: Any, dtype: Any = None) -> _core.Variable:
    """One row per element of the integer vector y, with 1 in column y[i] and 0 elsewhere."""
    y = _core.as_tensor(y, "to_one_hot")
    if y.ndim != 1:
        raise error(ValueError, f"to_one_hot: expected a vector, got {y.ndim} dimensions")
    return _core.one_hot(y, nb_class, config.floatX if dtype is None else dtype)


def unique(
    x: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """The different elements of x in ascending order. On request also the first place of each in
    x, the place of each element of x among them, and how often each occurs."""
    values, *extra = _core.unique(x)
    wanted = (return_index, return_inverse, return_counts)
    chosen = [part for part, want in zip(extra, wanted) if want]
    return [values, *chosen] if chosen else values


class Unique(OpClass):
    """`Unique(...)(x)` is `unique(x, ...)`."""

    __props__ = ("return_index", "return_inverse", "return_counts", "axis")

    def __init__(
        self,
        return_index: bool = False,
        return_inverse: bool = False,
        return_counts: bool = False,
        axis: int | None = None,
    ) -> None:
        if axis is not None:
            raise error(
                NotImplementedError,
                "Unique: it works on all elements, not along an axis",
                "leave axis out",
            )
        self.return_index = return_index
        self.return_inverse = return_inverse
        self.return_counts = return_counts
        self.axis = axis

    def build(self, x: Any) -> Any:
        return unique(x, self.return_index, self.return_inverse, self.return_counts)


def _sizes(dims: Any, ndim: int | None = None) -> Any:
    """A shape of known length: a vector of unknown length needs the number of dimensions."""
    if isinstance(dims, _core.Variable) and dims.ndim == 1 and ndim is not None:
        return [dims[i] for i in range(ndim)]
    return dims


def unravel_index(
    indices: Any, dims: Any, order: str = "C", ndim: int | None = None
) -> tuple[_core.Variable, ...]:
    """The index on each axis of the elements with these numbers in an array of shape dims."""
    return tuple(_core.unravel_index(indices, _sizes(dims, ndim), order))


def ravel_multi_index(
    multi_index: Any, dims: Any, mode: str = "raise", order: str = "C"
) -> _core.Variable:
    """The numbers of the elements at an index: one array per axis."""
    parts = list(multi_index)
    return _core.ravel_multi_index(parts, _sizes(dims, len(parts)), mode, order)


def cpu_contiguous(x: Any) -> _core.Variable:
    """x: where values lie in memory is the compiler's affair."""
    return _core.identity(x)


# ---- Theano's op classes: see `snug._op_class`


def _cumulated(op: Any, x: Any) -> Any:
    if op.mode not in ("add", "mul"):
        raise error(ValueError, f"CumOp: mode is {op.mode!r}", "choose 'add' or 'mul'")
    return cumsum(x, op.axis) if op.mode == "add" else cumprod(x, op.axis)


_TABLE: Table = {
    "Bartlett": ([], {}, lambda op, M: bartlett(M), "A triangular window."),
    "CpuContiguous": ([], {}, lambda op, x: cpu_contiguous(x), "x."),
    "CumOp": (
        ["cumprod", "cumsum"],
        {"axis": None, "mode": "add"},
        _cumulated,
        "Running sums or products.",
    ),
    "CumprodOp": (["cumprod"], {"axis": None}, lambda op, x: cumprod(x, op.axis), "Products."),
    "CumsumOp": (["cumsum"], {"axis": None}, lambda op, x: cumsum(x, op.axis), "Sums."),
    "DiffOp": (
        [],
        {"n": 1, "axis": -1},
        lambda op, x: diff(x, op.n, op.axis),
        "Differences of neighbours.",
    ),
    "FillDiagonal": ([], {}, lambda op, a, val: fill_diagonal(a, val), "A number on the diagonal."),
    "FillDiagonalOffset": (
        [],
        {},
        lambda op, a, val, offset: fill_diagonal_offset(a, val, offset),
        "A number on a diagonal.",
    ),
    "RavelMultiIndex": (
        [],
        {"mode": "raise", "order": "C"},
        lambda op, *parts: ravel_multi_index(parts[:-1], parts[-1], op.mode, op.order),
        "The numbers of the elements at an index; the last input is the shape.",
    ),
    "RepeatOp": (
        [],
        {"axis": None},
        lambda op, x, repeats: repeat(x, repeats, op.axis),
        "Each element several times.",
    ),
    "SearchsortedOp": (
        ["searchsorted"],
        {"side": "left"},
        lambda op, x, v, sorter=None: searchsorted(x, v, op.side, sorter),
        "Places in a sorted vector.",
    ),
    "UnravelIndex": (
        [],
        {"order": "C", "ndim": None},
        lambda op, indices, dims: list(unravel_index(indices, dims, op.order, op.ndim)),
        "The index on each axis of the elements with these numbers.",
    ),
}
_classes = make_classes(_TABLE, __name__)
globals().update(_classes)
bartlett_ = _classes["Bartlett"]()
fill_diagonal_ = _classes["FillDiagonal"]()
fill_diagonal_offset_ = _classes["FillDiagonalOffset"]()
__all__ += [*_classes, "bartlett_", "fill_diagonal_", "fill_diagonal_offset_"]
