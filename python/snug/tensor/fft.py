"""Discrete Fourier transforms.

`rfft` and `irfft` are Theano's: they transform all axes but the first, and complex numbers are
pairs on a last axis of size 2. The others have NumPy's meaning and take and give complex tensors;
NumPy's rfft and irfft are `real_fft` and `real_ifft` here."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Any

import numpy as np

from snug import _core
from snug._errors import error
from snug.tensor._basic import _axis_list, _integer, constant

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "irfft",
    "real_fft",
    "real_ifft",
    "rfft",
    "rfftfreq",
]

_Tensor = _core.TensorVariable
_Axes = int | Sequence[int] | None


def _norm(norm: str | None) -> str:
    return "backward" if norm is None else norm


def _axes(axes: _Axes) -> list[int]:
    return [] if axes is None else _axis_list(axes)


def _sizes(s: Any) -> list[int]:
    return [] if s is None else _axis_list(s)


def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> _Tensor:
    """The discrete Fourier transform along an axis, as numpy.fft.fft."""
    return _core.fft(a, n, axis, _norm(norm))


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> _Tensor:
    """The inverse of fft, as numpy.fft.ifft."""
    return _core.ifft(a, n, axis, _norm(norm))


def real_fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> _Tensor:
    """The first n // 2 + 1 elements of the transform of real values, as numpy.fft.rfft."""
    return _core.rfft(a, n, axis, _norm(norm))


def real_ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> _Tensor:
    """The n real values (an even number unless given) of a half transform, as numpy.fft.irfft."""
    return _core.irfft(a, n, axis, _norm(norm))


def fftn(
    a: Any, s: Sequence[int] | None = None, axes: _Axes = None, norm: str | None = None
) -> _Tensor:
    """The transform along several axes, as numpy.fft.fftn."""
    return _core.fftn(a, _sizes(s), _axes(axes), _norm(norm))


def ifftn(
    a: Any, s: Sequence[int] | None = None, axes: _Axes = None, norm: str | None = None
) -> _Tensor:
    """The inverse of fftn, as numpy.fft.ifftn."""
    return _core.ifftn(a, _sizes(s), _axes(axes), _norm(norm))


def fft2(
    a: Any, s: Sequence[int] | None = None, axes: _Axes = (-2, -1), norm: str | None = None
) -> _Tensor:
    """The transform along two axes, as numpy.fft.fft2."""
    return fftn(a, s, axes, norm)


def ifft2(
    a: Any, s: Sequence[int] | None = None, axes: _Axes = (-2, -1), norm: str | None = None
) -> _Tensor:
    """The inverse of fft2, as numpy.fft.ifft2."""
    return ifftn(a, s, axes, norm)


def fftfreq(n: int, d: float = 1.0) -> _Tensor:
    """The frequencies of the elements of a transform of n points at a distance of d."""
    return constant(np.fft.fftfreq(_integer("fftfreq: n", n), d))


def rfftfreq(n: int, d: float = 1.0) -> _Tensor:
    """The frequencies of the elements of a half transform of n points at a distance of d."""
    return constant(np.fft.rfftfreq(_integer("rfftfreq: n", n), d))


def fftshift(x: Any, axes: _Axes = None) -> _Tensor:
    """x with the element of frequency 0 in the middle of the axes, as numpy.fft.fftshift."""
    return _core.fftshift(x, _axes(axes))


def ifftshift(x: Any, axes: _Axes = None) -> _Tensor:
    """The inverse of fftshift, as numpy.fft.ifftshift."""
    return _core.ifftshift(x, _axes(axes))


_NORMS = {None: "backward", "ortho": "ortho", "no_norm": "no_norm"}


def _theano_norm(what: str, norm: str | None) -> str:
    if not isinstance(norm, (str, NoneType)) or norm not in _NORMS:
        raise error(
            ValueError,
            f"{what}: invalid value {norm!r} for norm",
            "choose None, 'ortho' or 'no_norm'",
        )
    return _NORMS[norm]


def rfft(inp: Any, norm: str | None = None) -> _Tensor:
    """The transform of real values over all axes but the first, as pairs on a last axis.

    (batch, ..., n) becomes (batch, ..., n // 2 + 1, 2). `norm`: None and 'no_norm' for none,
    'ortho' for 1 / sqrt of the number of points."""
    x = _core.as_tensor(inp, "rfft")
    if x.ndim < 2:
        raise error(
            TypeError,
            f"rfft: takes at least 2 dimensions, the first is the batch; got {x.ndim}",
            "real_fft is NumPy's rfft, which takes one",
        )
    norm = _theano_norm("rfft", norm)
    y = _core.rfft(x, None, -1, norm)
    if x.ndim > 2:
        y = _core.fftn(y, [], list(range(1, x.ndim - 1)), norm)
    return _core.view_as_real(y)


def irfft(inp: Any, norm: str | None = None, is_odd: bool = False) -> _Tensor:
    """The inverse of rfft: (batch, ..., m, 2) becomes (batch, ..., n) with n = 2 * (m - 1), or one
    more if `is_odd`.

    `norm`: None for 1 over the number of points, 'ortho' for 1 over its square root, 'no_norm' for
    none."""
    x = _core.as_tensor(inp, "irfft")
    if x.ndim < 3:
        raise error(
            TypeError,
            "irfft: takes at least 3 dimensions, the first is the batch and the last has pairs; "
            f"got {x.ndim}",
            "real_ifft is NumPy's irfft, which takes complex tensors",
        )
    if is_odd not in (True, False):
        raise error(
            ValueError, f"irfft: invalid value {is_odd!r} for is_odd", "choose True or False"
        )
    norm = _theano_norm("irfft", norm)
    y = _core.view_as_complex(x)
    if y.ndim > 2:
        y = _core.ifftn(y, [], list(range(1, y.ndim - 1)), norm)
    return _core.irfft(y, 2 * (y.shape[-1] - 1) + int(is_odd), -1, norm)
