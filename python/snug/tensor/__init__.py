"""Tensors: variables, constants and the functions that make expressions of them."""

from snug import printing
from snug._config import config
from snug._core import (
    Apply,
    Op,
    TensorConstant,
    TensorSharedVariable,
    TensorType,
    TensorVariable,
    Variable,
)
from snug.gradient import consider_constant, grad
from snug.printing import min_informative_str, pprint
from snug.tensor import (
    _methods,
    extra_ops,
    fft,
    nnet,
    shared_randomstreams,
    sharedvar,
    slinalg,
    var,  # the module; the function takes its name below
)
from snug.tensor._basic import *
from snug.tensor._complex import *
from snug.tensor._helpers import *
from snug.tensor._op_classes import *
from snug.tensor._types import *

# Theano's modules, which pass on what is above.
# isort: split
from snug import scalar as scal
from snug.scalar import int32
from snug.tensor import (
    basic,
    blas,
    elemwise,
    inplace,
    io,
    opt,
    subtensor,
    type,
    type_other,
    utils,
    xlogx,
)
from snug.tensor.io import LoadFromDisk, load, mpi_enabled

Constant, Type = TensorConstant, TensorType
int32_t = int32
# The scalar ops that get_scalar_constant_value computes: all of them.
get_scalar_constant_value_elemwises = (scal.ScalarOp,)
