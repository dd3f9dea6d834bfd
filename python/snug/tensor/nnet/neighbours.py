"""Windows of images as the rows of a matrix, and back."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug.tensor._op_classes import make_classes

__all__ = ["Images2Neibs", "images2neibs", "neibs2images"]


def _sizes(value: Any, count: int, what: str) -> list[Any]:
    """The elements of a list, or of a vector."""
    if isinstance(value, _core.Variable):
        return [value[k] for k in range(count)]
    return [_core.as_tensor(v, what) for v in value]


def images2neibs(
    ten4: Any, neib_shape: Any, neib_step: Any = None, mode: str = "valid"
) -> _core.Variable:
    """A matrix with one row per window of images (batch, channels, rows, columns): by image, channel,
    row and column of the window, its elements in C order.

    neib_shape  rows and columns of a window
    neib_step   rows and columns from window to window; without it they lie side by side
    mode        "valid": the windows fill the images; "ignore_borders": what is left over is left
                out; "half" and "full": with neib_shape // 2 or neib_shape - 1 zeros around the
                images; "wrap_centered": one around every place, which goes on at the other side
    """
    shape = _sizes(neib_shape, 2, "images2neibs")
    step = () if neib_step is None else _sizes(neib_step, 2, "images2neibs")
    return _core.images2neibs(ten4, shape, step, mode)


def neibs2images(
    neibs: Any, neib_shape: Any, original_shape: Any, mode: str = "valid"
) -> _core.Variable:
    """The images of original_shape that images2neibs made the matrix of, with windows side by side.
    With mode "ignore_borders" what was left out is 0."""
    return _core.neibs2images(
        neibs,
        _sizes(neib_shape, 2, "neibs2images"),
        _sizes(original_shape, 4, "neibs2images"),
        mode,
    )


Images2Neibs = make_classes(
    {
        "Images2Neibs": (
            [],
            {"mode": "valid"},
            lambda op, x, shape, step=None: images2neibs(x, shape, step, op.mode),
            "Windows of images as the rows of a matrix.",
        )
    },
    {},
    __name__,
)["Images2Neibs"]
