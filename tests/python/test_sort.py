"""Sorting, searching, counting, and running sums and products, against NumPy."""

import numpy as np
import pytest

import snug
import snug.tensor as T
from conformance import (
    ALL,
    DTYPES,
    FLOATS,
    INTEGERS,
    NUMBERS,
    accuracy,
    agree,
    agree_gradient,
    rows,
    sample,
    variable,
    wide,
)
from snug import _core

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SHAPES = [(0, 3), (2, 0), (1, 1), (5, 4), (40, 3), (3, 700)]


def second_gradient(y, x, a, tolerance=1e-5):
    """The gradient of a sum of squares of the gradient against differences of it."""
    weights = T.sin(T.arange(y.size) * 0.7 + 0.3).reshape(y.shape)
    first = T.grad((T.sqr(y) * weights).sum(), x)
    cost = (first * T.cos(T.arange(x.size) * 0.9)).sum() if x.ndim == 1 else T.sqr(first).sum()
    f, g = snug.function([x], cost), snug.function([x], T.grad(cost, x))
    found = g(a)
    for at in np.ndindex(a.shape):
        sides = []
        for step in (1e-5, -1e-5):
            moved = a.copy()
            moved[at] += step
            sides.append(float(f(moved)))
        want = (sides[0] - sides[1]) / 2e-5
        assert abs(found[at] - want) <= tolerance * max(1, abs(want)), (at, found[at], want)


# ---- running sums and products


def running(name, a, axis):
    """In double, or exactly in 64 bits."""
    if a.dtype.kind == "f" or a.dtype == DTYPES["bfloat16"]:
        return getattr(np, name)(wide(a), axis)
    kind = "uint64" if a.dtype.kind == "u" else "int64"
    return getattr(np, name)(a, axis, dtype=kind)


@rows("cumsum", "cumprod")
def test_cumulative(row):
    for dtype in ALL:
        x = variable(dtype, 2, "x")
        axes = [0, 1, -1, None]
        outputs = [getattr(_core, row)(x, axis) for axis in axes]
        calls = []
        for shape in SHAPES:
            a = sample(dtype, shape, 0.5, 1.5, special=shape == (5, 4))
            calls.append(((a,), [running(row, a, axis) for axis in axes]))
        # What is added up has the size of the largest sum, not that of the result.
        scale = None if dtype not in FLOATS else 4000.0
        agree(row, [x], outputs, calls, accuracy(dtype), what=dtype, scale=scale)
    x = variable("float64", 2, "x")
    for a in (sample("float64", (3, 4), special=False), np.array([[0.0, 2, 0], [3, 0, -1]])):
        for axis in (0, 1, None):
            y = getattr(_core, row)(x, axis)
            agree_gradient(row, y, [x], [a])
            second_gradient(y, x, a)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_cumulative_along_rows_of_any_length(dtype):
    """Each row is what it is alone, to the bit, for any number of rows and threads, both ways."""
    x, w = variable(dtype, 2, "x"), variable(dtype, 2, "w")
    outputs = [T.cumsum(x, 1), T.cumprod(x, 1)]
    if dtype != "int64":  # the other way along the axis
        outputs.append(snug.grad((outputs[0] * w).sum(), x))
    functions = [
        snug.function([x, w], outputs, threads=n, on_unused_input="ignore") for n in (1, 2, 3)
    ]
    random = np.random.default_rng(3)
    tolerance = {"float32": 1.2e-7, "float64": 1e-14, "int64": 0}[dtype]
    for shape in [(5, n) for n in range(1, 35)] + [(3, 1000), (131, 1001), (1, 70001)]:
        a, b = (random.uniform(0.9, 1.1, shape).astype(dtype) for _ in range(2))
        if dtype == "int64":
            a = random.integers(-3, 4, shape)
        results = functions[0](a, b)
        wanted = [running("cumsum", a, 1), running("cumprod", a, 1)]
        if dtype != "int64":
            wanted.append(running("cumsum", b[:, ::-1], 1)[:, ::-1])
        for got, want in zip(results, wanted):
            rtol = tolerance * max(1, shape[1] ** 0.5 / 10)
            np.testing.assert_allclose(got, want, rtol=rtol, atol=np.finfo("float32").tiny)
        for f in functions[1:]:
            for got, want in zip(f(a, b), results):
                np.testing.assert_array_equal(got, want)
        for r in range(0, shape[0], 2):
            for got, want in zip(functions[0](a[r : r + 1], b[r : r + 1]), results):
                np.testing.assert_array_equal(got[0], want[r])


