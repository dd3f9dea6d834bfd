"""What programs that look into graphs take from Theano's tensor module: constants, tuples of types,
exceptions, and helpers for constants, shapes and indices."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import snug.tensor as T
from snug import _core
from snug._errors import error
from snug.tensor._basic import _normal_axis
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
    "Tensor",
    "TensorConstantSignature",
    "adv_index_broadcastable_pattern",
    "all_dtypes",
    "alloc_validate_shape",
    "as_index_variable",
    "as_int_none_variable",
    "check_advanced_indexing_dimensions",
    "check_and_normalize_axes",
    "check_and_reject_bool",
    "check_equal_numpy",
    "complex_dtypes",
    "complex_matrix_types",
    "complex_scalar_types",
    "complex_types",
    "complex_vector_types",
    "constant_cache",
    "constructor",
    "continuous_dtypes",
    "discrete_dtypes",
    "div_proxy",
    "extract_constant",
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
    "get_canonical_form_slice",
    "get_idx_list",
    "get_scalar_constant_value",
    "get_vector_length",
    "hashtype",
    "int_dtypes",
    "int_matrix_types",
    "int_scalar_types",
    "int_types",
    "int_vector_types",
    "integer_dtypes",
    "is_flat",
    "key_to_cmp",
    "makeKeepDims",
    "make_constant",
    "mod_check",
    "none_type_t",
    "numpy_diagonal_return_view",
    "numpy_scalar",
    "register_transfer",
    "slicetype",
    "sparse_module_ref",
    "transfer",
    "uint_dtypes",
    "values_eq_approx_always_true",
]

# ---- dtypes and types

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


# ---- indices


def fill_indices(idx_list: Sequence[Any], values: Sequence[Any]) -> tuple[tuple[Any, ...], int]:
    """The indices of a Subtensor: what stands for a run-time value in idx_list (a type) is taken
    from the values, in order. Also how many were taken."""
    left = list(values)

    def convert(entry: Any) -> Any:
        if isinstance(entry, slice):
            return slice(convert(entry.start), convert(entry.stop), convert(entry.step))
        if hasattr(entry, "filter"):  # a type
            if not left:
                raise error(TypeError, "subtensor: there are fewer inputs than idx_list asks for")
            return left.pop(0)
        return entry

    return tuple(convert(entry) for entry in idx_list), len(values) - len(left)


def get_idx_list(inputs: Sequence[Any], idx_list: Sequence[Any], get_count: bool = False) -> Any:
    """The indices of a Subtensor with these inputs, the indexed tensor first; with get_count the
    number of the inputs that are indices."""
    indices, count = fill_indices(idx_list, inputs[1:])
    return count if get_count else indices


def _choose(condition: Any, yes: Any, no: Any) -> Any:
    if isinstance(condition, _core.Variable):
        return T.switch(condition, yes, no)
    return yes if condition else no


def _number(value: Any) -> Any:
    """An int if it is known."""
    value = extract_constant(value)
    return value if isinstance(value, _core.Variable) else int(value)


def get_canonical_form_slice(theslice: Any, length: Any) -> tuple[Any, Any]:
    """An index into an axis of a length without negative parts: (index, 1) of a single one; of a
    slice (a slice with a positive step of the same elements, 1 or -1 for their order)."""
    length = _number(length)
    if not isinstance(theslice, slice):
        at = _number(theslice)
        return _choose(at < 0, at + length, at), 1
    step = 1 if theslice.step is None else _number(theslice.step)
    if isinstance(step, int) and step == 0:
        raise error(ValueError, "slice: the step is 0")
    forward = step > 0

    def inside(bound: Any) -> Any:
        bound = _number(bound)
        bound = _choose(bound < 0, bound + length, bound)
        low, high = _choose(forward, 0, -1), _choose(forward, length, length - 1)
        bound = _choose(bound < low, low, bound)
        return _choose(bound > high, high, bound)

    ends = _choose(forward, 0, length - 1), _choose(forward, length, -1)
    start = ends[0] if theslice.start is None else inside(theslice.start)
    stop = ends[1] if theslice.stop is None else inside(theslice.stop)
    rounding = step - _choose(forward, 1, -1)
    count = (stop - start + rounding) // step
    count = _choose(count < 0, 0, count)
    first = _choose(forward, start, start + (count - 1) * step)
    end = _choose(forward, _choose(stop < start, start, stop), start + 1)
    return slice(first, end, _choose(forward, step, -step)), _choose(forward, 1, -1)


def as_int_none_variable(x: Any) -> Any:
    """x as an integer expression; None as NoneConst."""
    if x is None or x is NoneConst:
        return NoneConst
    x = _core.as_tensor(x, "as_int_none_variable")
    if x.dtype not in integer_dtypes:
        raise error(TypeError, f"expected an integer, got {x.dtype}")
    return x


def as_index_variable(idx: Any) -> Any:
    """What stands between the brackets of an index: None as NoneConst, slices as they are, numbers
    and arrays as integer expressions, masks as bool ones."""
    if idx is None or idx is NoneConst:
        return NoneConst
    if isinstance(idx, SliceConstant):
        return idx.data
    if isinstance(idx, slice):
        return idx
    idx = _core.as_tensor(idx, "index")
    if idx.dtype not in discrete_dtypes:
        raise error(TypeError, f"index: expected integers or bools, got {idx.dtype}")
    return idx


def make_constant(args: Any) -> tuple[Any, ...]:
    """The numbers in an index as constants; slices and None stay."""

    def convert(entry: Any) -> Any:
        if entry is None or isinstance(entry, _core.Variable):
            return entry
        if isinstance(entry, slice):
            return slice(convert(entry.start), convert(entry.stop), convert(entry.step))
        return T.constant(entry)

    return tuple(convert(entry) for entry in args)


def adv_index_broadcastable_pattern(a: Any, idx: Any) -> tuple[bool, ...]:
    """The broadcast pattern of a[idx]."""
    idx = tuple(None if i is NoneConst else i for i in idx)
    return _core.as_tensor(a, "index")[idx].broadcastable


def check_and_reject_bool(args_el: Any) -> None:
    """A TypeError for a bool where only numbers are taken."""
    if isinstance(args_el, (bool, np.bool_)) or (
        not isinstance(args_el, (tuple, list)) and getattr(args_el, "dtype", None) == "bool"
    ):
        raise error(TypeError, "index: a bool is no number")
    if isinstance(args_el, (tuple, list)):
        for item in args_el:
            check_and_reject_bool(item)


def check_advanced_indexing_dimensions(input: Any, idx_list: Sequence[Any]) -> None:
    """An IndexError if an index has more parts than the tensor has axes, or a mask other sizes."""
    input = _core.as_tensor(input, "index")
    axis = 0
    for idx in idx_list:
        if idx is None or idx is NoneConst or idx is np.newaxis:
            continue
        if isinstance(idx, (np.ndarray, list)) and np.asarray(idx).dtype == bool:
            for k, size in enumerate(np.shape(idx)):
                known = input.static_shape[axis + k] if axis + k < input.ndim else None
                if known is not None and known != size:
                    raise error(
                        IndexError,
                        f"index: a mask of size {size} for axis {axis + k} of size {known}",
                    )
            axis += np.ndim(idx)
        elif getattr(idx, "dtype", None) == "bool":
            axis += idx.ndim
        else:
            axis += 1
    if axis > input.ndim:
        raise error(IndexError, f"index: {axis} indices for {input.ndim} dimensions")


# ---- devices

_transfers: list[Callable[[Any, str], Any]] = []


def register_transfer(fn: Callable[[Any, str], Any]) -> None:
    """Registers fn(variable, target) -> variable, or None if it does not know the target."""
    if not callable(fn):
        raise error(TypeError, f"register_transfer: expected a function, got {fn!r}")
    _transfers.append(fn)


def transfer(var: Any, target: str) -> _core.Variable:
    """var on a device: "cpu", or what a registered function knows."""
    if target == "cpu":
        return _core.as_tensor(var, "transfer")
    for fn in _transfers:
        result = fn(var, target)
        if result is not None:
            return result
    raise error(
        ValueError,
        f"transfer: there is no device {target!r}",
        "write 'cpu'; functions are placed on devices as a whole",
    )
