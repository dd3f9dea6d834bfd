"""The mode that looks for values that are not finite."""

from snug._mode import NanGuardMode

__all__ = ["NanGuardMode"]
