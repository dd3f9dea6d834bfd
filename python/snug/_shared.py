"""Values that live between calls: `snug.shared`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from snug import _core
from snug._errors import error


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
