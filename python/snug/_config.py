"""Settings of the process: `snug.config`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

from snug import _core
from snug._errors import error
from snug._settings import entries_of_environment

MODES = (
    "fast",
    "check",
    "reference",
    "FAST_RUN",
    "FAST_COMPILE",
    "Mode",
    "DebugMode",
    "DEBUG_MODE",
    "NanGuardMode",
)


class Bad(ValueError):
    """A value that a setting does not take: what is wrong, and the hint."""


def one_of(*allowed: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in allowed:
            raise Bad(f"{value!r} is not allowed", "choose one of " + ", ".join(map(repr, allowed)))
        return value

    return check


def _budget(value: Any) -> str | int | None:
    if value is None or value == "None":
        return None
    amounts = value.values() if isinstance(value, dict) else [value]
    for amount in amounts:
        if not isinstance(amount, (str, int)) or isinstance(amount, bool):
            raise Bad(f"expected None, bytes or text like '4GiB', got {amount!r}")
    fault = _core.amount_fault(_budget_text(value))
    if fault is not None:
        raise Bad(*fault)
    for part in _budget_text(value).split(",") if "=" in _budget_text(value) else ():
        _device(part.split("=")[0])
    return value


def _budget_text(value: Any) -> str:
    """As the core takes it: "4GiB", "opencl:0=4GiB,cpu=8GiB"."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return ",".join(f"{device}={amount}" for device, amount in value.items())
    return str(value)


def _count(value: Any) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise Bad(f"expected an integer of at least 0, got {value!r}")
    return number


def _threads(value: Any) -> int:
    number = _count(value)
    most = _core.most_threads
    if number > most:
        raise Bad(f"{number} are too many", f"give at most {most}, or 0 for all cores")
    return number


def _switch(value: Any) -> bool:
    switch = {"True": True, "False": False}.get(value, value) if isinstance(value, str) else value
    if not isinstance(switch, bool):
        raise Bad(f"expected True or False, got {value!r}")
    return switch


def _device(value: Any) -> str:
    if value == "cpu":
        return value
    if not isinstance(value, str):
        raise Bad(f"expected the name of a device, got {value!r}")
    there = _core.devices()["names"]
    if value not in there:
        raise Bad(f"there is no device {value!r}", "choose one of " + ", ".join(map(repr, there)))
    return value


def _watch_building(_: Any) -> None:
    from snug import _building  # needs this module

    _building.watch()


class Setting(NamedTuple):
    default: Any
    check: Callable[[Any], Any]  # the value, also of its text; Bad otherwise
    doc: str
    apply: Callable[[Any], None] | None = None  # tells the rest of the package


_SETTINGS = {
    "floatX": Setting(
        "float32",
        one_of("float16", "bfloat16", "float32", "float64"),
        "the dtype of T.matrix() and the like, and of Python floats",
        _core.set_default_float,
    ),
    "memory": Setting(
        None,
        _budget,
        "the budget of shared variables, arenas and loaders together, and of what is on each other "
        "device: None, bytes, '4GiB', or {'opencl:0': '3GiB', 'cpu': '8GiB'}",
        lambda budget: _core.set_memory_budget(_budget_text(budget)),
    ),
    "share_arenas": Setting(
        True, _switch, "functions that do not run at the same time work in the same memory"
    ),
    "mode": Setting(
        "fast",
        one_of(*MODES),
        "'fast', 'check' (compared with the reference), 'reference', or a mode of Theano",
    ),
    "threads": Setting(0, _threads, "threads of a call; 0 means all cores"),
    "on_unused_input": Setting(
        "raise", one_of("raise", "warn", "ignore"), "'raise', 'warn' or 'ignore'"
    ),
    "device": Setting(
        "cpu", _device, "where functions run: 'cpu', or a device that snug.devices() lists"
    ),
    "cast_policy": Setting(
        "custom",
        one_of("custom", "numpy+floatX"),
        "'custom', or 'numpy+floatX': no float64 comes of other types",
        _core.set_cast_policy,
    ),
    "int_division": Setting(
        "floatX",
        one_of("floatX", "int", "raise"),
        "what a / b makes of integers: 'floatX', 'int' or 'raise'",
        _core.set_int_division,
    ),
    "compute_test_value": Setting(
        "off",
        one_of("off", "ignore", "warn", "raise", "pdb"),
        "x.tag.test_value is computed while building; without one: 'ignore', 'warn' or 'raise'",
        _watch_building,
    ),
    "warn_float64": Setting(
        "ignore",
        one_of("ignore", "warn", "raise", "pdb"),
        "'ignore', 'warn' or 'raise' when an expression is float64",
        _watch_building,
    ),
}


