"""Loops with an inner graph, and copies of graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snug import _core
from snug._errors import error, warn
from snug.gof import graph


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def map(
    fn: Callable[..., Any],
    sequences: Any,
    non_sequences: Any = None,
    truncate_gradient: int = -1,
    go_backwards: bool = False,
    mode: str | None = None,
    name: str | None = None,
) -> tuple[Any, dict[Any, Any]]:
    """fn of each element of the sequences (first axis), stacked.

    fn gets one element per sequence and then the non_sequences. Gives (outputs, updates): one
    expression or a list of them, and no updates.
    """
    inputs = [_core.as_tensor(s, "map") for s in _as_list(sequences)]
    if not inputs:
        raise error(ValueError, "map: at least one sequence is needed")
    if go_backwards:
        inputs = [s[::-1] for s in inputs]
    extra = [_core.as_tensor(s, "map") for s in _as_list(non_sequences)]
    single = True

    def body(index: Any, elements: list[Any], states: list[Any]) -> tuple[list[Any], list[Any]]:
        nonlocal single
        result = fn(*elements, *extra)
        single = not isinstance(result, (list, tuple))
        return [], [result] if single else list(result)

    _, outputs = _core.loop(body, inputs, [], None)
    if name is not None and single:
        outputs[0].name = name
    return (outputs[0] if single else outputs), {}


def loop(
    fn: Callable[..., Any],
    sequences: Any = None,
    states: Any = None,
    n_steps: Any = None,
) -> tuple[list[Any], list[Any]]:
    """Runs fn(index, elements, states) -> (new states, outputs) once per element of the sequences
    or n_steps times. Gives (states after the last step, outputs of all steps stacked)."""

    def body(index: Any, elements: list[Any], before: list[Any]) -> tuple[list[Any], list[Any]]:
        after, outputs = fn(index, elements, before)
        return _as_list(after), _as_list(outputs)

    return _core.loop(body, _as_list(sequences), _as_list(states), n_steps)


def clone(
    output: Any,
    replace: Any = None,
    strict: bool = True,
    share_inputs: bool = True,
    copy_inputs: bool | None = None,
) -> Any:
    """A copy of an expression, or of a list of them, with parts replaced: {old: new} or pairs.

    strict        a replacement has the type of what it replaces; otherwise ops are applied anew
    share_inputs  inputs, constants and shared variables stay; otherwise they are copied, too. The
                  copy of a shared variable always has its value, but a default update of its own
    copy_inputs   the older name of share_inputs
    """
    if copy_inputs is not None:
        warn("clone: copy_inputs is now called share_inputs")
        share_inputs = copy_inputs
    return graph.rebuild(output, replace, strict, share_inputs)
