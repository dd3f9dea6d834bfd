"""Inputs and outputs of functions."""

from snug._function import In, Out, Param

SymbolicInput = In
SymbolicOutput = Out

__all__ = ["In", "Out", "Param", "SymbolicInput", "SymbolicOutput"]