def test_cumulative_sums_of_special_values():
    x = T.fmatrix("x")
    f = snug.function([x], T.cumsum(x, 1))
    zeros = np.full((1, 21), -0.0, "float32")
    assert np.signbit(f(zeros)).all()
    for place in range(21):
        for other in range(place, 21):
            a = np.ones((1, 21), "float32")
            a[0, place], a[0, other] = np.inf, -np.inf
            np.testing.assert_array_equal(f(a), np.cumsum(a, 1))
            a[0, place] = 3e38
            a[0, other] = 3e38
            np.testing.assert_allclose(f(a), np.cumsum(a.astype("float64"), 1).astype("float32"))


def test_cumulative_dtypes():
    for dtype in ALL:
        want = np.cumsum(np.zeros(3, DTYPES[dtype] if dtype != "bfloat16" else "float32")).dtype
        got = T.cumsum(variable(dtype, 1)).dtype
        assert got == (dtype if dtype == "bfloat16" else str(want))
        assert T.cumprod(variable(dtype, 1)).dtype == got


def test_cumulative_of_a_scalar():
    x = T.dscalar()
    np.testing.assert_array_equal(snug.function([x], T.cumsum(x))(3.0), [3.0])


@rows("linear_recurrence")
def test_linear_recurrence(row):
    def numpy(a, b, axis):
        a, b = np.moveaxis(wide(a), axis, 0), np.moveaxis(wide(b), axis, 0)
        y = b.copy()
        for k in range(1, len(b)):
            y[k] = a[k] * y[k - 1] + b[k]
        return np.moveaxis(y, 0, axis)

    for dtype in NUMBERS:
        a, b = variable(dtype, 2, "a"), variable(dtype, 2, "b")
        outputs = [_core.linear_recurrence(a, b, axis) for axis in (0, 1)]
        calls = []
        for shape in SHAPES:
            u = sample(dtype, shape, -0.9, 0.9, special=False)
            v = sample(dtype, shape, special=False, key=1)
            if dtype in INTEGERS:
                kind = "uint64" if dtype.startswith("u") else "int64"
                u, v = (u % 2).astype(dtype), v
                want = [numpy(u.astype(kind), v.astype(kind), axis) for axis in (0, 1)]
            else:
                want = [numpy(u, v, axis) for axis in (0, 1)]
            calls.append(((u, v), want))
        agree(row, [a, b], outputs, calls, accuracy(dtype), what=dtype, scale=40.0)
    a, b = variable("float64", 2, "a"), variable("float64", 2, "b")
    values = [sample("float64", (4, 3), special=False, key=k) for k in (1, 2)]
    for axis in (0, 1):
        agree_gradient(row, _core.linear_recurrence(a, b, axis), [a, b], values)


# ---- sorting


def distinct(shape, dtype="float64"):
    a = np.random.default_rng(3).permutation(int(np.prod(shape))).reshape(shape) * 0.37 - 2
    return a.astype(dtype)


@rows("sort", "argsort")
def test_sort(row):
    for dtype in ALL:
        x = variable(dtype, 2, "x")
        axes = [0, 1, -1, None]
        outputs = [getattr(_core, row)(x, axis) for axis in axes]
        calls = []
        for shape in [*SHAPES, (4, 20)]:
            a = sample(dtype, shape)  # small integers and special values: many are equal
            if shape == (4, 20) and dtype in FLOATS:
                a[:, ::3] = np.array([0.0, -0.0, np.nan, -np.inf]).astype(a.dtype)[:, None]
            order = [
                np.argsort(a if dtype != "bfloat16" else wide(a), axis, kind="stable")
                for axis in axes
            ]
            if row == "sort":
                order = [
                    np.take_along_axis(wide(a), o, axis) if axis is not None else wide(a).ravel()[o]
                    for o, axis in zip(order, axes)
                ]
            calls.append(((a,), order))
        agree(row, [x], outputs, calls, 0, what=dtype)


