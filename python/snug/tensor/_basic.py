"""The functions of `snug.tensor`, with Theano's names and arguments."""

# Functions that need no more than the op itself are imported to be passed on.
# ruff: noqa: F401

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from snug import _core
from snug._config import config
from snug._core import abs as abs_
from snug._core import acos as arccos
from snug._core import acosh as arccosh
from snug._core import (
    argmax as _argmax,
)
from snug._core import asin as arcsin
from snug._core import asinh as arcsinh
from snug._core import atan as arctan
from snug._core import atan2 as arctan2
from snug._core import atanh as arctanh
from snug._core import (
    batched_dot,
    broadcast_to,
    ceil,
    clip,
    cos,
    cosh,
    dot,
    eq,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    floor,
    floor_div,
    ge,
    gt,
    isinf,
    isnan,
    le,
    log,
    log1p,
    log2,
    log10,
    lt,
    maximum,
    minimum,
    mod,
    neg,
    ones_like,
    pow,
    shape_i,
    sigmoid,
    sin,
    sinh,
    softplus,
    specify_shape,
    sqr,
    sqrt,
    stop_gradient,
    sub,
    swapaxes,
    switch,
    tan,
    tanh,
    tril,
    triu,
    trunc,
    upcast,
    zeros_like,
)
from snug._core import (
    cast as _cast,
)
from snug._core import div as true_div
from snug._core import (
    inc_subtensor as _inc_subtensor,
)
from snug._core import ne as neq
from snug._core import (
    set_subtensor as _set_subtensor,
)
from snug._core import sign as sgn
from snug._errors import error


def _of_many(row: str, name: str) -> Any:
    """The function of a row of two operands, for any number of them, from the left."""
    pair = getattr(_core, row)

    def fold(a: Any, *more: Any) -> _core.Variable:
        result = _core.as_tensor(a, name)
        for b in more:
            result = pair(result, b)
        return result

    fold.__name__ = fold.__qualname__ = name
    fold.__doc__ = _core.op_docs()[row]
    return fold


add, mul = _of_many("add", "add"), _of_many("mul", "mul")
and_, or_, xor = _of_many("bit_and", "and_"), _of_many("bit_or", "or_"), _of_many("bit_xor", "xor")
square = sqr
bitwise_and, bitwise_or, bitwise_xor = and_, or_, xor
invert = bitwise_not = _core.invert
left_shift, right_shift = _core.shl, _core.shr
newaxis = None
shape = _core.shape


