"""What programs that look into graphs take from Theano's tensor module: constants, tuples of types,
exceptions, and helpers for constants, shapes and indices."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

import snug.tensor as T
from snug import _core
from snug._devices import register_transfer, transfer
from snug._errors import error
from snug.tensor._basic import _normal_axis
from snug.tensor._dtypes import (
    discrete_dtypes,
    float16_atol,
    float16_rtol,
    float32_atol,
    float32_rtol,
    float64_atol,
    float64_rtol,
)
from snug.tensor.var import AsTensorError, TensorConstantSignature

__all__ = [
    "AdvancedBooleanIndexingError",
    "AdvancedIndexingError",
    "AsTensorError",
    "EmptyConstantError",
    "Generic",
    "MethodNotDefined",
    "NoneConst",
    "NoneTypeT",
    "NotScalarConstantError",
    "ShapeError",
    "SliceConstant",
    "SliceType",
    "TensorConstantSignature",
    "alloc_validate_shape",
    "check_and_normalize_axes",
    "check_equal_numpy",
    "constant_cache",
    "constructor",
    "div_proxy",
    "extract_constant",
    "get_scalar_constant_value",
    "get_vector_length",
    "hashtype",
    "is_flat",
    "key_to_cmp",
    "makeKeepDims",
    "mod_check",
    "none_type_t",
    "numpy_diagonal_return_view",
    "numpy_scalar",
    "register_transfer",
    "slicetype",
    "sparse_module_ref",
    "transfer",
    "values_eq_approx_always_true",
]

numpy_diagonal_return_view = True
sparse_module_ref = None  # there is no sparse module
constant_cache: dict[Any, Any] = {}  # constants merge when a function is made: nothing is kept

# ---- exceptions


class ShapeError(Exception):
    """A shape cannot be known."""


class NotScalarConstantError(TypeError):
    """An expression is not one constant number."""


class EmptyConstantError(NotScalarConstantError):
    """An expression is a constant without elements."""


class MethodNotDefined(Exception):
    """An op does not have a method that is asked for."""


class AdvancedIndexingError(TypeError):
    """An index needs arrays of indices where only slices are taken."""


class AdvancedBooleanIndexingError(TypeError):
    """An index needs a mask where only numbers and slices are taken."""


# ---- None and slices as things with a type


class NoneTypeT:
    """The type of None."""

    dtype = None

    def filter(self, value: Any, strict: bool = False, allow_downcast: Any = None) -> None:
        if value is not None:
            raise error(TypeError, f"expected None, got {value!r}")

    def is_valid_value(self, value: Any) -> bool:
        return value is None

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return type(self).__name__


class SliceType(NoneTypeT):
    """The type of slices."""

    def filter(self, value: Any, strict: bool = False, allow_downcast: Any = None) -> slice:
        if not isinstance(value, slice):
            raise error(TypeError, f"expected a slice, got {value!r}")
        return value

    def is_valid_value(self, value: Any) -> bool:
        return isinstance(value, slice)

    def __repr__(self) -> str:
        return "slice"


class Generic(NoneTypeT):
    """The type of any Python object."""

    def filter(self, value: Any, strict: bool = False, allow_downcast: Any = None) -> Any:
        return value

    def is_valid_value(self, value: Any) -> bool:
        return True


class SliceConstant:
    """A constant that is no tensor: a slice, or None."""

    owner = None

    def __init__(self, type: NoneTypeT, data: Any, name: str | None = None) -> None:
        self.type, self.data, self.name = type, type.filter(data), name

    def clone(self) -> SliceConstant:
        return self  # constants never change

    def signature(self) -> tuple[Any, ...]:
        data = self.data
        return (self.type, data and (data.start, data.stop, data.step))

    def __repr__(self) -> str:
        return self.name or repr(self.data)


none_type_t = NoneTypeT()
NoneConst = SliceConstant(none_type_t, None, "NoneConst")
slicetype = SliceType()


# ---- constants


def numpy_scalar(data: Any) -> np.ndarray:
    """The one element of an array, without dimensions."""
    data = np.asarray(data)
    if data.size == 0:
        raise error(EmptyConstantError, "numpy_scalar: the value has no elements")
    if data.size > 1 or data.dtype.kind not in "biufcV":
        raise error(NotScalarConstantError, "numpy_scalar: the value is not one number")
    return data.reshape(())


def _repeated(data: np.ndarray) -> np.ndarray:
    """The number that all elements of an array are."""
    if data.size > 1:
        first = data.reshape(-1)[:1]
        if not np.array_equal(data, np.full(data.shape, first), data.dtype.kind in "fc"):
            raise error(NotScalarConstantError, "numpy_scalar: the elements of the value differ")
        data = first
    return numpy_scalar(data)


_MOVES = {"broadcast_to", "dimshuffle", "rebroadcast", "reshape", "stop_gradient"}
_ELEMENTWISE = frozenset(n for n, r in _core.op_rows().items() if "elementwise" in r["traits"])


def get_scalar_constant_value(
    orig_v: Any, elemwise: bool = True, only_process_constants: bool = False, max_recur: int = 10
) -> np.ndarray:
    """The number that every element of an expression is, if that is known now: of constants, of
    what only moves or repeats them, of sizes that are known and, unless elemwise is False, of what
    is computed from constants alone and of elementwise ops of all these, max_recur deep."""
    if isinstance(orig_v, (int, float, complex, np.ndarray, np.generic)):
        return numpy_scalar(orig_v)
    if orig_v is None:
        raise error(NotScalarConstantError, "get_scalar_constant_value: None is no number")
    v = _core.as_tensor(orig_v, "get_scalar_constant_value")
    while v.owner is not None and not only_process_constants and v.owner.op.name in _MOVES:
        v = v.owner.inputs[0]
    if isinstance(v, _core.TensorConstant):
        return _repeated(v.data)
    if v.owner is not None and not only_process_constants:
        known = _known_size(v)
        if known is not None:
            return np.asarray(known, v.dtype)
        leaves = [x for x in _core.ancestors([v]) if x.owner is None]
        if elemwise and builtins.all(isinstance(x, _core.TensorConstant) for x in leaves):
            return _repeated(v.eval())
        if elemwise and max_recur > 0 and v.owner.op.name in _ELEMENTWISE:
            numbers = [
                (x, T.constant(get_scalar_constant_value(x, elemwise, False, max_recur - 1)))
                for x in v.owner.inputs
            ]
            # Broadcast axes have size 1 in the numbers that stand for the operands.
            shaped = [(x, n.dimshuffle(*["x"] * x.ndim)) for x, n in numbers]
            types = [(x, T.patternbroadcast(n, x.broadcastable)) for x, n in shaped]
            (folded,) = _core.copy_graph([v], types, False)
            return _repeated(folded.eval())
    raise error(
        NotScalarConstantError, f"get_scalar_constant_value: {orig_v} is not a constant scalar"
    )


def _known_size(v: Any) -> int | None:
    """v is x.shape[i] of a size that is known."""
    indexed = v.owner.inputs[0] if v.owner.op.name == "slice" else None
    if indexed is None or indexed.owner is None or indexed.owner.op.name != "shape":
        return None
    if v.ndim or not isinstance(v.owner.inputs[-1], _core.TensorConstant):
        return None
    sizes = indexed.owner.inputs[0].static_shape
    at = int(v.owner.inputs[-1].data)
    return sizes[at] if -len(sizes) <= at < len(sizes) else None


def extract_constant(x: Any, elemwise: bool = True, only_process_constants: bool = False) -> Any:
    """The constant that x is, or x itself."""
    try:
        return get_scalar_constant_value(x, elemwise, only_process_constants)
    except NotScalarConstantError:
        return x


def known_integer(value: Any, what: str) -> int:
    """An integer that decides what is built: a number, or a constant expression."""
    known = extract_constant(value)
    if isinstance(known, _core.Variable):
        raise error(TypeError, f"{what} must be known when the expression is built, got {value}")
    if np.asarray(known).dtype.kind not in "iu":
        raise error(TypeError, f"{what} must be an integer, got {value!r}")
    return int(known)


def as_scalar(x: Any, what: str) -> _core.Variable:
    x = _core.as_tensor(x, what)
    if x.ndim:
        raise error(TypeError, f"{what}: expected 0 dimensions, got {x.ndim}")
    return x


def check_equal_numpy(x: Any, y: Any) -> bool:
    """Whether two values are equal, arrays in dtype, shape and every element."""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return x.dtype == y.dtype and x.shape == y.shape and builtins.bool(np.all(x == y))
    return builtins.bool(np.all(x == y))


def values_eq_approx_always_true(a: Any, b: Any) -> bool:
    """True: for comparisons that are to be left out."""
    return True


_TOLERANCES = {  # relative, absolute
    16: (float16_rtol, float16_atol),
    32: (float32_rtol, float32_atol),
    64: (float64_rtol, float64_atol),
}


def values_eq_approx(
    a: Any,
    b: Any,
    allow_remove_inf: bool = False,
    allow_remove_nan: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
) -> bool:
    """Whether two arrays have one dtype and shape and, as floats, nearly the same elements; where
    the first is infinite or NaN, not compared if that is allowed."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind not in "fc":
        return builtins.bool(np.array_equal(a, b))
    width = a.dtype.itemsize * 8 // (2 if a.dtype.kind == "c" else 1)
    rtol = _TOLERANCES[width][0] if rtol is None else rtol
    atol = _TOLERANCES[width][1] if atol is None else atol
    near = np.isclose(a, b, rtol, atol, equal_nan=True)
    if allow_remove_inf:
        near |= np.isinf(a)
    if allow_remove_nan:
        near |= np.isnan(a)
    return builtins.bool(near.all())


