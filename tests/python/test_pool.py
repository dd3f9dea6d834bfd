"""Pooling against windows cut out by hand."""

import itertools

import numpy as np
import pytest

import snug
import snug.tensor as T
from conformance import (
    FLOATS,
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
from snug.tensor.signal.pool import Pool, max_pool_2d_same_size, pool_2d, pool_3d

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def window_count(size, window, stride, low, high, ignore_border):
    """How many windows there are, found by trying."""
    padded = size + low + high
    if ignore_border:
        return len([k for k in range(padded) if k * stride + window <= padded])
    starts = [k for k in range(padded) if k * stride < padded]
    if stride < window:  # no window that begins where another one has seen the end
        starts = [k for k in starts if k == 0 or (k - 1) * stride + window < padded]
    return len(starts)


def windows(a, window, stride, pad, ignore_border):
    """The places of all windows: (index of the window, slices of a, cells with padding)."""
    first = a.ndim - len(window)
    counts = [
        window_count(a.shape[first + k], w, stride[k], pad[2 * k], pad[2 * k + 1], ignore_border)
        for k, w in enumerate(window)
    ]
    for at in itertools.product(*map(range, counts)):
        cuts, starts, padded = [], [], 1
        for k, (i, w) in enumerate(zip(at, window)):
            size = a.shape[first + k]
            start = i * stride[k] - pad[2 * k]
            cuts.append(slice(max(start, 0), min(start + w, size)))
            starts.append(max(start, 0) - start)
            padded *= min(start + w, size + pad[2 * k + 1]) - start
        yield at, tuple(cuts), starts, padded, counts


def pooled(a, window, stride, pad, ignore_border, mode):
    """The result and, of maxima, the cells they are in."""
    values, cells = None, None
    for at, cuts, starts, padded, counts in windows(a, window, stride, pad, ignore_border):
        part = a[(..., *cuts)]
        size = part.shape[a.ndim - len(window) :]
        flat = part.reshape(*a.shape[: a.ndim - len(window)], -1)
        if values is None:
            values = np.zeros((*flat.shape[:-1], *counts), a.dtype)
            cells = np.zeros(values.shape, "int64")
        if mode == "max":
            best = np.argmax(flat, -1)
            values[(..., *at)] = np.take_along_axis(flat, best[..., None], -1)[..., 0]
            places = np.unravel_index(best, size)
            shifted = [p + s for p, s in zip(places, starts)]
            cells[(..., *at)] = np.ravel_multi_index(shifted, window)
        else:
            by = {"sum": 1, "average_inc_pad": padded, "average_exc_pad": flat.shape[-1]}[mode]
            values[(..., *at)] = flat.sum(-1) / by
    return values, cells


def unpooled(dy, cells, shape, window, stride, pad, ignore_border):
    out = np.zeros(shape)
    for at in np.ndindex(dy.shape):
        cell = np.unravel_index(cells[at], window)
        first = dy.ndim - len(window)
        place = [at[first + k] * stride[k] - pad[2 * k] + cell[k] for k in range(len(window))]
        out[(*at[:first], *place)] += dy[at]
    return out


GEOMETRY = [  # shape, window, stride, pad, ignore_border
    ((2, 3, 6, 8), (2, 2), (2, 2), (0, 0, 0, 0), True),
    ((2, 3, 7, 9), (2, 3), (2, 2), (0, 0, 0, 0), True),
    ((2, 2, 7, 9), (3, 2), (2, 3), (0, 0, 0, 0), False),
    ((2, 2, 7, 8), (3, 3), (2, 2), (1, 1, 1, 1), True),
    ((1, 2, 5, 6), (3, 4), (1, 1), (2, 0, 1, 3), True),
    ((2, 1, 1, 2), (3, 3), (2, 2), (0, 0, 0, 0), False),
    ((2, 3, 40), (5,), (3,), (2, 1), True),
    ((2, 4, 5, 6, 7), (2, 3, 2), (2, 1, 2), (0, 1, 1, 1, 0, 0), True),
    ((1, 1, 20, 21), (17, 16), (3, 2), (0, 0, 0, 0), True),
    ((4, 5), (2, 2), (1, 1), (0, 0, 0, 0), True),
]
MODES = ["average_inc_pad", "average_exc_pad", "sum"]


def applied(x, window, stride, pad, ignore_border, mode="max"):
    return _core.pool(x, window, stride, pad, ignore_border, mode)


def outputs_of(y):
    return list(y.owner.outputs)


@rows("max_pool")
def test_max_pool(row):
    for shape, *geometry in GEOMETRY:
        few = ["int8", "uint64", "float16", "float64"]
        for dtype in NUMBERS if shape == (2, 2, 7, 8) else few:
            x = variable(dtype, len(shape), "x")
            a = sample(dtype, shape)
            values, cells = pooled(a, *geometry, "max")
            y = outputs_of(applied(x, *geometry))
            assert y[1].dtype == ("uint8" if np.prod(geometry[0]) <= 256 else "int32")
            agree(row, [x], y, [((a,), [wide(values), cells])], 0, what=f"{dtype} {geometry}")
        x, a = variable("float64", len(shape), "x"), sample("float64", shape, special=False)
        if a.size < 200:
            agree_gradient(row, applied(x, *geometry), [x], [a])
    none = np.zeros((0, 3, 6, 8))
    x = T.dtensor4("x")
    f = snug.function([x], pool_2d(x, (2, 2), True))
    assert f(none).shape == (0, 3, 3, 4)


def test_nan_and_ties():
    x = T.dmatrix("x")
    a = np.array([[1.0, np.nan, 2, 2], [5, np.nan, 2, 1], [-np.inf, -np.inf, 0, -0.0]])
    y = outputs_of(_core.pool(x, (1, 2)))
    values, cells = snug.function([x], y)(a)
    np.testing.assert_array_equal(values, [[np.nan, 2], [np.nan, 2], [-np.inf, 0]])
    np.testing.assert_array_equal(cells, [[1, 0], [1, 0], [0, 0]])
    gradient = T.grad(_core.pool(x, (3, 4)).sum(), x)
    found = snug.function([x], gradient)(np.ones((3, 4)))
    assert found[0, 0] == 1 and found.sum() == 1


@rows("max_unpool", "max_pool_take")
def test_unpool_and_take(row):
    for (shape, *geometry), dtype in itertools.product(GEOMETRY, FLOATS):
        x, dx = (variable(dtype, len(shape), name) for name in ("x", "dx"))
        a = sample(dtype, shape, special=False)
        values, cells = pooled(a, *geometry, "max")
        what = f"{dtype} {geometry}"
        if row == "max_unpool":
            dy = variable(dtype, len(shape), "dy")
            b = sample(dtype, values.shape, special=False, key=1)
            gradient = T.Lop(applied(x, *geometry), x, dy)
            want = unpooled(wide(b), cells, shape, *geometry)
            calls = [((a, b), want)]
            agree(row, [x, dy], gradient, calls, accuracy(dtype), what=what, scale=16.0)
            if dtype == "float64" and a.size < 100:
                fixed = snug.clone(gradient, {x: T.constant(a)})
                agree_gradient(row, fixed, [dy], [b])
        else:
            # The gradient of the gradient takes the other tensor's elements at the places of x's.
            dy = variable(dtype, len(shape), "dy")
            taken = T.Lop(T.Lop(applied(x, *geometry), x, dy), dy, dx)
            b = sample(dtype, shape, special=False, key=2)
            want = np.zeros(values.shape)
            first = len(shape) - len(geometry[0])
            for at in np.ndindex(values.shape):
                cell = np.unravel_index(cells[at], geometry[0])
                place = [
                    at[first + k] * geometry[1][k] - geometry[2][2 * k] + cell[k]
                    for k in range(len(cell))
                ]
                want[at] = wide(b)[(*at[:first], *place)]
            zero = np.zeros(values.shape, a.dtype)
            agree(row, [x, dx, dy], taken, [((a, b, zero), want)], 0, what=what)
            if dtype == "float64" and a.size < 100:
                fixed = snug.clone(taken, {x: T.constant(a), dy: T.constant(zero)})
                agree_gradient(row, fixed, [dx], [b])


@rows("average_pool", "average_pool_grad")
def test_average_pool(row):
    for (shape, *geometry), mode, dtype in itertools.product(GEOMETRY, MODES, FLOATS):
        if dtype not in ("float32", "float64") and mode == "average_inc_pad":
            continue
        x = variable(dtype, len(shape), "x")
        a = sample(dtype, shape, special=False)
        cells = int(np.prod(geometry[0]))
        ulps, what = cells + accuracy(dtype), f"{dtype} {geometry} {mode}"
        want = pooled(wide(a), *geometry, mode)[0]
        y = applied(x, *geometry, mode)
        if row == "average_pool":
            agree(row, [x], y, [((a,), want)], ulps, what=what, scale=4.0)
            continue
        dy = variable(dtype, len(shape), "dy")
        b = sample(dtype, want.shape, special=False, key=1)
        # The adjoint: <b, pool(e)> for every unit vector e.
        if np.prod(shape) < 500 and dtype != "float16":
            units = np.eye(a.size).reshape(a.size, *shape)
            parts = pooled(units, *geometry, mode)[0].reshape(a.size, -1)
            gradient = (parts @ wide(b).ravel()).reshape(shape)
            calls = [((a, b), gradient)]
            agree(row, [x, dy], T.Lop(y, x, dy), calls, ulps, what=what, scale=4.0)
        if dtype == "float64" and np.prod(shape) < 150:
            agree_gradient("average_pool", y, [x], [a])


def test_large_images():
    """More than one thread takes, and rows that are vectors."""
    x = T.ftensor4("x")
    a = sample("float32", (2, 3, 65, 130), special=False)
    for geometry in [((2, 2), (2, 2), (0, 0, 0, 0), True), ((3, 3), (1, 1), (1, 1, 1, 1), True)]:
        y = applied(x, *geometry)
        mean = applied(x, *geometry, "average_exc_pad")
        outputs = [y, mean, T.grad((y * y).sum(), x), T.grad((mean * mean).sum(), x)]
        fast = snug.function([x], outputs)(a)
        slow = snug.function([x], outputs, mode="reference")(a)
        for got, want in zip(fast, slow):
            np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


def test_theano_arguments():
    x, a = T.dtensor4("x"), sample("float64", (2, 3, 5, 7), special=False)

    def check(y, *geometry, mode="max"):
        np.testing.assert_allclose(y.eval({x: a}), pooled(a, *geometry, mode)[0], rtol=1e-14)

    none = (0, 0, 0, 0)
    check(pool_2d(x, (2, 2)), (2, 2), (2, 2), none, False)
    check(pool_2d(x, ws=[2, 3], ignore_border=True), (2, 3), (2, 3), none, True)
    check(pool_2d(x, ds=(2, 2), st=(1, 2)), (2, 2), (1, 2), none, False)
    check(pool_2d(x, (3, 3), True, (2, 2), (1, 2)), (3, 3), (2, 2), (1, 1, 2, 2), True)
    check(pool_2d(x, (3, 3), True, padding=(1, 1)), (3, 3), (3, 3), (1, 1, 1, 1), True)
    check(pool_2d(x, np.array([2, 2]), mode="sum"), (2, 2), (2, 2), none, False, mode="sum")
    check(pool_2d(x, T.constant([2, 2])), (2, 2), (2, 2), none, False)
    for mode in MODES:
        check(
            pool_2d(x, (3, 2), True, (2, 2), (1, 1), mode),
            *((3, 2), (2, 2), (1, 1, 1, 1), True),
            mode=mode,
        )
    check(pool_3d(x, (2, 2, 2), True), (2, 2, 2), (2, 2, 2), (0,) * 6, True)
    same = max_pool_2d_same_size(x, (2, 2)).eval({x: a})
    kept, cells = pooled(a, (2, 2), (2, 2), none, True, "max")
    np.testing.assert_array_equal(same, unpooled(kept, cells, a.shape, (2, 2), (2, 2), none, True))
    assert T.signal.downsample.max_pool_2d is pool_2d
    for ws, stride, border in itertools.product([(2, 2), (3, 2)], [None, (1, 3)], [True, False]):
        y = Pool(border)(x, ws, stride)
        shape = Pool.out_shape((2, 3, 5, 7), ws, border, stride)
        assert tuple(shape) == y.eval({x: a}).shape
        symbolic = T.stack(Pool.out_shape([*x.shape], ws, border, stride))
        np.testing.assert_array_equal(symbolic.eval({x: a}), shape)
    assert isinstance(y.owner.op, Pool)
    integers = pool_2d(T.itensor4("i"), (2, 2), mode="average_inc_pad")
    assert integers.dtype == "float64"
    for wrong in [
        lambda: pool_2d(x),
        lambda: pool_2d(x, (2, 2), ds=(2, 2)),
        lambda: pool_2d(x, (2, 2), stride=(1, 1), st=(2, 2)),
        lambda: pool_2d(x, (2, 2), pad=(1, 1), padding=(1, 1)),
        lambda: pool_2d(x, (2, 2, 2)),
        lambda: pool_2d(x, (2, 2), mode="maximum"),
        lambda: pool_2d(x, (2, 2), True, pad=(2, 0)),
        lambda: pool_2d(x, (2, 0)),
    ]:
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(NotImplementedError):
        pool_2d(T.dvector(), (2, 2))
    with pytest.raises(TypeError, match="known when the expression is built"):
        pool_2d(x, T.dvector())


def test_micro_batches():
    x = T.ftensor4("x")
    a = sample("float32", (12, 2, 9, 8), special=False)
    y = [pool_2d(x, (2, 2), True), pool_2d(x, (3, 3), False, (2, 2), mode="average_exc_pad")]
    y += [T.grad(T.sqr(pool_2d(x, (3, 3), True, (1, 1))).sum(), x), T.grad((y[1] ** 2).sum(), x)]
    cells = outputs_of(y[0])[1]
    whole = snug.function([x], [*y, cells])(a)
    parts = snug.function([x], [*y, cells], micro_batches=4)(a)
    for got, want in zip(parts, whole):
        np.testing.assert_array_equal(got, want)
    with pytest.raises(ValueError, match="micro_batches: max_pool needs several rows"):
        snug.function([x], _core.pool(x.dimshuffle(1, 2, 0, 3), (2, 2)), micro_batches=2)


def test_sizes_that_only_a_call_knows():
    """They give what known sizes give, gradients included."""
    for (shape, window, stride, pad, ignore_border), mode in itertools.product(
        GEOMETRY, ["max", *MODES]
    ):
        if pad[::2] != pad[1::2]:  # Theano has one pad per axis
            continue
        for dtype in ("float64", "float32", "int16", "uint8") if mode == "max" else ("float64",):
            x, a = variable(dtype, len(shape), "x"), sample(dtype, shape, special=False)
            sizes = T.lvector("sizes")
            count = len(window)
            parts = [[sizes[k * count + i] for i in range(count)] for k in range(3)]
            y = _core.pool_of_sizes(x, *parts, ignore_border, mode)
            outputs = [y] if dtype != "float64" else [y, T.grad((y**2).sum(), x)]
            f = snug.function([x, sizes], outputs)
            known = _core.pool(x, window, stride, pad, ignore_border, mode)
            wanted = [known] if dtype != "float64" else [known, T.grad((known**2).sum(), x)]
            want = snug.function([x], wanted)(a)
            got = f(a, np.array([*window, *stride, *pad[::2]]))
            for g, w in zip(got, want):
                assert g.dtype == w.dtype
                np.testing.assert_allclose(g, w, rtol=1e-6, err_msg=f"{dtype} {mode} {window}")


def test_windows_of_a_pyramid():
    """As Lasagne's spatial pyramid: sizes are made of the sizes of the images."""
    x = T.dtensor4("x")
    windows = tuple((s + 1) // 2 for s in x.shape[2:])
    y = pool_2d(x, ws=windows, stride=tuple(s // 2 for s in x.shape[2:]), pad=None)
    f = snug.function([x], [y, *y.shape])
    for rows_, columns in ((4, 6), (5, 7)):
        a = sample("float64", (2, 3, rows_, columns), special=False)
        got, *shape = f(a)
        known = pool_2d(x, ((rows_ + 1) // 2, (columns + 1) // 2), None, (rows_ // 2, columns // 2))
        np.testing.assert_array_equal(got, snug.function([x], known)(a))
        assert tuple(shape) == got.shape
    vector = T.ivector("window")
    f = snug.function([x, vector], pool_2d(x, vector, True, mode="sum"))
    a = np.ones((1, 1, 4, 6))
    assert f(a, np.array([2, 3], "int32")).tolist() == [[[[6, 6], [6, 6]]]]
    for wrong in ([0, 1], [-1, 2], [5, 1]):
        with pytest.raises(Exception, match="pool: the window, its stride and its pad do not go"):
            f(a, np.array(wrong, "int32"))
    with pytest.raises(TypeError, match="must be known when the expression is built"):
        max_pool_2d_same_size(x, vector)


# ---- the index that nobody reads

RULE = "max_pool(x)[0] -> max_pool(x, without_index)[0]"


@pytest.mark.parametrize("layout", ["channels_last", "plain"])
def test_inference_writes_no_index(layout):
    """The maxima are the same, and the plan is smaller by the index."""
    x = T.tensor4("x")
    pooled = T.signal.pool.pool_2d(x, (2, 2), ignore_border=True)
    if layout == "channels_last":
        w = snug.shared(np.random.default_rng(1).normal(size=(16, 16, 1, 1)).astype("float32"))
        pooled = T.signal.pool.pool_2d(T.nnet.conv2d(x, w), (2, 2), ignore_border=True)
    out = T.tanh(pooled)
    with_index = snug.function([x], out, disabled_passes=["pool_without_index"])
    without = snug.function([x], out)
    shape = (4, 16, 32, 32)
    saved = with_index.memory(x=shape).peak - without.memory(x=shape).peak
    assert saved >= (4 * 16 * 16 * 16 if layout == "plain" else 0)  # the peak is at the convolution
    assert RULE in without.explain() and RULE not in with_index.explain()
    data = np.random.default_rng(0).normal(size=shape).astype("float32")
    data[0, 0, :4, :4] = np.nan
    data[1, 1, :4, :4] = -np.inf
    np.testing.assert_array_equal(without(data), with_index(data))
    np.testing.assert_array_equal(snug.function([x], out, mode="check")(data), without(data))
    np.testing.assert_array_equal(snug.function([x], out, micro_batches=2)(data), without(data))


def test_gradients_keep_the_index():
    x = T.tensor4("x")
    pooled = T.signal.pool.pool_2d(x, (2, 2), ignore_border=True)
    f = snug.function([x], [pooled, snug.grad((pooled**2).sum(), x)])
    data = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
    value, gradient = f(data)
    assert gradient.sum() == 2 * value.sum() and (gradient != 0).sum() == 4
    assert RULE not in f.explain()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
@pytest.mark.parametrize("size", [(3, 3), (20, 20)])
def test_maxima_of_all_types_without_an_index(dtype, size):
    x = T.TensorType(dtype, (False,) * 4)("x")
    out = T.signal.pool.pool_2d(x, size, ignore_border=False, stride=(2, 1), pad=(1, 1))
    data = np.random.default_rng(0).integers(0, 200, (2, 3, 24, 21)).astype(dtype)
    with_index = snug.function([x], out, disabled_passes=["pool_without_index"])
    np.testing.assert_array_equal(snug.function([x], out)(data), with_index(data))
