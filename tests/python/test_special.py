"""Special functions against scipy.special, and the elementwise functions that are made of others
against NumPy."""

import math

import ml_dtypes
import numpy as np
import pytest
from scipy import special

import snug
import snug.tensor as T
from conformance import (
    ALL,
    DTYPES,
    FLOATS,
    INTEGERS,
    agree,
    agree_gradient,
    compare,
    elementwise,
    rows,
    sample,
    variable,
    wide,
)
from snug import _core
from snug.tensor.xlogx import xlogx, xlogy0

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


# ---- values


def trigamma(a):
    return np.where(a == -np.inf, np.inf, special.polygamma(1, a))


def bessel_j(order):
    """SciPy loses digits for large arguments and has no limit at infinity."""

    def function(a):
        size = np.where(np.abs(a) > 1e6, np.abs(a), 1.0)
        s, c = np.sin(size), np.cos(size)
        wave = c + s + (s - c) / (8 * size)
        if order == 1:
            wave = (s - c + 3 * (s + c) / (8 * size)) * np.sign(a)
        wave = wave / (np.sqrt(np.pi) * np.sqrt(size))
        plain = special.j0(a) if order == 0 else special.j1(a)
        values = np.where(np.abs(a) > 1e6, wave, plain)
        return np.where(np.isinf(a), np.copysign(0.0, a if order else 1.0), values)

    return function


def bessel_i(order):
    def function(a):
        plain = special.i0(a) if order == 0 else special.i1(a)
        return np.where(np.isinf(a), np.abs(a) if order == 0 else a, plain)

    return function


# name: SciPy's function, range of floats, how far SciPy is off in float64.
UNARY = {
    "gamma": (special.gamma, -4, 9, 12),
    "gammaln": (special.gammaln, -4, 9, 200),
    "digamma": (special.psi, -4, 9, 600),
    "trigamma": (trigamma, -4, 9, 20),
    "erfinv": (special.erfinv, -1, 1, 4),
    "erfcinv": (special.erfcinv, 0, 2, 4),
    "erfcx": (special.erfcx, -4, 40, 8),
    "j0": (bessel_j(0), -20, 20, 4000),
    "j1": (bessel_j(1), -20, 20, 4000),
    "i0": (bessel_i(0), -20, 20, 8),
    "i1": (bessel_i(1), -20, 20, 8),
    "xlogx": (lambda a: special.xlogy(a, a), 0, 9, 0),
}
# The same for functions of (parameter, x), on values that are no limits: those are below.
BINARY = {
    "gammainc": (special.gammainc, 0.1, 20, 50),
    "gammaincc": (special.gammaincc, 0.1, 20, 400),
    "betaln": (special.betaln, 0.1, 60, 400),
    "jv": (special.jv, 0, 15, 4000),
    "iv": (special.iv, 0, 15, 50),
    "xlogy0": (special.xlogy, 0, 9, 0),
}


@rows(*UNARY)
def test_unary(row):
    function, low, high, slack = UNARY[row]
    elementwise(row, 1, function, ALL, low, high, slack=slack)


@rows(*BINARY)
def test_binary(row):
    function, low, high, slack = BINARY[row]
    elementwise(row, 2, function, ALL, low, high, special=False, slack=slack)


