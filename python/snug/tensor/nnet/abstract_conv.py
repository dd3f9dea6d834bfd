"""Convolutions, their gradients as functions, the shapes of their results, and enlarging images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from snug import _core
from snug._errors import error
from snug.tensor._basic import eq, ge, gt
from snug.tensor._helpers import NotScalarConstantError, get_scalar_constant_value
from snug.tensor._sizes import integers
from snug.tensor.nnet._conv_classes import abstract_classes
from snug.tensor.opt import Assert

__all__ = [
    "assert_conv_shape",
    "assert_shape",
    "bilinear_kernel_1D",
    "bilinear_kernel_2D",
    "bilinear_upsampling",
    "border_mode_to_pad",
    "causal_conv1d",
    "check_conv_gradinputs_shape",
    "conv1d",
    "conv2d",
    "conv2d_grad_wrt_inputs",
    "conv2d_grad_wrt_weights",
    "conv2d_transpose",
    "conv3d",
    "conv3d_grad_wrt_inputs",
    "conv3d_grad_wrt_weights",
    "frac_bilinear_upsampling",
    "get_conv_gradinputs_shape",
    "get_conv_gradinputs_shape_1axis",
    "get_conv_gradweights_shape",
    "get_conv_gradweights_shape_1axis",
    "get_conv_output_shape",
    "get_conv_shape_1axis",
    "separable_conv2d",
    "separable_conv3d",
]

_MODES = ["valid", "half", "full"]

# ---- arguments


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _sides(border_mode: Any, axes: int) -> list[tuple[int, int]] | None:
    """Low and high padding of every axis from numbers, or None if it is no such thing."""
    if _is_size(border_mode):
        border_mode = (border_mode,) * axes
    if not isinstance(border_mode, (list, tuple)) or len(border_mode) != axes:
        return None
    sides = []
    for side in border_mode:
        pair = (side, side) if _is_size(side) else side
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            return None
        if not all(_is_size(p) and p >= 0 for p in pair):
            return None
        sides.append((int(pair[0]), int(pair[1])))
    return sides


def _padding(what: str, border_mode: Any, axes: int) -> tuple[str, list[int]]:
    """The border mode and the padding in numbers, one of which says nothing."""
    if isinstance(border_mode, str):
        if border_mode not in _MODES:
            near = _core.nearest(border_mode, _MODES)
            raise error(
                ValueError,
                f"{what}: there is no border_mode {border_mode!r}",
                f"did you mean {near!r}?"
                if near
                else "choose 'valid', 'half', 'full', an integer or a pair",
            )
        return border_mode, []
    sides = _sides(border_mode, axes)
    if sides is None:
        several = "a pair of paddings" if axes == 2 else f"{axes} paddings"
        raise error(
            ValueError,
            f"{what}: border_mode is {border_mode!r}",
            f"choose 'valid', 'half', 'full', a padding of at least 0, or {several}",
        )
    return "valid", [p for pair in sides for p in pair]


def _steps(what: str, name: str, value: Any, axes: int) -> tuple[int, ...]:
    if isinstance(value, (list, tuple)) and (len(value) != axes or not all(map(_is_size, value))):
        number = {1: "one", 2: "two", 3: "three"}[axes]
        raise error(
            TypeError, f"{what}: {name} must be an integer or {number} of them, got {value!r}"
        )
    return integers(what, name, value, axes)


def _sized(what: str, filters: Any, filter_shape: Any, axes: int) -> _core.Variable:
    """The filters with last axes that are known now, as far as anybody says."""
    filters = _core.as_tensor(filters, what)
    first = filters.ndim - axes
    if first < 0 or None not in filters.static_shape[first:]:
        return filters
    if filter_shape is None or len(tuple(filter_shape)) != filters.ndim:
        return filters
    sizes = tuple(filter_shape)[first:]
    if not all(map(_is_size, sizes)):
        return filters
    return _core.specify_shape(filters, (*[None] * first, *map(int, sizes)))


def _options(
    what: str, border_mode: Any, subsample: Any, dilation: Any, flip: bool, groups: int, axes: int
) -> tuple[Any, ...]:
    mode, pad = _padding(what, border_mode, axes)
    return (
        mode,
        pad,
        _steps(what, "subsample", subsample, axes),
        _steps(what, "filter_dilation", dilation, axes),
        flip,
        groups,
    )


def _require_filters(what: str, ndim: int, unshared: bool) -> None:
    if unshared != (ndim == 6):
        raise error(
            TypeError,
            f"{what}: unshared={unshared}, and the filters have {ndim} dimensions",
            "filters of 6 dimensions are unshared ones: (out, rows, columns of the result, "
            "in / groups, rows, columns)",
        )


# ---- convolutions


def _conv(
    axes: int,
    input: Any,
    filters: Any,
    filter_shape: Any,
    border_mode: Any,
    subsample: Any,
    filter_flip: bool,
    filter_dilation: Any,
    num_groups: int,
) -> _core.Variable:
    what = f"conv{axes}d"
    options = _options(what, border_mode, subsample, filter_dilation, filter_flip, num_groups, axes)
    if options[0] != "valid":
        filters = _sized(what, filters, filter_shape, axes)
    return getattr(_core, what)(input, filters, *options)


def conv1d(
    input: Any,
    filters: Any,
    filter_shape: Any = None,
    border_mode: Any = "valid",
    subsample: Any = 1,
    filter_flip: bool = True,
    filter_dilation: Any = 1,
    num_groups: int = 1,
) -> _core.Variable:
    """Convolves rows (batch, channels, columns) with filters (out, in / groups, columns). The
    arguments are those of conv2d for one axis."""
    if isinstance(border_mode, tuple) and len(border_mode) == 2 and all(map(_is_size, border_mode)):
        border_mode = (border_mode,)
    return _conv(
        *(1, input, filters, filter_shape, border_mode, subsample, filter_flip),
        *(filter_dilation, num_groups),
    )


def conv2d(
    input: Any,
    filters: Any,
    input_shape: Any = None,
    filter_shape: Any = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1),
    filter_flip: bool = True,
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
    unshared      filters (out, rows, columns of the result, in / groups, rows, columns) are others
                  for every place of the result
    """
    filters = _core.as_tensor(filters, "conv2d")
    if unshared or filters.ndim == 6:
        _require_filters("conv2d", filters.ndim, unshared)
    return _conv(
        *(2, input, filters, filter_shape, border_mode, subsample, filter_flip),
        *(filter_dilation, num_groups),
    )