def test_sort_on_several_threads():
    a = sample("float32", (7, 30000))
    x = T.fmatrix()
    f = snug.function([x], [T.sort(x), T.argsort(x), T.sort(x, 0), T.cumsum(x * 0 + 1, 1)])
    got = f(a)
    np.testing.assert_array_equal(got[0], np.sort(a, 1))
    np.testing.assert_array_equal(got[1], np.argsort(a, 1, kind="stable"))
    np.testing.assert_array_equal(got[2], np.sort(a, 0))
    np.testing.assert_array_equal(got[0].view("u4"), f(a)[0].view("u4"))


@rows("sort")
def test_gradient_of_sort(row):
    for shape in [(6,), (3, 4), (2, 3, 2)]:
        x = variable("float64", len(shape), "x")
        for axis in [None, *range(len(shape))]:
            agree_gradient(row, T.sort(x, axis), [x], [distinct(shape)])
    x = variable("float64", 2, "x")
    second_gradient(T.sort(x, 0), x, distinct((3, 2)))


def test_sort_as_a_method_and_module():
    import snug.tensor.sort
    from snug.tensor.sort import argsort, topk

    x = T.dmatrix()
    a = distinct((3, 4))
    f = snug.function([x], [x.sort(0), x.argsort(), x.argsort(None), T.sort(x), argsort(x, 0)])
    want = [np.sort(a, 0), a.argsort(), a.argsort(None), np.sort(a), a.argsort(0)]
    for got, value in zip(f(a), want):
        np.testing.assert_array_equal(got, value)
    assert T.sort is not None and callable(T.sort) and topk is T.topk
    with pytest.raises(ValueError, match="kind"):
        T.sort(x, kind="bubble")


def first(a, count, axis):
    """The places of the first elements; of equal ones the first comes first."""
    a = wide(a)
    if count > 0 and a.dtype.kind == "f":
        order = np.argsort(np.where(np.isnan(a), -np.inf, -a), axis, kind="stable")
        nan = np.take_along_axis(np.isnan(a), order, axis)
        order = np.take_along_axis(order, np.argsort(~nan, axis, kind="stable"), axis)
    elif count > 0:
        order = np.argsort(~a, axis, kind="stable")  # turns the order of any integers around
    else:
        order = np.argsort(a, axis, kind="stable")
    return np.take(order, range(abs(count)), axis)


@rows("argtopk")
def test_argtopk(row):
    for dtype in ALL:
        x, k = variable(dtype, 2, "x"), T.lscalar("k")
        outputs = [T.argtopk(x, k, 0), T.argtopk(x, k, 1)]
        calls = []
        for shape in [(1, 1), (5, 4), (40, 3), (3, 700)]:
            a = sample(dtype, shape)
            for count in {1, -1, min(shape), -min(shape), 2 if min(shape) > 1 else 1}:
                calls.append(((a, count), [first(a, count, axis) for axis in (0, 1)]))
        agree(row, [x, k], outputs, calls, 0, what=dtype, views=False)


def test_topk():
    a = distinct((5, 7))
    x, k = T.dmatrix("x"), T.lscalar("k")
    for axis in (0, 1, -1, None):
        flat, along = (a.ravel(), 0) if axis is None else (a, axis)
        values, places = T.topk_and_argtopk(x, k, axis)
        outputs = [values, places, T.topk(x, k, axis), T.argtopk(x, k, axis)]
        f = snug.function([x, k], outputs)
        for count in (1, 2, flat.shape[along], -1, -3, -flat.shape[along]):
            got = f(a, count)
            order = first(flat, count, along)
            np.testing.assert_array_equal(got[1], order)
            np.testing.assert_array_equal(got[0], np.take_along_axis(flat, order, along))
            np.testing.assert_array_equal(got[2], got[0])
            np.testing.assert_array_equal(got[3], got[1])
            g = snug.function([x], [T.topk(x, count, axis), T.argtopk(x, count, axis)])
            np.testing.assert_array_equal(g(a)[0], got[0])
            np.testing.assert_array_equal(g(a)[1], got[1])
    for count in (2, -2):
        agree_gradient("argtopk", T.topk(x, count, 0), [x], [distinct((4, 3))])
    assert T.argtopk(x, 2, idx_dtype="int32").dtype == "int32"


