"""Modes."""

from snug._mode import (
    Mode,
    get_default_mode,
    get_mode,
    predefined_linkers,
    predefined_modes,
    predefined_optimizers,
    register_mode,
)

FAST_RUN = predefined_modes["FAST_RUN"]
FAST_COMPILE = predefined_modes["FAST_COMPILE"]

__all__ = [
    "FAST_COMPILE",
    "FAST_RUN",
    "Mode",
    "get_default_mode",
    "get_mode",
    "predefined_linkers",
    "predefined_modes",
    "predefined_optimizers",
    "register_mode",
]
