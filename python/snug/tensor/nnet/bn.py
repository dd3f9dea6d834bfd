"""Batch normalisation."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._errors import error
from snug.tensor._basic import _normal_axis, addbroadcast, constant, prod, sqrt

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


def _parameters(x: _core.Variable, axes: tuple[int, ...], *values: Any) -> list[_core.Variable]:
    """gamma and so on with as many dimensions as x, stretching over the axes."""
    out = []
    for value in values:
        value = _core.as_tensor(value, "batch_normalization")
        if value.ndim == x.ndim - len(axes) and value.ndim != x.ndim:
            kept = iter(range(value.ndim))
            value = value.dimshuffle(*("x" if a in axes else next(kept) for a in range(x.ndim)))
        if value.ndim != x.ndim:
            raise error(
                ValueError,
                f"batch_normalization: {value} has {value.ndim} dimensions, not {x.ndim}",
                f"or {x.ndim - len(axes)} for the axes that are not normalised over",
            )
        out.append(addbroadcast(value, *axes))
    return out


def _number(value: Any, x: _core.Variable) -> _core.Variable:
    """A number in the dtype of x, not in that of literals."""
    return value if isinstance(value, _core.Variable) else constant(value, dtype=x.dtype)


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
    """
    x = _core.as_tensor(inputs, "batch_normalization_train")
    over = _axes(x, axes)
    gamma, beta = _parameters(x, over, gamma, beta)
    mean = x.mean(axis=over, keepdims=True)
    variance = x.var(axis=over, keepdims=True)
    inverse = 1.0 / sqrt(variance + _number(epsilon, x))
    outputs = [(x - mean) * (gamma * inverse) + beta, mean, inverse]
    if (running_mean is None) != (running_var is None):
        raise error(
            ValueError, "batch_normalization_train: give running_mean and running_var, or neither"
        )
    factor = _number(running_average_factor, x)
    if running_mean is not None:
        (average,) = _parameters(x, over, running_mean)
        outputs.append(average * (1 - factor) + mean * factor)
        (spread,) = _parameters(x, over, running_var)
        count = prod([x.shape[axis] for axis in over]).astype(x.dtype)
        unbiased = variance * (count / (count - 1))
        outputs.append(spread * (1 - factor) + unbiased * factor)
    return tuple(outputs)


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
    gamma, beta, mean, var = _parameters(x, _axes(x, axes), gamma, beta, mean, var)
    return (x - mean) * (gamma / sqrt(var + _number(epsilon, x))) + beta
