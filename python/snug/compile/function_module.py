"""Compiled functions."""

from snug._core import Function
from snug._errors import UnusedInputError
from snug._function_methods import Maker as FunctionMaker

__all__ = ["Function", "FunctionMaker", "UnusedInputError"]
