"""The mode that compares every step with the reference."""

from snug._errors import InternalError
from snug._mode import DebugMode

# One error for all that it finds.
BadOptimization = DebugModeError = InternalError

__all__ = ["BadOptimization", "DebugMode", "DebugModeError"]
