"""Theano's op classes of convolutions and of pooling, as those of snug.tensor._op_classes."""

from __future__ import annotations

from typing import Any

import snug.tensor as T
from snug import _core
from snug.tensor._op_classes import Table, make_classes


def _sizes(op: Any, shape: Any, known: Any, axes: int) -> list[Any]:
    """A whole shape, of which the last sizes are given by the call or by the constructor."""
    given = list(known) if known is not None else [None] * (axes + 2 + 2 * op.unshared)
    if shape is not None:
        given[-axes:] = [shape[k] for k in range(axes)]
    return given


def _options(op: Any) -> dict[str, Any]:
    names = ("border_mode", "subsample", "filter_dilation", "num_groups")
    options = {name: getattr(op, name) for name in names}
    options["filter_flip"] = getattr(op, "filter_flip", False)
    if op.unshared:
        options["unshared"] = True
    return options


def _forward(axes: int) -> Any:
    def build(op: Any, images: Any, filters: Any) -> _core.Variable:
        conv = getattr(T.nnet.abstract_conv, f"conv{axes}d")
        return conv(images, filters, None, getattr(op, "kshp", None), **_options(op))

    return build


def _grad_weights(axes: int) -> Any:
    def build(op: Any, images: Any, top: Any, shape: Any = None) -> _core.Variable:
        function = getattr(T.nnet.abstract_conv, f"conv{axes}d_grad_wrt_weights")
        sizes = _sizes(op, shape, getattr(op, "kshp", None), axes)
        return function(images, top, sizes, None, **_options(op))

    return build


def _grad_inputs(axes: int) -> Any:
    def build(op: Any, filters: Any, top: Any, shape: Any = None) -> _core.Variable:
        function = getattr(T.nnet.abstract_conv, f"conv{axes}d_grad_wrt_inputs")
        sizes = _sizes(op, shape, getattr(op, "imshp", None), axes)[: axes + 2]
        return function(top, filters, sizes, getattr(op, "kshp", None), **_options(op))

    return build


def _classes(axes: int, names: tuple[str, str, str], abstract: bool, module: str) -> dict[str, Any]:
    """The three classes of a convolution over some axes. Abstract ones know shapes, and may flip."""
    ones = (1,) * axes
    ways: dict[str, Any] = {"border_mode": "valid", "subsample": ones}
    shapes = {"imshp": None, "kshp": None} if abstract else {}
    flip = {"filter_flip": True} if abstract else {}
    last = {"filter_dilation": ones, "num_groups": 1, "unshared": False}
    parameters = {**shapes, **ways, **flip, **last}
    row = f"conv{axes}d"
    kind = "convolution" if abstract else "correlation"
    table: Table = {
        names[0]: ([row], parameters, _forward(axes), f"A {kind} over {axes} axes."),
        names[1]: (
            [f"{row}_grad_weight"],
            parameters,
            _grad_weights(axes),
            f"The gradient of a {kind} by its filters; the call gives their last sizes.",
        ),
        names[2]: (
            [f"{row}_grad_input"],
            parameters,
            _grad_inputs(axes),
            f"The gradient of a {kind} by its images; the call gives their last sizes.",
        ),
    }
    return make_classes(table, {}, module)


def abstract_classes(axes: int, module: str) -> dict[str, Any]:
    name = f"AbstractConv{axes}d"
    return _classes(axes, (name, f"{name}_gradWeights", f"{name}_gradInputs"), True, module)


def correlation_classes(axes: int, module: str) -> dict[str, Any]:
    name = "CorrMM" if axes == 2 else "Corr3dMM"
    return _classes(axes, (name, f"{name}_gradWeights", f"{name}_gradInputs"), False, module)
