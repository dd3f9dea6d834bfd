"""Update rules for training: what one step makes of the parameters.

    updates = snug.optim.adam(loss, [W, b], rate=1e-3, weight_decay=1e-4)
    train = snug.function([x, y], loss, updates=updates)

The formulas are those of torch.optim, with their defaults. A rule takes the loss, or the gradients
of the parameters. `rate` is a number, a shared variable (to set it between calls), a schedule, or a
function of the step, which counts from 0. All rules take these options besides their own:

    weight_decay=0        adds weight_decay * parameter to the gradient (adamw: shrinks it)
    clip_value=0          gradients clipped to [-clip_value, clip_value]; 0: not
    clip_norm=0           each gradient scaled to this L2 norm at most
    clip_global_norm=0    all gradients together scaled to this L2 norm at most
    accumulate=1          one step per so many calls, with the mean of their gradients
    average=0             decay of exponential averages of the parameters (`updates.averages`)

State begins as recipes of zeros: it takes no memory before the first call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from snug import _core
from snug._core.optim import (
    Schedule,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    constant,
    cosine,
    exponential_decay,
    one_cycle,
    step_decay,
    warm_up,
)
from snug.updates import OrderedUpdates

__all__ = [
    "Schedule",
    "Updates",
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "constant",
    "cosine",
    "exponential_decay",
    "momentum",
    "nesterov",
    "one_cycle",
    "rmsprop",
    "sgd",
    "step_decay",
    "warm_up",
]


class Updates(OrderedUpdates):
    """The updates of a rule. `states`: the shared variables it made; `averages`: those that average
    the parameters, in their order."""

    def __init__(self, *items: Any, states: Sequence[Any] = (), averages: Sequence[Any] = ()):
        super().__init__(*items)
        self.states = list(states)
        self.averages = list(averages)


def _updates(rule: str, loss_or_grads: Any, params: Sequence[Any], options: dict) -> Updates:
    if not isinstance(loss_or_grads, _core.Variable):
        loss_or_grads = list(loss_or_grads)
    pairs, states, averages = _core.optim.updates(rule, loss_or_grads, list(params), options)
    return Updates(pairs, states=states, averages=averages)


def sgd(loss_or_grads: Any, params: Sequence[Any], rate: Any = 0.01, **options: Any) -> Updates:
    """p - rate g"""
    return _updates("sgd", loss_or_grads, params, {"rate": rate, **options})


def momentum(
    loss_or_grads: Any,
    params: Sequence[Any],
    rate: Any = 0.01,
    momentum: float = 0.9,
    **options: Any,
) -> Updates:
    """v = momentum v + g;  p - rate v"""
    options |= {"rate": rate, "momentum": momentum}
    return _updates("momentum", loss_or_grads, params, options)


def nesterov(
    loss_or_grads: Any,
    params: Sequence[Any],
    rate: Any = 0.01,
    momentum: float = 0.9,
    **options: Any,
) -> Updates:
    """v = momentum v + g;  p - rate (g + momentum v)"""
    options |= {"rate": rate, "momentum": momentum}
    return _updates("nesterov", loss_or_grads, params, options)


def adagrad(
    loss_or_grads: Any,
    params: Sequence[Any],
    rate: Any = 0.01,
    epsilon: float = 1e-10,
    **options: Any,
) -> Updates:
    """s = s + g^2;  p - rate g / (sqrt(s) + epsilon)"""
    options |= {"rate": rate, "epsilon": epsilon}
    return _updates("adagrad", loss_or_grads, params, options)


def adadelta(
    loss_or_grads: Any,
    params: Sequence[Any],
    rate: Any = 1.0,
    rho: float = 0.9,
    epsilon: float = 1e-6,
    **options: Any,
) -> Updates:
    """s = rho s + (1 - rho) g^2;  d = sqrt(e + epsilon) / sqrt(s + epsilon) g;
    e = rho e + (1 - rho) d^2;  p - rate d"""
    options |= {"rate": rate, "rho": rho, "epsilon": epsilon}
    return _updates("adadelta", loss_or_grads, params, options)


def rmsprop(
    loss_or_grads: Any,
    params: Sequence[Any],
    rate: Any = 0.01,
    rho: float = 0.99,
    epsilon: float = 1e-8,
    momentum: float = 0.0,
    centered: bool = False,
    **options: Any,
) -> Updates:
    """s = rho s + (1 - rho) g^2;  d = g / (sqrt(s) + epsilon);  p - rate d

    centered: s less the square of the average of g. With momentum: v = momentum v + d, p - rate v.
    """
    options |= {"rate": rate, "rho": rho, "epsilon": epsilon}
    options |= {"momentum": momentum, "centered": centered}
    return _updates("rmsprop", loss_or_grads, params, options)


def adam(
    loss_or_grads: Any,
    params: Sequence[Any],
    rate: Any = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    **options: Any,
) -> Updates:
    """m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
    p - rate / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)"""
    options |= {"rate": rate, "beta1": beta1, "beta2": beta2, "epsilon": epsilon}
    return _updates("adam", loss_or_grads, params, options)


def adamw(
    loss_or_grads: Any,
    params: Sequence[Any],
    rate: Any = 0.001,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.01,
    **options: Any,
) -> Updates:
    """adam of the gradient alone, of the parameter (1 - rate weight_decay) p"""
    options |= {"rate": rate, "beta1": beta1, "beta2": beta2, "epsilon": epsilon}
    options |= {"weight_decay": weight_decay}
    return _updates("adamw", loss_or_grads, params, options)


def adamax(
    loss_or_grads: Any,
    params: Sequence[Any],
    rate: Any = 0.002,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    **options: Any,
) -> Updates:
    """m = beta1 m + (1 - beta1) g;  u = max(beta2 u, |g| + epsilon);
    p - rate / (1 - beta1^t) m / u"""
    options |= {"rate": rate, "beta1": beta1, "beta2": beta2, "epsilon": epsilon}
    return _updates("adamax", loss_or_grads, params, options)
