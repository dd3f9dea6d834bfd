"""Linear algebra: rows and functions against NumPy and SciPy, gradients against finite differences.

Signs of singular and eigenvectors are arbitrary: those are compared by what they are for."""

import numpy as np
import pytest
import scipy.linalg

import snug
import snug.tensor as T
from conformance import (
    MODES,
    agree,
    agree_gradient,
    layouts,
    ops_of,
    rows,
    sample,
    variable,
    wide,
)
from snug.tensor import nlinalg, slinalg

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

EPS = {"float32": 2.0**-23, "float64": 2.0**-52}
SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 4), (4, 1), (5, 5), (7, 3), (3, 7), (40, 33)]


def general(dtype, n, m=None):
    """Random numbers with a large diagonal: far from singular."""
    a = wide(sample(dtype, (n, m or n), -1, 1, False, key="general"))
    return (a + 2 * np.eye(n, m or n)).astype(dtype)


def symmetric(dtype, n):
    a = wide(sample(dtype, (n, n), -1, 1, False, key="symmetric"))
    return ((a + a.T) / 2 + np.diag(np.arange(n) / 2.0)).astype(dtype)


def near(got, want, tolerance, what=""):
    np.testing.assert_allclose(wide(np.asarray(got)), want, rtol=0, atol=tolerance, err_msg=what)


def functions(row, inputs, outputs):
    assert row in ops_of(outputs)
    for mode in MODES:
        yield mode, snug.function(inputs, outputs, mode=mode)


def agree_twice(row, cost, x, value, tolerance=1e-5, step=1e-5):
    """The gradient of `cost`, and of a weighted sum of its gradient, against differences."""
    agree_gradient(row, cost, [x], [value], tolerance, step)
    first = T.grad(cost, x)
    weighted = (first * T.cos(T.arange(first.size).reshape(first.shape) + 0.5)).sum()
    f, g = snug.function([x], weighted), snug.function([x], T.grad(weighted, x))
    found = g(value)
    for at in np.ndindex(value.shape):
        sides = []
        for sign in (1, -1):
            moved = value.copy()
            moved[at] += sign * step
            sides.append(float(f(moved)))
        want = (sides[0] - sides[1]) / (2 * step)
        assert abs(found[at] - want) <= 20 * tolerance * max(1.0, abs(want)), (row, at)


# ---- rows


@rows("inverse")
def test_inverse(row):
    for dtype in EPS:
        x = variable(dtype, 2)
        for n in (0, 1, 2, 5, 33):
            a = general(dtype, n)
            want = np.linalg.inv(wide(a))
            calls = [((b,), want) for b in layouts(a)]
            agree(row, [x], nlinalg.matrix_inverse(x), calls, 32 * (n + 1), scale=1.0)
    x = variable("float64", 2, "x")
    agree_twice(row, (nlinalg.matrix_inverse(x) ** 2).sum(), x, general("float64", 3))


@rows("det", "slogdet")
def test_determinants(row):
    for dtype in EPS:
        x = variable(dtype, 2)
        outputs = nlinalg.det(x) if row == "det" else list(nlinalg.slogdet(x))
        for n in (0, 1, 2, 3, 8, 33):
            for turned in (False, True):
                a = general(dtype, n) / 2
                if turned and n > 1:
                    a = np.ascontiguousarray(a[np.r_[1, 0, 2:n]])
                d = np.linalg.det(wide(a))
                want = d if row == "det" else list(np.linalg.slogdet(wide(a)))
                calls = [((b,), want) for b in layouts(a)]
                agree(row, [x], outputs, calls, 32 * (n + 1), scale=max(1.0, abs(d)))
    x = variable("float64", 2, "x")
    cost = nlinalg.det(x) if row == "det" else nlinalg.slogdet(x)[1]
    for a in (general("float64", 3), -general("float64", 3), general("float64", 1)):
        agree_twice(row, cost, x, a)


def test_determinants_of_singular_large_and_nan_matrices():
    x = T.dmatrix()
    f = snug.function([x], [nlinalg.det(x), *nlinalg.slogdet(x)])
    for a in (np.zeros((2, 2)), np.ones((3, 3)), np.array([[1.0, 2], [2, 4]])):
        assert [float(v) for v in f(a)] == [0.0, 0.0, -np.inf]
    d, sign, log = f(np.diag([1e200, -1e200, 1e-30]))
    assert (d, sign) == (-np.inf, -1) or abs(d / -1e370) == 1
    assert abs(log - np.log(10) * 370) < 1e-10
    assert all(np.isnan(v) for v in f(np.full((2, 2), np.nan)))
    # The sign alone is flat.
    assert np.all(snug.function([x], T.grad(nlinalg.slogdet(x)[0], x))(np.eye(2)) == 0)


