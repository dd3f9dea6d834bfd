"""Tensors: variables, constants and the functions that make expressions of them."""

from snug._core import (
    TensorConstant,
    TensorSharedVariable,
    TensorType,
    TensorVariable,
    Variable,
)
from snug.gradient import (
    Lop,
    Rop,
    consider_constant,
    grad,
    hessian,
    jacobian,
    numeric_grad,
    verify_grad,
)
from snug.tensor import _methods, extra_ops, nnet, opt, shared_randomstreams, sharedvar, slinalg
from snug.tensor._basic import *
from snug.tensor._types import *