def conv3d(
    input: Any,
    filters: Any,
    input_shape: Any = None,
    filter_shape: Any = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1, 1),
    num_groups: int = 1,
) -> _core.Variable:
    """As conv2d with three axes: images (batch, channels, depth, rows, columns), filters (out, in /
    groups, depth, rows, columns)."""
    return _conv(
        *(3, input, filters, filter_shape, border_mode, subsample, filter_flip),
        *(filter_dilation, num_groups),
    )


def causal_conv1d(
    input: Any,
    filters: Any,
    filter_shape: Any,
    input_shape: Any = None,
    subsample: int = 1,
    filter_flip: bool = True,
    filter_dilation: int = 1,
    num_groups: int = 1,
    unshared: bool = False,
) -> _core.Variable:
    """A convolution along time, (batch, channels, times) with filters (out, in / groups, times),
    that depends on no later time."""
    if unshared:
        raise error(NotImplementedError, "causal_conv1d: unshared=True")
    filters = _sized("causal_conv1d", filters, filter_shape, 1)
    return _core.causal_conv1d(
        input,
        filters,
        "valid",
        (),
        _steps("causal_conv1d", "subsample", subsample, 1),
        _steps("causal_conv1d", "filter_dilation", filter_dilation, 1),
        filter_flip,
        num_groups,
    )


def _separable(
    axes: int,
    input: Any,
    depthwise: Any,
    pointwise: Any,
    channels: int,
    depthwise_shape: Any,
    border_mode: Any,
    subsample: Any,
    flip: bool,
    dilation: Any,
) -> _core.Variable:
    each = _conv(
        *(axes, input, depthwise, depthwise_shape, border_mode, subsample, flip, dilation),
        channels,
    )
    return _conv(axes, each, pointwise, None, "valid", 1, flip, 1, 1)


