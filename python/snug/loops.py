"""Loops with an inner graph, and copies of graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from snug import _core
from snug._errors import error


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


def clone(output: Any, replace: Any = None, strict: bool = True, share_inputs: bool = True) -> Any:
    """The expression, or list of expressions, with parts replaced: {old: new} or pairs.

    share_inputs=False puts new variables in the place of inputs and shared variables; a new shared
    variable has the value of the old one in common with it."""
    pairs = list(replace.items()) if isinstance(replace, Mapping) else list(replace or [])
    several = isinstance(output, (list, tuple))
    if strict:
        for old, new in pairs:
            if _core.as_tensor(new, "clone").type != old.type:
                raise error(
                    TypeError, f"clone: {old} is {old.type} and its replacement is {new.type}"
                )
    roots: Sequence[Any] = output if several else [output]
    if not share_inputs:
        replaced = {old for old, _ in pairs}
        leaves = _core.ancestors(list(roots), list(replaced))
        pairs += [
            (v, v.clone())
            for v in leaves
            if v.owner is None and v not in replaced and not isinstance(v, _core.TensorConstant)
        ]
    result = _core.substitute(list(roots), pairs)
    return result if several else result[0]
