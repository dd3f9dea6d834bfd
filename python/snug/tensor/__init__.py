"""Tensors: variables, constants and the functions that make expressions of them."""

from snug._core import (
    TensorConstant,
    TensorSharedVariable,
    TensorType,
    TensorVariable,
    Variable,
)
from snug.gradient import consider_constant, grad
from snug.tensor import _methods, extra_ops, nnet, shared_randomstreams, sharedvar, slinalg
from snug.tensor._arrays import *
from snug.tensor._basic import *
from snug.tensor._types import *
from snug.tensor.extra_ops import (
    bartlett,
    bincount,
    cumprod,
    cumsum,
    diff,
    fill_diagonal,
    fill_diagonal_offset,
    ravel_multi_index,
    repeat,
    unique,
    unravel_index,
)
from snug.tensor.sort import argsort, argtopk, sort, topk, topk_and_argtopk
