"""Batches that fit a budget."""

from __future__ import annotations

from typing import Any, NamedTuple

from snug import _core
from snug._errors import error, memory_text


class _Largest(NamedTuple):
    rows: int
    plan: _core.MemoryReport


class MaxBatch(_Largest):
    """The largest batches that fit a budget; `print` shows them as a table.

    rows      the most by any way, and `plan`, its plan. If not even one row fits: 0, and the plan
              of one row without a budget. `rows, plan = max_batch(...)` takes them apart
    ways      the largest batch of each way: as it is, with recomputation, in slices. Each has its
              name, rows, plan, how, and the predicted seconds and seconds_per_row
    advised   the one to take: the smallest beyond which the predicted time per row falls by no
              more than 3 %. It may be smaller than `rows`
    why       it is advised
    """

    ways: list[_core.BatchWay]
    advised: _core.BatchWay
    why: str

    def __new__(cls, found: _core.MaxBatch) -> MaxBatch:
        self = super().__new__(cls, found.rows, found.plan)
        self.ways, self.advised, self.why = found.ways, found.advised, found.why
        self._text = found.describe()
        return self

    def __str__(self) -> str:
        return self._text


def max_batch(
    f: _core.Function,
    *shapes: Any,
    memory: str | int | dict[str, str | int] | None = None,
    axis: int = 0,
    **named: Any,
) -> MaxBatch:
    """The largest batches of a function that fit a budget, found by planning alone.

    print(snug.max_batch(f, memory="4GiB", x=(1, 3, 224, 224), y=(1,)))

    memory      the budget: bytes, text or one for each device; None: that of the function, and of
                devices without one what they have
    axis        of the inputs, along which the batch lies: of all that have the same size there as
                the first one
    shapes, named   of the inputs, as f.memory takes them; the sizes along the axis do not matter
    The techniques are those that the function may use: micro_batches, recompute and
    offload.
    """
    if not isinstance(f, _core.Function):
        raise error(TypeError, f"max_batch: a compiled function is needed, got {type(f).__name__}")
    return MaxBatch(f._max_batch(memory_text("max_batch", memory), axis, *shapes, **named))
