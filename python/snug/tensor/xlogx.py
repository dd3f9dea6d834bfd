"""x * log(x) and x * log(y) that are 0 where x is 0."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug.tensor._basic import eq, log, switch, zeros_like

__all__ = ["xlogx", "xlogy0"]


def xlogx(x: Any) -> _core.Variable:
    """x * log(x), 0 where x is 0."""
    return xlogy0(x, x)


def xlogy0(x: Any, y: Any) -> _core.Variable:
    """x * log(y), 0 where x is 0."""
    x, y = _core.as_tensor(x, "xlogy0"), _core.as_tensor(y, "xlogy0")
    nothing = eq(x, 0)
    # The logarithm that is not taken stays finite, or its gradient would be nan.
    product = x * log(switch(nothing, 1, y))
    return switch(nothing, zeros_like(product), product)
