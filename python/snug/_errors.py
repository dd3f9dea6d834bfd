"""The error classes that Python does not have itself."""

import os
import sys
import warnings

from snug import _core


class MissingInputError(Exception):
    """An expression needs an input that the function does not have."""

    __module__ = "snug"


class UnusedInputError(Exception):
    """A function has an input that no output or update needs."""

    __module__ = "snug"


class DisconnectedInputError(ValueError):
    """A gradient by a variable that the cost does not depend on."""

    __module__ = "snug"


class NullTypeGradError(TypeError, NotImplementedError):
    """A gradient that does not exist."""

    __module__ = "snug"


class InternalError(RuntimeError):
    """A fault of snug itself; please report it."""

    __module__ = "snug"


def say(text: str) -> None:
    """A note for the user, beside what the program itself prints."""
    print(f"snug: {text}", file=sys.stderr)


def error(kind: type[Exception], message: str, hint: str = "") -> Exception:
    """An exception with the text that all errors have: what, at which line, what to do."""
    title = next(_TITLES[base] for base in kind.__mro__ if base in _TITLES)
    return kind(_core.error_text(title, message, hint))


def memory_text(what: str, memory: str | int | dict[str, str | int] | None) -> str:
    """An argument `memory` as the core takes it."""
    if memory is None:
        return ""
    if isinstance(memory, dict):
        return ",".join(f"{name}={memory_text(what, share)}" for name, share in memory.items())
    if not isinstance(memory, (str, int)) or isinstance(memory, bool):
        raise error(TypeError, f"{what}: memory must be bytes or text like '4GiB', got {memory!r}")
    return str(memory)


def warn(text: str) -> None:
    """A warning at the line of the user that called the package."""
    frame, level = sys._getframe(1), 2
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


_PACKAGE = os.path.join(os.path.dirname(__file__), "")
_TITLES = {
    AttributeError: "value error",
    IndexError: "index error",
    MissingInputError: "missing input",
    NotImplementedError: "not supported",
    TypeError: "type error",
    ValueError: "value error",
}
_core._set_error_classes(
    MissingInputError, UnusedInputError, DisconnectedInputError, NullTypeGradError, InternalError
)
