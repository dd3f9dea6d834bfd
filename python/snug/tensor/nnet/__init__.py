"""Functions of neural networks."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._errors import error
from snug.tensor._basic import cast, ceil, constant
from snug.tensor.nnet import (
    _op_classes,
    abstract_conv,
    blocksparse,
    bn,
    conv,
    corr,
    corr3d,
    neighbours,
    nnet,
    sigm,
)
from snug.tensor.nnet._confusion import confusion_matrix
from snug.tensor.nnet._op_classes import *
from snug.tensor.nnet.abstract_conv import (
    causal_conv1d,
    conv1d,
    conv2d_grad_wrt_inputs,
    conv2d_grad_wrt_weights,
    conv2d_transpose,
    conv3d,
    conv3d_grad_wrt_inputs,
    conv3d_grad_wrt_weights,
    separable_conv2d,
)
from snug.tensor.nnet.abstract_conv import conv2d as abstract_conv2d
from snug.tensor.nnet.bn import batch_normalization
from snug.tensor.nnet.conv import ConvOp
from snug.tensor.nnet.nnet import *

__all__ = [
    *_op_classes.__all__,
    *nnet.__all__,
    "ConvOp",
    "abstract_conv",
    "abstract_conv2d",
    "batch_normalization",
    "blocksparse",
    "bn",
    "causal_conv1d",
    "confusion_matrix",
    "conv",
    "conv1d",
    "conv2d",
    "conv2d_grad_wrt_inputs",
    "conv2d_grad_wrt_weights",
    "conv2d_transpose",
    "conv3d",
    "conv3d_grad_wrt_inputs",
    "conv3d_grad_wrt_weights",
    "corr",
    "corr3d",
    "dropout",
    "global_pool",
    "local_response_normalization",
    "neighbours",
    "nnet",
    "separable_conv2d",
    "sigm",
    "spatial_transformer",
]


def conv2d(
    input: Any,
    filters: Any,
    input_shape: Any = None,
    filter_shape: Any = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1),
    filter_flip: bool = True,
    image_shape: Any = None,
    filter_dilation: Any = (1, 1),
    num_groups: int = 1,
    unshared: bool = False,
) -> _core.Variable:
    if input_shape is not None and image_shape is not None:
        raise error(ValueError, "conv2d: input_shape and image_shape are the same; both are given")
    return abstract_conv2d(
        *(input, filters, input_shape, filter_shape, border_mode, subsample, filter_flip),
        *(filter_dilation, num_groups, unshared),
    )


conv2d.__doc__ = f"{abstract_conv2d.__doc__}image_shape is the old name of input_shape.\n    "


def global_pool(x: Any, mode: str = "average") -> _core.Variable:
    """One number per image and channel: the "average", "max" or "sum" over all axes behind."""
    return _core.global_pool(x, mode)


def local_response_normalization(
    x: Any, size: int = 5, alpha: float = 1e-4, beta: float = 0.75, k: float = 2.0
) -> _core.Variable:
    """x / (k + alpha * s) ** beta, where s is the sum of the squares of `size` neighbouring
    channels (axis 1)."""
    return _core.local_response_normalization(x, size, alpha, beta, k)


def spatial_transformer(
    img: Any,
    theta: Any,
    scale_width: float = 1,
    scale_height: float = 1,
    border: str = "zero",
) -> _core.Variable:
    """Images (batch, channels, rows, columns) at the places that affine maps theta (batch, 2, 3)
    give, by bilinear interpolation. Coordinates (x, y) go from -1 to 1 over the images.

    scale_width, scale_height  the size of the result in terms of that of the images
    border                     what lies outside: "zero", or "nearest" for the element at the border
    """
    img = _core.as_tensor(img, "spatial_transformer")
    if img.ndim != 4:
        raise error(
            TypeError, f"spatial_transformer: images have 4 dimensions, {img} has {img.ndim}"
        )
    sizes = [
        cast(ceil(size * constant(float(scale), dtype="float64")), "int64")
        for size, scale in ((img.shape[2], scale_height), (img.shape[3], scale_width))
    ]
    return _core.sample_grid(img, _core.affine_grid(theta, *sizes), border)


def dropout(x: Any, p: float, rng: Any = None) -> _core.Variable:
    """Sets elements to 0 with probability p and scales the others by 1 / (1 - p).

    rng is a RandomStreams; without one a new stream is made.
    """
    stream = _core.RandomStream() if rng is None else getattr(rng, "stream", rng)
    return _core.dropout(x, p, stream)