class ChangedFlags(contextlib.ContextDecorator):
    """Other values of settings for the time of a `with` block or of calls of a function."""

    def __init__(self, config: Any, settings: dict[str, Any]):
        self._config, self._settings = config, settings
        self._before: list[dict[str, Any]] = []  # one per block that is open

    def __enter__(self) -> None:
        self._before.append({name: self._config._get(name) for name in self._settings})
        try:
            for name, value in self._settings.items():
                self._config._set(name, value)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        for name, value in self._before.pop().items():
            self._config._set(name, value)


class Config:
    __doc__ = (
        "Attributes are settings; an unknown name is an error that suggests the nearest one.\n\n"
        + "\n".join(f"    {name:<16} {row.doc}" for name, row in _SETTINGS.items())
    )

    floatX: str
    memory: str | int | dict[str, str | int] | None
    mode: str
    threads: int
    on_unused_input: str
    device: str
    cast_policy: str
    int_division: str
    compute_test_value: str
    warn_float64: str

    def __init__(self) -> None:
        self.__dict__["_chosen"] = set()  # the settings that somebody has set for good
        for name, row in _SETTINGS.items():
            self.__dict__[name] = row.default
        for entry in entries_of_environment():
            try:
                self._choose(entry.name, entry.value)
            except Bad as bad:
                said = [f"{entry.place}: {entry.name}: {bad.args[0]}", *bad.args[1:]]
                raise ValueError("\n  hint  ".join(said)) from None  # no line of the user's yet

    def _get(self, name: str) -> Any:
        return self.__dict__[name]

    def _set(self, name: str, value: Any) -> None:
        row = _SETTINGS[name]
        self.__dict__[name] = row.check(value)
        if row.apply is not None:
            row.apply(self.__dict__[name])

    def _choose(self, name: str, value: Any) -> None:
        self._set(name, value)
        self._chosen.add(name)

    def _unknown(self, name: str) -> Exception:
        return error(AttributeError, f"there is no setting config.{name}", _near(name, "config."))

    def __getattr__(self, name: str) -> Any:
        raise self._unknown(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._check(name, value)
        self._choose(name, value)

    def _check(self, name: str, value: Any) -> None:
        if name not in _SETTINGS:
            raise self._unknown(name)
        try:
            _SETTINGS[name].check(value)
        except Bad as bad:
            raise error(ValueError, f"config.{name}: {bad.args[0]}", *bad.args[1:]) from None

    def change_flags(self, **settings: Any) -> ChangedFlags:
        """Other settings for the time of a `with` block, or as a decorator of a function."""
        for name, value in settings.items():  # fails at the user's line, not in the block
            self._check(name, value)
        return ChangedFlags(self, settings)

    def __str__(self) -> str:
        return "\n".join(f"{name} = {self._get(name)!r}" for name in _SETTINGS)

    __repr__ = __str__


def _near(name: str, prefix: str = "") -> str:
    near = _core.nearest(name, list(_SETTINGS))
    return f"did you mean {prefix}{near}?" if near else "the settings are " + ", ".join(_SETTINGS)


config = Config()
