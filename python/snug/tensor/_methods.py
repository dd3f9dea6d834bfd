"""Methods and properties of variables, which the functions of this package carry out."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._core import TensorVariable
from snug.tensor import _basic as T
from snug.tensor import _special


class Scratchpad:
    """What `x.tag` is: a place for attributes."""

    def __repr__(self) -> str:
        return f"scratchpad({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


def _items(args: tuple[Any, ...]) -> Any:
    """f(1, 2) and f((1, 2)) mean the same."""
    return args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args


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

    def reshape(self, shape, ndim=None, *more) -> TensorVariable:
        if isinstance(shape, (list, tuple)) or getattr(shape, "ndim", 0) == 1:
            return T.reshape(self, shape, ndim)
        # x.reshape(2, 3): the second size stands where ndim would.
        sizes = [shape] if ndim is None else [shape, ndim, *more]
        return T.reshape(self, sizes)

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
        return T.squeeze(self, axis)

    def dot(self, other) -> TensorVariable:
        return T.dot(self, other)

    def clip(self, a_min, a_max) -> TensorVariable:
        return T.clip(self, a_min, a_max)

    def round(self, mode=None) -> TensorVariable:
        return _special.round(self, mode)

    def nonzero(self):
        return T.nonzero(self)

    def nonzero_values(self) -> TensorVariable:
        return T.nonzero_values(self)

    def take(self, indices, axis=None) -> TensorVariable:
        return T.take(self, indices, axis)

    def fill(self, value) -> TensorVariable:
        return _special.fill(self, value)

    def zeros_like(self, dtype=None) -> TensorVariable:
        return T.zeros_like(self, dtype)

    def ones_like(self, dtype=None) -> TensorVariable:
        return T.ones_like(self, dtype)

    def copy(self, name=None) -> TensorVariable:
        result = T.tensor_copy(self)
        result.name = name
        return result

    def clone(self) -> TensorVariable:
        """A new input variable of the same type and name."""
        return self.type(self.name)

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
        return cache[inputs](*(given[x] for x in inputs))


def _attach(name: str, member: Any) -> None:
    """Makes a member of _Methods one of Variable."""
    for function in (member.fget, member.fset) if isinstance(member, property) else (member,):
        if function is not None:
            function.__module__, function.__qualname__ = _core.__name__, f"Variable.{name}"
    if not isinstance(member, property) and not member.__doc__:
        function = getattr(T, name, None) or getattr(_special, name, None)
        member.__doc__ = getattr(function, "__doc__", None)
    setattr(_core.Variable, name, member)


for _name, _member in list(vars(_Methods).items()):
    if not _name.startswith("_"):
        _attach(_name, _member)
