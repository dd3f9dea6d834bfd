"""Tensors: variables, constants and the functions that make expressions of them."""

from snug._core import (
    TensorConstant,
    TensorSharedVariable,
    TensorType,
    TensorVariable,
    Variable,
)
from snug.gradient import consider_constant, grad
from snug.tensor import _methods, extra_ops, fft, nnet, shared_randomstreams, sharedvar, slinalg
from snug.tensor._basic import *
from snug.tensor._complex import *
from snug.tensor._types import *
