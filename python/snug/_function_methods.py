"""What Theano's programs ask of a compiled function besides calling it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from snug import _core, _pickle
from snug._attach import attach
from snug._errors import error
from snug._function import In, Out, _default_updates
from snug._mode import Mode, get_mode
from snug._shared import Container, container_of
from snug.gof.fg import FunctionGraph


class _Containers(Mapping[Any, Container]):
    """Containers by variable, name or number."""

    def __init__(self, function: _core.Function):
        self._function = function
        self._by_key: dict[Any, Container] = {}
        self._names: list[str] = []
        for i, entry in enumerate(function._source[0]):
            variable, name = entry["variable"], entry["name"]
            get = functools.partial(function._get_default, i)
            put = functools.partial(function._set_default, i)
            self._add(i, variable, name, Container(name, variable.type, get, put))
        for variable, name, state in getattr(function, "_implicit", ()):
            self._add(None, variable, name, container_of(state))
        for state in function.get_shared():
            self._add(None, state, state.name, container_of(state))

    def _add(self, number: int | None, variable: Any, name: str | None, c: Container) -> None:
        for key in (number, variable, name):
            if key is not None:
                self._by_key.setdefault(key, c)
        if name:
            self._names.append(name)

    def __getitem__(self, key: Any) -> Container:
        if key in self._by_key:
            return self._by_key[key]
        near = _core.nearest(key, self._names) if isinstance(key, str) else ""
        raise _no_input(self._function, key, near)

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[Any]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)


def _no_input(function: _core.Function, key: Any, near: str) -> Exception:
    name = function.name or "function"
    what = f"there is no input named {key!r}" if isinstance(key, str) else f"{key} is no input"
    return error(
        TypeError if isinstance(key, str) else ValueError,
        f"{name}: {what}",
        f"did you mean {near!r}?" if near else "",
    )


class _Values:
    """Values of inputs by variable, name or number."""

    def __init__(self, containers: _Containers):
        self._containers = containers

    def __getitem__(self, key: Any) -> Any:
        return self._containers[key].value

    def __setitem__(self, key: Any, value: Any) -> None:
        self._containers[key].value = value

    def __contains__(self, key: Any) -> bool:
        return key in self._containers


def _inputs_of(function: _core.Function) -> list[In]:
    """The inputs as function() was given them; implicit ones come last."""
    entries, outputs, _, options = function._source
    renewed = options["renewed"]
    updates = dict(zip(renewed, outputs[len(outputs) - len(renewed) :], strict=True))
    states = dict(options["updates"])
    return [
        *(In(**{**entry, "update": updates.get(i)}) for i, entry in enumerate(entries)),
        *(
            In(variable, name, state, states.get(state), implicit=True)
            for variable, name, state in getattr(function, "_implicit", ())
        ),
    ]


class Maker:
    """What a function was made of."""

    def __init__(self, function: _core.Function):
        self._function = function
        _, outputs, result, options = function._source
        self.inputs = _inputs_of(function)
        self.expanded_inputs = [*self.inputs, *(In(v) for v in function.get_shared())]
        self.outputs = [Out(v) for v in outputs[: len(outputs) - len(options["renewed"])]]
        self.unpack_single = result is None
        self.return_none = False
        self.name = function.name
        self.profile = function.profile
        self.mode: Mode = getattr(function, "_mode", None) or get_mode(None)

    @functools.cached_property
    def fgraph(self) -> FunctionGraph:
        """The graph that runs, after all rewrites: inputs are the arguments and the shared
        variables, outputs the results and the new values of shared variables."""
        inputs, results, updates = self._function._view()
        outputs = [*results, *(value for _, value in updates)]
        reached = _core.ancestors([*inputs, *outputs])
        shared = [v for v in reached if isinstance(v, _core.SharedVariable)]
        shared += [v for v, _ in updates if v not in shared]
        inputs = [*inputs, *shared]
        mapping = {len(results) + k: inputs.index(v) for k, (v, _) in enumerate(updates)}
        return FunctionGraph(inputs, outputs, clone=False, update_mapping=mapping)


class Profile:
    """Where the time of the calls went, of a function made with profile=True."""

    def __init__(self, function: _core.Function):
        self._function = function

    @property
    def fct_callcount(self) -> int:
        """Calls so far."""
        return self._function._profile().calls

    @property
    def fct_call_time(self) -> float:
        """Seconds in steps of all calls."""
        return self._function._profile().seconds

    @property
    def steps(self) -> list[_core.StepTime]:
        """Name, result, where, count and seconds of every step, the longest first."""
        return self._function._profile().steps

    def __str__(self) -> str:
        return self._function._profile().describe()

    def summary(
        self, file: Any = None, n_ops_to_print: int = 20, n_apply_to_print: int = 20
    ) -> None:
        """Prints it, by default to standard error."""
        name = f"profile of {self._function.name or 'a function'}"
        text = self._function._profile().describe(max(n_ops_to_print, n_apply_to_print))
        print(f"{name}: {text}", end="", file=file or sys.stderr)


class _Methods:
    @property
    def maker(self):
        """What it was made of: inputs, outputs, mode, fgraph."""
        if "_maker" not in self.__dict__:
            self._maker = Maker(self)
        return self._maker

    @property
    def container(self):
        """The containers of its inputs, by variable, name or number."""
        return _Containers(self)

    @property
    def finder(self):
        """The containers of its inputs, by variable, name or number."""
        return _Containers(self)

    @property
    def value(self):
        """The values of its inputs, by variable, name or number."""
        return _Values(_Containers(self))

    @property
    def input_storage(self):
        """One container per input and shared variable."""
        return list(dict.fromkeys(_Containers(self).values()))

    @property
    def output_storage(self):
        """Empty: results belong to the caller."""
        return []

    @property
    def profile(self):
        """A Profile if it was made with profile=True, else None."""
        return Profile(self) if self._source[3]["profile"] else None

    @property
    def fn(self):
        """The function itself: there is no other object that runs it."""
        return self

    @property
    def vm(self):
        """The function itself: there is no other object that runs it."""
        return self

    def get_shared(self):
        """The shared variables that it reads or writes."""
        _, outputs, _, options = self._source
        updates, givens = options["updates"], options["givens"]
        if not options["no_default_updates"]:
            updates = _default_updates(outputs, updates, givens, ())
        roots = [*outputs, *(e for _, e in updates), *(e for _, e in givens)]
        replaced = {v for v, _ in givens}
        reached = _core.ancestors(roots, list(replaced))
        found = [v for v in reached if isinstance(v, _core.SharedVariable) and v not in replaced]
        return list(dict.fromkeys([*found, *(v for v, _ in updates)]))

    def copy(self, share_memory=False, swap=None, delete_updates=False, name=None, profile=None):
        """The same function again, with shared variables replaced as `swap` says ({old: new}, by
        variable or name) and without updates if told so. `share_memory` changes nothing."""
        _, outputs, result, options = self._source
        renewed = options["renewed"]
        options = dict(options)
        if not options["no_default_updates"]:
            options["updates"] = _default_updates(
                outputs, options["updates"], options["givens"], ()
            )
        options["no_default_updates"] = True
        options["on_unused_input"] = "ignore"
        if profile is not None:
            options["profile"] = bool(profile)
        options["name"] = name or options["name"]
        if delete_updates:
            outputs = outputs[: len(outputs) - len(renewed)]
            options["updates"], options["renewed"] = [], []
        if swap:
            pairs = [(_shared_by(self, old), new) for old, new in swap.items()]
            for old, new in pairs:
                if not isinstance(new, _core.SharedVariable) or new.type != old.type:
                    raise error(
                        TypeError,
                        f"copy: {new} cannot take the place of {old}",
                        f"swap takes shared variables of the same type, {old.type}",
                    )
            of = dict(pairs)
            updates, givens = options["updates"], options["givens"]
            parts = [*outputs, *(e for _, e in updates), *(e for _, e in givens)]
            parts = _core.copy_graph(parts, pairs, False)
            outputs = parts[: len(outputs)]
            values = parts[len(outputs) :]
            options["updates"] = [
                (of.get(v, v), e) for (v, _), e in zip(updates, values, strict=False)
            ]
            options["givens"] = [
                (v, e) for (v, _), e in zip(givens, values[len(updates) :], strict=True)
            ]
        made = _core.compile(_with_defaults(self), outputs, result, options)
        made.__dict__.update(_attributes(self))
        return made

    def __reduce_ex__(self, protocol):
        _, outputs, result, options = self._source
        made_of = (_with_defaults(self), outputs, result, options)
        return _pickle.function, made_of, _attributes(self) or None

    def __copy__(self):
        return self.copy()

    def __getitem__(self, key):
        return _Containers(self)[key].value

    def __setitem__(self, key, value):
        _Containers(self)[key].value = value

    def __contains__(self, key):
        return key in _Containers(self)


def _attributes(function: _core.Function) -> dict[str, Any]:
    """What was set on it, and not made of it."""
    return {name: v for name, v in function.__dict__.items() if name != "_maker"}


def _with_defaults(function: _core.Function) -> list[dict[str, Any]]:
    """The entries of its inputs with the default values of now."""
    entries = function._source[0]
    return [{**e, "value": v} for e, v in zip(entries, function._defaults, strict=True)]


def _shared_by(function: _core.Function, key: Any) -> _core.SharedVariable:
    known = function.get_shared()
    for v in known:
        if v is key or (isinstance(key, str) and v.name == key):
            return v
    near = _core.nearest(str(key), [v.name for v in known if v.name])
    raise error(
        ValueError,
        f"copy: the function has no shared variable {key}",
        f"did you mean {near!r}?" if near else "",
    )


attach(_core.Function, _Methods)
