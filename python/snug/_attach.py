"""Members of classes of the extension that are written in Python."""

from __future__ import annotations

from typing import Any

from snug import _core

_PART_OF_EVERY_CLASS = {"__dict__", "__doc__", "__module__", "__qualname__", "__weakref__"}


def attach(cls: type, source: type, *docs: Any) -> None:
    """Makes the members of `source` members of `cls`. Those without a doc have the one of the
    function of the same name in the first of the modules `docs` that has it."""
    for name, member in vars(source).items():
        if name in _PART_OF_EVERY_CLASS:
            continue
        inner = member.__func__ if isinstance(member, staticmethod) else member
        for function in (inner.fget, inner.fset) if isinstance(inner, property) else (inner,):
            if callable(function):
                function.__module__ = _core.__name__
                function.__qualname__ = f"{cls.__name__}.{name}"
        if callable(inner) and not inner.__doc__:
            known = (getattr(module, name) for module in docs if hasattr(module, name))
            inner.__doc__ = getattr(next(known, None), "__doc__", None)
        setattr(cls, name, member)