@rows("qr", "qr_r")
def test_qr(row):
    for dtype in EPS:
        x = variable(dtype, 2)
        modes = ["r"] if row == "qr_r" else ["reduced", "complete", "full"]
        outputs = [v for mode in modes for v in np.atleast_1d(nlinalg.qr(x, mode))]
        for mode, f in functions(row, [x], outputs):
            for m, n in SHAPES:
                a = sample(dtype, (m, n), -2, 2, False)
                for b in layouts(a):
                    found = f(b)
                    tolerance = 16 * EPS[dtype] * (m + n + 4)
                    if row == "qr_r":
                        near(found[0], np.linalg.qr(wide(a), "r"), tolerance, mode)
                        continue
                    for k, form in enumerate(["reduced", "complete", "reduced"]):
                        q, r = found[2 * k : 2 * k + 2]
                        wanted = np.linalg.qr(wide(a), form)
                        near(q, wanted[0], tolerance, f"{mode} {form} {m} {n}")
                        near(r, wanted[1], tolerance, f"{mode} {form} {m} {n}")
                        assert np.all(np.tril(r, -1) == 0)
    x = variable("float64", 2, "x")
    for shape in ((3, 3), (4, 2), (2, 4)):
        a = sample("float64", shape, -2, 2, False)
        if row == "qr_r":
            agree_twice(row, (nlinalg.qr(x, "r") ** 3).sum(), x, a, 1e-4)
        else:
            q, r = nlinalg.qr(x)
            for cost in ((q**3).sum(), (r**3).sum(), (q.sum(0) * r.sum(1) ** 2).sum()):
                agree_twice(row, cost, x, a, 1e-4)


@rows("svd")
def test_svd(row):
    for dtype in EPS:
        x = variable(dtype, 2)
        for full in (False, True):
            for mode, f in functions(row, [x], list(nlinalg.svd(x, full))):
                for m, n in SHAPES:
                    a = sample(dtype, (m, n), -2, 2, False)
                    if min(m, n) > 4:
                        a[:, 1] = a[:, 0]  # rank below full
                    k, tolerance = min(m, n), 32 * EPS[dtype] * (m + n + 4)
                    want = np.linalg.svd(wide(a), full) if k else None
                    for b in layouts(a):
                        u, s, v = f(b)
                        assert u.shape == (m, m if full else k)
                        assert v.shape == (n if full else k, n)
                        near(u.T @ u, np.eye(u.shape[1]), tolerance, mode)
                        near(v @ v.T, np.eye(v.shape[0]), tolerance, mode)
                        near((u[:, :k] * s) @ v[:k], wide(a), tolerance, mode)
                        if k:
                            near(s, want[1], tolerance, mode)
    x = variable("float64", 2, "x")
    for shape in ((3, 3), (4, 2), (2, 4)):
        a = sample("float64", shape, -2, 2, False)
        u, s, v = nlinalg.svd(x, False)
        weights = T.arange(min(shape)) + 1.0
        for cost in (
            (s**3).sum(),
            T.dot(u**2, weights).sum() + (u**4).sum(),
            (v**4).sum(),
            (T.dot(u * s**2, v) ** 2).sum(),
        ):
            agree_twice(row, cost, x, a, 1e-4)
        agree_gradient(row, nlinalg.svd(x)[1], [x], [a], 1e-5)


def test_svd_like_numpy():
    # The same routine on the same layout: signs, too, are NumPy's for ordinary input.
    x = T.dmatrix()
    f = snug.function([x], list(nlinalg.svd(x)) + list(nlinalg.eigh(x[:, :4])))
    a = sample("float64", (4, 6), -2, 2, False)
    for got, want in zip(f(a), [*np.linalg.svd(a), *np.linalg.eigh(a[:, :4])]):
        near(np.abs(got), np.abs(want), 1e-12)


