"""More functions over tensors."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._errors import error
from snug.tensor._basic import arange, eq

__all__ = ["to_one_hot"]


def to_one_hot(y: Any, nb_class: Any, dtype: Any = None) -> _core.Variable:
    """One row per element of the integer vector y, with 1 in column y[i] and 0 elsewhere."""
    y = _core.as_tensor(y, "to_one_hot")
    if y.ndim != 1:
        raise error(ValueError, f"to_one_hot: expected a vector, got {y.ndim} dimensions")
    hot = eq(y.dimshuffle(0, "x"), arange(nb_class).dimshuffle("x", 0))
    return hot.astype("floatX" if dtype is None else dtype)
