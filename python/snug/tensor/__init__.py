"""Tensors: variables, constants and the functions that make expressions of them."""

from snug._core import (
    TensorConstant,
    TensorSharedVariable,
    TensorType,
    TensorVariable,
    Variable,
)
from snug.tensor import _methods
from snug.tensor._basic import *
from snug.tensor._types import *
from snug.tensor import extra_ops, nnet, sharedvar, shared_randomstreams, slinalg
from snug.gradient import consider_constant, grad
