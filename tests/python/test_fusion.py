"""Which values share a kernel, and that the results are those of the reference."""

import numpy as np
import pytest

import snug
import snug.tensor as T


def vector(seed, n=1000):
    return (np.random.default_rng(seed).random(n) + 0.5).astype("float32")


def check(inputs, y, kernels, *arguments):
    f = snug.function(inputs, y)
    reference = snug.function(inputs, y, mode="reference")
    assert f.counter("kernels") == kernels
    np.testing.assert_allclose(f(*arguments), reference(*arguments), rtol=2e-6, atol=1e-6)


def test_producers_that_meet_are_one_kernel():
    x, y, z = (T.fvector(name) for name in "xyz")
    a, b, c = (vector(seed) for seed in range(3))
    check([x, y], T.tanh(T.exp(x) * 0.5 + T.log(y)), 1, a, b)
    check([x, y, z], T.exp(x) + T.log(y) * T.tanh(z), 1, a, b, c)
    check([x, y, z], T.where(T.exp(x) > T.exp(y), T.log(z), T.sin(z)), 1, a, b, c)
    # Sums of parts, then their sum.
    check([x, y], (T.exp(x) + T.log(y)).sum(), 2, a, b)


def test_other_loops_stay_apart():
    m, k, x = T.fmatrix("m"), T.fmatrix("k"), T.fvector("x")
    a, b = vector(1, 1200).reshape(30, 40), vector(2, 1200).reshape(40, 30)
    f = snug.function([m, k], T.exp(m) + T.log(k).T)
    np.testing.assert_allclose(f(a, b), np.exp(a) + np.log(b).T, rtol=2e-6)
    # A square leaves open which axis is which.
    s, t = a[:30, :30].copy(), b[:30, :30].copy()
    np.testing.assert_allclose(f(s, t), np.exp(s) + np.log(t).T, rtol=2e-6)
    g = snug.function([m], T.exp(m) + T.log(m).T)
    np.testing.assert_allclose(g(s), np.exp(s) + np.log(s).T, rtol=2e-6)
    # What is made between the two producers keeps its place.
    h = snug.function([x], T.exp(x) + T.log(T.dot(x, x) + T.tanh(x)))
    v = vector(3)
    np.testing.assert_allclose(h(v), np.exp(v) + np.log(np.dot(v, v) + np.tanh(v)), rtol=2e-6)


@pytest.mark.parametrize("count", [5, 40, 200])
def test_many_producers(count):
    xs = [T.fvector(f"x{i}") for i in range(count)]
    arguments = [vector(i, 64) for i in range(count)]
    total = T.exp(xs[0])
    for x in xs[1:]:
        total = total + T.exp(x)
    f = snug.function(xs, total)
    assert f.counter("kernels") < max(2, count / 5)
    np.testing.assert_allclose(f(*arguments), np.exp(arguments).sum(0), rtol=1e-5)


@pytest.mark.parametrize("columns", [1, 3, 10, 16, 31, 40])
def test_one_row_with_many(columns):
    m, r = T.fmatrix("m"), T.frow("r")
    f = snug.function([m, r], m * r + 1)
    row = vector(1, columns).reshape(1, columns)
    for rows in (0, 1, 100, 1000, 50000):
        a = vector(rows, rows * columns).reshape(rows, columns)
        np.testing.assert_allclose(f(a, row), a * row + 1, rtol=1e-6)
        wide = vector(rows, rows * (columns + 2)).reshape(rows, columns + 2)[:, 1:-1]
        np.testing.assert_allclose(f(wide, row), wide * row + 1, rtol=1e-6)
