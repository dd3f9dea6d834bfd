"""The part of JAX's interface that kernels written for it need, on Snug's functions: programs of
others run as they are, with `sys.modules["jax"]` set to this module.

As in JAX a function is compiled for the shapes of its arguments when it is first called, and within
it arrays are `Traced`: a variable of Snug with a known shape.
"""

import operator
import sys

import numpy as host

import snug
import snug.tensor as T


class Array(host.ndarray):
    """What goes in and comes out: an array of NumPy that is always ready."""

    def block_until_ready(self):
        return self


class Traced:
    def __init__(self, variable):
        self.variable = variable

    @property
    def shape(self):
        return tuple(self.variable.type.shape)

    @property
    def dtype(self):
        return self.variable.dtype

    @property
    def at(self):
        return At(self)

    def __getitem__(self, index):
        return Traced(self.variable[index])

    def __iter__(self):
        return (self[k] for k in range(self.shape[0]))

    def transpose(self, axes):
        return Traced(self.variable.dimshuffle(*axes))


class At:
    """x.at[index].set(values) and .add(values)"""

    def __init__(self, array):
        self.array = array

    def __getitem__(self, index):
        self.part = self.array.variable[index]
        return self

    def set(self, values):
        return Traced(T.set_subtensor(self.part, bare(values)))

    def add(self, values):
        return Traced(T.inc_subtensor(self.part, bare(values)))


def bare(value):
    return value.variable if isinstance(value, Traced) else value


def traced(function):
    """`function` of Snug's variables as one of arrays."""
    return lambda *arguments: Traced(function(*map(bare, arguments)))


for name in ("add", "sub", "mul", "truediv", "pow", "and", "or"):
    function = traced(getattr(operator, f"__{name}__"))
    setattr(Traced, f"__{name}__", function)
    setattr(Traced, f"__r{name}__", lambda a, b, function=function: function(b, a))
for name, function in {"neg": operator.neg, "lt": T.lt, "le": T.le, "gt": T.gt, "ge": T.ge}.items():
    setattr(Traced, f"__{name}__", traced(function))
Traced.__eq__, Traced.__ne__ = traced(T.eq), traced(T.neq)


def leaves(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


def jit(function, static_argnums=()):
    """Static arguments, and those that are no arrays, are a part of the program; a call from within
    another function is a part of that."""
    compiled = {}

    def call(*arguments, **within):
        if not any(isinstance(a, host.ndarray) for a in arguments):
            return function(*arguments, **within)
        arrays = [a for a in arguments if isinstance(a, host.ndarray)]
        key = tuple((a.shape, a.dtype) if isinstance(a, host.ndarray) else a for a in arguments)
        if key not in compiled:
            inputs = [T.TensorType(str(a.dtype), a.shape)() for a in arrays]
            given = iter(inputs)
            inside = [Traced(next(given)) if isinstance(a, host.ndarray) else a for a in arguments]
            results = leaves(function(*inside))
            compiled[key] = snug.function(inputs, [bare(r) for r in results])
        return tuple(r.view(Array) for r in compiled[key](*(a.view(host.ndarray) for a in arrays)))

    return call


class numpy:
    newaxis = None
    where, sqrt, abs = traced(T.where), traced(T.sqrt), traced(T.abs_)
    maximum, minimum = traced(T.maximum), traced(T.minimum)
    arange, zeros_like = traced(T.arange), traced(T.zeros_like)
    logical_not = traced(T.invert)

    @staticmethod
    def array(values):
        return host.array(values).view(Array)

    @staticmethod
    def zeros(shape, dtype="float64"):
        return Traced(T.zeros(shape, dtype))

    @staticmethod
    def stack(parts, axis=0):
        return Traced(T.stack([bare(p) for p in parts], axis=axis))


class lax:
    @staticmethod
    def scan(step, state, rows):
        """The last state, and the results of `step(state, row)` for every row."""

        def one(row, state):
            return [bare(value) for value in step(Traced(state), Traced(row))]

        (states, results), _ = snug.scan(one, [bare(rows)], [bare(state), None])
        return Traced(states[-1]), Traced(results)


def install():
    """`import jax` and `import jax.numpy as np` give this module."""
    sys.modules["jax"], sys.modules["jax.numpy"] = sys.modules[__name__], numpy
