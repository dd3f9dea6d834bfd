"""Sizes that decide what is built: windows, strides, paddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from snug import _core
from snug._errors import error
from snug.tensor._dtypes import discrete_dtypes
from snug.tensor._helpers import extract_constant, known_integer

__all__ = ["integers", "integers_or_sizes"]


def _entries(what: str, name: str, value: Any, count: int) -> list[Any]:
    """`count` values: one for all of them, or those of a list, tuple or vector."""
    if isinstance(value, _core.TensorConstant):
        value = value.data
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, _core.Variable) and value.ndim == 1:
        return [value[k] for k in range(count)]
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise error(
            ValueError,
            f"{what}: {name} has {len(value)} entries: {value!r}",
            f"give {count} integers, or one for all",
        )
    return list(value)


def integers(what: str, name: str, value: Any, count: int) -> tuple[int, ...]:
    """`count` integers: one for all of them, or a list, tuple or constant vector."""
    return tuple(known_integer(v, f"{what}: {name}") for v in _entries(what, name, value, count))


def integers_or_sizes(what: str, name: str, value: Any, count: int) -> tuple[Any, ...]:
    """As `integers`; what only a call knows are 0-d integer expressions, or a vector of them."""
    out: list[Any] = []
    for entry in _entries(what, name, value, count):
        known = extract_constant(entry)
        unknown = isinstance(known, _core.Variable) and known.ndim == 0
        if unknown and known.dtype in discrete_dtypes:
            out.append(known)
        else:
            out.append(known_integer(known, f"{what}: {name}"))
    return tuple(out)