def _integer(what: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise error(TypeError, f"{what} must be an integer, got {value!r}") from None


def _normal_axis(what: str, axis: Any, ndim: int) -> int:
    """An axis counted from the front."""
    axis = _integer(f"{what}: axis", axis)
    if not -ndim <= axis < ndim:
        raise error(ValueError, f"{what}: there is no axis {axis} in {ndim} dimensions")
    return axis % ndim


def _axis_list(axis: Any) -> list[int]:
    several = isinstance(axis, (list, tuple, range)) or (isinstance(axis, np.ndarray) and axis.ndim)
    return list(axis) if several else [axis]


def _summed_axes(what: str, axes: Any, a: Any, b: Any, first: int) -> tuple[list[int], list[int]]:
    """The axes of a product of a and b: the last ones of a and those of b from `first` on, if
    `axes` is a number, else two lists."""
    if isinstance(axes, (int, np.integer)):
        if not 0 <= axes <= builtins.min(a.ndim, b.ndim) - first:
            raise error(
                ValueError,
                f"{what}: axes is {axes}, but the tensors have {a.ndim} and {b.ndim} dimensions",
                f"at most {builtins.max(0, builtins.min(a.ndim, b.ndim) - first)} are summed over",
            )
        return list(range(a.ndim - axes, a.ndim)), list(range(first, first + axes))
    if not isinstance(axes, (list, tuple, np.ndarray)) or len(axes) != 2:
        raise error(
            TypeError,
            f"{what}: axes must be a number or two lists of axes, got {axes!r}",
            "write axes=1, or axes=[[1], [0]]: axes of the first and of the second tensor",
        )
    return _axis_list(axes[0]), _axis_list(axes[1])


# ---- constants and conversions


def constant(
    x: Any, name: str | None = None, ndim: int | None = None, dtype: Any = None
) -> _core.TensorConstant:
    """A constant. Without `dtype` Python numbers take the smallest type that holds them (int8,
    int16, ...; floats: config.floatX)."""
    if isinstance(x, _core.Variable):
        raise error(TypeError, f"constant: {x} is a variable, not a value")
    result = _core.constant(x, name or "", dtype)
    if ndim is not None and result.ndim != ndim:
        if result.ndim > ndim:
            raise error(ValueError, f"constant: the value has {result.ndim} dimensions, not {ndim}")
        data = result.data.reshape((1,) * (ndim - result.ndim) + result.data.shape)
        result = _core.constant(data, name or "", None)
    return result


def as_tensor_variable(x: Any, name: str | None = None, ndim: int | None = None) -> _core.Variable:
    """x as a variable: variables as they are, numbers and arrays as constants, lists with
    variables in them stacked."""
    result = _core.as_tensor(x, "as_tensor_variable")
    ndim = None if ndim is None else _integer("as_tensor_variable: ndim", ndim)
    if ndim is not None and result.ndim != ndim:
        if result.ndim > ndim:
            extra = result.ndim - ndim
            if not builtins.all(result.broadcastable[:extra]):
                raise error(
                    ValueError, f"as_tensor_variable: {result.ndim} dimensions do not become {ndim}"
                )
            result = result.dimshuffle(*range(extra, result.ndim))
        else:
            result = shape_padleft(result, ndim - result.ndim)
    if name is not None and result is not x:
        result.name = name
    return result


as_tensor = as_tensor_variable


def cast(x: Any, dtype: Any) -> _core.Variable:
    """x converted to a dtype, as NumPy's astype."""
    return _cast(x, dtype)


# ---- elementwise


def inv(a: Any) -> _core.Variable:
    """1 / a"""
    return true_div(1.0, a)


reciprocal = inv


def tensor_copy(a: Any) -> _core.Variable:
    """The value of a, as an expression of its own."""
    return _core.identity(a)


def abs(a: Any) -> _core.Variable:
    """The absolute value."""
    return abs_(a)


# ---- reductions


def sum(
    input: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, acc_dtype: Any = None
) -> _core.Variable:
    """The sum over axes (all, one, or a list). Small integers add up in int64, float32 in
    float64 rounded at the end, unless `dtype` and `acc_dtype` say otherwise."""
    return _core.sum(input, axis, keepdims, dtype, acc_dtype)


def prod(
    input: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    acc_dtype: Any = None,
    no_zeros_in_input: bool = False,
) -> _core.Variable:
    """The product over axes."""
    return _core.prod(input, axis, keepdims, dtype, acc_dtype)


def mean(
    input: Any,
    axis: Any = None,
    dtype: Any = None,
    op: bool = False,
    keepdims: bool = False,
    acc_dtype: Any = None,
) -> _core.Variable:
    """The mean over axes; of integers in float64."""
    return _core.mean(input, axis, keepdims, dtype, acc_dtype)


def var(
    input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False, corrected: bool = False
) -> _core.Variable:
    """The variance over axes. `corrected` takes out what the rounding of the mean adds."""
    return _core.var(input, axis, keepdims, ddof, corrected)


def std(
    input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False, corrected: bool = False
) -> _core.Variable:
    """The standard deviation over axes. `corrected` takes out what the rounding of the mean
    adds."""
    return _core.std(input, axis, keepdims, ddof, corrected)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> _core.Variable:
    """The largest element over axes."""
    return _core.max(x, axis, keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> _core.Variable:
    """The smallest element over axes."""
    return _core.min(x, axis, keepdims)


def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> _core.Variable:
    """The first place of the largest element."""
    return _argmax(x, axis, keepdims)


def argmin(x: Any, axis: Any = None, keepdims: bool = False) -> _core.Variable:
    """The first place of the smallest element."""
    return _core.argmin(x, axis, keepdims)


def max_and_argmax(x: Any, axis: Any = None, keepdims: bool = False) -> list[_core.Variable]:
    """The largest element and its place."""
    return [max(x, axis, keepdims), argmax(x, axis, keepdims)]


def any(x: Any, axis: Any = None, keepdims: bool = False) -> _core.Variable:
    """True where any element is not 0."""
    return _core.any(x, axis, keepdims)


def all(x: Any, axis: Any = None, keepdims: bool = False) -> _core.Variable:
    """True where no element is 0."""
    return _core.all(x, axis, keepdims)


# ---- shapes


def reshape(x: Any, newshape: Any, ndim: int | None = None) -> _core.Variable:
    """x in another shape; one size may be -1. `ndim` is needed if newshape is a vector of
    unknown length."""
    if ndim is not None and isinstance(newshape, _core.Variable) and newshape.ndim == 1:
        newshape = [newshape[i] for i in range(ndim)]
    return _core.reshape(x, newshape)


def flatten(x: Any, ndim: int = 1, outdim: int | None = None) -> _core.Variable:
    """Keeps the first ndim - 1 axes and joins the others."""
    return _core.flatten(x, ndim if outdim is None else outdim)


def transpose(x: Any, axes: Sequence[int] | None = None) -> _core.Variable:
    """x with its axes reversed, or in the given order."""
    return _core.transpose(x, axes)


def _ones(what: str, count: Any) -> list[str]:
    """New axes for dimshuffle; more than a few are a mistake, which dimshuffle explains."""
    return ["x"] * builtins.min(_integer(f"{what}: n_ones", count), 100)


def shape_padleft(t: Any, n_ones: int = 1) -> _core.Variable:
    """t with n_ones new broadcastable axes in front."""
    t = _core.as_tensor(t, "shape_padleft")
    return t.dimshuffle(*_ones("shape_padleft", n_ones), *range(t.ndim))


def shape_padright(t: Any, n_ones: int = 1) -> _core.Variable:
    """t with n_ones new broadcastable axes at the end."""
    t = _core.as_tensor(t, "shape_padright")
    return t.dimshuffle(*range(t.ndim), *_ones("shape_padright", n_ones))


def shape_padaxis(t: Any, axis: int) -> _core.Variable:
    """t with one new broadcastable axis at place `axis`."""
    t = _core.as_tensor(t, "shape_padaxis")
    axis = _integer("shape_padaxis: axis", axis)
    if not -t.ndim - 1 <= axis <= t.ndim:
        raise error(IndexError, f"shape_padaxis: axis {axis} is outside {-t.ndim - 1} to {t.ndim}")
    pattern: list[Any] = list(range(t.ndim))
    pattern.insert(axis if axis >= 0 else axis + t.ndim + 1, "x")
    return t.dimshuffle(*pattern)


expand_dims = shape_padaxis


def addbroadcast(x: Any, *axes: int) -> _core.Variable:
    """Says that these axes have size 1 and stretch; checked at the call."""
    return _core.addbroadcast(x, axes)


def unbroadcast(x: Any, *axes: int) -> _core.Variable:
    """Says that these axes do not stretch."""
    return _core.unbroadcast(x, axes)


def patternbroadcast(x: Any, broadcastable: Sequence[bool]) -> _core.Variable:
    """x with the given pattern of stretching axes."""
    x = _core.as_tensor(x, "patternbroadcast")
    if not isinstance(broadcastable, (list, tuple)):
        raise error(
            TypeError,
            f"patternbroadcast: expected a list of bools, got {broadcastable!r}",
            "write patternbroadcast(x, (True, False)): True for the axes that stretch",
        )
    if len(broadcastable) != x.ndim:
        raise error(
            ValueError, f"patternbroadcast: {len(broadcastable)} entries for {x.ndim} dimensions"
        )
    more = [i for i, b in enumerate(broadcastable) if b and not x.broadcastable[i]]
    less = [i for i, b in enumerate(broadcastable) if not b and x.broadcastable[i]]
    if more:
        x = _core.addbroadcast(x, more)
    return _core.unbroadcast(x, less) if less else x


def concatenate(tensor_list: Sequence[Any], axis: int = 0) -> _core.Variable:
    """The tensors one after the other along an axis."""
    if isinstance(tensor_list, _core.Variable):
        raise error(
            TypeError,
            f"concatenate: expected a list of tensors, got the variable {tensor_list}",
            "write concatenate([x, y], axis=0)",
        )
    return _core.concatenate(list(tensor_list), _integer("concatenate: axis", axis))


def join(axis: int, *tensors: Any) -> _core.Variable:
    """concatenate(tensors, axis)"""
    return _core.concatenate(list(tensors), _integer("join: axis", axis))


def stack(*tensors: Any, **kwargs: Any) -> _core.Variable:
    """The tensors side by side on a new axis: stack([a, b], axis=0), or stack(a, b)."""
    axis = kwargs.pop("axis", 0)
    if "tensors" in kwargs:
        tensors = (kwargs.pop("tensors"),)
    if kwargs:
        raise error(TypeError, f"stack: unknown arguments {', '.join(kwargs)}")
    if not tensors:
        raise error(TypeError, "stack: no tensors given")
    if isinstance(tensors[0], (list, tuple)):
        if len(tensors) > 2:
            raise error(TypeError, "stack: expected a list and an axis")
        if len(tensors) == 2:
            axis = tensors[1]
        items = list(tensors[0])
    else:
        items = list(tensors)
    if not items:
        raise error(ValueError, "stack: no tensors given")
    return _core.stack(items, _integer("stack: axis", axis))


def stacklists(arg: Any) -> _core.Variable:
    """Nested lists of tensors as one tensor."""
    if isinstance(arg, (list, tuple)):
        return stack([stacklists(item) for item in arg])
    return _core.as_tensor(arg, "stacklists")


def horizontal_stack(*args: Any) -> _core.Variable:
    """Matrices side by side."""
    return concatenate(args, axis=1)


def vertical_stack(*args: Any) -> _core.Variable:
    """Matrices one below the other."""
    return concatenate(args, axis=0)


# ---- creation


def alloc(value: Any, *shape: Any) -> _core.Variable:
    """value, stretched to a shape."""
    sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return broadcast_to(value, sizes)


def _filled(value: float, shape: Any, dtype: Any) -> _core.Variable:
    dtype = config.floatX if dtype is None else dtype
    return broadcast_to(_core.constant(value, "", dtype), shape)


def zeros(shape: Any, dtype: Any = None) -> _core.Variable:
    """Zeros in a shape."""
    return _filled(0, shape, dtype)


def ones(shape: Any, dtype: Any = None) -> _core.Variable:
    """Ones in a shape."""
    return _filled(1, shape, dtype)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> _core.Variable:
    """The numbers from start (0 if only one is given) to stop, by step."""
    if stop is None:
        start, stop = 0, start
    return _core.arange(start, stop, step, dtype)


def eye(n: Any, m: Any = None, k: int = 0, dtype: Any = None) -> _core.Variable:
    """Ones on the k-th diagonal of an n by m matrix."""
    return _core.eye(n, n if m is None else m, k, config.floatX if dtype is None else dtype)


def identity_like(x: Any) -> _core.Variable:
    """The identity matrix in the shape of x."""
    x = _core.as_tensor(x, "identity_like")
    return eye(x.shape[0], x.shape[1], 0, x.dtype)


# ---- indexing


def set_subtensor(
    x: Any, y: Any, inplace: bool = False, tolerate_inplace_aliasing: bool = False
) -> _core.Variable:
    """The tensor that x is a part of, with that part replaced: set_subtensor(a[2:4], y)."""
    return _set_subtensor(x, y)


def inc_subtensor(
    x: Any,
    y: Any,
    inplace: bool = False,
    set_instead_of_inc: bool = False,
    tolerate_inplace_aliasing: bool = False,
) -> _core.Variable:
    """The tensor that x is a part of, with y added to that part; repeated indices add up."""
    return _set_subtensor(x, y) if set_instead_of_inc else _inc_subtensor(x, y)


# ---- linear algebra


def tensordot(a: Any, b: Any, axes: Any = 2) -> _core.Variable:
    """The product summed over pairs of axes: a number of them, or two lists."""
    a, b = _core.as_tensor(a, "tensordot"), _core.as_tensor(b, "tensordot")
    return _core.tensordot(a, b, *_summed_axes("tensordot", axes, a, b, first=0))


__all__ = [
    name
    for name, value in list(globals().items())
    if not name.startswith("_")
    and name
    not in ("annotations", "builtins", "operator", "Sequence", "Any", "np", "config", "error")
]
