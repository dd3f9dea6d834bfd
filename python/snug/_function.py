"""Compiling: `snug.function`, `snug.In`, `snug.Out`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from snug import _core
from snug._config import config
from snug._errors import UnusedInputError, error, memory_text, warn
from snug._mode import Mode, get_mode
from snug._options import check_device, check_precision, compile_options


class In:
    """An input of a function with more to say than its variable: a default value, a name for
    keyword arguments, what may be converted on the way in, and what the default value becomes
    after a call (`update`). A `value` that is a shared variable, or implicit=True, makes an input
    that calls do not give. Arguments are never written to, so `mutable` and `borrow` change
    nothing."""

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
        held = isinstance(value, _core.SharedVariable)
        if isinstance(value, _core.Variable) and not held:
            raise error(TypeError, "In: value must be a number or an array, not a variable")
        if mutable and borrow is False:
            raise error(
                ValueError,
                f"In: {variable} has mutable=True and borrow=False, which contradict each other",
            )
        if implicit and value is None:
            raise error(TypeError, f"In: the implicit input {variable} needs a value")
        if update is not None:
            if value is None:
                raise error(
                    TypeError,
                    f"In: {variable} has an update but no value",
                    "give value=, the state before the first call",
                )
            update = _typed("In: update", variable, update)
        self.variable = variable
        self.name = name if name is not None or not autoname else variable.name
        self.value = value
        self.update = update
        self.mutable = bool(update is not None if mutable is None else mutable)
        self.strict = strict
        self.allow_downcast = allow_downcast
        self.implicit = held if implicit is None else bool(implicit)
        self.borrow = self.mutable if borrow is None else borrow
        self.shared = shared

    def __repr__(self) -> str:
        text = f"{self.variable}" if self.value is None else f"{self.variable}={self.value}"
        return f"In({text})" if self.update is None else f"In({text} -> {self.update})"


def Param(
    variable: _core.Variable,
    default: Any = None,
    name: str | None = None,
    mutable: bool = False,
    strict: bool = False,
    allow_downcast: bool | None = None,
    implicit: bool | None = None,
    borrow: bool | None = None,
) -> In:
    """Theano's old name of In."""
    return In(
        variable,
        name,
        default,
        mutable=mutable,
        strict=strict,
        allow_downcast=allow_downcast,
        implicit=implicit,
        borrow=borrow,
    )


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


def _typed(what: str, variable: Any, value: Any) -> Any:
    """`value` as an expression; a number or an array becomes a constant of the variable's type."""
    if isinstance(value, _core.Variable) or not isinstance(variable, _core.Variable):
        return value
    if isinstance(value, (list, tuple)):
        expression = _core.as_tensor(value, what)
        if not isinstance(expression, _core.TensorConstant):
            return expression
    return _core.constant(variable.type.filter(value), "", None)


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


def _count(name: str, value: Any, least: int, most: int | None = None) -> None:
    if not isinstance(value, int) or value < least:
        raise error(
            ValueError, f"function: {name} must be an integer of at least {least}, got {value!r}"
        )
    if most is not None and value > most:
        raise error(ValueError, f"function: {name} must be at most {most}, got {value!r}")


def _entry(item: Any) -> In:
    """An input as function() takes it. Besides variables and In there are Theano's tuples:
    (variable, value), (name, variable), ((variable, update), value), ((name, variable), value)."""
    if isinstance(item, In):
        return item
    if isinstance(item, _core.Variable):
        return In(item)
    if isinstance(item, (list, tuple)) and len(item) == 1:
        return _entry(item[0])
    if isinstance(item, (list, tuple)) and len(item) in (2, 3):
        name, value, update = None, None, None
        parts = list(item)
        if isinstance(parts[0], str):
            name, parts = parts[0], parts[1:]
            if len(parts) == 2:
                update = parts.pop()
        elif len(parts) == 2:
            value = parts.pop()
            if isinstance(parts[0], (list, tuple)):
                inner = _entry_parts(parts[0])
                name, parts[0], update = inner
        if len(parts) == 1 and isinstance(parts[0], _core.Variable):
            return In(parts[0], name, value, update)
    raise error(
        TypeError,
        f"function: inputs must be variables, got {item!r} ({type(item).__name__})",
    )


