"""Functions that arrange, pick, join and make tensors, with Theano's and NumPy's arguments."""

# Functions that need no more than the core has are imported to be passed on.
# ruff: noqa: F401

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from snug import _core
from snug._config import config
from snug._core import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_arrays,
    column_stack,
    compress,
    count_nonzero,
    cross,
    dstack,
    flatnonzero,
    flip,
    hstack,
    inner,
    inverse_permutation,
    median,
    nonzero_values,
    one_hot,
    outer,
    put_along_axis,
    searchsorted,
    squeeze,
    take_along_axis,
    vdot,
    vstack,
)
from snug._errors import error
from snug.tensor._basic import _axis_list, _integer, _normal_axis, _summed_axes

# ---- axes


def moveaxis(a: Any, source: Any, destination: Any) -> _core.Variable:
    """a with axes at other places; the others keep their order."""
    return _core.moveaxis(a, _axis_list(source), _axis_list(destination))


def rollaxis(a: Any, axis: int, start: int = 0) -> _core.Variable:
    """a with an axis moved to stand before another one."""
    a = _core.as_tensor(a, "rollaxis")
    axis = _normal_axis("rollaxis", axis, a.ndim)
    start = _integer("rollaxis: start", start)
    start = start + a.ndim if start < 0 else start
    return _core.moveaxis(a, [axis], [start - 1 if axis < start else start])


# ---- parts


def flipud(x: Any) -> _core.Variable:
    """x with its rows in reversed order."""
    return flip(x, 0)


def fliplr(x: Any) -> _core.Variable:
    """x with its columns in reversed order."""
    return flip(x, 1)