@rows("polygamma")
def test_polygamma(row):
    """SciPy has the wrong sign of infinity on one side of poles of even order."""
    for dtype in FLOATS:
        n, x = variable(dtype, 1), variable(dtype, 1)
        a = np.repeat(np.arange(8.0), 40).astype(DTYPES[dtype])
        b = sample(dtype, a.shape, 0.1, 9, special=False)
        b[::4] -= DTYPES[dtype].type(5.3)
        b[7] = np.nan
        b[(b == np.rint(b)) & (b <= 0)] = 0.25
        want = np.array([special.polygamma(int(i), v) for i, v in zip(wide(a), wide(b))])
        agree(row, [n, x], _core.polygamma(n, x), [((a, b), want)], 1000, what=dtype)
    f = snug.function([n, x], _core.polygamma(n, x))
    inf, nan = math.inf, math.nan
    cases = [(1, 0, inf), (1, -3, inf), (2, 0, -inf), (2, -0.0, inf), (2, -3, nan), (3, -3, inf)]
    cases += [(-1, 2, nan), (0.5, 2, nan), (2, inf, -0.0), (nan, 1, nan), (2, -inf, nan)]
    a, b, want = np.array(cases, "float64").T
    np.testing.assert_array_equal(f(a, b), want)


LIMITS = {  # (parameter, x): value, by NumPy's rules and SciPy's where it has a value
    "gammainc": [
        (0, 1, 1),
        (0, 0, math.nan),
        (2, 0, 0),
        (2, math.inf, 1),
        (math.inf, 2, 0),
        (math.inf, math.inf, math.nan),
        (-1, 1, math.nan),
        (1, -1, math.nan),
        (1e-300, 1, 1),
    ],
    "gammaincc": [
        (0, 1, 0),
        (0, 0, math.nan),
        (2, 0, 1),
        (2, math.inf, 0),
        (math.inf, 2, 1),
        (math.inf, math.inf, math.nan),
        (-1, 1, math.nan),
        (1, -1, math.nan),
        (1, 1e300, 0),
    ],
    "jv": [
        (0, 0, 1),
        (2, 0, 0),
        (-0.5, 0, math.inf),
        (-1.5, 0, -math.inf),
        (2, math.inf, 0),
        (0.5, -1, math.nan),
        (math.nan, 1, math.nan),
        (1, math.nan, math.nan),
        (1e300, 1, 0),
        (math.inf, 1, 0),
        (2.5, math.inf, 0),
        (10000000.0, 10000000.0, math.nan),
    ],
    "iv": [
        (0, 0, 1),
        (2, 0, 0),
        (-0.5, 0, math.inf),
        (-1.5, 0, -math.inf),
        (2, 1000000.0, math.inf),
        (0.5, -1, math.nan),
        (math.nan, 1, math.nan),
        (3, -1000000.0, -math.inf),
        (1e300, 1, 0),
        (math.inf, 1, 0),
        (2, -math.inf, math.inf),
        (1000000000.0, 1e-09, 0),
        (1.5, math.inf, math.inf),
    ],
    "xlogy0": [
        (0, 0, 0),
        (-0.0, 0, 0),
        (0, -1, 0),
        (1, 0, -math.inf),
        (1, -1, math.nan),
        (math.inf, 2, math.inf),
        (0, math.inf, 0),
    ],
}


@pytest.mark.parametrize("row", LIMITS)
def test_limits(row):
    n, x = T.dvector("n"), T.dvector("x")
    a, b, want = np.array(LIMITS[row], "float64").T
    agree(row, [n, x], getattr(_core, row)(n, x), [((a, b), want)], 4)


WIDE = {
    "gamma": (special.gamma, -170, 171, 40),
    "gammaln": (special.gammaln, -500, 500, 40),
    "digamma": (special.psi, 0, 1e6, 40),
    "erfcx": (special.erfcx, -5, 100, 40),
    "j0": (lambda x: special.jv(0, x), -2000, 2000, None),
    "j1": (lambda x: special.jv(1, x), -2000, 2000, None),
    "i0": (special.i0, -700, 700, 40),
    "i1": (special.i1, -700, 700, 40),
}


