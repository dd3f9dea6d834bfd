"""Results have the same bits for any number of threads."""

import numpy as np
import pytest

import snug
import snug.tensor as T

THREADS = (1, 2, 3)


def variables(arrays):
    return [T.TensorType(str(a.dtype), (False,) * a.ndim)() for a in arrays]


def agree(build, *arrays):
    """`build(*variables)` gives expressions, whose values do not depend on the threads."""
    inputs = variables(arrays)
    outputs = build(*inputs)
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    first = None
    for threads in THREADS:
        f = snug.function(inputs, outputs, threads=threads)
        for _ in range(2):  # the second call finds threads awake
            got = [np.asarray(v).tobytes() for v in f(*arrays)]
            first = first or got
            assert got == first, f"{threads} threads"


def normal(dtype, *shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def with_gradients(build):
    def all_of(*variables):
        y = build(*variables)
        floats = [v for v in variables if "float" in v.dtype]
        return [y, *T.grad(T.sum(T.sin(y)), floats)]

    return all_of


FLOATS = pytest.mark.parametrize("dtype", ["float32", "float64"])

# images, filters, border, stride
CONVOLUTIONS = [
    ((1, 1, 9, 11), (1, 1, 3, 3), "half", 1),
    ((33, 3, 9, 11), (8, 3, 3, 3), "valid", 1),
    ((8, 64, 28, 28), (64, 64, 3, 3), "half", 1),
    ((2, 512, 7, 7), (512, 512, 3, 3), "half", 1),
    ((1, 64, 56, 56), (64, 64, 3, 3), "half", 1),
    ((4, 256, 14, 14), (64, 256, 1, 1), "valid", 1),
    ((4, 128, 28, 28), (256, 128, 1, 1), "valid", 2),
    ((4, 3, 64, 64), (64, 3, 7, 7), "half", 2),
    ((7, 1, 40, 60), (20, 1, 3, 60), "valid", 1),
    ((2, 1, 100, 100), (64, 1, 3, 3), "half", 1),
]


@FLOATS
@pytest.mark.parametrize("images, filters, border, stride", CONVOLUTIONS)
def test_convolutions(dtype, images, filters, border, stride):
    def build(x, w):
        return T.nnet.conv2d(x, w, border_mode=border, subsample=(stride, stride))

    agree(with_gradients(build), normal(dtype, *images), normal(dtype, *filters, seed=2))


@FLOATS
def test_convolutions_by_channel(dtype):
    def build(x, w):
        return T.nnet.conv2d(x, w, border_mode="half", num_groups=96)

    agree(with_gradients(build), normal(dtype, 8, 96, 28, 28), normal(dtype, 96, 1, 3, 3, seed=2))


PRODUCTS = [
    (7, 33, 16),
    (100, 100, 100),
    (1, 4096, 1000),
    (1000, 2000, 1),
    (300, 257, 65),
    (17, 20000, 17),
    (512, 512, 512),
    (128, 768, 3072),
    (2000, 50, 10),
    (16, 300, 5000),
    (129, 1000, 1001),
]


@FLOATS
@pytest.mark.parametrize("m, k, n", PRODUCTS)
def test_products(dtype, m, k, n):
    a, b = normal(dtype, m, k), normal(dtype, k, n, seed=2)
    bias = normal(dtype, n, seed=3)
    agree(lambda a, b, c: [T.dot(a, b), T.nnet.relu(T.dot(a, b) + c)], a, b, bias)
    agree(lambda at, b: T.dot(at.T, b), np.ascontiguousarray(a.T), b)
    agree(lambda a, bt: T.dot(a, bt.T), a, np.ascontiguousarray(b.T))


@FLOATS
@pytest.mark.parametrize("batches", [1, 3, 64])
def test_batched_products(dtype, batches):
    a, b = normal(dtype, batches, 90, 70), normal(dtype, batches, 70, 130, seed=2)
    agree(T.batched_dot, a, b)


@FLOATS
@pytest.mark.parametrize("shape", [(1000, 1000), (3, 300000), (300000, 3), (1, 10**6), (40, 9)])
def test_reductions(dtype, shape):
    def build(m):
        sums = [f(m, axis=a) for f in (T.sum, T.var, T.max, T.argmax) for a in (0, 1)]
        return [*sums, m.sum(), T.exp(m).mean(), m.prod(), T.nnet.softmax(m)]

    agree(build, normal(dtype, *shape))


@FLOATS
def test_middle_axes(dtype):
    agree(lambda x: [x.sum(1), x.mean((0, 2)), x.max(1)], normal(dtype, 30, 200, 50))


@FLOATS
@pytest.mark.parametrize("shape", [(1000, 500), (7, 100000), (100000, 7)])
def test_along_axes(dtype, shape):
    def build(m):
        each = [f(m, axis=a) for f in (T.cumsum, T.sort, T.argsort) for a in (0, 1)]
        return [*each, m.T + 1, T.concatenate([m, m], 0), m[::-1, ::2]]

    agree(build, normal(dtype, *shape))


@FLOATS
def test_indices(dtype):
    rng = np.random.default_rng(1)
    table, rows = normal(dtype, 1000, 300), rng.integers(0, 1000, 5000)
    values = normal(dtype, 5000, 300, seed=2)

    def build(t, i, v):
        return [t[i], T.inc_subtensor(t[i], v), T.set_subtensor(t[::2], 0 * t[::2])]

    agree(build, table, rows, values)


@FLOATS
@pytest.mark.parametrize("mode", ["max", "average_exc_pad"])
def test_pools(dtype, mode):
    def build(x):
        return T.signal.pool.pool_2d(x, (2, 2), ignore_border=True, mode=mode)

    agree(with_gradients(build), normal(dtype, 16, 32, 28, 28))


@FLOATS
def test_linear_algebra(dtype):
    a = normal(dtype, 300, 300) + 20 * np.eye(300, dtype=dtype)
    agree(
        lambda a: [
            T.nlinalg.matrix_inverse(a),
            T.slinalg.cholesky(T.dot(a, a.T)),
            T.nlinalg.svd(a, compute_uv=False),
            T.slinalg.solve(a, a[:, :7]),
        ],
        a,
    )


def test_fourier_transforms():
    agree(lambda x: T.fft.rfft(x), normal("float32", 500, 1024))


def test_training_step():
    """A network as people train it; the second step reads what the first one wrote."""
    rng = np.random.default_rng(1)
    images, labels = rng.random((64, 1, 28, 28), np.float32), rng.integers(0, 10, 64)

    def train(threads):
        x, y = T.tensor4("x", dtype="float32"), T.lvector("y")
        shapes = [(16, 1, 3, 3), (32, 16, 3, 3), (1568, 64), (64, 10)]
        params = [snug.shared(0.05 * normal("float32", *s, seed=k)) for k, s in enumerate(shapes)]
        h = x
        for w in params[:2]:
            h = T.nnet.relu(T.nnet.conv2d(h, w, border_mode="half"))
            h = T.signal.pool.pool_2d(h, (2, 2), ignore_border=True)
        h = T.nnet.relu(T.dot(h.flatten(2), params[2]))
        loss = T.nnet.categorical_crossentropy(T.nnet.softmax(T.dot(h, params[3])), y).mean()
        updates = [(p, p - 0.1 * g) for p, g in zip(params, T.grad(loss, params), strict=True)]
        step = snug.function([x, y], loss, updates=updates, threads=threads)
        losses = [float(step(images, labels)) for _ in range(3)]
        return losses, [p.get_value().tobytes() for p in params]

    results = [train(threads) for threads in THREADS]
    assert results[1] == results[0]
    assert results[2] == results[0]


@pytest.mark.parametrize("shape", [(100000, 10), (200000, 3), (300, 5000), (7, 200000)])
@pytest.mark.parametrize("expression", ["x.T + 1", "tanh(x.T)", "x * arange", "x.T * row"])
def test_transposes_and_short_rows_are_cut_along_the_longer_axis(shape, expression):
    x, v = T.fmatrix(), T.fvector()
    random = np.random.default_rng(1)
    a = random.standard_normal(shape).astype("float32")
    row = random.standard_normal(shape[0]).astype("float32")
    made, expected = {
        "x.T + 1": (x.T + 1, a.T + 1),
        "tanh(x.T)": (T.tanh(x.T), np.tanh(a.T)),
        "x * arange": (x * T.arange(x.shape[1]), a * np.arange(shape[1])),
        "x.T * row": (x.T * v, a.T * row),
    }[expression]
    results = [
        snug.function([x, v], made, threads=n, on_unused_input="ignore")(a, row) for n in (1, 2, 3)
    ]
    np.testing.assert_allclose(results[0], expected, rtol=1e-5)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