@rows("svdvals")
def test_singular_values(row):
    for dtype in EPS:
        x = variable(dtype, 2)
        for m, n in SHAPES:
            a = sample(dtype, (m, n), -2, 2, False)
            want = np.linalg.svd(wide(a), compute_uv=False) if m and n else np.zeros(0)
            calls = [((b,), want) for b in layouts(a)]
            agree(row, [x], nlinalg.svd(x, compute_uv=False), calls, 16 * (m + n), scale=8.0)
    x = variable("float64", 2, "x")
    a = sample("float64", (3, 4), -2, 2, False)
    agree_twice(row, (nlinalg.svd(x, compute_uv=False) ** 3).sum(), x, a)


@rows("eig")
def test_eig(row):
    for dtype in EPS:
        x = variable(dtype, 2)
        for mode, f in functions(row, [x], list(nlinalg.complex_eig(x))):
            for n in (0, 1, 2, 5, 12):
                a = wide(sample(dtype, (n, n), -1, 1, False, key="eig")).astype(dtype)
                want = np.linalg.eigvals(wide(a))
                tolerance = 64 * EPS[dtype] * (n + 4)
                for b in layouts(a):
                    w, v = f(b)
                    assert w.dtype == v.dtype == np.result_type(dtype, "complex64")
                    if n:
                        apart = abs(w[:, None] - want)
                        assert max(apart.min(0).max(), apart.min(1).max()) < n * tolerance, mode
                    near(np.linalg.norm(v, axis=0), np.ones(n), tolerance, mode)
                    near(abs(a @ v - v * w), np.zeros((n, n)), n * tolerance, mode)
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    x = variable("float64", 2, "x")
    f = snug.function([x], list(nlinalg.complex_eig(x)))
    np.testing.assert_allclose(f(turn)[0], [1j, -1j])
    real = snug.function([x], list(nlinalg.eig(x)))
    w, v = real([[2.0, 1.0], [0.0, 3.0]])
    assert w.dtype == v.dtype == np.float64
    np.testing.assert_allclose(np.array([[2.0, 1.0], [0.0, 3.0]]) @ v, v * w)
    with pytest.raises(AssertionError, match="not real; complex_eig"):
        real(turn)
    with pytest.raises(np.linalg.LinAlgError, match="eig"):
        f([[1.0, np.nan], [0.0, 1.0]])
    w, v = nlinalg.complex_eig(x)
    a = sample("float64", (4, 4), -1, 1, False, key="eig")  # has a conjugate pair
    assert np.iscomplex(np.linalg.eigvals(a)).any()
    for cost in ((T.real(w) ** 3).sum(), (abs(w) ** 3).sum(), (T.imag(w) ** 2).sum()):
        agree_gradient(row, cost, [x], [a], 1e-5)
    # Of vectors: what does not depend on their phase.
    weights = T.arange(4) + 1.0
    for cost in (T.dot(weights, abs(v) ** 4).sum(), (abs(v) ** 3 * abs(w)).sum()):
        agree_gradient(row, cost, [x], [a], 1e-5)
    b = np.diag([3.0, 1.0, -1.0, -2.0]) + 0.1 * a  # real ones
    w, v = nlinalg.eig(x)
    agree_gradient(row, (w * T.dot(weights, v**2)).sum(), [x], [b], 1e-5)


@rows("eigh")
def test_eigh(row):
    for dtype in EPS:
        x = variable(dtype, 2)
        outputs = [*nlinalg.eigh(x), *nlinalg.eigh(x, "U")]
        for mode, f in functions(row, [x], outputs):
            for n in (0, 1, 2, 5, 33):
                a = symmetric(dtype, n)
                tolerance = 32 * EPS[dtype] * (n + 4)
                for b in layouts(a):
                    found = f(b)
                    for w, v in (found[:2], found[2:]):
                        near(w, np.linalg.eigh(wide(a))[0] if n else [], n * tolerance, mode)
                        near(v.T @ v, np.eye(n), tolerance, mode)
                        near(v * w, wide(a) @ wide(v), n * tolerance, mode)
                # One triangle is read, the other may hold anything.
                low = np.where(np.tri(n, dtype=bool), a, np.nan).astype(dtype)
                g = snug.function([x], nlinalg.eigh(x), mode=mode)
                near(g(low)[0], np.linalg.eigvalsh(wide(a)) if n else [], n * tolerance, mode)
    x = variable("float64", 2, "x")
    for lower in "LU":
        w, v = nlinalg.eigh(x, lower)
        for cost in ((w**3).sum(), (v**4).sum(), (T.dot(v * w**2, v.T) ** 2).sum()):
            agree_twice(row, cost, x, symmetric("float64", 3), 1e-4)
    # Equal eigenvalues: the gradient of what does not depend on the choice of vectors.
    w, v = nlinalg.eigh(x)
    g = snug.function([x], T.grad((T.dot(v * w, v.T) ** 2).sum(), x))
    near(g(np.eye(2)), 2 * np.eye(2), 1e-12)


