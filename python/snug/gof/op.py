"""What ops are, and the test values of what they are applied to."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from snug._attach import attach
from snug._building import get_test_value
from snug._config import config
from snug._core import Op
from snug._errors import error

__all__ = [
    "Op",
    "PureOp",
    "debug_assert",
    "get_debug_values",
    "get_test_value",
    "missing_test_message",
]


def _refused(self: Any, *args: Any, **kwargs: Any) -> None:
    raise error(
        NotImplementedError,
        f"{type(self).__name__}: ops are rows of the compiler, so a Python class cannot be one",
        "write it as a function that builds an expression",
    )


class _OpMethods:
    @classmethod
    def __init_subclass__(cls, **kwargs):
        # The class may be there, as part of a library; making an op of it is what cannot be.
        cls.__init__ = _refused


attach(Op, _OpMethods)
PureOp = Op


def get_debug_values(*args: Any) -> Iterator[tuple[Any, ...]]:
    """The test values of the arguments, once; nothing if config.compute_test_value is 'off', or
    'ignore' and one has none."""
    if config.compute_test_value == "off":
        return
    try:
        values = tuple(get_test_value(arg) for arg in args)
    except AttributeError:
        if config.compute_test_value == "raise":
            raise
        return
    yield values


def debug_assert(condition: Any, msg: str | None = None) -> None:
    """Fails if the condition does not hold and config.compute_test_value is 'raise'."""
    if config.compute_test_value == "raise" and not condition:
        raise AssertionError(msg or "debug_assert: the condition does not hold")


def missing_test_message(msg: str) -> None:
    """What config.compute_test_value says to do about a test value that is not there."""
    if config.compute_test_value == "raise":
        raise error(AttributeError, msg)
    if config.compute_test_value == "warn":
        warnings.warn(msg, stacklevel=2)
