"""Functions, modes and shared variables under the names of Theano's `compile`."""

from snug._core import Function, SharedVariable
from snug._errors import UnusedInputError
from snug._function import In, Out
from snug._mode import Mode, get_default_mode, get_mode, predefined_modes, register_mode
from snug._shared import shared, shared_constructor
from snug.compile import debugmode, io, mode, monitormode, nanguardmode, sharedvalue
from snug.compile.debugmode import DebugMode
from snug.compile.function import function
from snug.compile.io import Param, SymbolicInput, SymbolicOutput
from snug.compile.monitormode import MonitorMode
from snug.compile.nanguardmode import NanGuardMode

__all__ = [
    "DebugMode",
    "Function",
    "In",
    "Mode",
    "MonitorMode",
    "NanGuardMode",
    "Out",
    "Param",
    "SharedVariable",
    "SymbolicInput",
    "SymbolicOutput",
    "UnusedInputError",
    "debugmode",
    "function",
    "get_default_mode",
    "get_mode",
    "io",
    "mode",
    "monitormode",
    "nanguardmode",
    "predefined_modes",
    "register_mode",
    "shared",
    "shared_constructor",
    "sharedvalue",
]
