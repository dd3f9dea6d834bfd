"""Theano's mode of callbacks, which is refused with the reason."""

from snug._mode import MonitorMode

__all__ = ["MonitorMode"]