@rows("eigvalsh")
def test_eigenvalues(row):
    for dtype in EPS:
        x = variable(dtype, 2)
        for n in (0, 1, 2, 5, 33):
            a = symmetric(dtype, n)
            want = np.linalg.eigvalsh(wide(a)) if n else np.zeros(0)
            outputs = [slinalg.eigvalsh(x, None), slinalg.eigvalsh(x, None, lower=False)]
            calls = [((b,), [want, want]) for b in layouts(a)]
            agree(row, [x], outputs, calls, 16 * (n + 1), scale=n + 1.0)
    x = variable("float64", 2, "x")
    for lower in (True, False):
        cost = (slinalg.eigvalsh(x, None, lower) ** 3).sum()
        agree_twice(row, cost, x, symmetric("float64", 3))


def test_eigenvalues_of_a_pair():
    x, y = T.dmatrix("x"), T.dmatrix("y")
    a, b = symmetric("float64", 4), symmetric("float64", 4)
    b = b @ b.T + np.eye(4)
    for lower in (True, False):
        w = slinalg.eigvalsh(x, y, lower)
        f = snug.function([x, y], w)
        near(f(a, b), scipy.linalg.eigvalsh(a, b), 1e-11)
        half = np.tril if lower else np.triu
        near(f(half(a), half(b)), scipy.linalg.eigvalsh(a, b), 1e-11)
        agree_gradient("eigvalsh", w, [x, y], [half(a), half(b)], 1e-5)


@rows("lstsq")
def test_least_squares(row):
    for dtype in EPS:
        x, y, v = variable(dtype, 2), variable(dtype, 2), variable(dtype, 1)
        outputs = [*nlinalg.lstsq(x, y), nlinalg.lstsq(x, v)[0]]
        for mode, f in functions(row, [x, y, v], outputs):
            for m, n in SHAPES:
                a, b = sample(dtype, (m, n), -2, 2, False), sample(dtype, (m, 3), -2, 2, False)
                if min(m, n) > 4:
                    a[:, 1] = a[:, 0]
                tolerance = 200 * EPS[dtype] * (m + n + 4)
                want = np.linalg.lstsq(wide(a), wide(b), rcond=EPS[dtype] * max(m, n))
                for c in layouts(a):
                    found = f(c, b, b[:, 0])
                    near(found[0], want[0], tolerance, f"{mode} {m} {n}")
                    assert found[1].shape == want[1].shape, (mode, m, n)
                    near(found[1], want[1], tolerance * (m + 1), f"{mode} {m} {n}")
                    assert found[2] == want[2]
                    near(found[3], want[3], tolerance, f"{mode} {m} {n}")
                    near(found[4], want[0][:, 0], tolerance, f"{mode} {m} {n}")
    x, y = variable("float64", 2, "x"), variable("float64", 2, "y")
    for shape in ((3, 3), (4, 2), (2, 4)):
        a = general("float64", *shape)
        b = sample("float64", (shape[0], 2), -1, 1, False)
        solution, residuals, _, s = nlinalg.lstsq()(x, y, 1e-10)
        agree_gradient(row, solution, [x, y], [a, b], 1e-5)
        agree_gradient(row, s, [x, y], [a, b], 1e-5)
        if shape[0] > shape[1]:
            agree_gradient(row, residuals, [x, y], [a, b], 1e-5)
        fixed = nlinalg.lstsq(x, b)[0]
        agree_twice(row, (fixed**2).sum(), x, a, 1e-4)


def test_pseudo_inverse():
    for dtype in EPS:
        x = variable(dtype, 2)
        f = snug.function([x], nlinalg.pinv(x))
        for m, n in SHAPES:
            a = general(dtype, m, n) if m and n else np.zeros((m, n), dtype)
            near(f(a), np.linalg.pinv(wide(a)), 64 * EPS[dtype] * (m + n))
    x = T.dmatrix("x")
    f = snug.function([x], nlinalg.pinv(x, 1e-10))
    a = sample("float64", (4, 2), -1, 1, False) @ sample("float64", (2, 5), -1, 1, False)
    near(f(a), np.linalg.pinv(a, 1e-10), 1e-11)
    for shape in ((3, 3), (4, 2), (2, 4)):
        cost = (nlinalg.pinv(x) ** 2).sum()
        agree_twice("lstsq", cost, x, general("float64", *shape), 1e-4)


