"""Compiling: `snug.function`, `snug.In`, `snug.Out`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from snug import _core
from snug._config import config
from snug._errors import UnusedInputError, error

_MODES = {
    "FAST_RUN": "fast",
    "FAST_COMPILE": "fast",
    "DebugMode": "check",
    "DEBUG_MODE": "check",
}


class In:
    """An input of a function with more to say than its variable: a default value, a name for
    keyword arguments, and what may be converted on the way in."""

    def __init__(
        self,
        variable: _core.Variable,
        name: str | None = None,
        value: Any = None,
        update: _core.Variable | None = None,
        mutable: bool | None = None,
        strict: bool = False,
        allow_downcast: bool | None = None,
        autoname: bool = True,
        implicit: bool | None = None,
        borrow: bool | None = None,
        shared: bool = False,
    ):
        if not isinstance(variable, _core.Variable):
            raise error(TypeError, f"In: expected a variable, got {type(variable).__name__}")
        if update is not None or implicit:
            raise error(
                NotImplementedError,
                "In: update= and implicit=",
                "use a shared variable and function(..., updates=)",
            )
        if isinstance(value, _core.Variable):
            raise error(TypeError, "In: value must be a number or an array, not a variable")
        self.variable = variable
        self.name = name if name is not None or not autoname else variable.name
        self.value = value
        self.mutable = mutable
        self.strict = strict
        self.allow_downcast = allow_downcast
        self.borrow = borrow

    def __repr__(self) -> str:
        return f"In({self.variable})" if self.value is None else f"In({self.variable}={self.value})"


class Out:
    """An output of a function. Outputs are always arrays of their own, so `borrow` changes
    nothing."""

    def __init__(self, variable: Any, borrow: bool = False):
        self.variable = _core.as_tensor(variable, "Out")
        self.borrow = borrow

    def __repr__(self) -> str:
        return f"Out({self.variable})"


def _output(value: Any) -> _core.Variable:
    return value.variable if isinstance(value, Out) else _core.as_tensor(value, "function: outputs")


def _pairs(what: str, items: Any) -> list[tuple[Any, Any]]:
    """(variable, value) pairs from a dict, a view of its items, or a list of pairs."""
    if items is None:
        return []
    if isinstance(items, Mapping):
        return list(items.items())
    if not isinstance(items, Iterable) or isinstance(items, (str, _core.Variable)):
        raise error(
            TypeError,
            f"function: {what} must be (variable, expression) pairs, got {items!r}",
            f"write {what}=[(variable, expression)] or a dict",
        )
    pairs = []
    for item in items:
        if isinstance(item, _core.Variable) or not isinstance(item, (tuple, list)):
            raise error(
                TypeError,
                f"function: {what} must be (variable, expression) pairs, got {item!r}",
                f"write {what}=[(variable, expression)] or a dict",
            )
        if len(item) != 2:
            raise error(
                ValueError,
                f"function: {what} has an entry of {len(item)} items, not 2",
                "each entry is a (variable, expression) pair",
            )
        pairs.append((item[0], item[1]))
    return pairs


def _default_updates(
    outputs: Iterable[_core.Variable],
    updates: list[tuple[Any, Any]],
    givens: list[tuple[Any, Any]],
    without: Iterable[_core.Variable],
) -> list[tuple[Any, Any]]:
    """The updates with the default ones of all shared variables reached but `without`."""
    result = list(updates)
    done = {id(v) for v, _ in updates} | {id(v) for v in without}
    replaced = dict(givens)
    roots = [*outputs, *(_core.as_tensor(e) for _, e in updates), *replaced.values()]
    while roots:
        found = []
        for v in _core.ancestors([_core.as_tensor(r) for r in roots], list(replaced)):
            if isinstance(v, _core.SharedVariable) and id(v) not in done:
                done.add(id(v))
                if v.default_update is not None:
                    result.append((v, v.default_update))
                    found.append(v.default_update)
        roots = found
    return result


def _count(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or value < least:
        raise error(
            ValueError, f"function: {name} must be an integer of at least {least}, got {value!r}"
        )


def _input(item: Any, allow_downcast: bool | None) -> dict[str, Any]:
    entry = item if isinstance(item, In) else None
    if entry is None:
        if not isinstance(item, _core.Variable):
            raise error(
                TypeError,
                f"function: inputs must be variables, got {item!r} ({type(item).__name__})",
            )
        entry = In(item)
    if isinstance(entry.variable, _core.SharedVariable):
        raise error(
            TypeError,
            f"function: the shared variable {entry.variable} cannot be an input",
            "a function reads it by itself; givens= puts another value in its place",
        )
    return {
        "variable": entry.variable,
        "name": entry.name,
        "value": entry.value,
        "strict": entry.strict,
        "allow_downcast": allow_downcast if entry.allow_downcast is None else entry.allow_downcast,
    }


def function(
    inputs: Sequence[_core.Variable | In],
    outputs: Any = None,
    mode: str | None = None,
    updates: Any = None,
    givens: Any = None,
    no_default_updates: bool | Sequence[_core.Variable] = False,
    accept_inplace: bool = False,
    name: str | None = None,
    rebuild_strict: bool = True,
    allow_input_downcast: bool | None = None,
    profile: bool | None = None,
    on_unused_input: str | None = None,
    *,
    shapes: Any = None,
    memory: str | int | None = None,
    micro_batches: int = 0,
    threads: int | None = None,
    contexts: int = 1,
    strict_math: bool = False,
    disabled_passes: Sequence[str] = (),
) -> _core.Function:
    """A callable that computes `outputs` from values of `inputs` and applies `updates`.

    outputs     one expression (the call gives an array), a list (a list), a dict (a dict), or
                None (an empty list)
    updates     (shared variable, new value) pairs or a dict; all read the values before the call
    givens      (expression, replacement) pairs or a dict
    mode        "fast", "check" (every step compared with the reference; a loop is one step) or
                "reference"
    shapes      hints: {x: (64, 784)}; None for an unknown size
    memory      the budget: bytes or text like "4GiB"
    micro_batches, threads, contexts, strict_math, disabled_passes
                slices of the batch; threads of a call; calls at the same time; functions of at
                most 1 ULP; rewrites to leave out
    The other arguments are Theano's.
    """
    if not isinstance(inputs, (list, tuple)):
        raise error(
            TypeError,
            f"function: inputs must be a list, got {type(inputs).__name__}",
            "write function([x], ...), also if there is only one",
        )
    if profile:
        raise error(NotImplementedError, "function: profile=", "see f.explain()")
    entries = [_input(item, allow_input_downcast) for item in inputs]

    result: Any
    if outputs is None:
        results, result = [], []
    elif isinstance(outputs, Mapping):
        if not all(isinstance(key, str) for key in outputs):
            raise error(TypeError, "function: the keys of a dict of outputs must be strings")
        results, result = [_output(v) for v in outputs.values()], tuple(outputs)
    elif isinstance(outputs, (list, tuple)):
        results, result = [_output(v) for v in outputs], []
    else:
        results, result = [_output(outputs)], None

    update_pairs = _pairs("updates", updates)
    given_pairs = _pairs("givens", givens)
    if isinstance(no_default_updates, (list, tuple)):
        update_pairs = _default_updates(results, update_pairs, given_pairs, no_default_updates)
        no_default_updates = True

    unused = config.on_unused_input if on_unused_input is None else on_unused_input
    if unused not in ("raise", "warn", "ignore"):
        raise error(
            ValueError,
            f"function: on_unused_input is {unused!r}",
            "choose 'raise', 'warn' or 'ignore'",
        )
    budget = config.memory if memory is None else memory
    chosen = config.mode if mode is None else mode
    if name is not None and not isinstance(name, str):
        raise error(TypeError, f"function: name must be a string, got {name!r}")
    if isinstance(disabled_passes, str):
        raise error(TypeError, f"function: disabled_passes must be a list, got {disabled_passes!r}")
    chosen_threads = config.threads if threads is None else threads
    _count("threads", chosen_threads, 0)
    _count("contexts", contexts, 1)
    _count("micro_batches", micro_batches, 0)
    if not isinstance(chosen, str):
        raise error(
            TypeError,
            f"function: mode must be a string, got {type(chosen).__name__}",
            "modes are 'fast', 'check' and 'reference'",
        )
    if budget is not None and not isinstance(budget, (str, int)):
        raise error(
            TypeError, f"function: memory must be bytes or text like '4GiB', got {budget!r}"
        )
    hints = _pairs("shapes", shapes)
    for x, _ in hints:
        if not any(entry["variable"] is x for entry in entries):
            raise error(ValueError, f"function: shapes has {x}, which is no input")
    options = {
        "updates": update_pairs,
        "givens": given_pairs,
        "shapes": hints,
        "name": name or "",
        "memory": "" if budget is None else str(budget),
        "micro_batches": micro_batches,
        "mode": _MODES.get(chosen, chosen),
        "no_default_updates": bool(no_default_updates),
        "strict_math": bool(strict_math),
        "ignore_unused": unused == "ignore",
        "threads": chosen_threads,
        "contexts": contexts,
        "disabled_passes": list(disabled_passes),
    }
    try:
        return _core.compile(entries, results, result, options)
    except UnusedInputError as unused_input:
        if unused != "warn":
            raise
        warnings.warn(str(unused_input), stacklevel=2)
        return _core.compile(entries, results, result, {**options, "ignore_unused": True})
