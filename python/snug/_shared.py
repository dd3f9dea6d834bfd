"""Values that live between calls: `snug.shared`."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from snug import _core
from snug._attach import attach
from snug._devices import device
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
) -> Any:
    """A variable whose value lives between calls.

    The value gives the dtype and the number of dimensions; no dimension stretches unless
    `broadcastable` says so. A Recipe is materialised when it is first needed. `strict` and
    `allow_downcast` say what later calls of set_value may convert. The value is always copied,
    which `borrow` allows and does not demand. `target` is the device where it is, and what is made
    of it: one of snug.devices(), or a name of Theano's; else it goes where it is needed. A list, a
    tuple or a dict is kept as it is, for no expression to use, as in Theano: numpy.asarray(value)
    makes a tensor of it.
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
    if value is None or isinstance(value, str):
        raise error(
            TypeError,
            f"shared: cannot make a shared variable of a {type(value).__name__}",
            "give a number or an array: numpy.asarray(value)",
        )
    if name is not None and not isinstance(name, str):
        raise error(TypeError, f"shared: name must be a string, got {name!r}")
    if isinstance(value, (list, tuple, dict)):
        return GenericSharedVariable(value, name)
    if isinstance(value, (bool, int, float)):
        value = np.asarray(value)
    with device(target) if target else nullcontext():
        return _core.make_shared(value, name or "", strict, allow_downcast, broadcastable)


class Container:
    """Where a value is: `c.value`, `c.data` and `c.storage[0]` read it, the first two set it."""

    def __init__(
        self,
        name: str | None,
        type: Any,
        get: Callable[[], Any],
        set: Callable[[Any], None],
    ):
        self.name, self.type = name, type
        self._get, self._set = get, set

    @property
    def value(self) -> Any:
        return self._get()

    @value.setter
    def value(self, value: Any) -> None:
        self._set(value)

    data = value

    @property
    def storage(self) -> list[Any]:
        return [self.value]

    def __repr__(self) -> str:
        return f"<{self.value!r}>"


def container_of(variable: _core.SharedVariable) -> Container:
    """Where the value of a shared variable is."""
    return Container(
        variable.name,
        variable.type,
        functools.partial(variable.get_value, borrow=True),
        variable.set_value,
    )


class GenericSharedVariable:
    """A value that is no tensor, such as a list, under the interface of shared variables. Theano
    makes them of what is neither an array nor a number; no expression takes them."""

    owner = None

    def __init__(self, value: Any, name: str | None = None):
        self.name, self._value = name, copy.deepcopy(value)

    @property
    def type(self) -> Any:
        from snug.tensor import Generic

        return Generic()

    @property
    def container(self) -> Container:
        return Container(self.name, self.type, lambda: self._value, self.set_value)

    def get_value(self, borrow: bool = False, return_internal_type: bool = False) -> Any:
        return self._value if borrow else copy.deepcopy(self._value)

    def set_value(self, new_value: Any, borrow: bool = False) -> None:
        self._value = new_value if borrow else copy.deepcopy(new_value)

    def __repr__(self) -> str:
        return self.name or f"<{self.type}>"


class _Methods:
    @property
    def container(self):
        """Where the value is."""
        return container_of(self)

    def zero(self, borrow=False):
        """Sets all elements to 0."""
        self.set_value(np.zeros(self.current_shape, self.type.numpy_dtype))

    def clone(self):
        """Another variable of the same value: what is written to one is read from both."""
        return self._alias()


attach(_core.TensorSharedVariable, _Methods)