def test_topk_of_nan_and_ties():
    x = T.dvector()
    a = np.array([1.0, np.nan, 3, 3, 0])
    values, places = snug.function([x], list(T.topk_and_argtopk(x, 3)))(a)
    np.testing.assert_array_equal(values, [np.nan, 3, 3])
    np.testing.assert_array_equal(places, [1, 2, 3])


def test_topk_of_too_many():
    x, k = T.dvector(), T.lscalar()
    with pytest.raises(ValueError, match="topk"):
        snug.function([x], T.topk(x, 4))(np.zeros(3))
    with pytest.raises(ValueError, match="topk"):
        snug.function([x, k], T.topk(x, k))(np.zeros(3), -4)
    with pytest.raises(ValueError, match="topk"):
        T.topk(x, 0)


def test_median():
    x = T.dmatrix()
    for shape in [(3, 4), (4, 5), (1, 1)]:
        a = sample("float64", shape, special=False)
        a[0, 0] = np.nan if shape == (4, 5) else a[0, 0]
        f = snug.function([x], [T.median(x), T.median(x, 0), T.median(x, 1, True)])
        want = [np.median(a), np.median(a, 0), np.median(a, 1, keepdims=True)]
        for got, value in zip(f(a), want):
            np.testing.assert_allclose(got, value)


# ---- searching and counting


@rows("searchsorted")
def test_searchsorted(row):
    for dtype in ALL:
        x, v = variable(dtype, 1, "x"), variable(dtype, 2, "v")
        outputs = [T.searchsorted(x, v), T.searchsorted(x, v, side="right")]
        calls = []
        for n, shape in [(0, (2, 3)), (1, (0, 2)), (9, (4, 5)), (500, (30, 70))]:
            a = np.sort(wide(sample(dtype, (n,)))).astype(DTYPES[dtype])
            b = sample(dtype, shape, key=1)
            want = [np.searchsorted(wide(a), wide(b), side) for side in ("left", "right")]
            calls.append(((a, b), want))
        agree(row, [x, v], outputs, calls, 0, what=dtype)


def test_searchsorted_forms():
    x, v, s, p = T.dvector(), T.lmatrix(), T.dscalar(), T.lvector()
    a = np.array([3.0, -1, 7, 3])
    order = np.argsort(a, kind="stable")
    f = snug.function([x, v, s, p], [T.searchsorted(x, v, sorter=p), x[p].searchsorted(s, "right")])
    got = f(a, np.array([[3, 0], [9, -1]]), 3.0, order)
    np.testing.assert_array_equal(got[0], np.searchsorted(a, [[3, 0], [9, -1]], sorter=order))
    assert got[1] == 3
    with pytest.raises(ValueError, match="side"):
        T.searchsorted(x, v, side="middle")


def test_bincount():
    for dtype in INTEGERS:
        x, w, n = variable(dtype, 1), T.dvector(), T.lscalar()
        f = snug.function([x, w, n], [T.bincount(x), T.bincount(x, w), T.bincount(x, minlength=n)])
        for a in ([], [0], [3, 1, 3, 0], list(np.arange(500) ** 2 % 97)):
            a = np.array(a, dtype)
            weights = np.arange(len(a)) * 0.5
            want = [np.bincount(a), np.bincount(a, weights), np.bincount(a, minlength=9)]
            for got, value in zip(f(a, weights, 9), want):
                np.testing.assert_array_equal(got, value)
                assert got.dtype == value.dtype or len(a) == 0
    x, w = T.lvector(), T.dvector("w")
    a = np.array([2, 0, 2, 5])
    agree_gradient("scatter_add", T.bincount(x, w), [x, w], [a, np.arange(4.0)])
    with pytest.raises(ValueError, match="bincount: -2 is negative"):
        snug.function([x], T.bincount(x))([1, -2])


