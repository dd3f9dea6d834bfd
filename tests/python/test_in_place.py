"""Expressions that read what they may be written over: as an update of a shared variable, on a
value inside a function, and as the state of a loop. NumPy's right side has the old values."""

import numpy as np
import pytest

import snug
import snug.tensor as T


def put(a, index, value):
    b = a.copy()
    b[index] = value
    return b


def add(a, index, value):
    b = a.copy()
    np.add.at(b, index, value)
    return b


def rows(s):
    return T.arange(s.shape[0])[::-1]


def softmax(a):
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


CASES = {
    "shifted": (lambda s: T.set_subtensor(s[1:], s[:-1]), lambda a: put(a, np.s_[1:], a[:-1])),
    "shifted_back": (lambda s: T.set_subtensor(s[:-1], s[1:]), lambda a: put(a, np.s_[:-1], a[1:])),
    "shifted_right": (
        lambda s: T.set_subtensor(s[:, 1:], s[:, :-1]),
        lambda a: put(a, np.s_[:, 1:], a[:, :-1]),
    ),
    "block_moved": (
        lambda s: T.set_subtensor(s[2:, 2:], s[:-2, :-2]),
        lambda a: put(a, np.s_[2:, 2:], a[:-2, :-2]),
    ),
    "turned_added": (lambda s: T.inc_subtensor(s[::-1], s), lambda a: a + a[::-1]),
    "rows_set": (lambda s: T.set_subtensor(s[rows(s)], s), lambda a: a[::-1]),
    "rows_added": (lambda s: T.inc_subtensor(s[rows(s)], s), lambda a: a + a[::-1]),
    "column_from_row": (
        lambda s: T.set_subtensor(s[:, 0], s[0]),
        lambda a: put(a, np.s_[:, 0], a[0]),
    ),
    "two_rows_exchanged": (
        lambda s: T.set_subtensor(T.set_subtensor(s[0], s[1])[1], s[0]),
        lambda a: put(put(a, 0, a[1]), 1, a[0]),
    ),
    "set_and_old": (lambda s: T.set_subtensor(s[1], s[0]) + s[1], lambda a: put(a, 1, a[0]) + a[1]),
    "added_twice": (
        lambda s: T.inc_subtensor(T.inc_subtensor(s[0], s[1])[1], s[0]),
        lambda a: add(add(a, 0, a[1]), 1, a[0]),
    ),
    "row_of_sums": (
        lambda s: T.set_subtensor(s[0], s.sum(axis=0)),
        lambda a: put(a, 0, a.sum(axis=0)),
    ),
    "transposed": (lambda s: s.T, lambda a: a.T),
    "with_transpose": (lambda s: s + 2 * s.T, lambda a: a + 2 * a.T),
    "turned": (lambda s: s[::-1], lambda a: a[::-1]),
    "with_turned": (lambda s: s - s[::-1, ::-1], lambda a: a - a[::-1, ::-1]),
    "gathered": (lambda s: s[rows(s)], lambda a: a[::-1]),
    "rotated": (
        lambda s: T.concatenate([s[2:], s[:2]]),
        lambda a: np.concatenate([a[2:], a[:2]]),
    ),
    "reordered": (lambda s: s.T.flatten().reshape(s.shape, ndim=2), lambda a: a.T.reshape(a.shape)),
    "less_the_largest": (lambda s: s - s.max(axis=0), lambda a: a - a.max(axis=0)),
    "plus_first_row": (lambda s: s + s[0], lambda a: a + a[0]),
    "plus_first_column": (lambda s: s + s[:, 0].dimshuffle(0, "x"), lambda a: a + a[:, :1]),
    "product": (lambda s: T.dot(s, s) / 9, lambda a: a @ a / 9),
    "product_of_transpose": (lambda s: T.dot(s.T, s) / 9, lambda a: a.T @ a / 9),
    "softmax": (T.nnet.softmax, softmax),
}
SIZES = [4, 130]  # on one thread and on several


