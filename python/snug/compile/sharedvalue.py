"""Shared variables."""

from snug._core import SharedVariable
from snug._shared import shared, shared_constructor

__all__ = ["SharedVariable", "shared", "shared_constructor"]
