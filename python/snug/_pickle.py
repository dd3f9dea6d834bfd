"""What pickles call to make expressions again. A pickle holds their names, so they stay."""

from __future__ import annotations

from typing import Any

from snug import _core


def load(data: bytes, outside: list[Any], values: list[Any]) -> _core._Part:
    """Expressions that were saved together."""
    return _core._load(data, outside, values)


def expression(part: _core._Part, number: int) -> _core.Variable:
    """One of them."""
    return _core._expression(part, number)


def random_stream(seed: int, states: list[Any]) -> _core.RandomStream:
    """A source of random expressions with the draws made before."""
    return _core._random_stream(seed, states)


def function(entries: Any, outputs: Any, result: Any, options: Any) -> _core.Function:
    """A compiled function."""
    return _core.compile(entries, outputs, result, options)


def op(name: str, attributes: list[Any]) -> _core.Op:
    """An op with its constants, to look at."""
    return _core._op(name, attributes)
