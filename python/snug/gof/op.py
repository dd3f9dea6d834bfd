"""What ops are, and the test values of what they are applied to."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from snug._building import get_test_value
from snug._config import config
from snug._core import Op

PureOp = Op

__all__ = [
    "Op",
    "PureOp",
    "debug_assert",
    "get_debug_values",
    "get_test_value",
    "missing_test_message",
]


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
        raise AttributeError(msg)
    if config.compute_test_value == "warn":
        warnings.warn(msg, stacklevel=2)