def rot90(x: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> _core.Variable:
    """k quarter turns in the plane of two axes."""
    if not isinstance(axes, (list, tuple)) or len(axes) != 2:
        raise error(TypeError, f"rot90: axes must be two axes, got {axes!r}")
    return _core.rot90(x, k, *axes)


def roll(x: Any, shift: Any, axis: Any = None) -> _core.Variable:
    """The elements moved on along an axis; those beyond the end come in at the start. Several axes
    have one shift for all, or one each."""
    if not isinstance(axis, (list, tuple)) and not isinstance(shift, (list, tuple)):
        return _core.roll(x, shift, axis)
    axes = _axis_list(axis)
    shifts = list(shift) if isinstance(shift, (list, tuple)) else [shift] * len(axes)
    axes = axes * len(shifts) if len(axes) == 1 else axes
    if len(shifts) != len(axes):
        raise error(ValueError, f"roll: {len(shifts)} shifts for {len(axes)} axes")
    result = _core.as_tensor(x, "roll")
    for one_shift, one_axis in zip(shifts, axes, strict=True):
        result = _core.roll(result, one_shift, one_axis)
    return result


def split(x: Any, splits_size: Any, n_splits: int, axis: int = 0) -> list[_core.Variable]:
    """n_splits parts of the given sizes along an axis."""
    if isinstance(splits_size, (list, tuple)):
        if len(splits_size) != n_splits:
            raise error(ValueError, f"split: {len(splits_size)} sizes for {n_splits} parts")
        sizes = list(splits_size)
    else:
        vector = _core.as_tensor(splits_size, "split")
        if vector.ndim != 1:
            raise error(TypeError, f"split: the sizes are a vector, got {vector.ndim} dimensions")
        sizes = [vector[i] for i in range(n_splits)]
    return list(_core.split(x, sizes, axis))


def tile(x: Any, reps: Any, ndim: int | None = None) -> _core.Variable:
    """x repeated along each axis: reps[i] times. `ndim` is the number of dimensions of the result;
    it is needed if reps is a vector."""
    x = _core.as_tensor(x, "tile")
    if not isinstance(reps, (list, tuple)):
        vector = _core.as_tensor(reps, "tile")
        length = vector.type.shape[0] if vector.ndim == 1 else None
        if vector.ndim == 0:
            reps = [reps]
        elif vector.ndim > 1:
            raise error(ValueError, f"tile: reps has {vector.ndim} dimensions, it is a vector")
        elif length is not None:
            reps = [vector[i] for i in range(length)]
        elif ndim is None:
            raise error(
                ValueError,
                "tile: reps is a vector of unknown length",
                "give the number of dimensions of the result: tile(x, reps, ndim=2)",
            )
        else:  # aligned at the last axis; what is missing in front is 1
            first = ndim - vector.shape[0]
            last = vector.shape[0] - 1
            reps = [
                _core.switch(
                    _core.lt(i, first),
                    1,
                    vector[_core.clip(i - first, 0, last)],
                )
                for i in range(ndim)
            ]
    reps = list(reps)
    if ndim is not None:
        if ndim < builtins.max(x.ndim, len(reps)):
            raise error(
                ValueError,
                f"tile: ndim is {ndim}, but x has {x.ndim} dimensions and reps {len(reps)} entries",
            )
        reps = [1] * (ndim - len(reps)) + reps
    return _core.tile(x, reps)


def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> _core.Variable:
    """x with more elements around it: pad_width is a number, a pair (before, after) or a pair per
    axis. mode: "constant", "edge", "reflect", "symmetric" or "wrap", as NumPy has them."""
    x = _core.as_tensor(x, "pad")
    if isinstance(pad_width, np.ndarray):
        pad_width = pad_width.tolist()
    widths = pad_width if isinstance(pad_width, (list, tuple)) else [pad_width]
    per_axis = bool(widths) and isinstance(widths[0], (list, tuple))
    entries = list(widths) if per_axis else [widths]
    if not builtins.all(isinstance(e, (list, tuple)) and len(e) in (1, 2) for e in entries):
        raise error(
            ValueError,
            f"pad: pad_width is {pad_width!r}",
            "write a number, a pair (before, after), or a pair per axis: [(1, 1), (0, 2)]",
        )
    pairs = [(e[0], e[-1]) for e in entries] * (x.ndim if len(entries) == 1 else 1)
    return _core.pad(x, [width for pair in pairs for width in pair], mode, constant_values)


def ediff1d(x: Any, to_end: Any = None, to_begin: Any = None) -> _core.Variable:
    """Differences of neighbours in C order, with more elements at the ends."""
    middle = _core.diff(_core.flatten(x), 1, 0)
    ends = [
        e if e is None else _core.flatten(_core.cast(e, middle.dtype)) for e in (to_begin, to_end)
    ]
    parts = [part for part in (ends[0], middle, ends[1]) if part is not None]
    return _core.concatenate(parts, 0)


# ---- picking


def take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> _core.Variable:
    """The elements of a at these places along an axis; without one, in C order. mode "clip" and
    "wrap" take places outside; "raise" counts negative ones from the end."""
    return _core.take(a, indices, axis, mode)


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> _core.Variable:
    """Element by element the value of the choice that a names: of a list, or of the first axis of a
    tensor. mode as in take, but "raise" refuses negative ones."""
    if out is not None:
        raise error(ValueError, "choose: results are new tensors, out must be None")
    return _core.choose(a, choices, mode)


def nonzero(a: Any, return_matrix: bool = False) -> Any:
    """The places of the elements that are not 0: one vector per axis, or the rows of a matrix."""
    places = _core.nonzero(a)
    return _core.stack(list(places), 0) if return_matrix else places


def where(condition: Any, *branches: Any) -> Any:
    """The first branch where the condition is not 0, else the second; of a condition alone the
    places where it is not 0."""
    if not branches:
        return _core.nonzero(condition)
    if len(branches) != 2:
        raise error(TypeError, "where: expected a condition, or a condition and two branches")
    return _core.switch(condition, *branches)


def argwhere(a: Any) -> _core.Variable:
    """The places of the elements that are not 0, one per row."""
    return _core.transpose(nonzero(a, return_matrix=True))


def extract(condition: Any, a: Any) -> _core.Variable:
    """The elements where the condition is not 0, in C order."""
    return _core.compress(_core.flatten(condition), a)


def diag(v: Any, k: int = 0) -> _core.Variable:
    """The matrix with a vector on its k-th diagonal, or that diagonal of a matrix."""
    return _core.diag(v, k)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> _core.Variable:
    """The diagonal of two axes, as the last axis."""
    return _core.diagonal(a, offset, axis1, axis2)


def permute_row_elements(x: Any, y: Any, inverse: Any = 0) -> _core.Variable:
    """The elements of each row of x in the order of the same row of y, or back."""
    return _core.permute_row_elements(x, y, bool(inverse))


# ---- making


def full(shape: Any, fill_value: Any, dtype: Any = None) -> _core.Variable:
    """A value in a shape."""
    value = _core.as_tensor(fill_value, "full")
    return _core.broadcast_to(value if dtype is None else _core.cast(value, dtype), shape)


def full_like(a: Any, fill_value: Any, dtype: Any = None) -> _core.Variable:
    """A value in the shape of a."""
    a = _core.as_tensor(a, "full_like")
    value = _core.cast(fill_value, a.dtype if dtype is None else dtype)
    return _core.broadcast_to(value, _core.shape(a)) if a.ndim else value


def empty(shape: Any, dtype: Any = None) -> _core.Variable:
    """Zeros in a shape: there are no values that nobody has set."""
    dtype = config.floatX if dtype is None else dtype
    return _core.broadcast_to(_core.constant(0, "", dtype), shape)


def tri(N: Any, M: Any = None, k: int = 0, dtype: Any = None) -> _core.Variable:
    """1 on and below diagonal k of an N by M matrix, 0 above."""
    return _core.tri(N, N if M is None else M, k, config.floatX if dtype is None else dtype)


def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None
) -> _core.Variable:
    """num numbers from start to stop, evenly spaced."""
    return _core.linspace(start, stop, num, endpoint, dtype)