@pytest.mark.parametrize("row", WIDE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_wide_ranges(row, dtype):
    function, low, high, ulps = WIDE[row]
    x = variable(dtype, 1)
    rng = np.random.default_rng(7)
    a = np.concatenate([rng.uniform(low, high, 20000), rng.uniform(low, high, 20000) * 1e-3])
    tiny = 10.0 ** rng.uniform(-30, 0, 2000)
    a = np.concatenate([a, tiny, tiny if low == 0 else -tiny]).astype(dtype)
    want = function(wide(a))
    got = snug.function([x], getattr(_core, row)(x))(a)
    if ulps is None:  # absolutely accurate near the zeros
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=3e-7 if dtype == "float32" else 1e-14)
    else:
        near = np.abs(a - np.rint(a)) < 1e-3  # SciPy is no judge beside poles and zeros
        keep = ~near if row in ("gamma", "gammaln", "digamma") else np.ones_like(near)
        ulps = ulps if dtype == "float64" else 4
        scale = 1.0 if row == "gammaln" else None  # has zeros
        compare(got[keep], want[keep], ulps, f"{row} {dtype}", scale)


def test_inverses_at_the_ends():
    x = T.dvector("x")
    f = snug.function([x], [T.erfinv(x), T.erfcinv(x)])
    p = np.concatenate([10.0 ** np.linspace(-300, -1, 300), 1 - 10.0 ** np.linspace(-15, -1, 50)])
    y, z = f(p)
    np.testing.assert_allclose(y, special.erfinv(p), rtol=1e-14)
    np.testing.assert_allclose(z, special.erfcinv(p), rtol=1e-13)
    y, z = f(np.array([1, -1, 1.5, 0, -0.0, 2]))
    np.testing.assert_array_equal(y, [math.inf, -math.inf, math.nan, 0, -0.0, math.nan])
    np.testing.assert_array_equal(
        z, [0, math.nan, special.erfcinv(1.5), math.inf, math.inf, -math.inf]
    )
    assert np.signbit(y[4])


def test_results_do_not_depend_on_the_place():
    """In a vector, at its end, alone, with any number of threads."""
    x = T.fvector("x")
    outputs = [T.gammaln(x), T.psi(x), T.erfcx(x), T.jv(1.5, x), T.sin(T.gamma(x))]
    a = sample("float32", (5003,), 0.1, 20, special=False)
    whole = snug.function([x], outputs, threads=1)(a)
    many = snug.function([x], outputs, threads=2)(a)
    f = snug.function([x], outputs)
    for one, other in zip(whole, many):
        np.testing.assert_array_equal(one, other)
    for start in (0, 1, 7, 4990):
        part = f(a[start : start + 13])
        for one, other in zip(whole, part):
            np.testing.assert_array_equal(one[start : start + 13], other)


def test_fused_with_the_rest():
    x = T.dmatrix("x")
    a = sample("float64", (5, 33), 0.1, 9, special=False)
    y = (T.gammaln(x * 2 + 1) - T.log(x)).sum(axis=1)
    f = snug.function([x], y)
    np.testing.assert_allclose(f(a), (special.gammaln(a * 2 + 1) - np.log(a)).sum(1), rtol=1e-13)


# ---- gradients

GRADIENTS = {
    "gamma": (lambda x: T.gamma(x), 0.5, 4),
    "gammaln": (lambda x: T.gammaln(x), -3, 4),
    "digamma": (lambda x: T.psi(x), 0.5, 4),
    "trigamma": (lambda x: T.tri_gamma(x), 0.5, 4),
    "polygamma": (lambda x: T.polygamma(3, x), 0.5, 4),
    "erfinv": (lambda x: T.erfinv(x), -0.9, 0.9),
    "erfcinv": (lambda x: T.erfcinv(x), 0.1, 1.9),
    "erfcx": (lambda x: T.erfcx(x), -1, 30),
    "gammainc": (lambda x: T.gammainc(2.5, x), 0.1, 9),
    "gammaincc": (lambda x: T.gammaincc(2.5, x), 0.1, 9),
    "betaln": (lambda x: T.betaln(x, 2 * x + 1), 0.5, 9),
    "j0": (lambda x: T.j0(x), -9, 9),
    "j1": (lambda x: T.j1(x), -9, 9),
    "jv": (lambda x: T.jv(1.7, x), 0.5, 9),
    "i0": (lambda x: T.i0(x), -3, 3),
    "i1": (lambda x: T.i1(x), -3, 3),
    "iv": (lambda x: T.iv(1.7, x), 0.5, 3),
    "xlogx": (xlogx, 0.1, 4),
    "xlogy0": (lambda x: xlogy0(x, x + 1.5), 0.1, 4),
}


