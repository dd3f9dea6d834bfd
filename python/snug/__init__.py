"""Snug: a symbolic tensor compiler that fits your model into the memory you have.

Write expressions, take gradients, compile functions:

    import snug, snug.tensor as T
    x = T.matrix("x")
    W = snug.shared(numpy.zeros((784, 10), "float32"), "W")
    loss = T.dot(x, W).mean()
    train = snug.function([x], loss, updates=[(W, W - 0.1 * T.grad(loss, W))])
"""

import os as _os

# First, so that every module finds the functions of the extension with errors of ours.
from snug import _readable as _readable

# isort: split
from snug import _core, compile, data, gof, gradient, ifelse, io, nn, optim, printing, tensor
from snug import _function_methods as _function_methods
from snug._building import get_test_value
from snug._config import config
from snug._core import (
    Apply,
    Function,
    MemoryReport,
    Op,
    ProcessMemory,
    Recipe,
    SharedVariable,
    Variable,
    process_memory,
)
from snug._devices import Device, Devices, device, devices
from snug._errors import (
    DisconnectedInputError,
    InternalError,
    MissingInputError,
    NullTypeGradError,
    UnusedInputError,
)
from snug._function import In, Out, Param, function
from snug._mode import Mode
from snug._planning import MaxBatch, max_batch
from snug._shared import shared, shared_constructor
from snug.gof.graph import map_variables
from snug.gradient import Lop, Rop, grad, subgraph_grad
from snug.loops import clone, foldl, foldr, loop, map, reduce, scan
from snug.printing import debugprint, pp
from snug.tensor import scal as scalar
from snug.updates import OrderedUpdates

# Expressions carry the lines of the user's code, not of this package.
_core._set_package_directory(_os.path.join(_os.path.dirname(__file__), ""))


def __getattr__(name: str) -> object:
    raise _readable.no_attribute(__name__, name, (f"{__name__}.tensor",))


def install_as_theano() -> None:
    """Makes `import theano` find this package: programs written for Theano run as they are.

    Theano's defaults hold from then on (floatX is float64 unless it was set), with the settings of
    THEANO_FLAGS and .theanorc.
    """
    from snug.theano_alias import install

    install()


__version__ = "0.1.0"
__all__ = [
    "Apply",
    "Device",
    "Devices",
    "DisconnectedInputError",
    "Function",
    "In",
    "InternalError",
    "Lop",
    "MaxBatch",
    "MemoryReport",
    "MissingInputError",
    "Mode",
    "NullTypeGradError",
    "Op",
    "OrderedUpdates",
    "Out",
    "Param",
    "ProcessMemory",
    "Recipe",
    "Rop",
    "SharedVariable",
    "UnusedInputError",
    "Variable",
    "clone",
    "compile",
    "config",
    "data",
    "debugprint",
    "device",
    "devices",
    "foldl",
    "foldr",
    "function",
    "get_test_value",
    "gof",
    "grad",
    "gradient",
    "ifelse",
    "install_as_theano",
    "io",
    "loop",
    "map",
    "map_variables",
    "max_batch",
    "nn",
    "optim",
    "pp",
    "printing",
    "process_memory",
    "reduce",
    "scalar",
    "scan",
    "shared",
    "shared_constructor",
    "subgraph_grad",
    "tensor",
]
_readable.make_package_readable()
