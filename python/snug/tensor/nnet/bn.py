"""Batch normalisation."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._errors import error
from snug.tensor._basic import _normal_axis

__all__ = ["batch_normalization", "batch_normalization_test", "batch_normalization_train"]


def batch_normalization(
    inputs: Any, gamma: Any, beta: Any, mean: Any, std: Any, mode: str = "low_mem"
) -> _core.Variable:
    """(inputs - mean) * gamma / std + beta. `mode` is accepted: what is kept for the gradient is
    the plan's choice."""
    if mode not in ("low_mem", "high_mem"):
        raise error(
            ValueError,
            f"batch_normalization: mode is {mode!r}",
            "choose 'low_mem' or 'high_mem'; both are the same here",
        )
    inputs = _core.as_tensor(inputs, "batch_normalization")
    gamma, beta = (_core.as_tensor(a, "batch_normalization") for a in (gamma, beta))
    return (inputs - mean) * (gamma / std) + beta


def _axes(x: _core.Variable, axes: Any) -> tuple[int, ...]:
    """The axes that statistics are taken over."""
    if axes == "per-activation":
        return (0,)
    if axes == "spatial":
        return (0, *range(2, x.ndim))
    if isinstance(axes, (tuple, list)) and all(isinstance(a, int) for a in axes):
        found = tuple(sorted(_normal_axis("batch_normalization", a, x.ndim) for a in axes))
        if len(set(found)) == len(found) and found:
            return found
    raise error(
        ValueError,
        f"batch_normalization: axes is {axes!r}",
        "choose 'per-activation', 'spatial' or different axes",
    )


def batch_normalization_train(
    inputs: Any,
    gamma: Any,
    beta: Any,
    axes: Any = "per-activation",
    epsilon: float = 1e-4,
    running_average_factor: float = 0.1,
    running_mean: Any = None,
    running_var: Any = None,
) -> tuple[_core.Variable, ...]:
    """inputs normalised by their own statistics: (outputs, mean, 1 / deviation).

    With running_mean and running_var also their new values, moved by running_average_factor
    towards the statistics (the variance of the population, as estimated from the batch).
    Statistics have size 1 on the axes, or lack them if gamma does.
    """
    x, gamma = (_core.as_tensor(a, "batch_normalization_train") for a in (inputs, gamma))
    over = _axes(x, axes)
    out, *statistics = _core.batch_normalization_train(
        *(x, gamma, beta, over, epsilon, running_average_factor),
        *(running_mean, running_var),
    )
    if gamma.ndim != x.ndim:
        kept = [k for k in range(x.ndim) if k not in over]
        statistics = [s.dimshuffle(kept) if s.ndim == x.ndim else s for s in statistics]
    return (out, *statistics)


def batch_normalization_test(
    inputs: Any,
    gamma: Any,
    beta: Any,
    mean: Any,
    var: Any,
    axes: Any = "per-activation",
    epsilon: float = 1e-4,
) -> _core.Variable:
    """(inputs - mean) * gamma / sqrt(var + epsilon) + beta"""
    x = _core.as_tensor(inputs, "batch_normalization_test")
    return _core.batch_normalization_test(x, gamma, beta, mean, var, _axes(x, axes), epsilon)