@rows(*GRADIENTS)
def test_gradients(row):
    """First and second derivatives against differences."""
    function, low, high = GRADIENTS[row]
    x = T.dvector("x")
    a = np.linspace(low, high, 7) * 0.97 + 0.013
    agree_gradient(row, function(x), [x], [a], 1e-5)
    first = T.grad(function(x).sum(), x)
    cost = (first * T.sin(T.arange(x.shape[0]) * 0.7 + 0.3)).sum()
    second = snug.function([x], T.grad(cost, x))(a)
    f = snug.function([x], first)
    step = 1e-5
    want = (f(a + step) - f(a - step)) / (2 * step) * np.sin(np.arange(7) * 0.7 + 0.3)
    np.testing.assert_allclose(second, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_gradients_at_special_values(dtype):
    x = variable(dtype, 1)
    a = np.array([0, 1], dtype)

    def at(y):
        return snug.function([x], T.grad(y.sum(), x))(a)

    np.testing.assert_allclose(at(T.j1(x))[0], 0.5)
    np.testing.assert_allclose(at(T.i1(x))[0], 0.5)
    np.testing.assert_allclose(at(T.gammainc(1, x)), np.exp(-a.astype(float)), rtol=1e-6)
    np.testing.assert_allclose(at(xlogx(x)), [-math.inf, 1])
    np.testing.assert_allclose(at(xlogy0(0, x)), [0, 0])


def test_gradient_of_erfcx_far_out():
    """Differences of numbers that are nearly equal would leave nothing of it."""
    x = T.fvector("x")
    a = np.array([5, 19.9, 20.1, 100, 1e4, 1e10], "float32")
    g = snug.function([x], T.grad(T.erfcx(x).sum(), x))(a)
    b = np.longdouble(a)
    want = -(1 / (np.sqrt(np.longdouble(np.pi)) * b**2)) * (1 - 1.5 / b**2 + 3.75 / b**4)
    np.testing.assert_allclose(g[1:], want[1:].astype("float64"), rtol=1e-4)
    exact = 2 * a[0] * special.erfcx(float(a[0])) - 2 / math.sqrt(math.pi)
    np.testing.assert_allclose(g[0], exact, rtol=1e-4)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "jv", "iv", "polygamma"])
def test_no_gradient_by_the_parameter(name):
    k, x = T.dscalar("k"), T.dscalar("x")
    y = getattr(T, name)(k, x)
    with pytest.raises(NotImplementedError, match=f"{name} has no gradient by"):
        T.grad(y, k)
    T.grad(y, x)


def test_betaln_where_its_parts_cancel():
    """Of 1e15 and 10 the logarithms of gamma have 16 digits more than their difference."""
    a, b = T.dvector("a"), T.dvector("b")
    x = np.array([10, 9.5, 1e-3, 30, 1e5, 10, 1e-300, 3, 0.5])
    y = np.array([1e15, 1e12, 1e9, 40, 1e5, 10, 5, 9.999, np.inf])
    want = special.betaln(x, y)
    want[1] = math.lgamma(9.5) - 9.5 * math.log(1e12) - 9.5 * 8.5 / 2e12  # the next term is 1e-22
    want[-1] = -math.inf
    f = snug.function([a, b], [T.betaln(a, b), T.betaln(b, a), T.beta(a, b)])
    got, turned, plain = f(x, y)
    np.testing.assert_allclose(got, want, rtol=2e-14)
    np.testing.assert_array_equal(got, turned)
    np.testing.assert_allclose(plain[3:6], special.beta(x[3:6], y[3:6]), rtol=1e-10)


