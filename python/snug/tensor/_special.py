"""Special functions, rounding, tolerances and truth values, with Theano's names and arguments."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._core import (
    allclose,
    beta,
    betaln,
    ceil_intdiv,
    chi2sf,
    deg2rad,
    erfcinv,
    erfcx,
    erfinv,
    gamma,
    gammainc,
    gammaincc,
    gammal,
    gammaln,
    gammau,
    i0,
    i1,
    isclose,
    iv,
    j0,
    j1,
    jv,
    largest,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    nan_to_num,
    polygamma,
    rad2deg,
    round_half_away_from_zero,
    second,
    smallest,
)
from snug._core import digamma as psi
from snug._core import floor_div as int_div
from snug._core import isinf as isinf_
from snug._core import isnan as isnan_
from snug._core import pow as power
from snug._core import round as round_half_to_even
from snug._core import trigamma as tri_gamma
from snug._errors import error

__all__ = [
    "allclose",
    "beta",
    "betaln",
    "ceil_intdiv",
    "chi2sf",
    "cov",
    "deg2rad",
    "divmod",
    "erfcinv",
    "erfcx",
    "erfinv",
    "fill",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammal",
    "gammaln",
    "gammau",
    "i0",
    "i1",
    "int_div",
    "iround",
    "isclose",
    "isinf_",
    "isnan_",
    "iv",
    "j0",
    "j1",
    "jv",
    "largest",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "nan_to_num",
    "norm",
    "polygamma",
    "power",
    "psi",
    "ptp",
    "rad2deg",
    "round",
    "round_half_away_from_zero",
    "round_half_to_even",
    "second",
    "smallest",
    "tri_gamma",
]

fill = second


def round(a: Any, mode: str | None = None) -> _core.Variable:
    """The nearest integer. mode: "half_to_even" (the default) or "half_away_from_zero"."""
    if mode in (None, "half_to_even"):
        return round_half_to_even(a)
    if mode == "half_away_from_zero":
        return round_half_away_from_zero(a)
    raise error(
        ValueError,
        f"round: there is no mode {mode!r}",
        "choose 'half_to_even' or 'half_away_from_zero'",
    )


def iround(a: Any, mode: str | None = None) -> _core.Variable:
    """round(a, mode) as int64."""
    return _core.cast(round(a, mode), "int64")


def divmod(x: Any, y: Any) -> tuple[_core.Variable, _core.Variable]:
    """The quotient, rounded down, and what is left."""
    return int_div(x, y), _core.mod(x, y)


def ptp(a: Any, axis: Any = None) -> _core.Variable:
    """The largest element minus the smallest, over axes."""
    return _core.ptp(a, axis)


def norm(x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> _core.Variable:
    """The sum of |x|**ord to the power of 1 / ord, over axes; an infinite ord gives the largest or
    the smallest |x|."""
    return _core.vector_norm(x, ord, axis, keepdims)


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
) -> _core.Variable:
    """The covariances of variables, the rows of m and y (the columns, if rowvar is False).

    The sums are divided by the number of observations - ddof; ddof is 1, or 0 if `bias` is set.
    """
    if fweights is not None or aweights is not None:
        raise error(NotImplementedError, "cov: fweights and aweights are not supported")

    def variables(x: Any) -> _core.Variable:
        x = _core.as_tensor(x, "cov")
        return x if rowvar or x.ndim < 2 else x.T

    x = variables(m)
    if y is not None:
        rows = [v.dimshuffle("x", 0) if v.ndim == 1 else v for v in (x, variables(y))]
        x = _core.concatenate(rows, 0)
    return _core.cov(x, int(not bias) if ddof is None else ddof)
