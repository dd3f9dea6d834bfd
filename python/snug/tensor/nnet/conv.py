"""The old interface of convolutions."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._errors import error
from snug.tensor._op_classes import make_classes
from snug.tensor.nnet import abstract_conv

__all__ = ["ConvOp", "conv2d"]


def conv2d(
    input: Any,
    filters: Any,
    image_shape: Any = None,
    filter_shape: Any = None,
    border_mode: str = "valid",
    subsample: Any = (1, 1),
    **kargs: Any,
) -> _core.Variable:
    """Convolves images (batch, channels, rows, columns) with filters (out, in, rows, columns).
    border_mode is "valid" or "full". Arguments that choose between implementations are accepted."""
    for name in ("imshp_logical", "kshp_logical"):
        if kargs.get(name) is not None:
            raise error(
                NotImplementedError,
                f"conv2d: {name}",
                "use conv2d_transpose for larger images, filter_dilation for larger filters",
            )
    if border_mode not in ("valid", "full"):
        raise error(
            ValueError,
            f"conv2d: border_mode is {border_mode!r}",
            "choose 'valid' or 'full'; T.nnet.conv2d has the others",
        )
    return abstract_conv.conv2d(input, filters, image_shape, filter_shape, border_mode, subsample)


_PARAMETERS: dict[str, Any] = {
    **dict.fromkeys(("imshp", "kshp", "nkern", "bsize")),
    **{"dx": 1, "dy": 1, "output_mode": "valid"},
    **dict.fromkeys(("unroll_batch", "unroll_kern", "unroll_patch")),
    **dict.fromkeys(("imshp_logical", "kshp_logical")),
    **{"kshp_logical_top_aligned": True, "verbose": 0, "version": -1},
    **{"direction_hint": "forward", "openmp": None},
}


def _build(op: Any, images: Any, filters: Any) -> _core.Variable:
    shape = (op.nkern, None, *op.kshp) if op.kshp is not None else None
    logical = {name: getattr(op, name) for name in ("imshp_logical", "kshp_logical")}
    return conv2d(images, filters, None, shape, op.output_mode, (op.dx, op.dy), **logical)


ConvOp = make_classes(
    {
        "ConvOp": (
            ["conv2d"],
            _PARAMETERS,
            _build,
            "A convolution with steps of dx rows and dy columns; output_mode: 'valid' or 'full'.",
        )
    },
    {},
    __name__,
)["ConvOp"]
