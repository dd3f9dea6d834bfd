"""Functions of neural networks."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._errors import error
from snug._readable import no_attribute
from snug.tensor._basic import abs_, clip, exp, log1p, switch
from snug.tensor.nnet import _op_classes, blocksparse, bn, nnet, sigm
from snug.tensor.nnet._confusion import confusion_matrix
from snug.tensor.nnet._op_classes import *
from snug.tensor.nnet.bn import batch_normalization
from snug.tensor.nnet.nnet import *

__all__ = [
    *_op_classes.__all__,
    *nnet.__all__,
    "batch_normalization",
    "blocksparse",
    "bn",
    "confusion_matrix",
    "conv2d",
    "dropout",
    "nnet",
    "sigm",
]


def _integers(value: Any, count: int) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) == count
        and all(isinstance(v, int) for v in value)
    )


def _pair(value: Any, name: str) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    if not _integers(value, 2):
        raise error(TypeError, f"conv2d: {name} must be an integer or two of them, got {value!r}")
    return tuple(value)


def _padding(border_mode: Any) -> tuple[str, list[int]]:
    if isinstance(border_mode, str):
        if border_mode not in ("valid", "half", "full"):
            near = _core.nearest(border_mode, ["valid", "half", "full"])
            raise error(
                ValueError,
                f"conv2d: there is no border_mode {border_mode!r}",
                f"did you mean {near!r}?"
                if near
                else "choose 'valid', 'half', 'full', an integer or a pair",
            )
        return border_mode, []
    if isinstance(border_mode, int):
        border_mode = (border_mode, border_mode)
    pads = []
    if isinstance(border_mode, (list, tuple)) and len(border_mode) == 2:
        pads = [(s, s) if isinstance(s, int) else s for s in border_mode]
    if not pads or not all(_integers(p, 2) and min(p) >= 0 for p in pads):
        raise error(
            ValueError,
            f"conv2d: border_mode is {border_mode!r}",
            "choose 'valid', 'half', 'full', a padding of at least 0, or a pair of paddings",
        )
    return "valid", [*pads[0], *pads[1]]


def _with_known_size(filters: Any, filter_shape: Any) -> _core.Variable:
    """The filters with rows and columns that are known now, as far as anybody says."""
    filters = _core.as_tensor(filters, "conv2d")
    if filters.ndim != 4 or None not in filters.static_shape[2:]:
        return filters
    if filter_shape is None and isinstance(filters, _core.SharedVariable):
        filter_shape = filters.current_shape
    if filter_shape is None or not all(isinstance(s, int) for s in tuple(filter_shape)[2:]):
        return filters
    return _core.specify_shape(filters, (None, None, *tuple(filter_shape)[2:]))


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
    """Convolves images (batch, channels, rows, columns) with filters (out, in / groups, rows,
    columns).

    border_mode   "valid", "half", "full", a padding, a pair of paddings, or a pair of pairs
    filter_flip   True for a convolution, False for a correlation
    filter_shape  needed for "half" and "full" if the filters are not a shared variable
    input_shape   accepted; sizes are known at the call anyway
    """
    if unshared:
        raise error(NotImplementedError, "conv2d: unshared=True")
    mode, pad = _padding(border_mode)
    if mode != "valid":
        filters = _with_known_size(filters, filter_shape)
    return _core.conv2d(
        input,
        filters,
        mode,
        pad,
        _pair(subsample, "subsample"),
        _pair(filter_dilation, "filter_dilation"),
        filter_flip,
        num_groups,
    )


def dropout(x: Any, p: float, rng: Any = None) -> _core.Variable:
    """Sets elements to 0 with probability p and scales the others by 1 / (1 - p).

    rng is a RandomStreams; without one a new stream is made.
    """
    stream = _core.RandomStream() if rng is None else getattr(rng, "stream", rng)
    return _core.dropout(x, p, stream)


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name, ("snug.tensor",))
