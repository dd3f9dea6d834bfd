"""Sizes that decide what is built: windows, strides, paddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from snug import _core
from snug._errors import error
from snug.tensor._helpers import known_integer

__all__ = ["integers"]


def integers(what: str, name: str, value: Any, count: int) -> tuple[int, ...]:
    """`count` integers: one for all of them, or a list, tuple or constant vector."""
    if isinstance(value, _core.TensorConstant):
        value = value.data
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        return (known_integer(value, f"{what}: {name}"),) * count
    if len(value) != count:
        raise error(
            ValueError,
            f"{what}: {name} has {len(value)} entries: {value!r}",
            f"give {count} integers, or one for all",
        )
    return tuple(known_integer(v, f"{what}: {name}") for v in value)