def test_composites():
    x, k = T.dvector("x"), T.dvector("k")
    a, b = np.linspace(0.1, 30, 50), np.linspace(0.5, 12, 50)
    outputs = [T.chi2sf(x, k), T.gammal(k, x), T.gammau(k, x), T.deg2rad(x), T.rad2deg(x)]
    want = [
        special.chdtrc(b, a),
        special.gammainc(b, a) * special.gamma(b),
        special.gammaincc(b, a) * special.gamma(b),
        np.deg2rad(a),
        np.rad2deg(a),
    ]
    for got, expected in zip(snug.function([x, k], outputs)(a, b), want):
        np.testing.assert_allclose(got, expected, rtol=1e-12)
    g = snug.function([x, k], T.grad(T.chi2sf(x, k).sum(), x))(a, b)
    step = 1e-5
    want = (special.chdtrc(b, a + step) - special.chdtrc(b, a - step)) / (2 * step)
    np.testing.assert_allclose(g, want, rtol=1e-5, atol=1e-9)
    assert T.gammaln(T.bvector()).dtype == "float32"
    assert T.gammaln(T.ivector()).dtype == "float64"
    assert T.deg2rad(T.bvector()).dtype == "float32"
    assert T.chi2sf(T.fvector(), 3).dtype == "float32"


# ---- rounding, division, tolerances, truth values


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding(dtype):
    x = variable(dtype, 1)
    halves = np.arange(-9, 10) / 2
    more = [0.49999999999999994, -0.49999999999999994, 2.0**52 + 1, 8388609.0, 0.3, -0.3]
    more += [np.inf, -np.inf, np.nan, -0.0]
    a = np.concatenate([halves, more]).astype(DTYPES[dtype])
    f = snug.function(
        [x],
        [
            T.round(x),
            T.round(x, mode="half_away_from_zero"),
            T.round_half_to_even(x),
            x.round("half_away_from_zero"),
        ],
    )
    even, away, again, method = (wide(v) for v in f(a))
    b = wide(a)
    np.testing.assert_array_equal(even, np.rint(b))
    np.testing.assert_array_equal(again, even)
    want = np.array([math.copysign(math.floor(abs(v) + 0.5), v) if abs(v) < 9 else v for v in b])
    want[np.abs(np.abs(b) - 0.5) < 1e-15] = np.where(np.abs(b) < 0.5, 0.0, np.sign(b))[
        np.abs(np.abs(b) - 0.5) < 1e-15
    ]
    np.testing.assert_array_equal(away, want)
    np.testing.assert_array_equal(method, away)
    assert T.iround(x).dtype == "int64"
    with pytest.raises(ValueError, match="half_up"):
        T.round(x, "half_up")


