"""Functions of the extension with signatures, and with errors of ours for wrong arguments."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from snug import _core
from snug._errors import error

_EXTENSION_FUNCTION = type(_core.nearest)


def _signature(function: Any) -> inspect.Signature:
    """Parameters as the extension prints them: "def f(x: object, axis: object = None) -> ..."."""
    text, _, defaults = function.__nb_signature__[0]
    inside = re.sub(r"\[[^\[\]]*\]", "", text[text.index("(") + 1 : text.rindex(")")])
    parameters = []
    for item in filter(None, (part.strip() for part in inside.split(","))):
        name, _, default = item.partition("=")
        name = name.partition(":")[0].strip()
        if name in ("/", "*"):
            continue
        if name.startswith("*"):
            kind = (
                inspect.Parameter.VAR_KEYWORD
                if name[1] == "*"
                else inspect.Parameter.VAR_POSITIONAL
            )
            parameters.append(inspect.Parameter(name.lstrip("*"), kind))
            continue
        value = inspect.Parameter.empty
        if default:
            number = re.fullmatch(r"\\(\d+)", default.strip())
            value = defaults[int(number.group(1))] if number else None
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(name, kind, default=value))
    return inspect.Signature(parameters)


@functools.cache
def readable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the extension as a Python function; anything else is given back as it is."""
    if type(function) is not _EXTENSION_FUNCTION:
        return function
    signature = _signature(function)
    name = function.__name__

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as e:
            if "incompatible function arguments" not in str(e):
                raise
        raise _explained(name, signature, args, kwargs)

    call.__doc__ = function.__nb_signature__[0][1]  # type: ignore[attr-defined]
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _explained(
    name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Exception:
    usage = f"{name}{signature}"
    try:
        signature.bind(*args, **kwargs)
    except TypeError as e:
        return error(TypeError, f"{name}: {e}", f"the arguments are {usage}")
    given = ", ".join(type(a).__name__ for a in (*args, *kwargs.values()))
    return error(
        TypeError,
        f"{name}: an argument is of the wrong kind: got {given}",
        f"the arguments are {usage}",
    )


def make_readable(namespace: dict[str, Any]) -> None:
    """All functions of the extension in a module."""
    for name, value in list(namespace.items()):
        if type(value) is _EXTENSION_FUNCTION:
            namespace[name] = readable(value)
