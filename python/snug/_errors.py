"""The error classes that Python does not have itself."""

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


class InternalError(RuntimeError):
    """A fault of snug itself; please report it."""

    __module__ = "snug"


_core._set_error_classes(MissingInputError, UnusedInputError, DisconnectedInputError, InternalError)