def test_division():
    for dtype in [*INTEGERS, "float32"]:
        x, y = variable(dtype, 1), variable(dtype, 1)
        a, b = sample(dtype, (60,), special=False), sample(dtype, (60,), special=False, key=1)
        b[b == 0] = 1
        outputs = [*T.divmod(x, y), T.mod_check(x, y), T.int_div(x, y)]
        got = snug.function([x, y], outputs)(a, b)
        for v, want in zip(got, [*np.divmod(a, b), np.mod(a, b), a // b]):
            np.testing.assert_allclose(v, want, rtol=1e-6)
        if dtype != "float32":
            got = snug.function([x, y], T.ceil_intdiv(x, y))(a, b)
            want = [-(-int(p) // int(q)) for p, q in zip(a, b)]
            np.testing.assert_array_equal(got, np.array(want).astype(dtype))
            assert got.dtype == dtype


def test_second():
    s, v, m = T.dscalar("s"), T.fvector("v"), T.imatrix("m")
    r = T.TensorType("int32", (True, False))("r")
    outputs = [T.second(m, s), T.fill(s, m), T.fill(m, v), T.second(v, m), v.fill(3), T.fill(r, m)]
    f = snug.function([s, v, m, r], outputs)
    a, b = np.arange(3, dtype="float32"), np.arange(6, dtype="int32").reshape(2, 3)
    got = f(2.5, a, b, b[:1])
    want = [np.full((2, 3), 2.5), b, np.broadcast_to(a, (2, 3)), b, np.full(3, 3), b]
    for x, y, out in zip(got, want, outputs):
        np.testing.assert_array_equal(x, y)
        assert x.dtype == out.dtype
    assert [o.dtype for o in outputs[:4]] == ["float64", "int32", "float32", "int32"]


def test_close():
    x, y = T.dvector("x"), T.dvector("y")
    inf, nan = math.inf, math.nan
    a = np.array([1, 1, inf, inf, 1, inf, nan, nan, 0, 1e-9, -inf])
    b = np.array([1, 1 + 1e-6, inf, -inf, inf, 1, nan, 1, 1e-9, 0, -inf])
    for equal_nan in (False, True):
        f = snug.function([x, y], T.isclose(x, y, equal_nan=equal_nan))
        np.testing.assert_array_equal(f(a, b), np.isclose(a, b, equal_nan=equal_nan))
    f = snug.function([x, y], [T.allclose(x, y), T.allclose(x, y, rtol=1e-8, atol=0)])
    for k in (2, 4, 9):
        np.testing.assert_array_equal(
            f(a[:k], b[:k]), [np.allclose(a[:k], b[:k]), np.allclose(a[:k], b[:k], 1e-8, 0)]
        )
    u = variable("uint8", 1)
    f = snug.function([u], T.isclose(u, u[::-1]))
    np.testing.assert_array_equal(
        f(np.array([0, 255, 255, 1], "uint8")), [False, True, True, False]
    )


def test_truth_values():
    for dtype in ALL:
        x, y = variable(dtype, 1), variable(dtype, 1)
        a = np.array([0, 0, 1, 1, 2, 2]).astype(DTYPES[dtype])
        b = np.array([0, 1, 0, 2, 1, 4]).astype(DTYPES[dtype])
        outputs = [T.logical_and(x, y), T.logical_or(x, y), T.logical_xor(x, y), T.logical_not(x)]
        p, q = a != 0, b != 0
        got = snug.function([x, y], outputs)(a, b)
        for v, want in zip(got, [p & q, p | q, p ^ q, ~p]):
            np.testing.assert_array_equal(v, want)
            assert v.dtype == bool


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_to_num(dtype):
    x = variable(dtype, 1)
    a = np.array([1, np.nan, np.inf, -np.inf, -0.0]).astype(DTYPES[dtype])
    f = snug.function([x], [T.nan_to_num(x), T.nan_to_num(x, 2.0, posinf=3.0, neginf=-4.0)])
    top = float(ml_dtypes.finfo(DTYPES[dtype]).max)
    first, second = (wide(v) for v in f(a))
    np.testing.assert_array_equal(first, [1, 0, top, -top, 0])
    np.testing.assert_array_equal(second, [1, 2, 3, -4, 0])
    assert T.nan_to_num(T.ivector()).dtype == "int32"


def test_largest_and_smallest():
    v, m = T.dvector("v"), T.dmatrix("m")
    f = snug.function([v, m], [T.largest(v, m, 1.5), T.smallest(m, v), T.largest(m)])
    a, b = np.array([1.0, np.nan, 3]), np.array([[2.0, 2, 2], [0, 0, 5]])
    want = [np.maximum(np.maximum(a, b), 1.5), np.minimum(a, b), b]
    for got, expected in zip(f(a, b), want):
        np.testing.assert_array_equal(got, expected)
    with pytest.raises(ValueError, match="largest"):
        T.largest()


# ---- of axes


def test_ptp_and_norm():
    x = T.dtensor3("x")
    a = sample("float64", (2, 3, 4), special=False)
    a[0, 0, 0] = 0
    for axis in (None, 0, -1, (0, 2)):
        got = snug.function([x], T.ptp(x, axis))(a)
        np.testing.assert_array_equal(got, np.max(a, axis) - np.min(a, axis))
        for order in (0, 1, 2, 3, 2.5, -1, math.inf, -math.inf):
            for keep in (False, True):
                got = snug.function([x], x.norm(order, axis=axis, keepdims=keep))(a)
                b = np.abs(a)
                if math.isinf(order):
                    want = (np.max if order > 0 else np.min)(b, axis=axis, keepdims=keep)
                elif order == 0:
                    want = (b != 0).sum(axis=axis, keepdims=keep)
                else:
                    want = (b**order).sum(axis=axis, keepdims=keep) ** (1 / order)
                np.testing.assert_allclose(got, want, rtol=1e-12)
    assert T.ptp(T.ivector()).dtype == "int32"
    m = T.dvector("m")
    np.testing.assert_allclose(snug.function([m], T.norm(m))([3.0, 4.0]), 5)


def test_cov():
    x, y = T.dmatrix("x"), T.dmatrix("y")
    a, b = sample("float64", (3, 7), special=False), sample("float64", (2, 7), special=False)
    forms = [{}, {"bias": True}, {"ddof": 2}, {"rowvar": False}, {"rowvar": False, "bias": True}]
    f = snug.function([x], [T.cov(x, **form) for form in forms])
    for got, form in zip(f(a), forms):
        np.testing.assert_allclose(got, np.cov(a, **form), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(snug.function([x, y], T.cov(x, y))(a, b), np.cov(a, b), atol=1e-12)
    v = T.dvector("v")
    np.testing.assert_allclose(snug.function([v], T.cov(v))(a[0]), np.cov(a[0]), rtol=1e-12)
    with pytest.raises(NotImplementedError, match="fweights"):
        T.cov(x, fweights=v)
    with pytest.raises(ValueError, match="3 dimensions"):
        T.cov(T.dtensor3())


def test_moments():
    """The forms of mean, var and std; 16-bit floats whose squares overflow."""
    x = T.dmatrix("x")
    a = sample("float64", (4, 9), special=False) + 100
    for axis in (None, 0, 1, [0, 1], (0, 1)):
        key = tuple(axis) if isinstance(axis, list) else axis
        for ddof in (0, 1):
            for corrected in (False, True):
                outputs = [
                    T.var(x, axis, ddof, corrected=corrected),
                    x.std(axis, ddof=ddof, keepdims=True, corrected=corrected),
                ]
                got = snug.function([x], outputs)(a)
                np.testing.assert_allclose(got[0], a.var(key, ddof=ddof), rtol=1e-12)
                np.testing.assert_allclose(got[1], a.std(key, ddof=ddof, keepdims=True), rtol=1e-12)
    h = variable("float16", 1)
    b = np.array([-600, 600, 500, -500], "float16")
    f = snug.function([h], [T.std(h), T.mean(h), T.var(h / 16)])
    got = f(b)
    assert [v.dtype for v in got] == [np.float16] * 3
    np.testing.assert_allclose(got[0], b.astype(float).std(), rtol=1e-3)
    np.testing.assert_allclose(got[2], (b.astype(float) / 16).var(), rtol=1e-3)
    i = variable("int8", 1)
    f = snug.function([i], [T.var(i), T.mean(i), T.mean(i, dtype="float32")])
    got = f(np.array([100, 120, -100], "int8"))
    assert [v.dtype for v in got] == [np.float64, np.float64, np.float32]
    np.testing.assert_allclose(got[0], np.var([100, 120, -100]))
