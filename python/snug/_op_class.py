"""Theano's op classes over the rows of Snug: what the tables of the modules are made into.

A class answers `isinstance(v.owner.op, T.Elemwise)` by the row of the op, and an instance of it is
called as Theano's: `T.Join()(0, a, b)`. It only builds the expression that the function of the same
purpose builds, so the options that told Theano how to compute (inplace, view, openmp) are kept and
change nothing: the plan decides about memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from snug import _core
from snug._errors import error

REQUIRED = inspect.Parameter.empty
# name: (rows, constructor parameters with their defaults, what a call builds, doc)
Table = dict[str, tuple[Iterable[str], dict[str, Any], Callable[..., Any] | None, str]]


class _ByRow(type):
    """An op of a graph is an instance of the classes that its row belongs to."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if isinstance(instance, _core.Op):
            row = instance.name
            if row == "broadcast_to" and instance.attrs.get("for") == "specify_shape":
                row = "specify_shape"  # one row serves both, and says which
            return row in cls.rows
        return type.__instancecheck__(cls, instance)


class OpClass(metaclass=_ByRow):
    """The base of Theano's op classes: constructor arguments in `__props__`, a call builds."""

    rows: frozenset[str] = frozenset()
    __props__: tuple[str, ...] = ()
    default_output = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        bound = inspect.signature(type(self)).bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value)

    def build(self, *inputs: Any) -> Any:
        """The expression, or the list of expressions, of this op on inputs."""
        raise error(
            TypeError,
            f"{type(self).__name__}: this class only says what kind an op is",
            "use one of its subclasses",
        )

    def __call__(self, *inputs: Any, name: str | None = None, return_list: bool = False) -> Any:
        outputs = self.build(*inputs)
        if name is not None and isinstance(outputs, _core.Variable):
            outputs.name = name
        return [outputs] if return_list and not isinstance(outputs, list) else outputs

    def make_node(self, *inputs: Any) -> _core.Apply:
        """The Apply of this op on inputs."""
        outputs = self.build(*inputs)
        return (outputs[0] if isinstance(outputs, list) else outputs).owner

    def _key(self) -> tuple[Any, ...]:
        return (type(self), *(_hashable(getattr(self, name)) for name in self.__props__))

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__props__)
        return f"{type(self).__name__}{{{values}}}" if values else type(self).__name__


def _checked(name: str, build: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a class that builds, with an error of ours for inputs that are too many or too
    few."""
    signature = inspect.Signature(list(inspect.signature(build).parameters.values())[1:])

    def call(op: Any, *inputs: Any) -> Any:
        try:
            signature.bind(*inputs)
        except TypeError as e:
            raise error(TypeError, f"{name}: {e}", f"the inputs are {name}{signature}") from None
        return build(op, *inputs)

    return call


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(v) for v in value)
    return (value.start, value.stop, value.step) if isinstance(value, slice) else value


def make_classes(table: Table, module: str, bases: dict[str, str] | None = None) -> dict[str, type]:
    """The classes of a table; `bases` says which is derived from which."""
    bases = bases or {}
    made: dict[str, type] = {}

    def make(name: str) -> type:
        if name in made:
            return made[name]
        base = make(bases[name]) if name in bases else OpClass
        rows, parameters, build, doc = table[name]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        members: dict[str, Any] = {
            "__doc__": doc,
            "__module__": module,
            "__props__": tuple(parameters),
            "__signature__": inspect.Signature(
                [inspect.Parameter(p, kind, default=default) for p, default in parameters.items()]
            ),
            "rows": frozenset(rows),
        }
        if build is not None:
            members["build"] = _checked(name, build)
        made[name] = _ByRow(name, (base,), members)
        return made[name]

    for name in table:
        make(name)
    return made


def add_attribute(name: str, read: Callable[[_core.Op], Any], doc: str) -> None:
    """Gives the ops of graphs an attribute. `read` raises an AttributeError if an op has none."""
    read.__module__, read.__qualname__ = _core.__name__, f"Op.{name}"
    read.__name__, read.__doc__ = name, doc
    setattr(_core.Op, name, property(read))
