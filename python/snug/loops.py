"""Loops with an inner graph, and copies of graphs."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from snug import _core
from snug._errors import error, warn
from snug.gof import graph
from snug.updates import OrderedUpdates


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


class until:
    """What the function of a scan returns last to end it: the first step whose condition is not 0
    is the last one."""

    def __init__(self, condition: Any):
        self.condition = _core.as_tensor(condition, "until")


def _taps(value: Any) -> list[int]:
    return [int(tap) for tap in _as_list(value)]


def _slices(entry: Any, go_backwards: bool) -> list[Any]:
    """What a sequence gives to the steps: of every tap the elements, one per step."""
    given = entry if isinstance(entry, dict) else {"input": entry}
    taps = _taps(given.get("taps", 0)) or [0]
    x = _core.as_tensor(given["input"], "scan")
    if x.ndim == 0:
        raise error(TypeError, f"scan: the sequence {x} has no axis to run over")
    first, last = min(0, *taps), max(0, *taps)
    found = [x[tap - first : (tap - last) or None] for tap in taps]
    return [part[::-1] for part in found] if go_backwards else found


class _Output:
    """An entry of outputs_info: the taps that a step sees, and the values before the first step,
    the newest first. Both are empty if a step does not see it."""

    def __init__(self, entry: Any):
        given = entry if isinstance(entry, dict) else {"initial": entry}
        initial, taps = given.get("initial"), given.get("taps")
        self.taps: list[int] = []
        self.states: list[Any] = []
        if initial is None:
            if taps is not None:
                raise error(ValueError, "scan: an output with taps has no initial value")
            return
        self.taps = [-1] if taps is None else _taps(taps)
        if not self.taps or max(self.taps) >= 0:
            raise error(
                ValueError,
                f"scan: the taps of an output are {self.taps}",
                "a step sees earlier ones, such as -1",
            )
        initial, depth = _core.as_tensor(initial, "scan"), -min(self.taps)
        if depth > 1 and initial.ndim == 0:
            raise error(TypeError, f"scan: {depth} initial values are needed, {initial} is one")
        self.states = [initial] if depth == 1 else [initial[depth - k] for k in range(1, depth + 1)]


def _is_updates(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(
            isinstance(pair, (list, tuple))
            and len(pair) == 2
            and isinstance(pair[0], _core.SharedVariable)
            for pair in value
        )
    return isinstance(value, Mapping)


class _Step:
    """The graph of one step. The function is called once, in the first loop that is made of it;
    what it gave is copied into the body of every other one."""

    def __init__(self, fn: Callable[..., Any], outputs: list[_Output] | None, extra: list[Any]):
        self.fn, self.outputs, self.extra = fn, outputs, extra
        self.leaves: list[Any] = []  # that it was called in: its number, elements and states
        self.results: list[Any] = []
        self.updates: dict[Any, Any] = {}
        self.condition: Any = None

    def call(self, index: Any, elements: list[Any], states: list[Any]) -> None:
        seen, at = [], 0
        for output in self.outputs or []:
            seen += [states[at - tap - 1] for tap in output.taps]
            at += len(output.states)
        returned = self.fn(*elements, *seen, *self.extra)
        parts = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        if _is_updates(returned):
            parts = [returned]
        if parts and isinstance(parts[-1], until):
            self.condition = parts.pop().condition
        if parts and _is_updates(parts[-1]):
            self.updates = dict(parts.pop())
        if len(parts) == 1 and isinstance(parts[0], (list, tuple)):
            parts = list(parts[0])
        self.results = [_core.as_tensor(part, "scan") for part in parts]
        self.leaves = [index, *elements, *states]
        if self.outputs is None:
            self.outputs = [_Output(None) for _ in parts]
        if len(parts) != len(self.outputs):
            raise error(
                ValueError,
                f"scan: the function gives {len(parts)} outputs, "
                f"outputs_info has {len(self.outputs)} entries",
            )

    def states(self) -> list[Any]:
        """Before the first step: shared variables that it updates, whether it has ended, and the
        outputs that it sees."""
        ended = [] if self.condition is None else [_core.as_tensor(np.array(False), "scan")]
        return [*self.updates, *ended, *(s for output in self.outputs or [] for s in output.states)]

    def body(self, index: Any, elements: list[Any], states: list[Any]) -> tuple[Any, Any]:
        """The states after a step, and its outputs; with `until` also whether it had ended."""
        n_shared, n_ended = len(self.updates), self.condition is not None
        ended = states[n_shared : n_shared + n_ended]
        seen = states[n_shared + n_ended :]
        roots = [*self.results, *self.updates.values()]
        if n_ended:
            roots.append(self.condition)
        pairs = [
            *zip(self.leaves, [index, *elements, *seen]),
            *zip(self.updates, states[:n_shared]),
        ]
        found = graph.rebuild(roots, [(a, b) for a, b in pairs if a is not b], strict=False)
        outputs, shared = found[: len(self.results)], found[len(self.results) :][:n_shared]
        after, at = list(shared), 0
        for output, value in zip(self.outputs or [], outputs):
            older = seen[at : at + len(output.states)]
            after += [value, *older][: len(older)]
            at += len(older)
        if not n_ended:
            return after, outputs
        before = [*states[:n_shared], *seen]
        after = [_core.switch(ended[0], old, new) for old, new in zip(before, after)]
        after.insert(n_shared, _core.bit_or(ended[0], _core.ne(found[-1], 0)))
        return after, [*outputs, ended[0]]


class _Traced(Exception):
    """The function of a scan was called, and its loop needs other states."""


def scan(
    fn: Callable[..., Any],
    sequences: Any = None,
    outputs_info: Any = None,
    non_sequences: Any = None,
    n_steps: Any = None,
    truncate_gradient: int = -1,
    go_backwards: bool = False,
    mode: Any = None,
    name: str | None = None,
    profile: bool = False,
    allow_gc: bool | None = None,
    strict: bool = False,
    return_list: bool = False,
) -> tuple[Any, OrderedUpdates]:
    """Runs fn step by step. Gives (outputs, updates): the outputs of all steps stacked, one or a
    list of them, and the new values of the shared variables that fn updates.

    fn                 gets one element per sequence and tap, the earlier values of the outputs, and
                       the non_sequences; returns the outputs, and may add updates and `until`
    sequences          tensors, or {"input": tensor, "taps": [-1, 0]}
    outputs_info       per output its value before the first step; {"initial": values, "taps": [-2,
                       -1]}, the oldest first; None for one that fn does not get
    n_steps            without it as many as the shortest sequence has
    truncate_gradient  gradients go through so many steps from the end; -1: through all
    go_backwards       sequences begin at their ends
    mode, name, profile, allow_gc and strict have no meaning here: what fn uses from outside is
    found. With `until` the steps left after the end are computed and dropped.
    """
    elements = [part for s in _as_list(sequences) for part in _slices(s, go_backwards)]
    outputs = None if outputs_info is None else [_Output(o) for o in _as_list(outputs_info)]
    extra = [_core.as_tensor(s, "scan") for s in _as_list(non_sequences)]
    steps = n_steps
    if steps is None and not elements:
        raise error(ValueError, "scan: there are neither sequences nor n_steps")
    if steps is None and (len(elements) > 1 or truncate_gradient != -1):
        steps = functools.reduce(_core.minimum, [x.shape[0] for x in elements])
    step = _Step(fn, outputs, extra)

    def trace(index: Any, elements: list[Any], states: list[Any]) -> Any:
        step.call(index, elements, states)
        raise _Traced

    with contextlib.suppress(_Traced):
        _core.loop(trace, elements, step.states(), steps)
    if truncate_gradient == -1:
        states, found = _core.loop(step.body, elements, step.states(), steps)
    else:
        steps = _core.cast(steps, "int64")
        cut = _core.maximum(steps - truncate_gradient, 0)
        states, early = _core.loop(step.body, [x[:cut] for x in elements], step.states(), cut)
        late = [x[cut:steps] for x in elements]
        states, found = _core.loop(
            lambda index, *others: step.body(index + cut, *others),
            late,
            [_core.stop_gradient(s) for s in states],
            steps - cut,
        )
        found = [_core.concatenate([_core.stop_gradient(a), b], 0) for a, b in zip(early, found)]
    if step.condition is not None:
        count = _core.sum(_core.eq(found.pop(), 0))
        found = [x[:count] for x in found]
    updates = OrderedUpdates(zip(step.updates, states))
    if not found:
        return None, updates
    return (found[0] if len(found) == 1 and not return_list else found), updates


def map(
    fn: Callable[..., Any],
    sequences: Any,
    non_sequences: Any = None,
    truncate_gradient: int = -1,
    go_backwards: bool = False,
    mode: str | None = None,
    name: str | None = None,
) -> tuple[Any, OrderedUpdates]:
    """fn of each element of the sequences (first axis), stacked.

    fn gets one element per sequence and then the non_sequences. Gives (outputs, updates): one
    expression or a list of them, and the updates of fn, as `scan` does.
    """
    if not _as_list(sequences):
        raise error(ValueError, "map: at least one sequence is needed")
    outputs, updates = scan(
        *(fn, sequences, None, non_sequences),
        truncate_gradient=truncate_gradient,
        go_backwards=go_backwards,
    )
    if name is not None and isinstance(outputs, _core.Variable):
        outputs.name = name
    return outputs, updates


def reduce(
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    go_backwards: bool = False,
    mode: Any = None,
    name: str | None = None,
) -> tuple[Any, OrderedUpdates]:
    """The outputs of the last step of `scan`."""
    outputs, updates = scan(
        fn, sequences, outputs_info, non_sequences, go_backwards=go_backwards, return_list=True
    )
    last = [x[-1] for x in outputs or []]
    return (last[0] if len(last) == 1 else last), updates


def foldl(
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    mode: Any = None,
    name: str | None = None,
) -> tuple[Any, OrderedUpdates]:
    """`reduce` from the first element on."""
    return reduce(fn, sequences, outputs_info, non_sequences, False)


def foldr(
    fn: Callable[..., Any],
    sequences: Any,
    outputs_info: Any,
    non_sequences: Any = None,
    mode: Any = None,
    name: str | None = None,
) -> tuple[Any, OrderedUpdates]:
    """`reduce` from the last element on."""
    return reduce(fn, sequences, outputs_info, non_sequences, True)


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
