"""Pooling: one number for every window of the last axes."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._errors import error
from snug.tensor._basic import maximum
from snug.tensor._op_classes import make_classes
from snug.tensor._sizes import integers, integers_or_sizes

__all__ = ["Pool", "max_pool_2d_same_size", "pool_2d", "pool_3d"]


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
    if padding is not None and pad is not None and any(integers_or_sizes(what, "pad", pad, ndim)):
        raise error(ValueError, f"{what}: pad and padding are the same; both are given")
    pad = pad if padding is None else padding
    if ws is None:
        raise error(ValueError, f"{what}: ws, the size of the window, is not given")
    input = _core.as_tensor(input, what)
    if input.ndim < ndim:
        raise error(
            NotImplementedError,
            f"{what}: {input} has {input.ndim} dimensions, it needs at least {ndim}",
        )
    sizes = [
        () if value is None else integers_or_sizes(what, name, value, ndim)
        for name, value in (("ws", ws), ("stride", stride), ("pad", pad))
    ]
    symbolic = any(isinstance(size, _core.Variable) for some in sizes for size in some)
    pool = _core.pool_of_sizes if symbolic else _core.pool
    return pool(input, *sizes, bool(ignore_border), mode)


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

    Sizes may be integer expressions. Such a pool is slower, and the gradient of "max" goes to all
    of equal elements.
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


def _windows(size: Any, window: int, stride: int, ignore_border: bool) -> Any:
    """How many windows an axis has."""

    def at_least_0(value: Any) -> Any:
        return maximum(value, 0) if isinstance(value, _core.Variable) else max(value, 0)

    if ignore_border:
        return at_least_0((size - window) // stride + 1)
    if stride >= window:
        return (size - 1) // stride + 1
    return at_least_0((size - 1 - window + stride) // stride) + 1


def _out_shape(
    imgshape: Any,
    ws: Any = None,
    ignore_border: bool = False,
    stride: Any = None,
    pad: Any = None,
    ndim: int = 2,
    ds: Any = None,
    st: Any = None,
    padding: Any = None,
) -> list[Any]:
    """The shape of what pooling gives of images of imgshape."""
    ws = integers("Pool", "ws", _one_of("Pool", "ws", ws, "ds", ds), ndim)
    stride = _one_of("Pool", "stride", stride, "st", st)
    pad = _one_of("Pool", "pad", pad, "padding", padding)
    steps = ws if stride is None else integers("Pool", "stride", stride, ndim)
    more = (0,) * ndim if pad is None else integers("Pool", "pad", pad, ndim)
    sizes = list(imgshape)
    for k in range(ndim):
        axis = len(sizes) - ndim + k
        sizes[axis] = _windows(sizes[axis] + 2 * more[k], ws[k], steps[k], ignore_border)
    return sizes


def _build(op: Any, x: Any, ws: Any, stride: Any = None, pad: Any = None) -> _core.Variable:
    return _pool(op.ndim, x, ws, op.ignore_border, stride, pad, op.mode, None, None, None)


Pool = make_classes(
    {
        "Pool": (
            ["average_pool", "max_pool"],
            {"ignore_border": False, "mode": "max", "ndim": 2, "openmp": None},
            _build,
            "Pooling over the last `ndim` axes; a call gives the images, the window, the stride "
            "and the padding.",
        )
    },
    {},
    __name__,
)["Pool"]
Pool.out_shape = staticmethod(_out_shape)