@rows("expm")
def test_expm(row):
    for dtype in EPS:
        x = variable(dtype, 2)
        for n in (0, 1, 2, 5, 33):
            for size in (1e-3, 0.1, 0.8, 2.0, 9.0):
                a = (sample(dtype, (n, n), -1, 1, False) * size / max(1, n) * 2).astype(dtype)
                want = scipy.linalg.expm(wide(a)) if n else np.zeros((0, 0))
                scale = max(1.0, np.abs(want).max(initial=0))
                calls = [((b,), want) for b in layouts(a)]
                agree(row, [x], slinalg.expm(x), calls, 64 * (n + 1), scale=scale)
    x = variable("float64", 2, "x")
    for size in (0.2, 2.0):
        a = sample("float64", (3, 3), -1, 1, False) * size
        agree_twice(row, (slinalg.expm(x) ** 2).sum(), x, a, 1e-4)
    f = snug.function([x], slinalg.expm(x))
    assert np.all(np.isnan(f(np.array([[1.0, np.nan], [0, 1]]))))
    near(f(np.zeros((3, 3))), np.eye(3), 0)
    assert f(np.diag([800.0, 1.0]))[0, 0] == np.inf or np.isnan(f(np.diag([800.0, 1.0]))[0, 0])


# ---- functions


def test_solves():
    x, y, v = T.dmatrix(), T.dmatrix(), T.dvector()
    a, b = general("float64", 4), sample("float64", (4, 3), special=False)
    low, high = np.tril(a), np.triu(a)
    for right, value in ((y, b), (v, b[:, 1])):
        for got, want in (
            (slinalg.solve_symmetric(x, right), np.linalg.solve(a, value)),
            (slinalg.Solve()(x, right), np.linalg.solve(a, value)),
            (slinalg.Solve("lower_triangular", lower=True)(x, right), np.linalg.solve(low, value)),
            (slinalg.Solve(A_structure="upper_triangular")(x, right), np.linalg.solve(high, value)),
            (slinalg.solve_triangular(x, right), np.linalg.solve(high, value)),
            (slinalg.solve_triangular(x, right, lower=True), np.linalg.solve(low, value)),
            (slinalg.solve_triangular(x, right, trans=True), np.linalg.solve(high.T, value)),
            (slinalg.solve_lower_triangular(x, right), np.linalg.solve(low, value)),
            (slinalg.solve_upper_triangular(x, right), np.linalg.solve(high, value)),
        ):
            near(snug.function([x, right], got)(a, value), want, 1e-13)


def test_other_dtypes_are_cast_up():
    for dtype, result in (
        ("int8", "float32"),
        ("int64", "float64"),
        ("float16", "float32"),
        ("bool", "float32"),
    ):
        x = T.TensorType(dtype, (False, False))()
        a = np.array([[2, 1], [0, 1]], dtype)
        wanted = {
            nlinalg.matrix_inverse: np.linalg.inv,
            nlinalg.det: np.linalg.det,
            slinalg.expm: scipy.linalg.expm,
        }
        for function, numpy in wanted.items():
            y = function(x)
            assert y.dtype in (result, snug.config.floatX), (dtype, y.dtype)
            near(snug.function([x], y)(a), numpy(wide(a).astype("float64")), 1e-5)


def test_products_and_powers():
    x, y = T.dmatrix("x"), T.dmatrix("y")
    a, b = general("float64", 3), general("float64", 3)[::-1]
    f = snug.function([x, y], nlinalg.matrix_dot(x, y, x.T))
    near(f(a, b), a @ b @ a.T, 1e-13)
    for n in (0, 1, 2, 3, 7, -1, -4):
        near(snug.function([x], nlinalg.matrix_power(x, n))(a), np.linalg.matrix_power(a, n), 1e-9)
    agree_gradient("dot", nlinalg.matrix_power(x, 3), [x], [a], 1e-5)
    i = T.lmatrix()
    k = np.arange(4).reshape(2, 2)
    power = snug.function([i], nlinalg.matrix_power(i, 5))(k)
    assert power.dtype == "int64" and np.all(power == np.linalg.matrix_power(k, 5))


