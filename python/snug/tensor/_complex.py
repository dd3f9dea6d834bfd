"""Complex numbers: their parts, and what makes them of parts."""

from snug._core import (
    angle,
    complex,
    complex_from_polar,
    conj,
    imag,
    real,
    view_as_complex,
    view_as_real,
)

__all__ = [
    "angle",
    "complex",
    "complex_from_polar",
    "conj",
    "imag",
    "real",
    "view_as_complex",
    "view_as_real",
]
