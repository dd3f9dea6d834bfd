"""Names of the module `theano` that snug has elsewhere, or not at all."""

import numpy as np

from snug.compile import (
    FunctionMaker,
    OpFromGraph,
    SymbolicInput,
    SymbolicOutput,
    predefined_linkers,
    predefined_modes,
    predefined_optimizers,
)
from snug.gof import Constant, FunctionGraph, Type, object2, utils
from snug.printing import pprint
from snug.tensor import dot, get_scalar_constant_value

__all__ = [
    "Constant",
    "FunctionGraph",
    "FunctionMaker",
    "OpFromGraph",
    "SymbolicInput",
    "SymbolicOutput",
    "Type",
    "_asarray",
    "dot",
    "get_scalar_constant_value",
    "np",
    "object2",
    "pprint",
    "predefined_linkers",
    "predefined_modes",
    "predefined_optimizers",
    "sparse_grad",
    "utils",
]


def sparse_grad(var):
    """var: its gradient is dense, and only the rows that it reads are written."""
    return var


def _asarray(a, dtype, order=None):
    """numpy.asarray."""
    return np.asarray(a, dtype=dtype, order=order)