def values_eq_approx_remove_inf(a: Any, b: Any) -> bool:
    """values_eq_approx where the first array is not infinite."""
    return values_eq_approx(a, b, True)


def values_eq_approx_remove_nan(a: Any, b: Any) -> bool:
    """values_eq_approx where the first array is not NaN."""
    return values_eq_approx(a, b, False, True)


def values_eq_approx_remove_inf_nan(a: Any, b: Any) -> bool:
    """values_eq_approx where the first array is finite."""
    return values_eq_approx(a, b, True, True)


def hashtype(self: Any) -> int:
    """A hash of the type of an object."""
    kind = type(self)
    return hash(kind.__name__) ^ hash(kind.__module__)


def constructor(f: Callable[..., Any]) -> Callable[..., Any]:
    """f, marked as one that makes variables; nothing depends on the mark."""
    return f


def key_to_cmp(key: Callable[[Any], Any]) -> Callable[[Any, Any], int]:
    """A comparison (-1, 0 or 1) by a key."""

    def compare(a: Any, b: Any) -> int:
        first, second = key(a), key(b)
        return (first > second) - (first < second)

    return compare


# ---- arithmetic whose result depends on the dtypes


def div_proxy(x: Any, y: Any) -> _core.Variable:
    """x / y; of integers rounded down."""
    x, y = _core.as_tensor(x, "div_proxy"), _core.as_tensor(y, "div_proxy")
    whole = x.dtype in discrete_dtypes and y.dtype in discrete_dtypes
    return T.int_div(x, y) if whole else T.true_div(x, y)


