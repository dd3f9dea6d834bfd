"""Values that live between calls: `snug.shared`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from snug import _core


def shared(
    value: Any,
    name: str | None = None,
    strict: bool = False,
    allow_downcast: bool | None = None,
    borrow: bool = False,
    broadcastable: Sequence[bool] | None = None,
) -> _core.TensorSharedVariable:
    """A variable whose value lives between calls.

    The value gives the dtype and the number of dimensions; no dimension stretches unless
    `broadcastable` says so. A Recipe is materialised when it is first needed. `strict` and
    `allow_downcast` say what later calls of set_value may convert. The value is always copied,
    which `borrow` allows and does not demand.
    """
    if isinstance(value, _core.Variable):
        raise TypeError(f"shared: {value} is a variable; give an array or a number")
    if isinstance(value, (list, tuple, dict, str)) or value is None:
        raise TypeError(
            f"shared: cannot make a shared variable of a {type(value).__name__}; "
            "use numpy.asarray(value)"
        )
    if isinstance(value, (bool, int, float)):
        value = np.asarray(value)
    return _core.make_shared(value, name or "", strict, allow_downcast, broadcastable)