def separable_conv2d(
    input: Any,
    depthwise_filters: Any,
    pointwise_filters: Any,
    num_channels: int,
    input_shape: Any = None,
    depthwise_filter_shape: Any = None,
    pointwise_filter_shape: Any = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1),
) -> _core.Variable:
    """A convolution of every channel by itself, then one of filters of 1 by 1 over all of them."""
    return _separable(
        *(2, input, depthwise_filters, pointwise_filters, num_channels, depthwise_filter_shape),
        *(border_mode, subsample, filter_flip, filter_dilation),
    )


def separable_conv3d(
    input: Any,
    depthwise_filters: Any,
    pointwise_filters: Any,
    num_channels: int,
    input_shape: Any = None,
    depthwise_filter_shape: Any = None,
    pointwise_filter_shape: Any = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1, 1),
) -> _core.Variable:
    """As separable_conv2d with three axes."""
    return _separable(
        *(3, input, depthwise_filters, pointwise_filters, num_channels, depthwise_filter_shape),
        *(border_mode, subsample, filter_flip, filter_dilation),
    )


# ---- gradients


def _shape(what: str, name: str, given: Any, known: Sequence[Any], at_least: int) -> list[Any]:
    """Sizes, where None stands for one that is known otherwise. The last `at_least` are given."""
    sizes = list(given)
    if len(sizes) != len(known):
        raise error(
            ValueError, f"{what}: {name} has {len(sizes)} entries, not {len(known)}: {given!r}"
        )
    if any(s is None for s in sizes[len(sizes) - at_least :]):
        raise error(ValueError, f"{what}: the last {at_least} sizes of {name} must be given")
    return [k if s is None else s for s, k in zip(sizes, known)]


def _grad_wrt_inputs(
    axes: int,
    output_grad: Any,
    filters: Any,
    input_shape: Any,
    filter_shape: Any,
    border_mode: Any,
    subsample: Any,
    flip: bool,
    dilation: Any,
    groups: int,
    unshared: bool,
) -> _core.Variable:
    what = f"conv{axes}d_grad_wrt_inputs"
    options = _options(what, border_mode, subsample, dilation, flip, groups, axes)
    output_grad = _core.as_tensor(output_grad, what)
    filters = _sized(what, filters, filter_shape, axes)
    if unshared or filters.ndim == 6:
        _require_filters(what, filters.ndim, unshared)
    channels = filters.shape[-axes - 1] * groups
    known = [output_grad.shape[0], channels, *[None] * axes]
    shape = _shape(what, "input_shape", input_shape, known, axes)
    return getattr(_core, f"conv{axes}d_grad_inputs")(output_grad, filters, shape, *options)


def _grad_wrt_weights(
    axes: int,
    input: Any,
    output_grad: Any,
    filter_shape: Any,
    border_mode: Any,
    subsample: Any,
    flip: bool,
    dilation: Any,
    groups: int,
    unshared: bool,
) -> _core.Variable:
    what = f"conv{axes}d_grad_wrt_weights"
    options = _options(what, border_mode, subsample, dilation, flip, groups, axes)
    input, output_grad = _core.as_tensor(input, what), _core.as_tensor(output_grad, what)
    middle = [output_grad.shape[2], output_grad.shape[3]] if unshared else []
    known = [output_grad.shape[1], *middle, input.shape[1] // groups, *[None] * axes]
    shape = _shape(what, "filter_shape", filter_shape, known, axes)
    return getattr(_core, f"conv{axes}d_grad_weights")(input, output_grad, shape, *options)


def conv2d_grad_wrt_inputs(
    output_grad: Any,
    filters: Any,
    input_shape: Any,
    filter_shape: Any = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1),
    num_groups: int = 1,
    unshared: bool = False,
) -> _core.Variable:
    """The gradient of conv2d by its images, of input_shape (the first two sizes may be None)."""
    return _grad_wrt_inputs(
        *(2, output_grad, filters, input_shape, filter_shape, border_mode, subsample),
        *(filter_flip, filter_dilation, num_groups, unshared),
    )


