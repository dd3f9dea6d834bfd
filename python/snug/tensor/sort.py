"""Sorting and the largest elements. `snug.tensor.sort` is the function of this name; this module is
found by `from snug.tensor.sort import ...`, as in Theano."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._errors import error
from snug._op_class import REQUIRED, Table, make_classes

__all__ = ["argsort", "argtopk", "sort", "topk", "topk_and_argtopk"]


def _check(what: str, kind: str, order: Any) -> None:
    if kind not in ("quicksort", "mergesort", "heapsort", "stable"):
        raise error(
            ValueError,
            f"{what}: there is no kind {kind!r}",
            "choose 'quicksort', 'mergesort', 'heapsort' or 'stable'; all sort in the same way",
        )
    if order is not None:
        raise error(ValueError, f"{what}: a tensor has no fields, order must be None")


def sort(
    a: Any, axis: int | None = -1, kind: str = "quicksort", order: Any = None
) -> _core.Variable:
    """The elements along an axis (None: all of them in one line) in ascending order, nan last."""
    _check("sort", kind, order)
    return _core.sort(a, axis)


def argsort(
    a: Any, axis: int | None = -1, kind: str = "quicksort", order: Any = None
) -> _core.Variable:
    """The places that sort the elements along an axis; equal elements keep their order."""
    _check("argsort", kind, order)
    return _core.argsort(a, axis)


def topk(
    x: Any, kth: Any, axis: int | None = -1, sorted: bool = True, idx_dtype: Any = "int64"
) -> _core.Variable:
    """The kth largest elements along an axis, the largest first; for a negative kth the -kth
    smallest, the smallest first. They are sorted whatever `sorted` says."""
    return _core.topk(x, kth, axis)


def argtopk(
    x: Any, kth: Any, axis: int | None = -1, sorted: bool = True, idx_dtype: Any = "int64"
) -> _core.Variable:
    """The places of the elements that topk gives."""
    return _core.cast(_core.argtopk(x, kth, axis), idx_dtype)


def topk_and_argtopk(
    x: Any, kth: Any, axis: int | None = -1, sorted: bool = True, idx_dtype: Any = "int64"
) -> tuple[_core.Variable, _core.Variable]:
    """topk and argtopk."""
    values, places = _core.topk_and_argtopk(x, kth, axis)
    return values, _core.cast(places, idx_dtype)


# ---- Theano's op classes: see `snug._op_class`


def _largest(op: Any, x: Any, kth: Any) -> Any:
    if op.return_values and op.return_indices:
        return list(topk_and_argtopk(x, kth, op.axis, op.sorted, op.idx_dtype))
    if op.return_values:
        return topk(x, kth, op.axis, op.sorted)
    return argtopk(x, kth, op.axis, op.sorted, op.idx_dtype)


def _axis(axis: Any) -> Any:
    return axis if axis is None or isinstance(axis, int) else int(_core.as_tensor(axis).data)


_KIND = {"kind": REQUIRED, "order": None}
_TABLE: Table = {
    "ArgSortOp": (
        ["argsort"],
        _KIND,
        lambda op, x, axis=-1: argsort(x, _axis(axis), op.kind, op.order),
        "The places that sort the elements along an axis.",
    ),
    "SortOp": (
        ["sort"],
        _KIND,
        lambda op, x, axis=-1: sort(x, _axis(axis), op.kind, op.order),
        "The elements along an axis in ascending order.",
    ),
    "TopKOp": (
        ["argtopk"],
        {
            "axis": -1,
            "sorted": True,
            "idx_dtype": "int64",
            "return_values": True,
            "return_indices": True,
        },
        _largest,
        "The largest elements along an axis, their places, or both.",
    ),
}
_classes = make_classes(_TABLE, __name__)
globals().update(_classes)
__all__ += [*_classes]
