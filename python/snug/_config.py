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
    if value is not None:
        _core.parse_bytes(str(value))  # an error says what is wrong
    return value


def _mode(name: str, value: Any) -> Any:
    from snug._mode import get_mode  # needs this module

    get_mode(value)
    return value


def _policy(name: str, value: Any) -> Any:
    _one_of("custom", "numpy+floatX")(name, value)
    _core.set_cast_policy(value)
    return value


def _division(name: str, value: Any) -> Any:
    _one_of("floatX", "int", "raise")(name, value)
    _core.set_int_division(value)
    return value


def _building(*allowed: str) -> Callable[[str, Any], Any]:
    """Settings that act on every op while expressions are built."""

    def check(name: str, value: Any) -> Any:
        _one_of(*allowed)(name, value)
        from snug import _building  # needs this module

        _building.watch({**config.__dict__, name: value})
        return value

    return check


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
    mode             "fast", "check", "reference" or a mode of Theano, for functions without one
    threads          threads of a call; 0 means all cores
    on_unused_input  "raise", "warn" or "ignore"
    device           where functions run
    cast_policy      "custom", or "numpy+floatX": no float64 comes of other types
    int_division     "floatX", "int" or "raise": what a / b makes of integers
    compute_test_value
                     "off", "ignore", "warn" or "raise": compute x.tag.test_value while building
    warn_float64     "ignore", "warn" or "raise" when an expression is float64
    """

    _settings: ClassVar[dict[str, tuple[Any, Callable[[str, Any], Any]]]] = {
        "floatX": ("float32", _float_type),
        "memory": (None, _budget),
        "mode": ("fast", _mode),
        "threads": (0, _count),
        "on_unused_input": ("raise", _one_of("raise", "warn", "ignore")),
        "device": ("cpu", _read_only),
        "cast_policy": ("custom", _policy),
        "int_division": ("floatX", _division),
        "compute_test_value": ("off", _building("off", "ignore", "warn", "raise", "pdb")),
        "warn_float64": ("ignore", _building("ignore", "warn", "raise", "pdb")),
    }

    floatX: str
    memory: str | int | None
    mode: str
    threads: int
    on_unused_input: str
    device: str
    cast_policy: str
    int_division: str
    compute_test_value: str
    warn_float64: str

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