def _entry_parts(parts: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Name, variable and update of (variable, update), (name, variable) or all three."""
    name = parts[0] if parts and isinstance(parts[0], str) else None
    rest = list(parts[1:] if name is not None else parts)
    return name, rest[0] if rest else None, rest[1] if len(rest) > 1 else None


def _input(entry: In, allow_downcast: bool | None) -> dict[str, Any]:
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
        "mutable": entry.mutable,
        "borrow": entry.borrow,
    }


def _state_of(entry: In) -> _core.SharedVariable:
    """The shared variable behind an implicit input."""
    if isinstance(entry.value, _core.SharedVariable):
        return entry.value
    value = entry.variable.type.filter(entry.value, entry.strict, entry.allow_downcast)
    return _core.make_shared(
        value, entry.name or "", entry.strict, entry.allow_downcast, entry.variable.broadcastable
    )


def _items(inputs: Any) -> list[In]:
    if not isinstance(inputs, (list, tuple)):
        raise error(
            TypeError,
            f"function: inputs must be a list, got {type(inputs).__name__}",
            "write function([x], ...), also if there is only one",
        )
    return [_entry(item) for item in inputs]


def _results(outputs: Any) -> tuple[list[Any], Any]:
    """The expressions, and what a call makes of them: a list ([]), one array (None), or a dict with
    these keys."""
    if outputs is None:
        return [], []
    if isinstance(outputs, Mapping):
        if not all(isinstance(key, str) for key in outputs):
            raise error(TypeError, "function: the keys of a dict of outputs must be strings")
        return [_output(v) for v in outputs.values()], tuple(outputs)
    if isinstance(outputs, (list, tuple)):
        return [_output(v) for v in outputs], []
    return [_output(outputs)], None


def _renewal(entry: In) -> Any:
    """What the default value of an input becomes after a call."""
    variable, update = entry.variable, entry.update
    if update.dtype != variable.dtype or update.ndim != variable.ndim:
        raise error(
            TypeError,
            f"function: the update of {variable} is {update.type}, the input is {variable.type}",
            f"cast it: T.cast(value, '{variable.dtype}')",
        )
    return update


def _check_options(unused, name, disabled_passes, threads, contexts, micro_batches) -> None:
    if unused not in ("raise", "warn", "ignore"):
        raise error(
            ValueError,
            f"function: on_unused_input is {unused!r}",
            "choose 'raise', 'warn' or 'ignore'",
        )
    if name is not None and not isinstance(name, str):
        raise error(TypeError, f"function: name must be a string, got {name!r}")
    if isinstance(disabled_passes, str):
        raise error(TypeError, f"function: disabled_passes must be a list, got {disabled_passes!r}")
    _count("threads", threads, 0, _core.most_threads)
    _count("contexts", contexts, 1, _core.most_threads)
    _count("micro_batches", micro_batches, 0)


def _hints(shapes: Any, entries: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """Pairs of an input and its shape."""
    named = {entry["name"]: entry["variable"] for entry in entries if entry["name"]}
    hints = [(named.get(x, x), shape) for x, shape in _pairs("shapes", shapes)]
    for x, _ in hints:
        if not any(entry["variable"] is x for entry in entries):
            raise error(
                ValueError,
                f"function: shapes has {x}, which is no input",
                "write a dict of inputs and their shapes: shapes={x: (64, 784)}",
            )
    return hints


def function(
    inputs: Sequence[Any],
    outputs: Any = None,
    mode: str | Mode | None = None,
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
    memory: str | int | dict[str, str | int] | None = None,
    micro_batches: int = 0,
    recompute: bool = True,
    offload: str | os.PathLike[str] | None = None,
    activations: str = "float32",
    plan_only: bool = False,
    precision: str = "float32",
    threads: int | None = None,
    contexts: int = 1,
    strict_math: bool = False,
    disabled_passes: Sequence[str] = (),
    device: str | None = None,
    snapshot: int = 0,
) -> _core.Function:
    """A callable that computes `outputs` from values of `inputs` and applies `updates`.

    outputs     one expression (the call gives an array), a list (a list), a dict (a dict), or
                None (an empty list)
    updates     (shared variable, new value) pairs or a dict; all read the values before the call
    givens      (expression, replacement) pairs or a dict
    mode        "fast", "check" (every step compared with the reference; a loop is one step) or
                "reference"; Theano's names and Mode objects
    shapes      hints: {x: (64, 784)} or {"x": (64, 784)}; None for an unknown size
    memory      the budget: bytes or text like "4GiB". The fastest way to keep to it is chosen as
                soon as sizes are known; a MemoryError says what would fit if there is none.
                Under config.memory it is at most what other variables and loaders leave. With a
                device: of each of the two, or {"opencl:0": "3GiB", "cpu": "8GiB"}
    device      where it runs: "cpu", or a name of snug.devices(), which does all that it can do;
                None: as config.device says
    snapshot    > 0: after so many calls each, a copy is kept on the host of the variables that they
                update on another device
    micro_batches   slices that the batch runs in; 1: never, 0: if the budget needs it
    recompute   the budget may have tasks run again
    offload     a directory on a disk: the budget may have values go to a file there while nothing
                reads them
    activations     "bfloat16": where no exact way keeps to the budget, float32 values that are kept
                for the backward part may be rounded, which changes gradients and nothing else
    plan_only   make no code: for f.memory and snug.max_batch
    precision   "bfloat16": products and convolutions of float32 round operands and results, which
                some CPUs do many times as fast; sums, parameters and the rest stay float32
    profile     take the time of every step: print(f.profile)
    threads, contexts, strict_math, disabled_passes
                threads of a call; calls at the same time; functions of at most 1 ULP; rewrites
                to leave out
    The other arguments are Theano's.
    """
    items = _items(inputs)
    implicit = [(entry, _state_of(entry)) for entry in items if entry.implicit]
    items = [entry for entry in items if not entry.implicit]
    entries = [_input(entry, allow_input_downcast) for entry in items]
    results, result = _results(outputs)
    update_pairs = [(v, _typed("updates", v, e)) for v, e in _pairs("updates", updates)]
    given_pairs = [(v, _typed("givens", v, e)) for v, e in _pairs("givens", givens)]
    for entry, state in implicit:
        given_pairs.append((entry.variable, state))
        if entry.update is not None:
            update_pairs.append((state, entry.update))
    # The last results renew the values of inputs with an update.
    renewed = [i for i, entry in enumerate(items) if entry.update is not None]
    results += [_renewal(items[i]) for i in renewed]
    if not rebuild_strict and given_pairs:
        count = len(results)
        rebuilt = _core.copy_graph(results + [e for _, e in update_pairs], given_pairs, False)
        results = rebuilt[:count]
        update_pairs = [(v, e) for (v, _), e in zip(update_pairs, rebuilt[count:], strict=True)]
        given_pairs = []
    if isinstance(no_default_updates, (list, tuple)):
        update_pairs = _default_updates(results, update_pairs, given_pairs, no_default_updates)
        no_default_updates = True

    unused = config.on_unused_input if on_unused_input is None else on_unused_input
    chosen_threads = config.threads if threads is None else threads
    _check_options(unused, name, disabled_passes, chosen_threads, contexts, micro_batches)
    check_precision("function", precision, activations)
    check_device("function", device)
    chosen = get_mode(mode)
    options = compile_options(
        updates=update_pairs,
        givens=given_pairs,
        shapes=_hints(shapes, entries),
        name=name or "",
        memory=memory_text("function", memory),
        micro_batches=micro_batches,
        recompute=bool(recompute),
        offload="" if offload is None else os.fspath(offload),
        activations=activations,
        plan_only=bool(plan_only),
        precision=precision,
        mode=chosen.kind,
        guarded=chosen.guarded,
        renewed=renewed,
        no_default_updates=bool(no_default_updates),
        strict_math=bool(strict_math),
        profile=bool(profile),
        on_unused_input="ignore" if unused == "ignore" else "raise",
        threads=chosen_threads,
        contexts=contexts,
        disabled_passes=[*disabled_passes, *chosen.disabled_passes],
        snapshot=snapshot,
        **({} if device is None else {"device": device}),
    )
    try:
        made = _core.compile(entries, results, result, options)
    except UnusedInputError as unused_input:
        if unused != "warn":
            raise
        warn(str(unused_input))
        made = _core.compile(entries, results, result, {**options, "on_unused_input": "ignore"})
    if implicit:
        made._implicit = [(entry.variable, entry.name, state) for entry, state in implicit]
    if chosen != get_mode(None):
        made._mode = chosen
    return made