def test_trace_and_diagonals():
    x = T.dmatrix("x")
    for shape in ((0, 0), (1, 1), (3, 3), (2, 5), (5, 2)):
        a = sample("float64", shape, special=False)
        near(snug.function([x], nlinalg.trace(x))(a), np.trace(a), 1e-14)
        near(snug.function([x], nlinalg.extract_diag(x))(a), np.diag(a), 0)
        near(snug.function([x], nlinalg.diag(x))(a), np.diag(a), 0)
    a = np.array([[1.0, np.inf], [np.nan, 2]])
    assert snug.function([x], nlinalg.trace(x))(a) == 3
    v = T.dvector()
    for f in (nlinalg.diag, nlinalg.alloc_diag):
        near(snug.function([v], f(v))(np.arange(4.0)), np.diag(np.arange(4.0)), 0)
    agree_gradient("sum", nlinalg.trace(x), [x], [sample("float64", (3, 2), special=False)])


def test_kron():
    x, y, v = T.dmatrix("x"), T.dmatrix("y"), T.dvector("v")
    a, b, u = (sample("float64", s, -2, 2, False) for s in ((2, 3), (3, 2), (4,)))
    near(snug.function([x, y], slinalg.kron(x, y))(a, b), np.kron(a, b), 1e-15)
    # SciPy's own function takes matrices only today; with a vector Theano's result is this.
    found = snug.function([x, v], slinalg.kron(x, v))(a, u)
    near(found, np.einsum("ij,k->jik", a, u).ravel(), 1e-15)
    agree_gradient("mul", slinalg.kron(x, y), [x, y], [a, b])


def test_norms():
    x, v = T.dmatrix("x"), T.dvector("v")
    a, u = sample("float64", (3, 4), -2, 2, False), sample("float64", (5,), -2, 2, False)
    u[2] = 0
    for ord in (None, "fro", "nuc", "inf", "-inf", 1, -1, 2, -2, np.inf, -np.inf):
        want = np.linalg.norm(a, float(ord) if ord in ("inf", "-inf") else ord)
        near(snug.function([x], nlinalg.norm(x, ord))(a), want, 1e-13, str(ord))
        if ord not in ("fro", "nuc"):
            agree_gradient(
                "abs" if ord not in (None, 2, -2) else ord_row(ord),
                nlinalg.norm(x, ord),
                [x],
                [a],
                1e-5,
            )
    for ord in (None, "inf", "-inf", 0, 1, 2, 3, 2.5):
        want = np.linalg.norm(u, float(ord) if ord in ("inf", "-inf") else ord)
        near(snug.function([v], nlinalg.norm(v, ord))(u), want, 1e-13, str(ord))


def ord_row(ord):
    return "sqrt" if ord is None else "svdvals"


def test_tensor_inverse_and_solve():
    x, y = T.dtensor4("x"), T.dmatrix("y")
    a = np.eye(24).reshape(4, 6, 8, 3) + 0.1 * sample("float64", (4, 6, 8, 3), -1, 1, False)
    b = sample("float64", (4, 6), -1, 1, False)
    near(snug.function([x], nlinalg.tensorinv(x, 2))(a), np.linalg.tensorinv(a, 2), 1e-12)
    f = snug.function([x, y], nlinalg.tensorsolve(x, y))
    near(f(a, b), np.linalg.tensorsolve(a, b), 1e-12)
    turned = a.transpose(2, 0, 1, 3)
    f = snug.function([x, y], nlinalg.tensorsolve(x, y, axes=(0, 3)))
    near(f(turned, b), np.linalg.tensorsolve(turned, b, axes=(0, 3)), 1e-12)
    z = T.dtensor3("z")
    c = sample("float64", (6, 2, 3), -1, 1, False)
    near(snug.function([z], nlinalg.tensorinv(z, ind=1))(c), np.linalg.tensorinv(c, 1), 1e-11)


def test_broadcastable_axes():
    # Types that stretch keep their gradients in their own type.
    for x, a in ((T.drow("x"), np.array([[3.0, 4.0]])), (T.dcol("x"), np.array([[3.0], [4.0]]))):
        outputs = [nlinalg.svd(x, False)[1], nlinalg.qr(x)[1], nlinalg.pinv(x), nlinalg.norm(x, 2)]
        for y in outputs:
            gradient = T.grad((y**2).sum(), x)
            assert snug.function([x], gradient)(a).shape == a.shape
        near(snug.function([x], outputs[0])(a), [5.0], 1e-14)


