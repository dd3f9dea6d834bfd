"""Theano's op classes of networks, see `snug._op_class`."""

from __future__ import annotations

import snug.tensor as T
from snug import scalar
from snug._core import sigmoid as sigmoid_inplace
from snug._op_class import REQUIRED, Table, make_classes

_TABLE: Table = {
    "CrossentropyCategorical1Hot": (
        [],
        {},
        lambda op, p, y: T.nnet.crossentropy_categorical_1hot(p, y),
        "-log of the probabilities of the true classes.",
    ),
    "CrossentropyCategorical1HotGrad": (
        [],
        {},
        lambda op, g, p, y: T.nnet.crossentropy_categorical_1hot_grad(g, p, y),
        "The gradient of CrossentropyCategorical1Hot by the probabilities.",
    ),
    "CrossentropySoftmax1HotWithBiasDx": (
        [],
        {},
        lambda op, dy, p, y: T.nnet.crossentropy_softmax_1hot_with_bias_dx(dy, p, y),
        "The gradient of a crossentropy of a softmax by what the softmax is of.",
    ),
    "CrossentropySoftmaxArgmax1HotWithBias": (
        [],
        {},
        lambda op, x, b, y: list(T.nnet.crossentropy_softmax_argmax_1hot_with_bias(x, b, y)),
        "The crossentropy, the softmax and the places of its largest elements.",
    ),
    "LogSoftmax": (
        ["log_softmax"],
        {},
        lambda op, x: T.nnet.logsoftmax(x),
        "The logarithm of a softmax over rows.",
    ),
    "Prepend_scalar_constant_to_each_row": (
        [],
        {"val": REQUIRED},
        lambda op, x: T.nnet.prepend_scalar_to_each_row(op.val, x),
        "A number in front of each row.",
    ),
    "Prepend_scalar_to_each_row": (
        [],
        {},
        lambda op, value, x: T.nnet.prepend_scalar_to_each_row(value, x),
        "A scalar in front of each row.",
    ),
    "Softmax": (["softmax"], {}, lambda op, x: T.nnet.softmax(x), "A softmax over rows."),
    "SoftmaxGrad": (
        [],
        {},
        lambda op, dy, p: T.nnet.softmax_grad(dy, p),
        "The gradient of a softmax by what it is of.",
    ),
    "SoftmaxWithBias": (
        [],
        {},
        lambda op, x, b: T.nnet.softmax_with_bias(x, b),
        "A softmax over rows of x + b.",
    ),
}
scalar_sigmoid = scalar.sigmoid


__all__ = [*_TABLE, "scalar_sigmoid", "sigmoid_inplace"]
globals().update(make_classes(_TABLE, __name__))
