"""Methods and properties of variables, which the functions of this package carry out."""

from __future__ import annotations

from typing import Any

from snug import _core, _devices
from snug._attach import attach
from snug._core import TensorVariable
from snug._errors import error
from snug.tensor import _arrays, _special
from snug.tensor import _basic as T
from snug.tensor import sort as sorting


class Scratchpad:
    """What `x.tag` is: a place for attributes."""

    def __repr__(self) -> str:
        return f"scratchpad({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


def _items(args: tuple[Any, ...]) -> Any:
    """f(1, 2) and f((1, 2)) mean the same."""
    one = args[0] if len(args) == 1 else 0
    return one if isinstance(one, (list, tuple, range)) or getattr(one, "ndim", 0) == 1 else args


class _Methods:
    @property
    def tag(self):
        """A place for attributes."""
        return self.__dict__.setdefault("_tag", Scratchpad())

    @tag.setter
    def tag(self, value):
        self.__dict__["_tag"] = value

    @property
    def shape(self) -> TensorVariable:
        """The sizes, an int64 vector that can be unpacked."""
        return _core.shape(self)

    @property
    def size(self) -> TensorVariable:
        """The number of elements."""
        return _core.prod(_core.shape(self))

    @property
    def T(self) -> TensorVariable:
        """The transpose."""
        return _core.transpose(self)

    @property
    def real(self) -> TensorVariable:
        """The real part."""
        return _core.real(self)

    @property
    def imag(self) -> TensorVariable:
        """The imaginary part."""
        return _core.imag(self)

    def conj(self) -> TensorVariable:
        return _core.conj(self)

    def conjugate(self) -> TensorVariable:
        return _core.conj(self)

    def sum(self, axis=None, dtype=None, keepdims=False, acc_dtype=None) -> TensorVariable:
        return T.sum(self, axis, dtype, keepdims, acc_dtype)

    def prod(self, axis=None, dtype=None, keepdims=False, acc_dtype=None) -> TensorVariable:
        return T.prod(self, axis, dtype, keepdims, acc_dtype)

    def mean(self, axis=None, dtype=None, keepdims=False, acc_dtype=None) -> TensorVariable:
        return T.mean(self, axis, dtype, False, keepdims, acc_dtype)

    def var(self, axis=None, ddof=0, keepdims=False, corrected=False) -> TensorVariable:
        return T.var(self, axis, ddof, keepdims, corrected)

    def std(self, axis=None, ddof=0, keepdims=False, corrected=False) -> TensorVariable:
        return T.std(self, axis, ddof, keepdims, corrected)

    def norm(self, L, axis=None, keepdims=False) -> TensorVariable:
        return _special.norm(self, L, axis, keepdims)

    def ptp(self, axis=None) -> TensorVariable:
        return _special.ptp(self, axis)

    def max(self, axis=None, keepdims=False) -> TensorVariable:
        return T.max(self, axis, keepdims)

    def min(self, axis=None, keepdims=False) -> TensorVariable:
        return T.min(self, axis, keepdims)

    def argmax(self, axis=None, keepdims=False) -> TensorVariable:
        return T.argmax(self, axis, keepdims)

    def argmin(self, axis=None, keepdims=False) -> TensorVariable:
        return T.argmin(self, axis, keepdims)

    def any(self, axis=None, keepdims=False) -> TensorVariable:
        return T.any(self, axis, keepdims)

    def all(self, axis=None, keepdims=False) -> TensorVariable:
        return T.all(self, axis, keepdims)

    def astype(self, dtype) -> TensorVariable:
        return T.cast(self, dtype)

    def reshape(self, *shape, ndim=None, **named) -> TensorVariable:
        """x.reshape((2, 3)), x.reshape(2, 3), x.reshape(vector, ndim=2)."""
        shape = (named.pop("shape"),) if "shape" in named and not shape else shape
        if named:
            raise error(TypeError, f"reshape: unknown arguments {', '.join(named)}")
        if not shape:
            raise error(TypeError, "reshape: no shape given")
        if isinstance(shape[0], (list, tuple)) or getattr(shape[0], "ndim", 0) == 1:
            if len(shape) > 2 or (len(shape) == 2 and ndim is not None):
                raise error(TypeError, "reshape: expected a shape and its number of dimensions")
            return T.reshape(self, shape[0], shape[1] if len(shape) == 2 else ndim)
        return T.reshape(self, list(shape), ndim)

    def dimshuffle(self, *pattern) -> TensorVariable:
        return _core.dimshuffle(self, _items(pattern))

    def flatten(self, ndim=1) -> TensorVariable:
        return T.flatten(self, ndim)

    def ravel(self) -> TensorVariable:
        return T.flatten(self, 1)

    def transpose(self, *axes) -> TensorVariable:
        axes = _items(axes)
        return T.transpose(self, axes if len(axes) > 0 else None)

    def swapaxes(self, axis1, axis2) -> TensorVariable:
        return T.swapaxes(self, axis1, axis2)

    def squeeze(self, axis=None) -> TensorVariable:
        return _core.squeeze(self, axis)

    def dot(self, other) -> TensorVariable:
        return T.dot(self, other)

    def clip(self, a_min, a_max) -> TensorVariable:
        return T.clip(self, a_min, a_max)

    def round(self, mode=None) -> TensorVariable:
        return _special.round(self, mode)

    def nonzero(self, return_matrix=False):
        return _arrays.nonzero(self, return_matrix)

    def nonzero_values(self) -> TensorVariable:
        return _core.nonzero_values(self)

    def take(self, indices, axis=None, mode="raise") -> TensorVariable:
        return _core.take(self, indices, axis, mode)

    def choose(self, choices, out=None, mode="raise") -> TensorVariable:
        return _arrays.choose(self, choices, out, mode)

    def compress(self, a, axis=None) -> TensorVariable:
        """The elements of a along an axis where self, a vector, is not 0."""
        return _core.compress(self, a, axis)

    def diagonal(self, offset=0, axis1=0, axis2=1) -> TensorVariable:
        return _core.diagonal(self, offset, axis1, axis2)

    def sort(self, axis=-1, kind="quicksort", order=None) -> TensorVariable:
        return sorting.sort(self, axis, kind, order)

    def argsort(self, axis=-1, kind="quicksort", order=None) -> TensorVariable:
        return sorting.argsort(self, axis, kind, order)

    def searchsorted(self, v, side="left", sorter=None) -> TensorVariable:
        return _core.searchsorted(self, v, side, sorter)

    def cumsum(self, axis=None) -> TensorVariable:
        return _core.cumsum(self, axis)

    def cumprod(self, axis=None) -> TensorVariable:
        return _core.cumprod(self, axis)

    def repeat(self, repeats, axis=None) -> TensorVariable:
        return _core.repeat(self, repeats, axis)

    def fill(self, value) -> TensorVariable:
        return _special.fill(self, value)

    def zeros_like(self, dtype=None) -> TensorVariable:
        return T.zeros_like(self, dtype)

    def ones_like(self, dtype=None) -> TensorVariable:
        return T.ones_like(self, dtype)

    def transfer(self, target) -> TensorVariable:
        return _devices.transfer(self, target)

    def copy(self, name=None) -> TensorVariable:
        result = T.tensor_copy(self)
        result.name = name
        return result

    def clone(self) -> TensorVariable:
        """A new variable of the same type, name and tag: a constant or a shared variable of the
        same value, otherwise an input."""
        copy = _core.copy_leaf(self) if self.owner is None else self.type(self.name)
        if "_tag" in self.__dict__ and copy is not self:
            copy.tag.__dict__.update(self.tag.__dict__)
        return copy

    def get_parents(self):
        """The Apply that computes it, in a list; empty for a leaf."""
        return [] if self.owner is None else [self.owner]

    def __copy__(self):
        return self.clone() if self.owner is None else T.tensor_copy(self)

    def eval(self, inputs_to_values=None):
        """The value, given {variable: value} for the inputs. The compiled function is kept."""
        from snug._function import function

        given = inputs_to_values or {}
        if isinstance(self, _core.TensorConstant) and not given:
            return self.data.copy()
        if isinstance(self, _core.SharedVariable) and not given and self.default_update is None:
            return self.get_value()
        cache = self.__dict__.setdefault("_eval_cache", {})
        inputs = tuple(sorted(given, key=id))
        if inputs not in cache:
            cache[inputs] = function(inputs, self)
            cache[inputs]._forget_source()  # it would hold this variable, which holds it
        return cache[inputs](*(given[x] for x in inputs))


attach(_core.Variable, _Methods, T, _special, _devices, _core)
