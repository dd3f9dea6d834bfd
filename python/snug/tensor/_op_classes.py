"""Theano's op classes and op instances of `tensor`, as one table, `_TABLE`: name, rows it stands
for, constructor parameters, what a call builds, doc. See `snug._op_class`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import snug.tensor as T
from snug import _core
from snug._errors import error
from snug._op_class import REQUIRED, OpClass, Table, add_attribute, make_classes
from snug.tensor import _helpers, _indices

_ALL_ROWS = _core.op_rows()
ELEMENTWISE = frozenset(name for name, row in _ALL_ROWS.items() if "elementwise" in row["traits"])
REDUCTIONS = frozenset(name for name, row in _ALL_ROWS.items() if "reduction" in row["traits"])


# ---- what the calls build


def _permute(op: Any, x: Any, y: Any, inverse: Any = 0) -> Any:
    return T.permute_row_elements(x, y, inverse)


def _part(x: Any, indices: Any) -> Any:
    return _core.as_tensor(x, "subtensor")[tuple(indices)]


def _put(op: Any, x: Any, y: Any, indices: Any) -> Any:
    return T.inc_subtensor(_part(x, indices), y, set_instead_of_inc=op.set_instead_of_inc)


def _reduce(op: Any, x: Any) -> Any:
    reductions = {
        "add": T.sum,
        "mul": T.prod,
        "maximum": T.max,
        "minimum": T.min,
        "and_": T.all,
        "or_": T.any,
    }
    name = getattr(op.scalar_op, "name", op.scalar_op)
    if name not in reductions:
        raise error(
            TypeError,
            f"CAReduce: {name} is no reduction",
            f"the scalar ops that reduce are {', '.join(reductions)}",
        )
    return reductions[name](x, axis=op.axis)


def _rebroadcast(op: Any, x: Any) -> Any:
    for axis, stretches in op.axis:
        x = T.addbroadcast(x, axis) if stretches else T.unbroadcast(x, axis)
    return x


def _dimshuffle(op: Any, x: Any) -> Any:
    x = _core.as_tensor(x, "DimShuffle")
    if tuple(x.broadcastable) != tuple(op.input_broadcastable):
        raise error(
            TypeError,
            f"DimShuffle: {x} has the broadcast pattern {tuple(x.broadcastable)}, not "
            f"{tuple(op.input_broadcastable)}",
            "write x.dimshuffle(...), which takes any pattern",
        )
    return x.dimshuffle(*op.new_order)


def _elemwise(op: Any, *inputs: Any) -> Any:
    return op.scalar_op(*inputs)


def _split(op: Any, x: Any, axis: Any, splits_size: Any) -> Any:
    return T.split(x, splits_size, op.len_splits, axis)


def _slice(op: Any, start: Any = None, stop: Any = None, step: Any = None) -> Any:
    return slice(*(None if v is _helpers.NoneConst else v for v in (start, stop, step)))


def _make_vector(op: Any, *elements: Any) -> Any:
    dtype = op.dtype or _core.upcast(*(_core.as_tensor(e).dtype for e in elements))
    return T.stack([T.cast(e, dtype) for e in elements])


_AXIS = {"axis": None}
_PUT = {"inplace": False, "set_instead_of_inc": False}
_DIAGONAL = {"offset": 0, "axis1": 0, "axis2": 1}

_TABLE: Table = {
    "ARange": (
        ["arange"],
        {"dtype": REQUIRED},
        lambda op, start, stop, step: T.arange(start, stop, step, op.dtype),
        "The numbers from start to stop by step.",
    ),
    "AdvancedBooleanIncSubtensor": (
        [],
        _PUT,
        lambda op, x, y, *indices: _put(op, x, y, indices),
        "x with y added to the places of a mask, or put there.",
    ),
    "AdvancedBooleanSubtensor": (
        [],
        {},
        lambda op, x, *indices: _part(x, indices),
        "The elements of x where a mask is True. In a graph it is a gather of the mask's places.",
    ),
    "AdvancedIncSubtensor": (
        ["scatter_add", "scatter_set"],
        _PUT,
        lambda op, x, y, *indices: _put(op, x, y, indices),
        "x with y added at arrays of indices, or put there.",
    ),
    "AdvancedIncSubtensor1": (
        ["scatter_add", "scatter_set"],
        _PUT,
        lambda op, x, y, index: _put(op, x, y, [index]),
        "x with y added to rows, or put there.",
    ),
    "AdvancedSubtensor": (
        ["gather"],
        {},
        lambda op, x, *indices: _part(x, indices),
        "The elements of x at arrays of indices.",
    ),
    "AdvancedSubtensor1": (
        ["gather"],
        {"sparse_grad": False},
        lambda op, x, index: _part(x, [index]),
        "Rows of x.",
    ),
    "All": (["all"], _AXIS, lambda op, x: T.all(x, op.axis), "True where no element is 0."),
    "Alloc": (
        ["broadcast_to"],
        {},
        lambda op, value, *shape: T.alloc(value, *shape),
        "A value stretched to a shape.",
    ),
    "AllocDiag": (
        [],
        _DIAGONAL,
        lambda op, diagonal: _helpers.alloc_diag(diagonal, op.offset, op.axis1, op.axis2),
        "Zeros with the given diagonal.",
    ),
    "AllocEmpty": (
        [],
        {"dtype": REQUIRED},
        lambda op, *shape: T.zeros(shape, op.dtype),
        "A tensor of any values, here zeros: nothing is read from memory that nobody wrote.",
    ),
    "Any": (["any"], _AXIS, lambda op, x: T.any(x, op.axis), "True where any element is not 0."),
    "Argmax": (
        ["argmax"],
        {"axis": REQUIRED},
        lambda op, x: T.argmax(x, op.axis),
        "The first place of the largest element.",
    ),
    "BaseAdvancedIncSubtensor": (
        ["scatter_add", "scatter_set"],
        _PUT,
        None,
        "What the ops that write to arrays of indices have in common.",
    ),
    "BaseAdvancedSubtensor": (
        ["gather"],
        {},
        None,
        "What the ops that read at arrays of indices have in common.",
    ),
    "CAReduce": (
        REDUCTIONS - {"argmax", "argmin"},
        {"scalar_op": REQUIRED, "axis": None},
        _reduce,
        "A reduction by a scalar op.",
    ),
    "CAReduceDtype": (
        ["sum", "prod"],
        {"scalar_op": REQUIRED, "axis": None, "dtype": None, "acc_dtype": None},
        lambda op, x: _reduce(op, x) if op.dtype is None else _reduce(op, x).astype(op.dtype),
        "A reduction by a scalar op, with the dtype of the result.",
    ),
    "Choose": (
        [],
        {"mode": REQUIRED},
        lambda op, a, choices: T.choose(a, choices, mode=op.mode),
        "Elements from one of several tensors, by number.",
    ),
    "Default": (
        [],
        {},
        lambda op, x, default: (
            T.as_tensor_variable(default) if x is None or x is _helpers.NoneConst else x
        ),
        "x, or the default if x is None.",
    ),
    "DimShuffle": (
        ["dimshuffle"],
        {"input_broadcastable": REQUIRED, "new_order": REQUIRED, "inplace": True},
        _dimshuffle,
        "Axes in another order, new ones as 'x'.",
    ),
    "Dot": (["dot"], {}, lambda op, x, y: T.dot(x, y), "The matrix product."),
    "Elemwise": (
        ELEMENTWISE,
        {
            "scalar_op": REQUIRED,
            "inplace_pattern": None,
            "name": None,
            "nfunc_spec": None,
            "openmp": None,
        },
        _elemwise,
        "A scalar op on every element, with broadcasting.",
    ),
    "ExtractDiag": (
        [],
        {**_DIAGONAL, "view": False},
        lambda op, x: T.diagonal(x, op.offset, op.axis1, op.axis2),
        "A diagonal.",
    ),
    "Eye": (
        ["eye"],
        {"dtype": None},
        lambda op, n, m=None, k=0: T.eye(n, m, _helpers.known_integer(k, "Eye: k"), op.dtype),
        "Ones on a diagonal.",
    ),
    "Flatten": ([], {"outdim": 1}, lambda op, x: T.flatten(x, op.outdim), "The last axes joined."),
    "IncSubtensor": (
        ["slice_inc", "slice_set"],
        {"idx_list": REQUIRED, **_PUT, "destroyhandler_tolerate_aliased": None},
        lambda op, x, y, *inputs: _put(op, x, y, _indices.fill_indices(op.idx_list, inputs)[0]),
        "x with y added to a slice, or put there.",
    ),
    "Join": (
        ["concatenate"],
        {"view": -1},
        lambda op, axis, *tensors: T.join(_helpers.known_integer(axis, "Join: axis"), *tensors),
        "Tensors one after the other along an axis.",
    ),
    "MakeSlice": ([], {}, _slice, "A slice of start, stop and step, to index with."),
    "MakeVector": (
        ["make_vector"],
        {"dtype": "int64"},
        _make_vector,
        "A vector of 0-d expressions, in a dtype or their upcast.",
    ),
    "MaxAndArgmax": (
        [],
        {"axis": REQUIRED},
        lambda op, x: T.max_and_argmax(x, op.axis),
        "The largest element and its place.",
    ),
    "Mean": ([], _AXIS, lambda op, x: T.mean(x, op.axis), "The mean."),
    "Nonzero": (
        ["nonzero"],
        {},
        lambda op, x: list(T.nonzero(x)),
        "The places of the elements that are not 0.",
    ),
    "PermuteRowElements": ([], {}, _permute, "Each row in the order of a permutation."),
    "Prod": (
        ["prod"],
        {"axis": None, "dtype": None, "acc_dtype": None, "no_zeros_in_input": False},
        lambda op, x: T.prod(x, op.axis, op.dtype, acc_dtype=op.acc_dtype),
        "The product.",
    ),
    "Reshape": (
        ["reshape"],
        {"ndim": REQUIRED, "name": None},
        lambda op, x, shape: T.reshape(x, shape, op.ndim),
        "Another shape.",
    ),
    "ScalarFromTensor": (
        [],
        {},
        lambda op, x: _helpers.as_scalar(x, "ScalarFromTensor"),
        "A 0-d tensor as a scalar: the same here.",
    ),
    "Shape": (["shape"], {}, lambda op, x: T.shape(x), "The sizes."),
    "SpecifyShape": (
        ["specify_shape"],
        {},
        lambda op, x, shape: T.specify_shape(x, shape),
        "Says which sizes a tensor has; checked at the call.",
    ),
    "Split": ([], {"len_splits": REQUIRED}, _split, "Parts of given sizes along an axis."),
    "Subtensor": (
        ["slice"],
        {"idx_list": REQUIRED},
        lambda op, x, *inputs: _part(x, _indices.fill_indices(op.idx_list, inputs)[0]),
        "A slice.",
    ),
    "Sum": (
        ["sum"],
        {"axis": None, "dtype": None, "acc_dtype": None},
        lambda op, x: T.sum(x, op.axis, op.dtype, acc_dtype=op.acc_dtype),
        "The sum.",
    ),
    "TensorFromScalar": (
        [],
        {},
        lambda op, x: _helpers.as_scalar(x, "TensorFromScalar"),
        "A scalar as a 0-d tensor: the same here.",
    ),
    "Tile": ([], {"ndim": REQUIRED}, lambda op, x, reps: T.tile(x, reps, op.ndim), "Copies."),
    "Tri": (
        [],
        {"dtype": None},
        lambda op, n, m=None, k=0: T.tri(n, m, _helpers.known_integer(k, "Tri: k"), op.dtype),
        "Ones below a diagonal.",
    ),
}

# The others are names of snug.tensor.elemwise and snug.tensor.opt only.
_ELSEWHERE = {"All", "Any", "CAReduceDtype", "MakeVector", "Prod"}
__all__ = ["Rebroadcast", *sorted(_TABLE.keys() - _ELSEWHERE)]


_BASES = {
    "AdvancedBooleanIncSubtensor": "BaseAdvancedIncSubtensor",
    "AdvancedBooleanSubtensor": "BaseAdvancedSubtensor",
    "AdvancedIncSubtensor": "BaseAdvancedIncSubtensor",
    "AdvancedSubtensor": "BaseAdvancedSubtensor",
    "All": "CAReduce",
    "Any": "CAReduce",
    "CAReduceDtype": "CAReduce",
    "Prod": "CAReduceDtype",
    "Sum": "CAReduceDtype",
}


_classes = make_classes(_TABLE, __name__, _BASES)
globals().update(_classes)


class Rebroadcast(OpClass):
    """Says which axes stretch: Rebroadcast((0, True), (1, False))."""

    rows = frozenset(["rebroadcast"])
    __props__ = ("axis",)

    def __init__(self, *axis: tuple[int, bool]) -> None:
        self.axis = tuple(axis)

    build = _rebroadcast


# ---- instances

_INSTANCES: dict[str, Any] = {
    "advanced_boolean_inc_subtensor": "AdvancedBooleanIncSubtensor",
    "advanced_boolean_set_subtensor": ("AdvancedBooleanIncSubtensor", {"set_instead_of_inc": True}),
    "advanced_boolean_subtensor": "AdvancedBooleanSubtensor",
    "advanced_inc_subtensor": "AdvancedIncSubtensor",
    "advanced_inc_subtensor1": "AdvancedIncSubtensor1",
    "advanced_set_subtensor": ("AdvancedIncSubtensor", {"set_instead_of_inc": True}),
    "advanced_set_subtensor1": ("AdvancedIncSubtensor1", {"set_instead_of_inc": True}),
    "advanced_subtensor": "AdvancedSubtensor",
    "advanced_subtensor1": "AdvancedSubtensor1",
    "default": "Default",
    "join_": "Join",
    "make_vector": "MakeVector",
    "make_slice": "MakeSlice",
    "scalar_from_tensor": "ScalarFromTensor",
    "setdefault": "Default",
    "tensor_from_scalar": "TensorFromScalar",
}
for _name, _entry in _INSTANCES.items():
    _class, _options = _entry if isinstance(_entry, tuple) else (_entry, {})
    globals()[_name] = _classes[_class](**_options)
__all__ += sorted(_INSTANCES.keys() - {"make_vector"})


# ---- what Theano's ops in a graph have as attributes


def _constant(name: str, read: Callable[[Any], Any]) -> Callable[[_core.Op], Any]:
    def get(self) -> object:
        if name not in self.attrs:
            raise error(AttributeError, f"the op {self.name} has no {name}")
        return read(self.attrs[name])

    return get


def _order(pattern: Any) -> tuple[Any, ...]:
    return tuple("x" if axis < 0 else axis for axis in pattern)


add_attribute("axis", _constant("axes", tuple), "The axes of a reduction.")
add_attribute("new_order", _constant("pattern", _order), "The axes of a dimshuffle, 'x' for new.")
