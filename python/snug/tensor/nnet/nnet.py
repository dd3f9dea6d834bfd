"""Activations and losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from snug import _core
from snug._core import (
    binary_crossentropy,
    categorical_crossentropy,
    crossentropy_categorical_1hot_grad,
    prepend_scalar_to_each_row,
    selu,
    sigmoid_binary_crossentropy,
    softmax_grad,
    softsign,
)
from snug._core import crossentropy_softmax_1hot_dx as crossentropy_softmax_1hot_with_bias_dx
from snug._errors import error
from snug.tensor._dtypes import discrete_dtypes
from snug.tensor.nnet.sigm import hard_sigmoid, sigmoid, softplus, ultra_fast_sigmoid

__all__ = [
    "binary_crossentropy",
    "categorical_crossentropy",
    "crossentropy_categorical_1hot",
    "crossentropy_categorical_1hot_grad",
    "crossentropy_softmax_1hot",
    "crossentropy_softmax_1hot_with_bias",
    "crossentropy_softmax_1hot_with_bias_dx",
    "crossentropy_softmax_argmax_1hot_with_bias",
    "crossentropy_softmax_max_and_argmax_1hot",
    "crossentropy_softmax_max_and_argmax_1hot_with_bias",
    "elu",
    "h_softmax",
    "hard_sigmoid",
    "logsoftmax",
    "logsoftmax_op",
    "prepend_0_to_each_row",
    "prepend_1_to_each_row",
    "prepend_scalar_to_each_row",
    "relu",
    "selu",
    "sigmoid",
    "sigmoid_binary_crossentropy",
    "softmax",
    "softmax_grad",
    "softmax_graph",
    "softmax_op",
    "softmax_with_bias",
    "softplus",
    "softsign",
    "ultra_fast_sigmoid",
]


# ---- activations


def _rows(x: Any, name: str) -> _core.Variable:
    x = _core.as_tensor(x, name)
    if x.ndim == 1:
        x = x.dimshuffle("x", 0)
    if x.ndim != 2:
        raise error(
            ValueError,
            f"{name}: expected a vector or a matrix, got {x.ndim} dimensions",
            "reshape it to rows",
        )
    return x


def softmax(c: Any) -> _core.Variable:
    """exp(c) divided by its sum over each row; a vector is one row."""
    return _core.softmax(_rows(c, "softmax"))


def logsoftmax(c: Any) -> _core.Variable:
    """The logarithm of softmax(c), without going through small numbers."""
    return _core.log_softmax(_rows(c, "logsoftmax"))


softmax_op, logsoftmax_op = softmax, logsoftmax


def softmax_graph(c: Any) -> _core.Variable:
    """exp(c) divided by its sum over the last axis."""
    return _core.softmax(c)


def softmax_with_bias(x: Any, b: Any) -> _core.Variable:
    """softmax(x + b), b a vector."""
    return softmax(_core.add(x, b))


def relu(x: Any, alpha: Any = 0) -> Any:
    """x where it is positive, else alpha * x. Of integers the result is a float, as in Theano:
    float32 of those up to 16 bits, else float64. Without alpha, that of an array is an array."""
    positive = isinstance(alpha, (int, float)) and alpha == 0
    if positive and isinstance(x, (np.ndarray, np.generic, float, int)):
        return np.maximum(x, 0) * 1.0
    x = _core.as_tensor(x, "relu")
    x = _core.cast(x, _core.upcast(x.dtype, "float32")) if x.dtype in discrete_dtypes else x
    return _core.relu(x) if positive else _core.leaky_relu(x, alpha)


def elu(x: Any, alpha: Any = 1) -> _core.Variable:
    """x where it is positive, else alpha * (exp(x) - 1)."""
    return _core.elu(x, alpha)


def h_softmax(
    x: Any,
    batch_size: Any,
    n_outputs: Any,
    n_classes: Any,
    n_outputs_per_class: Any,
    W1: Any,
    b1: Any,
    W2: Any,
    b2: Any,
    target: Any = None,
) -> _core.Variable:
    """A softmax in two levels: over classes, and over the outputs of each class, which are in the
    order of the classes. Gives the probabilities of all outputs, or, with `target`, that of one
    output per row, for which it computes one class alone.

    W1  (features, n_classes), b1 (n_classes)
    W2  (n_classes, features, n_outputs_per_class), b2 (n_classes, n_outputs_per_class)
    batch_size, n_classes, n_outputs_per_class  accepted; the shapes say them
    """
    if target is None:
        return _core.h_softmax(x, W1, b1, W2, b2, n_outputs)
    return _core.h_softmax_of(x, W1, b1, W2, b2, target)


# ---- losses


def crossentropy_categorical_1hot(coding_dist: Any, true_one_of_n: Any) -> _core.Variable:
    """-log of the probability of the true class, one number per row."""
    classes = _core.as_tensor(true_one_of_n, "crossentropy_categorical_1hot")
    if classes.ndim != 1:
        raise error(
            TypeError,
            f"crossentropy_categorical_1hot: the class numbers are a vector, not {classes.type}",
        )
    return categorical_crossentropy(coding_dist, classes)


def crossentropy_softmax_1hot(x: Any, y_idx: Any) -> tuple[_core.Variable, ...]:
    """The cross-entropy of softmax(x) with the class numbers y_idx, and softmax(x)."""
    return _core.crossentropy_softmax_1hot(x, y_idx)


def crossentropy_softmax_1hot_with_bias(x: Any, b: Any, y_idx: Any) -> tuple[_core.Variable, ...]:
    """crossentropy_softmax_1hot(x + b, y_idx)"""
    return _core.crossentropy_softmax_1hot(_core.add(x, b), y_idx)


def crossentropy_softmax_argmax_1hot_with_bias(x: Any, b: Any, y_idx: Any) -> list[_core.Variable]:
    """The cross-entropy, the softmax of x + b, and the class of the largest probability, in the
    dtype of y_idx."""
    y_idx = _core.as_tensor(y_idx, "crossentropy_softmax_argmax_1hot_with_bias")
    scores = _core.add(x, b)
    loss, probabilities = _core.crossentropy_softmax_1hot(scores, y_idx)
    return [loss, probabilities, _core.cast(_core.argmax(scores, -1), y_idx.dtype)]


def crossentropy_softmax_max_and_argmax_1hot(x: Any, y_idx: Any) -> tuple[_core.Variable, ...]:
    """The cross-entropy, the softmax of x, its largest probability, and that one's class."""
    loss, probabilities = _core.crossentropy_softmax_1hot(x, y_idx)
    return loss, probabilities, _core.max(probabilities, -1), _core.argmax(probabilities, -1)


def crossentropy_softmax_max_and_argmax_1hot_with_bias(
    x: Any, b: Any, y_idx: Any
) -> tuple[_core.Variable, ...]:
    """crossentropy_softmax_max_and_argmax_1hot(x + b, y_idx)"""
    return crossentropy_softmax_max_and_argmax_1hot(_core.add(x, b), y_idx)


# ---- others


def prepend_0_to_each_row(mat: Any) -> _core.Variable:
    """The matrix with a column of zeros in front."""
    return prepend_scalar_to_each_row(0, mat)


def prepend_1_to_each_row(mat: Any) -> _core.Variable:
    """The matrix with a column of ones in front."""
    return prepend_scalar_to_each_row(1, mat)


def __getattr__(name: str) -> Any:
    """The op classes, which need this module."""
    from snug.tensor.nnet import _confusion, _op_classes

    for module in (_op_classes, _confusion):
        if name in vars(module) and not name.startswith("_"):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
