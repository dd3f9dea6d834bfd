"""Tensors: variables, constants and the functions that make expressions of them."""

import importlib
import sys

from snug import gof, printing
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
from snug._readable import make_readable as _make_readable
from snug.gradient import (
    DisconnectedType,
    Lop,
    Rop,
    consider_constant,
    grad,
    grad_not_implemented,
    grad_undefined,
    hessian,
    jacobian,
    numeric_grad,
    verify_grad,
)
from snug.printing import min_informative_str, pprint
from snug.tensor import (
    _methods,
    _type_methods,
    extra_ops,
    fft,
    nlinalg,
    nnet,
    opt,
    shared_randomstreams,
    sharedvar,
    signal,
    slinalg,
    var,  # the module; the function takes its name below
)
from snug.tensor._arrays import *
from snug.tensor._basic import *
from snug.tensor._complex import *
from snug.tensor._helpers import *
from snug.tensor._op_classes import *
from snug.tensor._special import *
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
    subtensor,
    type,
    type_other,
    utils,
    xlogx,
)
from snug.tensor.io import LoadFromDisk, load, mpi_enabled


def __getattr__(name: str):
    """The modules of the package that import this one: Theano has them as names here, too."""
    if name in ("compile", "gof"):
        return importlib.import_module(f"snug.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


Constant, Type = TensorConstant, TensorType
int32_t = int32
# The scalar ops that get_scalar_constant_value computes: all of them.
get_scalar_constant_value_elemwises = (scal.ScalarOp,)

# Functions of the extension get signatures and errors of ours, in every module that has them.
for _name, _module in list(sys.modules.items()):
    if _name.startswith(__name__):
        _make_readable(vars(_module))