def value(n):
    return np.random.default_rng(n).integers(-3, 4, (n, n)).astype("float64")


def same(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("case", CASES)
def test_update(case, n):
    build, numpy = CASES[case]
    for also_read in (False, True):
        a = value(n)
        s = snug.shared(a)
        f = snug.function([], [s[0], s.sum()] if also_read else [], updates=[(s, build(s))])
        for _ in range(2):
            results = f()
            if also_read:
                same(results[0], a[0])
                same(results[1], a.sum())
            a = numpy(a)
            same(s.get_value(), a)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("case", CASES)
def test_value_inside_a_function(case, n):
    build, numpy = CASES[case]
    x = T.dmatrix("x")
    z = T.dot(x, T.eye(x.shape[0], dtype="float64"))  # lies in memory of its own
    twice = build(build(z))
    a = value(n)
    same(snug.function([x], twice)(a), numpy(numpy(a)))
    both = snug.function([x], [build(z), T.dot(z, z)])(a)
    same(both[0], numpy(a))
    same(both[1], a @ a)


@pytest.mark.parametrize("case", CASES)
def test_state_of_a_loop(case):
    build, numpy = CASES[case]
    x = T.dmatrix("x")
    (last,), (all_of_them,) = snug.loop(lambda i, e, s: ([build(s[0])], [s[0]]), None, [x], 3)
    a = value(4)
    states = [a]
    for _ in range(3):
        states.append(numpy(states[-1]))
    found = snug.function([x], [last, all_of_them])(a)
    same(found[0], states[3])
    same(found[1], np.stack(states[:3]))


PAIRS = {
    "exchanged": (lambda p, q: (q, p), lambda a, b: (b, a)),
    "turned": (lambda p, q: (p + q, p - q), lambda a, b: (a + b, a - b)),
    "views": (lambda p, q: (q.T, p[::-1]), lambda a, b: (b.T, a[::-1])),
    "rows": (
        lambda p, q: (T.set_subtensor(p[0], q[1]), T.set_subtensor(q[1], p[0])),
        lambda a, b: (put(a, 0, b[1]), put(b, 1, a[0])),
    ),
    "added": (
        lambda p, q: (T.inc_subtensor(p[:2], q[:2]), T.inc_subtensor(q[:2], p[:2])),
        lambda a, b: (add(a, np.s_[:2], b[:2]), add(b, np.s_[:2], a[:2])),
    ),
    "products": (lambda p, q: (T.dot(p, q), T.dot(q, p)), lambda a, b: (a @ b, b @ a)),
}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("case", PAIRS)
def test_two_updates(case, n):
    build, numpy = PAIRS[case]
    a, b = value(n), value(n).T + 1
    p, q = snug.shared(a), snug.shared(b)
    new = build(p, q)
    snug.function([], [p.sum()], updates=[(p, new[0]), (q, new[1])])()
    want = numpy(a, b)
    same(p.get_value(), want[0])
    same(q.get_value(), want[1])


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8", "bool"])
@pytest.mark.parametrize("sizes", [(50, 300, 2000), (3, 2000, 300), (100000, 1, 300000)])
def test_repeated_indices_on_several_threads(dtype, sizes):
    """set takes the last of the values for one place, inc adds them all, whoever comes first."""
    n, m, k = sizes
    x, y = (T.TensorType(dtype, (False, False))() for _ in range(2))
    i = T.lvector()
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, (n, m)).astype(dtype), rng.integers(0, 3, (k, m)).astype(dtype)
    u = rng.integers(-n, n, k)
    found = snug.function([x, i, y], T.set_subtensor(x[i], y))(a, u, b)
    np.testing.assert_array_equal(found, put(a, u, b))
    if dtype != "bool":
        found = snug.function([x, i, y], T.inc_subtensor(x[i], y))(a, u, b)
        np.testing.assert_array_equal(found, add(a, u, b))
