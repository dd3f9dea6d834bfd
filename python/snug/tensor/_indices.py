"""What stands between the brackets of an index, taken apart as Theano's programs do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import snug.tensor as T
from snug import _core
from snug._errors import error
from snug.tensor._dtypes import discrete_dtypes, integer_dtypes
from snug.tensor._helpers import NoneConst, SliceConstant, extract_constant

__all__ = [
    "adv_index_broadcastable_pattern",
    "as_index_variable",
    "as_int_none_variable",
    "check_advanced_indexing_dimensions",
    "check_and_reject_bool",
    "get_canonical_form_slice",
    "get_idx_list",
    "make_constant",
]


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