def conv3d_grad_wrt_inputs(
    output_grad: Any,
    filters: Any,
    input_shape: Any,
    filter_shape: Any = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1, 1),
    num_groups: int = 1,
) -> _core.Variable:
    """The gradient of conv3d by its images, of input_shape (the first two sizes may be None)."""
    return _grad_wrt_inputs(
        *(3, output_grad, filters, input_shape, filter_shape, border_mode, subsample),
        *(filter_flip, filter_dilation, num_groups, False),
    )


def conv2d_grad_wrt_weights(
    input: Any,
    output_grad: Any,
    filter_shape: Any,
    input_shape: Any = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1),
    num_groups: int = 1,
    unshared: bool = False,
) -> _core.Variable:
    """The gradient of conv2d by its filters, of filter_shape (all but the last two sizes may be
    None)."""
    return _grad_wrt_weights(
        *(2, input, output_grad, filter_shape, border_mode, subsample, filter_flip),
        *(filter_dilation, num_groups, unshared),
    )


def conv3d_grad_wrt_weights(
    input: Any,
    output_grad: Any,
    filter_shape: Any,
    input_shape: Any = None,
    border_mode: Any = "valid",
    subsample: Any = (1, 1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1, 1),
    num_groups: int = 1,
) -> _core.Variable:
    """The gradient of conv3d by its filters, of filter_shape (the first two sizes may be None)."""
    return _grad_wrt_weights(
        *(3, input, output_grad, filter_shape, border_mode, subsample, filter_flip),
        *(filter_dilation, num_groups, False),
    )


def conv2d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    filter_shape: Any = None,
    border_mode: Any = "valid",
    input_dilation: Any = (1, 1),
    filter_flip: bool = True,
    filter_dilation: Any = (1, 1),
    num_groups: int = 1,
    unshared: bool = False,
) -> _core.Variable:
    """The images, of output_shape, of which a convolution with these arguments and steps of
    input_dilation gives images of the size of input. Filters: (channels of input, channels of the
    result / groups, rows, columns)."""
    return conv2d_grad_wrt_inputs(
        *(input, filters, output_shape, filter_shape, border_mode, input_dilation),
        *(filter_flip, filter_dilation, num_groups, unshared),
    )


# ---- shapes


