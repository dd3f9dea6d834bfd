"""Tensors: variables, constants and the functions that make expressions of them."""

from snug._core import (
    TensorConstant,
    TensorSharedVariable,
    TensorType,
    TensorVariable,
    Variable,
)
from snug._readable import make_readable as _make_readable
from snug.gradient import consider_constant, grad
from snug.tensor import _methods, extra_ops, nnet, shared_randomstreams, sharedvar, slinalg, type
from snug.tensor._basic import *
from snug.tensor._types import *

_make_readable(globals())
