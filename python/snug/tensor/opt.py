"""Theano's module of this name, as far as programs build expressions with it. Snug's own rewrites
are tables of formulas in its core and are chosen by `function(disabled_passes=...)`."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug.tensor._op_classes import OpClass

__all__ = ["MakeVector", "make_vector"]


class MakeVector(OpClass):
    """A vector of 0-d expressions, in the given dtype or their upcast."""

    rows = frozenset(["make_vector"])
    __props__ = ("dtype",)

    def __init__(self, dtype: str | None = "int64") -> None:
        self.dtype = dtype

    def build(self, *elements: Any) -> _core.Variable:
        from snug.tensor import cast, stack

        dtype = self.dtype or _core.upcast(*(_core.as_tensor(e).dtype for e in elements))
        return stack([cast(e, dtype) for e in elements])


make_vector = MakeVector()