def test_unique():
    for dtype in ["bool", "int8", "uint64", "float32", "float64"]:
        x = variable(dtype, 2)
        f = snug.function([x], T.unique(x, True, True, True))
        for shape in [(0, 2), (1, 1), (3, 4), (40, 50)]:
            a = sample(dtype, shape)
            if dtype.startswith("float"):
                a = np.round(a)
                if a.size > 5:
                    a.flat[:3] = np.nan
            values, index, inverse, counts = np.unique(a, True, True, True)
            got = f(a)
            np.testing.assert_array_equal(got[0], values)
            np.testing.assert_array_equal(got[1], index)
            np.testing.assert_array_equal(got[2], inverse.ravel())
            np.testing.assert_array_equal(got[3], counts)
    x = T.dvector()
    y = T.extra_ops.Unique(True, True, False)(x)
    got = snug.function([x], y)([1, 2.0, 3, 4, 3, 2, 1.0])
    for value, want in zip(got, ([1, 2, 3, 4], [0, 1, 2, 3], [0, 1, 2, 3, 2, 1, 0])):
        np.testing.assert_array_equal(value, want)
    assert not isinstance(T.extra_ops.Unique()(x), list)


def test_gradient_of_unique():
    x = T.dvector()
    a = np.array([3.0, 1, 3, 2])
    g = snug.function([x], T.grad((T.unique(x) * T.arange(3)).sum(), x))(a)
    np.testing.assert_array_equal(g, [2, 0, 0, 1])


# ---- repeat


def test_repeat():
    x, n, v = T.dtensor3("x"), T.lscalar("n"), T.lvector("v")
    a = sample("float64", (2, 3, 4), special=False)
    for axis in (0, 1, 2, -1, None):
        size = a.size if axis is None else a.shape[axis]
        counts = np.arange(size) % 3
        f = snug.function(
            [x, n, v], [T.repeat(x, n, axis), T.repeat(x, v, axis), x.repeat(2, axis)]
        )
        for k in (0, 1, 3):
            got = f(a, k, counts)
            for value, want in zip(got, (k, counts, 2)):
                np.testing.assert_array_equal(value, np.repeat(a, want, axis))
        agree_gradient("searchsorted", T.repeat(x, v, axis), [x, v], [a, counts])
        agree_gradient("broadcast_to", T.repeat(x, 3, axis), [x], [a])
    f = snug.function([x, v], T.repeat(x, v, 0))
    np.testing.assert_array_equal(f(a, [0, 0]), a[:0])
    with pytest.raises(ValueError, match="repeat"):
        f(a, [1, 2, 3])
    with pytest.raises(ValueError, match="repeat: -1 is negative"):
        f(a, [1, -1])
    with pytest.raises(TypeError, match="repeat"):
        T.repeat(x, T.dvector(), 0)


# ---- in slices of a batch


def test_micro_batches():
    """Along other axes the rows of a batch stay independent; along its own they do not."""
    x, v = T.fmatrix("x"), T.fvector("v")
    a, grid = sample("float32", (64, 50), special=False), np.linspace(-3, 3, 20, dtype="float32")
    y = [T.cumsum(T.sort(x, 1), 1), T.argsort(x, 1), T.searchsorted(v, x), T.cumprod(x, 1)]
    y.append(T.argtopk(x, 3, 1))
    whole = snug.function([x, v], y)(a, grid)
    parts = snug.function([x, v], y, micro_batches=4)(a, grid)
    for got, want in zip(parts, whole):
        np.testing.assert_array_equal(got, want)
    for name, mixed in [
        ("sort", T.sort(x, 0)),
        ("argsort", T.argsort(x, 0)),
        ("argtopk", T.argtopk(x, 2, 0)),
        ("cumsum", T.cumsum(x, 0)),
        ("cumprod", T.cumprod(x, 0)),
    ]:
        with pytest.raises(ValueError, match=f"micro_batches: {name} needs several rows"):
            snug.function([x], mixed, micro_batches=2)
