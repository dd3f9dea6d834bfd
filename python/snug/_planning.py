"""Batches that fit a budget."""

from __future__ import annotations

from typing import Any, NamedTuple

from snug import _core
from snug._errors import error, memory_text


class MaxBatch(NamedTuple):
    """The largest batch that fits: its rows and its plan. If not even one row fits: 0, and the
    plan of one row without a budget."""

    rows: int
    plan: _core.MemoryReport


def max_batch(
    f: _core.Function,
    *shapes: Any,
    memory: str | int | None = None,
    axis: int = 0,
    **named: Any,
) -> MaxBatch:
    """The largest batch of a function that fits a budget, found by planning alone.

    snug.max_batch(f, memory="4GiB", x=(1, 3, 224, 224), y=(1,))

    memory      the budget: bytes or text; None: that of the function
    axis        of the inputs, along which the batch lies: of all that have the same size there as
                the first one
    shapes, named   of the inputs, as f.memory takes them; the sizes along the axis do not matter
    The techniques are those that the function may use: micro_batches, recompute and
    offload.
    """
    if not isinstance(f, _core.Function):
        raise error(TypeError, f"max_batch: a compiled function is needed, got {type(f).__name__}")
    return MaxBatch(*f._max_batch(memory_text("max_batch", memory), axis, *shapes, **named))
