"""Pooling: one number for every window of the last axes."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._errors import error
from snug.tensor._sizes import integers

__all__ = ["max_pool_2d_same_size", "pool_2d", "pool_3d"]


def _one_of(what: str, name: str, value: Any, old: str, old_value: Any) -> Any:
    """An argument, or what was given under its old name."""
    if value is not None and old_value is not None:
        raise error(
            ValueError, f"{what}: {name} and {old} are the same; both are given", f"drop {old}"
        )
    return value if old_value is None else old_value


def _pool(
    ndim: int,
    input: Any,
    ws: Any,
    ignore_border: bool | None,
    stride: Any,
    pad: Any,
    mode: str,
    ds: Any,
    st: Any,
    padding: Any,
) -> _core.Variable:
    what = f"pool_{ndim}d"
    ws = _one_of(what, "ws", ws, "ds", ds)
    stride = _one_of(what, "stride", stride, "st", st)
    if padding is not None and pad is not None and any(integers(what, "pad", pad, ndim)):
        raise error(ValueError, f"{what}: pad and padding are the same; both are given")
    pad = pad if padding is None else padding
    if ws is None:
        raise error(ValueError, f"{what}: ws, the size of the window, is not given")
    input = _core.as_tensor(input, what)
    if input.ndim < ndim:
        raise error(
            NotImplementedError, f"{what}: {input} has {input.ndim} dimensions, at least {ndim} go"
        )
    return _core.pool(
        input,
        integers(what, "ws", ws, ndim),
        () if stride is None else integers(what, "stride", stride, ndim),
        () if pad is None else integers(what, "pad", pad, ndim),
        bool(ignore_border),
        mode,
    )


def pool_2d(
    input: Any,
    ws: Any = None,
    ignore_border: bool | None = None,
    stride: Any = None,
    pad: Any = (0, 0),
    mode: str = "max",
    ds: Any = None,
    st: Any = None,
    padding: Any = None,
) -> _core.Variable:
    """The largest element, the average or the sum of every window over the last two axes.

    ws             rows and columns of the window
    ignore_border  False (the default): a window that ends beyond the border counts, too
    stride         from window to window; without it they lie side by side
    pad            rows above and below, columns left and right
    mode           "max", "sum", "average_inc_pad" (counts the padding) or "average_exc_pad"
    ds, st, padding are old names of ws, stride and pad. The gradient of "max" goes to the first of
    equal elements.
    """
    return _pool(2, input, ws, ignore_border, stride, pad, mode, ds, st, padding)


def pool_3d(
    input: Any,
    ws: Any = None,
    ignore_border: bool | None = None,
    stride: Any = None,
    pad: Any = (0, 0, 0),
    mode: str = "max",
    ds: Any = None,
    st: Any = None,
    padding: Any = None,
) -> _core.Variable:
    """As pool_2d, over the last three axes."""
    return _pool(3, input, ws, ignore_border, stride, pad, mode, ds, st, padding)


def max_pool_2d_same_size(input: Any, patch_size: Any) -> _core.Variable:
    """input where it is the largest of its window, else 0. Windows lie side by side."""
    size = integers("max_pool_2d_same_size", "patch_size", patch_size, 2)
    return _core.max_pool_same_size(input, size)
