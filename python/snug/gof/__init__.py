"""Graphs of expressions: their parts, and tools that walk over them and copy them."""

from snug._core import Apply, Op, Variable
from snug._core import TensorConstant as Constant
from snug._errors import MissingInputError, UnusedInputError
from snug.gof import fg, graph, op, type, utils
from snug.gof.fg import FunctionGraph
from snug.gof.op import PureOp
from snug.gof.type import PureType, Type
from snug.gof.utils import MethodNotDefined, object2, toposort

__all__ = [
    "Apply",
    "Constant",
    "FunctionGraph",
    "MethodNotDefined",
    "MissingInputError",
    "Op",
    "PureOp",
    "PureType",
    "Type",
    "UnusedInputError",
    "Variable",
    "fg",
    "graph",
    "object2",
    "op",
    "toposort",
    "type",
    "utils",
]


def __getattr__(name: str):
    """Says why a name of Theano's is not there."""
    from snug._theano_parts.absent import attribute_error

    raise attribute_error(__name__, name)
