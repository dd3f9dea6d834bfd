"""Numbers that depend on nothing but their inputs, and agree with NumPy where it is subtle."""

import numpy as np
import pytest

import snug
import snug.tensor as T

# ---- a result does not depend on the sizes of earlier calls

OPS = {
    "sum rows": lambda v: v.sum(1),
    "sum columns": lambda v: v.sum(0),
    "sum": lambda v: v.sum(),
    "mean of exp": lambda v: T.exp(v).mean(1),
    "var rows": lambda v: v.var(1),
    "var columns": lambda v: v.var(0),
    "prod": lambda v: (1 + v / 100).prod(1),
    "norm": lambda v: T.sqrt(T.sqr(v).sum()),
    "softmax": T.nnet.softmax,
    "logsoftmax": T.nnet.logsoftmax,
    "dot": lambda v: T.dot(v, v.T),
    "dot of columns": lambda v: T.dot(v.T, v),
    "batch norm": lambda v: (v - v.mean(0)) / T.sqrt(v.var(0) + 1e-5),
    "cumsum": lambda v: T.cumsum(v, 1),
    "gradient": lambda v: T.grad(T.sqr(T.nnet.softmax(v)).sum(), v),
    "tanh": T.tanh,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(64, 7), (64, 31), (5, 100), (1, 200), (300, 3), (70, 80)])
def test_sizes_that_came_before_change_no_bit(shape, dtype):
    r = np.random.RandomState(0)
    a, b = r.randn(*shape).astype(dtype), r.randn(17, 16).astype(dtype)
    for ops in (list(OPS.values()), *([op] for op in list(OPS.values())[:10:3])):
        s = snug.shared(a)
        f = snug.function([], [op(s) for op in ops])
        first = f()
        for value in (b, a, b[:3], a):
            s.set_value(value)
            last = f()
        later = snug.shared(b)  # a function made for other sizes
        g = snug.function([], [op(later) for op in ops])
        g()
        later.set_value(a)
        for x, y, z in zip(first, last, g(), strict=True):
            assert x.tobytes() == y.tobytes() == z.tobytes()
        assert f.counter("programs") == 3


def test_programs_for_many_sizes_are_forgotten_in_turn():
    s = snug.shared(np.ones((2, 1), "float32"))
    f = snug.function([], s.sum(1))
    for _ in range(2):
        for n in range(1, 15):
            s.set_value(np.full((2, n), n, "float32"))
            assert f().tolist() == [n * n, n * n]


def test_a_variable_that_grows_by_its_update_makes_one_program():
    s = snug.shared(np.ones((1, 3), "float32"))
    x = T.matrix("x")
    f = snug.function([x], s.sum(), updates={s: T.concatenate([s, x])})
    for n in range(1, 12):
        assert f(np.ones((1, 3), "float32")) == 3 * n
    assert f.counter("programs") == 1


# ---- products and complex numbers


def test_long_products_are_as_exact_as_those_of_numpy():
    r = np.random.RandomState(1)
    for n in (1000, 33792):
        for dtype in ("float32", "complex64"):
            a, b = ((r.rand(2, n) + 1j * r.rand(2, n)) if dtype[0] == "c" else r.rand(2, n)).astype(
                dtype
            )
            exact = np.dot(a.astype("complex256"), b.astype("complex256"))
            total = float(abs(a * b).sum())
            x, y = T.vector("x", dtype), T.vector("y", dtype)
            # One sum of n terms would lose about n / 4 roundings of it.
            error = abs(snug.function([x, y], T.dot(x, y))(a, b) - exact)
            assert error <= 64 * 2.0**-24 * total
            m = T.matrix("m", dtype)
            rows = np.stack([a, a[::-1], b])
            errors = abs(
                snug.function([m, y], T.dot(m, y))(rows, b)
                - np.dot(rows.astype("complex256"), b.astype("complex256"))
            )
            assert errors.max() <= 128 * 2.0**-24 * total


def test_magnitudes_of_infinite_numbers():
    z = T.zvector("z")
    inf, nan = np.inf, np.nan
    pairs = [(inf, nan), (nan, inf), (-inf, nan), (nan, 1), (1, nan), (3, 4), (0, 0), (inf, 1)]
    v = np.array([complex(*p) for p in pairs])
    np.testing.assert_array_equal(snug.function([z], abs(z))(v), np.abs(v))
    np.testing.assert_array_equal(snug.function([z], T.log(z))(v).real, np.log(v).real)