def border_mode_to_pad(mode: Any, convdim: int, kshp: Sequence[int]) -> tuple[Any, ...]:
    """The padding (low, high) of every axis; kshp are the sizes of the filters."""
    if mode == "full":
        return tuple((k - 1, k - 1) for k in kshp[:convdim])
    if mode == "half":
        return tuple((k // 2, k // 2) for k in kshp[:convdim])
    if mode == "valid":
        return ((0, 0),) * convdim
    _, pad = _padding("border_mode_to_pad", mode, convdim)
    return tuple(zip(pad[::2], pad[1::2]))


def _axis_padding(border_mode: Any, reach: Any) -> tuple[Any, Any]:
    """Of filters that reach `reach` elements further than one."""
    if border_mode == "half":
        return (reach + 1) // 2, (reach + 1) // 2
    if border_mode == "full":
        return reach, reach
    if border_mode == "valid":
        return 0, 0
    low, high = border_mode if isinstance(border_mode, tuple) else (border_mode, border_mode)
    if low < 0 or high < 0:
        raise error(ValueError, f"border_mode is {border_mode!r}, a padding must be at least 0")
    return low, high


def _per_axis(border_mode: Any, dilation: Any, axes: int) -> list[tuple[Any, Any]]:
    modes = border_mode if isinstance(border_mode, tuple) else (border_mode,) * axes
    return list(zip(modes, (1,) * axes if dilation is None else dilation))


def get_conv_shape_1axis(
    image_shape: Any, kernel_shape: Any, border_mode: Any, subsample: Any, dilation: Any = 1
) -> Any:
    """The size of the result of a convolution on one axis; None if one of the sizes is."""
    if None in (image_shape, kernel_shape, border_mode, subsample, dilation):
        return None
    reach = (kernel_shape - 1) * dilation
    low, high = _axis_padding(border_mode, reach)
    room = image_shape + low + high - reach - 1
    return (room if _is_size(subsample) and subsample == 1 else room // subsample) + 1


def get_conv_output_shape(
    image_shape: Any,
    kernel_shape: Any,
    border_mode: Any,
    subsample: Any,
    filter_dilation: Any = None,
) -> tuple[Any, ...]:
    """The shape of the result of a convolution; None where a size that it needs is."""
    axes = len(image_shape) - 2
    sizes = zip(image_shape[2:], kernel_shape[-axes:], subsample)
    ways = _per_axis(border_mode, filter_dilation, axes)
    found = [get_conv_shape_1axis(x, k, m, s, d) for (x, k, s), (m, d) in zip(sizes, ways)]
    return (image_shape[0], kernel_shape[0], *found)


def get_conv_gradweights_shape_1axis(
    image_shape: Any, top_shape: Any, border_mode: Any, subsample: Any, dilation: Any
) -> Any:
    """The size of the filters on one axis, from those of the images and of the result; None if they
    do not say."""
    if None in (image_shape, top_shape, border_mode, subsample, dilation):
        return None
    if subsample != 1 or border_mode == "half":
        return None
    if border_mode == "full":
        reach = top_shape - image_shape
    else:
        low, high = _axis_padding(border_mode, 0)
        reach = image_shape + low + high - top_shape
    return (reach // dilation if dilation > 1 else reach) + 1


def get_conv_gradweights_shape(
    image_shape: Any,
    top_shape: Any,
    border_mode: Any,
    subsample: Any,
    filter_dilation: Any = None,
    num_groups: int = 1,
    unshared: bool = False,
) -> tuple[Any, ...]:
    """The shape of the filters, as far as those of the images and of the result say."""
    axes = len(image_shape) - 2
    sizes = zip(image_shape[2:], top_shape[2:], subsample)
    ways = _per_axis(border_mode, filter_dilation, axes)
    found = [
        get_conv_gradweights_shape_1axis(x, t, m, s, d) for (x, t, s), (m, d) in zip(sizes, ways)
    ]
    channels = top_shape[1] if num_groups == 1 else top_shape[1] // num_groups
    if unshared:
        return (channels, *top_shape[2:], image_shape[1], *found)
    return (channels, image_shape[1], *found)


def get_conv_gradinputs_shape_1axis(
    kernel_shape: Any, top_shape: Any, border_mode: Any, subsample: Any, dilation: Any
) -> Any:
    """The size of the images on one axis, from those of the filters and of the result; None if they
    do not say."""
    if None in (kernel_shape, top_shape, border_mode, subsample, dilation):
        return None
    if subsample != 1:
        return None
    reach = (kernel_shape - 1) * dilation
    low, high = _axis_padding(border_mode, reach)
    return top_shape + reach - low - high


def get_conv_gradinputs_shape(
    kernel_shape: Any,
    top_shape: Any,
    border_mode: Any,
    subsample: Any,
    filter_dilation: Any = None,
    num_groups: int = 1,
) -> tuple[Any, ...]:
    """The shape of the images, as far as those of the filters and of the result say."""
    axes = len(top_shape) - 2
    sizes = zip(kernel_shape[-axes:], top_shape[2:], subsample)
    ways = _per_axis(border_mode, filter_dilation, axes)
    found = [
        get_conv_gradinputs_shape_1axis(k, t, m, s, d) for (k, t, s), (m, d) in zip(sizes, ways)
    ]
    channels = kernel_shape[1] * num_groups if num_groups > 1 else kernel_shape[1]
    return (top_shape[0], channels, *found)


def check_conv_gradinputs_shape(
    image_shape: Any,
    kernel_shape: Any,
    output_shape: Any,
    border_mode: Any,
    subsample: Any,
    filter_dilation: Any = None,
) -> bool:
    """False if a convolution of these shapes gives no output of output_shape, as far as they are
    numbers."""
    shapes = [tuple(s) for s in (image_shape, kernel_shape, output_shape)]
    axes = len(subsample)
    if any(len(s) != axes + 2 for s in shapes):
        return False
    if filter_dilation is not None and len(filter_dilation) != axes:
        return False

    def goes(given: Any, computed: Any) -> bool:
        if given is None or computed is None:
            return True
        try:
            return int(get_scalar_constant_value(given)) == int(get_scalar_constant_value(computed))
        except NotScalarConstantError:
            return True

    found = get_conv_output_shape(*shapes[:2], border_mode, subsample, filter_dilation)
    return all(map(goes, shapes[2], found))


def assert_conv_shape(shape: Sequence[Any]) -> tuple[Any, ...]:
    """The sizes of a convolution, checked: batch and channels are not negative, the others are
    positive. Those that are not known now are checked when they run."""
    checked = []
    for axis, size in enumerate(shape):
        positive = axis >= 2
        text = (
            f"the size of axis {axis} of a convolution must be {'positive' if positive else '>= 0'}"
        )
        try:
            known = int(get_scalar_constant_value(size))
        except NotScalarConstantError:
            checked.append(Assert(text)(size, (gt if positive else ge)(size, 0)))
            continue
        if known < positive:
            raise error(ValueError, f"{text}, it is {known}")
        checked.append(size)
    return tuple(checked)


def assert_shape(
    x: Any, expected_shape: Any, msg: str = "the shape is not the expected one"
) -> _core.Variable:
    """x, whose sizes are checked when it runs; None: not checked."""
    x = _core.as_tensor(x, "assert_shape")
    if expected_shape is None:
        return x
    tests = [eq(x.shape[k], s) for k, s in enumerate(expected_shape) if s is not None]
    return Assert(msg)(x, *tests) if tests else x


# ---- enlarging images


def bilinear_kernel_1D(ratio: Any, normalize: bool = True) -> _core.Variable:
    """1, 2, ... ratio ... 2, 1; divided by the ratio unless normalize is False."""
    return _core.bilinear_kernel(ratio, normalize)


def bilinear_kernel_2D(ratio: Any, normalize: bool = True) -> _core.Variable:
    """The outer product of two of bilinear_kernel_1D; ratio: of both, or a pair."""
    rows, columns = ratio if isinstance(ratio, tuple) else (ratio, ratio)
    vertical = bilinear_kernel_1D(rows, normalize).dimshuffle(0, "x")
    return bilinear_kernel_1D(columns, normalize).dimshuffle("x", 0) * vertical


def frac_bilinear_upsampling(input: Any, frac_ratio: Any) -> _core.Variable:
    """Images enlarged by a fraction (numerator, denominator), or by two of them for rows and
    columns."""
    if not isinstance(frac_ratio, tuple):
        raise error(
            ValueError, f"frac_bilinear_upsampling: frac_ratio is {frac_ratio!r}", "give a tuple"
        )
    pairs = frac_ratio if isinstance(frac_ratio[0], tuple) else (frac_ratio, frac_ratio)
    rows, columns = (integers("frac_bilinear_upsampling", "frac_ratio", p, 2) for p in pairs)
    return _core.bilinear_upsampling(input, (rows[0], columns[0]), (rows[1], columns[1]))


def bilinear_upsampling(
    input: Any,
    ratio: int | None = None,
    frac_ratio: Any = None,
    batch_size: int | None = None,
    num_input_channels: int | None = None,
    use_1D_kernel: bool = True,
) -> _core.Variable:
    """Images (batch, channels, rows, columns) enlarged by bilinear interpolation, by `ratio`, or by
    a fraction as in frac_bilinear_upsampling. The other arguments are accepted; all of them give
    the same."""
    if (ratio is None) == (frac_ratio is None):
        raise error(
            ValueError,
            f"bilinear_upsampling: ratio is {ratio}, frac_ratio is {frac_ratio}",
            "give one of them",
        )
    if frac_ratio is not None:
        return frac_bilinear_upsampling(input, frac_ratio)
    size = integers("bilinear_upsampling", "ratio", ratio, 2)
    return _core.bilinear_upsampling(input, size, (1, 1))


# ---- classes

_CLASSES = abstract_classes(2, __name__) | abstract_classes(3, __name__)
globals().update(_CLASSES)
__all__ += sorted(_CLASSES)
