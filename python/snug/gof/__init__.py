"""Graphs of expressions: their parts, and tools that walk over them and copy them."""

from snug._core import Apply, Op, TensorType, Variable
from snug._core import TensorConstant as Constant
from snug._errors import MissingInputError, UnusedInputError
from snug.gof import graph

Type = TensorType

__all__ = [
    "Apply",
    "Constant",
    "MissingInputError",
    "Op",
    "Type",
    "UnusedInputError",
    "Variable",
    "graph",
]