# ---- data that fail


@pytest.mark.parametrize("mode", MODES)
def test_singular_matrices(mode):
    x = T.dmatrix()
    f = snug.function([x], nlinalg.matrix_inverse(x), mode=mode)
    with pytest.raises(np.linalg.LinAlgError, match="inverse: the matrix is singular: pivot 2"):
        f(np.ones((2, 2)))
    g = snug.function([x], T.grad(nlinalg.det(x), x), mode=mode)
    with pytest.raises(np.linalg.LinAlgError, match="inverse: the matrix is singular"):
        g(np.zeros((2, 2)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none(mode, bad):
    x = T.dmatrix()
    a = np.arange(12.0).reshape(4, 3)
    a[2, 1] = bad
    for outputs, name in (
        (list(nlinalg.svd(x)), "svd"),
        (nlinalg.svd(x, compute_uv=False), "svdvals"),
        (list(nlinalg.eigh(x[1:])), "eigh"),
        (slinalg.eigvalsh(x[1:], None), "eigvalsh"),
        (nlinalg.pinv(x), "lstsq"),
    ):
        f = snug.function([x], outputs, mode=mode)
        at = "1, 1" if name.startswith("eig") else "2, 1"
        with pytest.raises(np.linalg.LinAlgError, match=rf"{name}: element \({at}\) of a"):
            f(a)
    q, r = snug.function([x], nlinalg.qr(x), mode=mode)(a)
    assert not np.all(np.isfinite(q)) and not np.all(np.isfinite(r))


def test_a_failed_call_changes_nothing():
    x, calls = T.dmatrix(), snug.shared(np.float64(0))
    f = snug.function([x], nlinalg.svd(x)[1], updates=[(calls, calls + 1)])
    with pytest.raises(np.linalg.LinAlgError):
        f(np.full((2, 2), np.nan))
    assert calls.get_value() == 0
    f(np.eye(2))
    assert calls.get_value() == 1


def test_shapes_that_do_not_fit():
    x, v = T.dmatrix(), T.dvector()
    for function in (
        nlinalg.matrix_inverse,
        nlinalg.det,
        nlinalg.slogdet,
        nlinalg.eigh,
        slinalg.expm,
    ):
        outputs = function(x)
        f = snug.function([x], list(outputs) if isinstance(outputs, tuple) else outputs)
        with pytest.raises(ValueError, match=r"not square: \(2, 3\)"):
            f(np.ones((2, 3)))
        with pytest.raises(TypeError):
            function(v)
    with pytest.raises(ValueError, match=r"(?s)unknown mode 'reducd'.*did you mean 'reduced'"):
        nlinalg.qr(x, "reducd")
    with pytest.raises(ValueError, match="UPLO"):
        nlinalg.eigh(x, "X")
    with pytest.raises(ValueError, match="norm: unknown order"):
        nlinalg.norm(x, "frob")
    with pytest.raises(ValueError, match="A_structure"):
        slinalg.Solve("lower")
    with pytest.raises(ValueError, match="ind is 4"):
        nlinalg.tensorinv(T.dtensor4(), 4)
    with pytest.raises(TypeError, match="kron"):
        slinalg.kron(v, v)


def test_results_without_gradient():
    x = T.dmatrix()
    with pytest.raises(NotImplementedError, match="full_matrices=False"):
        T.grad(nlinalg.svd(x)[0].sum(), x)
    with pytest.raises(NotImplementedError, match="reduced"):
        T.grad(nlinalg.qr(x, "complete")[0].sum(), x)


# ---- threads


def test_products_do_not_depend_on_the_number_of_threads():
    x, y = T.dmatrix(), T.dmatrix()
    found = []
    for threads in (1, 2, 3):
        f = snug.function([x, y], T.dot(x, y), threads=threads)
        found.append(
            [
                f(
                    sample("float64", (m, k), special=False),
                    sample("float64", (k, n), special=False),
                )
                for m, k, n in ((100, 300, 200), (513, 700, 401), (7, 2000, 1500), (2000, 300, 5))
            ]
        )
    for others in found[1:]:
        for a, b in zip(found[0], others):
            np.testing.assert_array_equal(a, b)
