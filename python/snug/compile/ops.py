"""Ops about memory and shapes: Theano's op classes, see `snug._op_class`."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._op_class import Table, make_classes
from snug.tensor import Rebroadcast, Shape, SpecifyShape, shape, specify_shape

__all__ = [
    "Rebroadcast",
    "Shape",
    "SpecifyShape",
    "deep_copy_op",
    "shape",
    "shape_i",
    "specify_shape",
    "view_op",
]


def shape_i(var: Any, i: int, fgraph: Any = None) -> _core.Variable:
    """The size of one axis."""
    return _core.as_tensor(var, "shape_i").shape[i]


_TABLE: Table = {
    "DeepCopyOp": ([], {}, lambda op, x: _core.identity(x), "x: the plan decides what is copied."),
    "Shape_i": ([], {"i": 0}, lambda op, x: shape_i(x, op.i), "The size of one axis."),
    "ViewOp": ([], {}, lambda op, x: _core.identity(x), "x: the plan decides what is a view."),
}
_classes = make_classes(_TABLE, __name__)
globals().update(_classes)
deep_copy_op = _classes["DeepCopyOp"]()
view_op = _classes["ViewOp"]()
__all__ += [*_classes]
