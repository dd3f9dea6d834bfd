"""Theano's older form of convolutions."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug.tensor import nnet

__all__ = ["conv2d"]


def conv2d(
    input: Any,
    filters: Any,
    image_shape: Any = None,
    filter_shape: Any = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1),
    **options: Any,
) -> _core.Variable:
    """snug.tensor.nnet.conv2d; options told Theano how to compute and change nothing."""
    return nnet.conv2d(input, filters, image_shape, filter_shape, border_mode, subsample)
