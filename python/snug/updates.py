"""`OrderedUpdates`: updates of shared variables, in the order in which they were added."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from snug import _core
from snug._errors import error

__all__ = ["OrderedUpdates"]


class OrderedUpdates(OrderedDict):
    """A dict from shared variables to their new values. Two of them can be added unless they
    update the same variable."""

    def __init__(self, *items: Any, **kwargs: Any):
        super().__init__()
        for pairs in (*items, kwargs):
            self.update(pairs)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, _core.SharedVariable):
            raise error(
                TypeError,
                f"OrderedUpdates: {key!r} is no shared variable",
                "only shared variables have updates",
            )
        super().__setitem__(key, value)

    def update(self, other: Any = (), /, **kwargs: Any) -> None:
        pairs: Iterable[Any] = other.items() if isinstance(other, Mapping) else other or ()
        for key, value in (*pairs, *kwargs.items()):
            if self.get(key, value) is not value:
                raise KeyError(f"OrderedUpdates: {key} has two different updates")
            self[key] = value

    def __add__(self, other: Any) -> OrderedUpdates:
        result = OrderedUpdates()
        result.update(self)
        result.update(other)
        return result

    def __radd__(self, other: Any) -> OrderedUpdates:
        result = OrderedUpdates()
        result.update(other)
        result.update(self)
        return result