def mod_check(x: Any, y: Any) -> _core.Variable:
    """x % y; complex numbers have none."""
    return T.mod(x, y)


# ---- shapes


def get_vector_length(v: Any) -> int:
    """The number of elements of a vector, if it is known now."""
    v = _core.as_tensor(v, "get_vector_length")
    if v.ndim != 1:
        raise error(TypeError, f"get_vector_length: expected a vector, got {v.ndim} dimensions")
    if v.static_shape[0] is None:
        raise error(ValueError, f"get_vector_length: the length of {v} is not known")
    return v.static_shape[0]


def alloc_validate_shape(shape: Any) -> tuple[list[Any], list[bool]]:
    """The sizes as 0-d integer expressions, and which of them are known to be 1."""
    sizes = []
    for s in [shape] if isinstance(shape, (int, np.integer)) else list(shape):
        size = _core.as_tensor(s, "alloc")
        if size.ndim or size.dtype not in discrete_dtypes:
            raise error(
                TypeError, f"alloc: a size must be a 0-d integer, got {size.type} for {size}"
            )
        sizes.append(size)
    return sizes, [check_equal_numpy(extract_constant(s), 1) for s in sizes]


def is_flat(var: Any, ndim: int | None = None, outdim: int | None = None) -> bool:
    """Whether var has that many dimensions, one if nothing is said."""
    wanted = ndim if ndim is not None else outdim
    return var.ndim == (1 if wanted is None else wanted)


def makeKeepDims(x: Any, y: Any, axis: Any) -> _core.Variable:
    """y, a reduction of x over axes, with these axes put back as broadcastable ones."""
    x, y = _core.as_tensor(x, "makeKeepDims"), _core.as_tensor(y, "makeKeepDims")
    dropped = set(check_and_normalize_axes(x, axis)) if axis is not None else set(range(x.ndim))
    kept = iter(range(y.ndim))
    return y.dimshuffle(*("x" if i in dropped else next(kept) for i in range(x.ndim)))


def check_and_normalize_axes(x: Any, axis: Any) -> list[int]:
    """The axes as a list of numbers from 0 on; None is the empty list."""
    x = _core.as_tensor(x, "axis")
    if axis is None or axis is NoneConst:
        return []
    if isinstance(axis, _core.TensorConstant):
        axis = axis.data.tolist()
    axes = list(axis) if isinstance(axis, (list, tuple, np.ndarray)) else [axis]
    numbers = [known_integer(a, "axis") for a in axes]
    for a in numbers:
        if not -x.ndim <= a < x.ndim:
            raise error(ValueError, f"axis: there is no axis {a} in {x.ndim} dimensions")
    return sorted({a % x.ndim for a in numbers})


def alloc_diag(diagonal: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> _core.Variable:
    """Zeros, but the last axis of `diagonal` on the diagonal of axes axis1 and axis2."""
    diagonal = _core.as_tensor(diagonal, "alloc_diag")
    if diagonal.ndim == 0:
        raise error(TypeError, "alloc_diag: expected at least 1 dimension, got 0")
    ndim = diagonal.ndim + 1
    axes = sorted(_normal_axis("alloc_diag", axis, ndim) for axis in (axis1, axis2))
    if axes[0] == axes[1]:
        raise error(ValueError, f"alloc_diag: axis1 and axis2 are both {axes[0]}")
    return _core.alloc_diagonal(diagonal, offset, *axes)
