"""Functions, modes and shared variables under the names of Theano's `compile`."""

from snug._errors import UnusedInputError
from snug._function import In, Out
from snug.compile import (
    builders,
    debugmode,
    function_module,
    io,
    mode,
    monitormode,
    nanguardmode,
    ops,
    sharedvalue,
)
from snug.compile.builders import OpFromGraph
from snug.compile.debugmode import DebugMode
from snug.compile.function import function
from snug.compile.function_module import Function, FunctionMaker
from snug.compile.io import Param, SymbolicInput, SymbolicOutput
from snug.compile.mode import *
from snug.compile.monitormode import MonitorMode
from snug.compile.nanguardmode import NanGuardMode
from snug.compile.ops import *
from snug.compile.pfunc import pfunc
from snug.compile.sharedvalue import SharedVariable, shared, shared_constructor

__all__ = [
    *mode.__all__,
    *ops.__all__,
    "DebugMode",
    "Function",
    "FunctionMaker",
    "In",
    "MonitorMode",
    "NanGuardMode",
    "OpFromGraph",
    "Out",
    "Param",
    "SharedVariable",
    "SymbolicInput",
    "SymbolicOutput",
    "UnusedInputError",
    "builders",
    "debugmode",
    "function",
    "function_module",
    "io",
    "mode",
    "monitormode",
    "nanguardmode",
    "ops",
    "pfunc",
    "shared",
    "shared_constructor",
    "sharedvalue",
]


def __getattr__(name: str):
    """Says why a name of Theano's is not there."""
    from snug._theano_parts.absent import attribute_error

    raise attribute_error(__name__, name)