def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: Any = None,
) -> _core.Variable:
    """num numbers from base**start to base**stop, with evenly spaced logarithms."""
    return _core.logspace(start, stop, num, endpoint, base, dtype)


def meshgrid(*xi: Any, indexing: str = "xy", sparse: bool = False) -> list[_core.Variable]:
    """The coordinates of a grid: one tensor per vector."""
    return list(_core.meshgrid(list(xi), indexing, sparse))


class _Grid:
    """`mgrid[0:3, 0:4]`: the coordinates of a grid, one tensor per slice; those of `ogrid` stretch
    along the other axes."""

    def __init__(self, sparse: bool) -> None:
        self.sparse = sparse

    def __getitem__(self, slices: Any) -> Any:
        several = isinstance(slices, tuple)
        ranges = [self._range(s) for s in (slices if several else (slices,))]
        grid = list(_core.meshgrid(ranges, "ij", self.sparse))
        return grid if several else grid[0]

    @staticmethod
    def _range(s: Any) -> _core.Variable:
        if not isinstance(s, slice) or s.stop is None:
            raise error(TypeError, f"mgrid: expected slices with a stop, got {s!r}")
        start = 0 if s.start is None else s.start
        if isinstance(s.step, complex):
            return linspace(start, s.stop, int(builtins.abs(s.step)))
        return _core.arange(start, s.stop, 1 if s.step is None else s.step, None)


mgrid = _Grid(sparse=False)
ogrid = _Grid(sparse=True)


# ---- products


def einsum(subscripts: str, *operands: Any) -> _core.Variable:
    """NumPy's einsum: "ij,jk->ik", repeated letters, "..." for the axes left over."""
    if not isinstance(subscripts, str):
        raise error(
            TypeError,
            f"einsum: the first argument is a text such as 'ij,jk->ik', got {subscripts!r}",
        )
    return _core.einsum(subscripts, list(operands))


def batched_tensordot(x: Any, y: Any, axes: Any = 2) -> _core.Variable:
    """For each element of the first axis of both, the product summed over pairs of axes: the last
    ones of x and the first of y, or two lists of axes."""
    x, y = _core.as_tensor(x, "batched_tensordot"), _core.as_tensor(y, "batched_tensordot")
    return _core.batched_tensordot(x, y, *_summed_axes("batched_tensordot", axes, x, y, first=1))


__all__ = [
    name
    for name in list(globals())
    if not name.startswith("_")
    and name not in ("annotations", "builtins", "Any", "np", "config", "error")
]
