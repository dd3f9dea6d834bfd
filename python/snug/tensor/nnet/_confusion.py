"""How often each class is taken for each."""

from __future__ import annotations

from typing import Any

import snug.tensor as T
from snug import _core
from snug._errors import error

__all__ = ["confusion_matrix"]


def confusion_matrix(actual: Any, pred: Any) -> list[_core.Variable]:
    """How often each actual class (row) was predicted as each class (column), and the classes in
    the order of the rows: those that occur in one of the vectors, rising."""
    actual = _core.as_tensor(actual, "confusion_matrix")
    pred = _core.as_tensor(pred, "confusion_matrix")
    for classes in (actual, pred):
        if classes.ndim != 1:
            raise error(
                ValueError, f"confusion_matrix: expected vectors, got {classes.ndim} dimensions"
            )
    order = T.unique(T.concatenate([actual, pred]))
    hot = [T.eq(c.dimshuffle(0, "x"), order.dimshuffle("x", 0)) for c in (actual, pred)]
    return [T.dot(hot[0].T.astype("int64"), hot[1].astype("int64")), order]
