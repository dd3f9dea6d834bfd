"""Functions with errors of ours for arguments of a wrong kind, whatever found them: the extension,
or Python itself somewhere inside the package."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from snug import _core
from snug._errors import _PACKAGE, error

_EXTENSION_FUNCTION = type(_core.nearest)
# What Python raises when code meets an object that it was not written for, and what that becomes.
_BARE = {
    AttributeError: TypeError,
    IndexError: ValueError,
    KeyError: ValueError,
    OverflowError: ValueError,
    TypeError: TypeError,
    UnboundLocalError: TypeError,
    ValueError: ValueError,
    ZeroDivisionError: ValueError,
}


def _signature(function: Any) -> inspect.Signature:
    """Parameters as the extension prints them: "def f(x: object, axis: object = None) -> ..."."""
    text, _, defaults = function.__nb_signature__[0]
    inside = re.sub(r"\[[^\[\]]*\]", "", text[text.index("(") + 1 : text.rindex(")")])
    parameters = []
    usual = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for item in filter(None, (part.strip() for part in inside.split(","))):
        name, _, default = item.partition("=")
        name, _, kind_of_value = (part.strip() for part in name.partition(":"))
        if name.startswith("*"):  # by name only from here on
            usual = inspect.Parameter.KEYWORD_ONLY
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
        parameters.append(inspect.Parameter(name, usual, default=value, annotation=kind_of_value))
    return inspect.Signature(parameters)


def _readable(function: Any) -> Callable[..., Any]:
    """A function of the package or of the extension, with errors of ours: always the same one, as
    several modules may have it."""
    native = type(function) is _EXTENSION_FUNCTION
    if not native and "_readable" in vars(function):
        return function._readable
    signature = _signature(function) if native else inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except tuple(_BARE) as e:
            if type(e) not in _BARE or _is_ours(e) or not _raised_inside(e):
                raise
            explained = _explained(function.__name__, signature, args, kwargs, e)
            cause = None if "incompatible function arguments" in str(e) else e
        raise explained from cause

    if native:
        call.__doc__ = function.__nb_signature__[0][1]  # type: ignore[attr-defined]
        call.__signature__ = signature  # type: ignore[attr-defined]
    else:
        function._readable = call
    call._readable = call  # type: ignore[attr-defined]
    return call


def _is_ours(e: Exception) -> bool:
    return str(e).startswith(_core.error_titles)


def _raised_inside(e: Exception) -> bool:
    """Whether the package raised it, not a function of the user's that it called."""
    trace = e.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "bool": ("True or False", lambda v: isinstance(v, bool)),
    "float": ("a number", lambda v: hasattr(v, "__float__")),
    "int": ("an integer", lambda v: hasattr(v, "__index__")),
    "str": ("a text", lambda v: isinstance(v, str)),
}


def _explained(
    name: str,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    e: Exception,
) -> Exception:
    plain = signature.replace(
        parameters=[
            p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()
        ],
        return_annotation=inspect.Signature.empty,
    )
    usage = f"the arguments are {name}{plain}"
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as unbound:
        return error(TypeError, f"{name}: {unbound}", usage)
    if "incompatible function arguments" not in str(e):
        return error(_BARE[type(e)], f"{name}: {e}", usage)
    for argument, value in given.items():
        expected, fits = _KINDS.get(signature.parameters[argument].annotation, ("", None))
        if value is None and signature.parameters[argument].default is not None:
            expected, fits = expected or "a value", lambda v: False
        if fits is not None and not fits(value):
            got = f"{value!r} ({type(value).__name__})"
            return error(TypeError, f"{name}: {argument}: expected {expected}, got {got}", usage)
    got = ", ".join(type(a).__name__ for a in given.values())
    return error(TypeError, f"{name}: an argument is of the wrong kind: got {got}", usage)


def make_readable(module: types.ModuleType) -> None:
    """All public functions that a module has of the package and of the extension, there and where
    they were written, so that they pickle by name."""
    for name in getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]:
        value = vars(module).get(name)
        if type(value) is _EXTENSION_FUNCTION:
            vars(module)[name] = _readable(value)
        elif isinstance(value, types.FunctionType) and value.__module__.startswith("snug"):
            vars(module)[name] = _readable(value)
            home = vars(sys.modules[value.__module__])
            if home.get(value.__name__) is value:
                home[value.__name__] = _readable(value)


def make_package_readable() -> None:
    """All public modules of the package."""
    for name, module in list(sys.modules.items()):
        if name.startswith("snug") and not any(part[0] == "_" for part in name.split(".")):
            make_readable(module)


def no_attribute(module: str, name: str, parts: Sequence[str] = ()) -> AttributeError:
    """The error of a module's __getattr__. Its hint is the name in one of `parts`, modules beside
    or below it, else the nearest of its own, else the nearest of theirs."""
    names = {
        place: vars(sys.modules[place]).get("__all__")
        or [n for n in vars(sys.modules[place]) if not n.startswith("_")]
        for place in (module, *parts)
    }
    found = [place for place in parts if name in names[place]]
    near = f"{found[0]}.{name}" if found else ""
    for place, known in names.items():
        if not near and not name.startswith("_") and _core.nearest(name, known):
            near = f"{place}.{_core.nearest(name, known)}"
    return error(
        AttributeError,
        f"module {module!r} has no attribute {name!r}",
        f"did you mean {near}?" if near else "",
    )


# Code of the package that calls the extension finds its functions with errors of ours.
make_readable(_core)
