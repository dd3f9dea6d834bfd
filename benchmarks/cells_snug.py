"""The cells of cells.py in Snug, on commands from standard input."""

import sys

import jax_on_snug
import numpy as np
from cells_worker import serve

import snug
import snug.tensor as T


class Functions:
    """The functions that cells are written in."""

    exp, log, tanh, sqrt, abs = T.exp, T.log, T.tanh, T.sqrt, T.abs_
    sin, erf = T.sin, T.erf
    maximum, minimum, where = T.maximum, T.minimum, T.where
    sum, max, mean, var = T.sum, T.max, T.mean, T.var
    argmax, cumsum, sort = T.argmax, T.cumsum, T.sort
    dot = staticmethod(T.dot)
    sigmoid = T.nnet.sigmoid

    @staticmethod
    def prod(x, axis):
        return T.prod(x, axis=axis)

    @staticmethod
    def matmul(a, b):
        return T.batched_dot(a, b)

    @staticmethod
    def softmax(x):
        return T.nnet.softmax(x)

    @staticmethod
    def logsumexp(x, axis):
        return T.log(T.sum(T.exp(x), axis=axis))

    @staticmethod
    def transpose(x, axes):
        return T.transpose(x, axes)

    @staticmethod
    def reshape(x, shape):
        return T.reshape(x, shape)

    @staticmethod
    def concatenate(parts, axis):
        return T.concatenate(parts, axis=axis)

    @staticmethod
    def take(x, index):
        return x[index]

    @staticmethod
    def pick(x, index):
        return x[T.arange(x.shape[0]), index]

    @staticmethod
    def add_at(x, index, values):
        return T.inc_subtensor(x[index], values)

    @staticmethod
    def set_slice(x, at, values):
        return T.set_subtensor(x[at], values)

    @staticmethod
    def zeros_like(x):
        return T.zeros_like(x)

    @staticmethod
    def conv2d(x, w, stride=1, padding=0):
        return T.nnet.conv2d(x, w, border_mode=padding, subsample=(stride, stride))

    @staticmethod
    def max_pool(x, size):
        return snug.tensor.signal.pool.pool_2d(x, (size, size), ignore_border=True)

    @staticmethod
    def value_and_grads(loss, parameters, *rest):
        value = loss(*parameters, *rest)
        return (value, *T.grad(value, list(parameters)))


# whose file of a pyhpc kernel runs on Snug
PYHPC_FILES = {"isoneutral_mixing": "aesara", "turbulent_kinetic_energy": "jax"}


def variable(array):
    return T.TensorType(str(array.dtype), (False,) * array.ndim)()


def make(cell, arguments):
    inputs = [variable(a) for a in arguments]
    with_outputs = cell.program(Functions, *inputs)
    outputs = list(with_outputs) if isinstance(with_outputs, tuple) else with_outputs
    function = snug.function(inputs, outputs)
    arguments = [np.ascontiguousarray(a) for a in arguments]
    return lambda: function(*arguments)


if __name__ == "__main__":
    sys.modules["aesara"], sys.modules["aesara.tensor"] = snug, T
    jax_on_snug.install()
    serve(make, snug.__version__, lambda results: results, PYHPC_FILES)
