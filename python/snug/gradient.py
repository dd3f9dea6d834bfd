"""Gradients."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from snug import _core
from snug._errors import DisconnectedInputError, error


def grad(
    cost: _core.Variable | None,
    wrt: _core.Variable | Sequence[_core.Variable],
    consider_constant: Sequence[_core.Variable] | None = None,
    disconnected_inputs: str = "raise",
    add_names: bool = True,
    known_grads: Mapping[_core.Variable, Any] | None = None,
    return_disconnected: str = "zero",
    null_gradients: str = "raise",
) -> Any:
    """The gradient of a 0-d `cost` by each of `wrt`: a list for a list, a tuple for a tuple.

    consider_constant    expressions that gradients do not flow through
    known_grads          {expression: its gradient}; with it the cost may be None
    disconnected_inputs  what to do about a `wrt` the cost does not depend on: "raise", "warn" or
                         "ignore"
    return_disconnected  what stands for its gradient: "zero", "None" or "Disconnected"
    """
    if disconnected_inputs not in ("raise", "warn", "ignore"):
        raise error(
            ValueError,
            f"grad: disconnected_inputs is {disconnected_inputs!r}",
            "choose 'raise', 'warn' or 'ignore'",
        )
    if str(return_disconnected).lower() not in ("zero", "none", "disconnected"):
        raise error(
            ValueError,
            f"grad: return_disconnected is {return_disconnected!r}",
            "choose 'zero', 'None' or 'Disconnected'",
        )
    if cost is None and not known_grads:
        raise error(ValueError, "grad: there is no cost", "give a cost, or known_grads")
    several = isinstance(wrt, (list, tuple))
    targets = list(wrt) if several else [wrt]
    known = list(known_grads.items()) if isinstance(known_grads, Mapping) else known_grads or []
    constants = consider_constant if consider_constant is not None else []
    if isinstance(constants, _core.Variable):
        constants = [constants]
    zero = str(return_disconnected).lower() == "zero"
    arguments = (cost, targets, list(constants), known)
    try:
        found = _core.gradients(*arguments, disconnected_inputs != "ignore", zero)
    except DisconnectedInputError as disconnected:
        if disconnected_inputs == "raise":
            raise
        warnings.warn(str(disconnected), stacklevel=2)
        found = _core.gradients(*arguments, False, zero)
    if add_names and cost is not None and cost.name:
        for g, x in zip(found, targets):
            if g is not None and g.owner is not None and g.name is None and x.name:
                g.name = f"(d{cost.name}/d{x.name})"
    if not several:
        return found[0]
    return tuple(found) if isinstance(wrt, tuple) else found


def disconnected_grad(x: Any) -> _core.Variable:
    """x, through which no gradient flows."""
    return _core.stop_gradient(x)


zero_grad = disconnected_grad
consider_constant = disconnected_grad
