"""The mode that compares every step with the reference."""

from snug._errors import InternalError
from snug._mode import DebugMode

DebugModeError = InternalError

__all__ = ["DebugMode", "DebugModeError"]
