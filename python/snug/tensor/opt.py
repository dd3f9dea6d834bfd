"""Conditions that a function checks while it runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from snug import _core

__all__ = ["Assert", "assert_", "assert_op"]


class Assert:
    """Assert(msg)(x, *conds) is x; a call raises AssertionError with the message if one of the 0-d
    conditions is 0, and changes nothing. The result must be used for the conditions to be checked.
    """

    def __init__(self, msg: str = "the asserted condition does not hold") -> None:
        self.msg = msg

    def __call__(self, value: Any, *conds: Any) -> _core.Variable:
        conditions = [np.asarray(c) if isinstance(c, bool) else c for c in conds]
        return _core.assert_(value, conditions, str(self.msg))


assert_ = assert_op = Assert()
