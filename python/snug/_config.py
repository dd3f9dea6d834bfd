"""Settings of the process: `snug.config`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from snug import _core
from snug._errors import error


def _one_of(*allowed: Any) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        if value not in allowed:
            raise error(
                ValueError,
                f"config.{name}: {value!r} is not allowed",
                "choose one of " + ", ".join(repr(a) for a in allowed),
            )
        return value

    return check


def _float_type(name: str, value: Any) -> Any:
    _one_of("float16", "bfloat16", "float32", "float64")(name, value)
    _core.set_default_float(value)
    return value


def _budget(name: str, value: Any) -> Any:
    if value is not None and not isinstance(value, (str, int)):
        raise error(
            ValueError, f"config.{name}: expected None, bytes or text like '4GiB', got {value!r}"
        )
    return value


def _count(name: str, value: Any) -> Any:
    if not isinstance(value, int) or value < 0:
        raise error(ValueError, f"config.{name}: expected an integer of at least 0, got {value!r}")
    return value


def _read_only(name: str, value: Any) -> Any:
    raise error(ValueError, f"config.{name} cannot be changed")


class Config:
    """Attributes are settings; an unknown name is an error that suggests the nearest one.

    floatX           the dtype of T.matrix() and the like, and of Python floats
    memory           the budget of functions that are given none: None, bytes, or "4GiB"
    mode             "fast", "check" or "reference", for functions that are given none
    threads          threads of a call; 0 means all cores
    on_unused_input  "raise", "warn" or "ignore"
    device           where functions run
    """

    _settings: ClassVar[dict[str, tuple[Any, Callable[[str, Any], Any]]]] = {
        "floatX": ("float32", _float_type),
        "memory": (None, _budget),
        "mode": ("fast", _one_of("fast", "check", "reference")),
        "threads": (0, _count),
        "on_unused_input": ("raise", _one_of("raise", "warn", "ignore")),
        "device": ("cpu", _read_only),
    }

    floatX: str
    memory: str | int | None
    mode: str
    threads: int
    on_unused_input: str
    device: str

    def __init__(self) -> None:
        for name, (default, _) in self._settings.items():
            self.__dict__[name] = default

    def _unknown(self, name: str) -> Exception:
        near = _core.nearest(name, list(self._settings))
        return error(
            AttributeError,
            f"there is no setting config.{name}",
            f"did you mean config.{near}?"
            if near
            else "the settings are " + ", ".join(self._settings),
        )

    def __getattr__(self, name: str) -> Any:
        raise self._unknown(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._settings:
            raise self._unknown(name)
        self.__dict__[name] = self._settings[name][1](name, value)

    def change_flags(self, **settings: Any) -> contextlib.AbstractContextManager[None]:
        """Other settings for the time of a `with` block."""
        for name in settings:  # fails at the user's line, not inside contextlib
            if name not in self._settings:
                raise self._unknown(name)
        return self._changed(settings)

    @contextlib.contextmanager
    def _changed(self, settings: dict[str, Any]) -> Iterator[None]:
        before = {name: getattr(self, name) for name in settings}
        try:
            for name, value in settings.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)

    def __str__(self) -> str:
        return "\n".join(f"{name} = {self.__dict__[name]!r}" for name in self._settings)

    __repr__ = __str__


config = Config()
