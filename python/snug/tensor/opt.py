"""Theano's module of this name, as far as programs build expressions with it: conditions that a
function checks while it runs. Snug's own rewrites are tables of formulas in its core and are chosen
by `function(disabled_passes=...)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from snug import _core
from snug.tensor._op_classes import MakeVector, make_vector

__all__ = ["Assert", "MakeVector", "assert_", "assert_op", "make_vector"]


class Assert:
    """Assert(msg)(x, *conds) is x; a call raises AssertionError with the message if one of the 0-d
    conditions is 0, and changes nothing. The result must be used for the conditions to be checked.
    """

    def __init__(self, msg: str = "the asserted condition does not hold") -> None:
        self.msg = msg

    def __call__(self, value: Any, *conds: Any) -> _core.Variable:
        conditions = [np.asarray(c) if isinstance(c, bool) else c for c in conds]
        return _core.assert_all(value, conditions, str(self.msg))


assert_ = assert_op = Assert()