# ---- padding takes no part in convolutions


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_nan_over_padding_counts_for_nothing(dtype):
    x, w, g = (T.TensorType(dtype, (False,) * 4)(name) for name in "xwg")
    y = T.nnet.conv2d(x, w, border_mode="half", filter_flip=False)
    grads = T.Lop(y, [x, w], g)
    r = np.random.RandomState(0)
    xv, wv, gv = r.rand(2, 2, 5, 5), r.rand(3, 2, 3, 3), r.rand(2, 3, 5, 5)
    wv[1, 0, 0, 1] = np.nan  # above: lies over padding in the first row
    gv[0, 2, 4, 4] = np.inf  # its window reaches over two borders
    values = [v.astype(dtype) for v in (xv, wv, gv)]
    images = np.zeros((2, 3, 5, 5), bool)
    images[:, 1, 1:] = True
    filters = np.zeros((3, 2, 3, 3), bool)
    filters[2, :, :2, :2] = True
    for mode in ("fast", "check", "reference"):
        f = snug.function([x, w, g], [T.cast(v, "float64") for v in [y, *grads]], mode=mode)
        out, _, by_filters = f(*values)
        np.testing.assert_array_equal(np.isnan(out), images)
        np.testing.assert_array_equal(~np.isfinite(by_filters), filters)


# ---- bytes of bool arrays other than 0 and 1


def test_bytes_of_bools():
    raw = np.array([0, 1, 7, 200, 2, 1], "u1")
    odd, right = raw.view("?"), raw != 0
    p, v = T.TensorType("bool", (False,))("p"), T.fvector("v")
    numbers = np.arange(6, dtype="f")

    def results(p):
        return [
            p.sum(), T.cast(p, "int32"), ~p, T.eq(p, p > 0), p.argmax(), T.argsort(p), p[::-1],
            T.concatenate([p, ~p]), p[np.array([2, 3])], p.nonzero()[0], v[p], T.cumsum(p),
            T.topk(p, 3), T.set_subtensor(p[:2], p[2:4]), p,
        ]  # fmt: skip

    want = snug.function([p, v], results(p))(right, numbers)
    shared = snug.shared(right)
    late = snug.function([v], results(shared))
    shared.set_value(odd)
    doubled = np.repeat(odd, 2)
    outside = np.frombuffer(doubled.tobytes(), "?")[::2]
    for got in (
        snug.function([p, v], results(p))(odd, numbers),
        snug.function([p, v], results(p))(outside, numbers),
        snug.function([p, v], results(p), mode="reference")(odd, numbers),
        snug.function([v], results(snug.shared(odd)))(numbers),
        snug.function([v], results(T.constant(odd)))(numbers),
        late(numbers),
    ):
        for a, b in zip(got, want, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


# ---- mode="check"


def checked(inputs, output, *values):
    return snug.function(inputs, output, mode="check")(*values)


def test_masks_are_checked():
    x, i, m = T.fvector("x"), T.lvector("i"), T.TensorType("bool", (False,))("m")
    v = np.array([1, -1, 2], "f")
    assert checked([x], x[x > 0], v).tolist() == [1, 2]
    assert checked([x], x[(x > 0).nonzero()], v).tolist() == [1, 2]
    assert checked([x], T.set_subtensor(x[x > 0], np.float32(5)), v).tolist() == [5, -1, 5]
    assert checked([x], T.inc_subtensor(x[x > 0], np.float32(1)), v).tolist() == [2, -1, 3]
    assert checked([x], T.exp(x[x > 0]).sum() + x, v).shape == (3,)
    assert checked([x], x[np.array([True, False, True])], v).tolist() == [1, 2]
    for mask in ([0, 0, 0], [1, 0, 1], [1, 1, 1]):
        got = checked([m, i], T.inc_subtensor(i[m], np.int64(1)), np.array(mask, "?"), np.arange(3))
        assert got.tolist() == (np.arange(3) + mask).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_sums_are_checked_by_what_rounding_can_do(dtype):
    x = T.TensorType(dtype, (False,))("x")
    every_third = T.cast(T.arange(x.shape[0]) % 3, "int64")
    outputs = [
        x.sum(), x.var(), T.dot(x, x), x.prod(), T.cumsum(x), T.cumprod(x), T.exp(x).mean(),
        T.inc_subtensor(T.zeros((3,), dtype)[every_third], x),
    ]  # fmt: skip
    for value in (0.1, 1.001):  # equal terms: every rounding goes the same way
        v = np.full(30000, value, dtype)
        for got, want in zip(checked([x], outputs, v), snug.function([x], outputs)(v), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-2)


def test_sorting_is_checked_in_reasonable_time():
    x = T.fvector("x")
    v = np.random.RandomState(0).rand(40000).astype("f")
    got = checked([x], [T.topk(x, 5), T.argtopk(x, -5), T.argsort(x)], v)
    order = np.argsort(v, kind="stable")
    np.testing.assert_array_equal(np.sort(got[0]), v[order[-5:]])
    np.testing.assert_array_equal(np.sort(got[1]), np.sort(order[:5]))
    np.testing.assert_array_equal(got[2], order)
    places = checked([x], T.extra_ops.searchsorted(T.sort(x), x), v)
    np.testing.assert_array_equal(places, np.searchsorted(v[order], v))
