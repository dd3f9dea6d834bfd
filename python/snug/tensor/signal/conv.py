"""Convolutions of single images and filters."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._errors import error
from snug.tensor.nnet import conv

__all__ = ["conv2d"]


def conv2d(
    input: Any,
    filters: Any,
    image_shape: Any = None,
    filter_shape: Any = None,
    border_mode: str = "valid",
    subsample: Any = (1, 1),
    **kargs: Any,
) -> _core.Variable:
    """Convolves every image (rows, columns) with every filter; both may be one, of 2 dimensions, or
    several, of 3. The result has the axes ([images,] [filters,] rows, columns). border_mode is
    "valid" or "full"."""
    input, filters = _core.as_tensor(input, "conv2d"), _core.as_tensor(filters, "conv2d")
    if input.ndim not in (2, 3) or filters.ndim not in (2, 3):
        raise error(
            TypeError,
            f"conv2d: images and filters have 2 or 3 dimensions, not {input.ndim} and "
            f"{filters.ndim}",
            "T.nnet.conv2d takes 4",
        )

    def spread(x: _core.Variable) -> _core.Variable:
        return x.dimshuffle("x", "x", 0, 1) if x.ndim == 2 else x.dimshuffle(0, "x", 1, 2)

    shape = None if filter_shape is None else (None, None, *tuple(filter_shape)[-2:])
    output = conv.conv2d(
        spread(input), spread(filters), None, shape, border_mode, subsample, **kargs
    )
    index = tuple(0 if x.ndim == 2 else slice(None) for x in (input, filters))
    return output[index]
