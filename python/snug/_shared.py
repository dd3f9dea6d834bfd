"""Values that live between calls: `snug.shared`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from snug import _core
from snug._attach import attach
from snug._errors import error

_constructors: list[Callable[..., Any]] = []


def shared_constructor(ctor: Callable[..., Any], remove: bool = False) -> Callable[..., Any]:
    """Registers a function that `shared` asks first: ctor(value, name, strict, allow_downcast,
    **kwargs) gives a variable, or raises a TypeError if it does not take the value."""
    if remove:
        _constructors.remove(ctor)
    else:
        _constructors.append(ctor)
    return ctor


def shared(
    value: Any,
    name: str | None = None,
    strict: bool = False,
    allow_downcast: bool | None = None,
    borrow: bool = False,
    broadcastable: Sequence[bool] | None = None,
    target: str | None = None,
    **kwargs: Any,
) -> _core.TensorSharedVariable:
    """A variable whose value lives between calls.

    The value gives the dtype and the number of dimensions; no dimension stretches unless
    `broadcastable` says so. A Recipe is materialised when it is first needed. `strict` and
    `allow_downcast` say what later calls of set_value may convert. The value is always copied,
    which `borrow` allows and does not demand; there is one place for it, so `target` changes
    nothing.
    """
    for constructor in reversed(_constructors):
        try:
            return constructor(value, name, strict, allow_downcast, borrow=borrow, **kwargs)
        except TypeError:
            continue
    if kwargs:
        known = ["allow_downcast", "borrow", "broadcastable", "name", "strict", "target", "value"]
        near = _core.nearest(next(iter(kwargs)), known)
        raise error(
            TypeError,
            f"shared: there is no argument '{next(iter(kwargs))}'",
            f"did you mean '{near}'?" if near else "",
        )
    if isinstance(value, _core.Variable):
        raise error(TypeError, f"shared: {value} is a variable", "give an array or a number")
    if isinstance(value, (list, tuple, dict, str)) or value is None:
        raise error(
            TypeError,
            f"shared: cannot make a shared variable of a {type(value).__name__}",
            "give a number or an array: numpy.asarray(value)",
        )
    if name is not None and not isinstance(name, str):
        raise error(TypeError, f"shared: name must be a string, got {name!r}")
    if isinstance(value, (bool, int, float)):
        value = np.asarray(value)
    return _core.make_shared(value, name or "", strict, allow_downcast, broadcastable)


class SharedContainer:
    """Where the value of a shared variable is: `c.value`, `c.data` and `c.storage[0]` read it."""

    def __init__(self, variable: _core.SharedVariable):
        self._variable = variable
        self.name = variable.name
        self.type = variable.type

    @property
    def value(self) -> Any:
        return self._variable.get_value(borrow=True)

    @value.setter
    def value(self, value: Any) -> None:
        self._variable.set_value(value)

    data = value

    @property
    def storage(self) -> list[Any]:
        return [self.value]


class _Methods:
    @property
    def container(self):
        """Where the value is."""
        return SharedContainer(self)

    def zero(self, borrow=False):
        """Sets all elements to 0."""
        self.set_value(np.zeros(self.current_shape, self.type.numpy_dtype))

    def clone(self):
        """Another variable of the same value: what is written to one is read from both."""
        return self._alias()


attach(_core.TensorSharedVariable, _Methods)
