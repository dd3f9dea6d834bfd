"""Building expressions: dtypes, broadcasting, shapes, indexing; and their values against NumPy."""

import inspect
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import snug
import snug.tensor as T

f32 = "float32"


def rand(*shape, dtype=f32, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def value(expression, given=None):
    result = expression.eval(given or {})
    assert type(result) is np.ndarray
    return result


def check(expression, given, expected, rtol=1e-5, atol=1e-6):
    """The expression has the value and dtype that NumPy says, and the type it promised."""
    result = value(expression, given)
    expected = np.asarray(expected)
    assert result.dtype == np.dtype(expression.dtype)
    assert result.shape == expected.shape
    np.testing.assert_allclose(
        result.astype("float64"), expected.astype("float64"), rtol=rtol, atol=atol
    )


# ---- dtypes


@pytest.mark.parametrize(
    "build, dtype",
    [
        (lambda: T.ivector() * T.fvector(), "float64"),
        (lambda: T.bvector() * T.fvector(), "float32"),
        (lambda: T.wvector() + T.fvector(), "float32"),
        (lambda: T.fvector() + 1.0, "float32"),
        (lambda: T.fvector() + 1, "float32"),
        (lambda: T.fvector() + np.float64(1), "float64"),
        (lambda: T.fvector() + np.array(1.0), "float64"),
        (lambda: T.fvector() + np.float32(1), "float32"),
        (lambda: T.ivector() + 1.0, "float64"),
        (lambda: T.bvector() + 1000, "int16"),
        (lambda: T.bvector() + 1, "int8"),
        (lambda: T.ivector() / T.ivector(), "float32"),
        (lambda: T.ivector() // T.ivector(), "int32"),
        (lambda: T.ivector() < T.fvector(), "bool"),
        (lambda: T.eq(T.ivector(), 1), "bool"),
        (lambda: T.eq(T.ivector(), 1).sum(), "int64"),
        (lambda: T.ivector().sum(), "int64"),
        (lambda: T.fvector().sum(), "float32"),
        (lambda: T.ivector().mean(), "float64"),
        (lambda: T.eq(T.ivector(), 1).mean(), "float64"),
        (lambda: T.fvector().mean(), "float32"),
        (lambda: T.fvector().argmax(), "int64"),
        (lambda: T.fvector().shape, "int64"),
        (lambda: T.arange(3), "int64"),
        (lambda: T.arange(T.iscalar()), "int64"),
        (lambda: T.exp(T.ivector()), "float64"),
        (lambda: T.exp(T.bvector()), "float32"),
        (lambda: T.fvector().astype("int8"), "int8"),
        (lambda: T.cast(T.fvector(), "floatX"), "float32"),
        (lambda: T.zeros((2, 3)), "float32"),
        (lambda: T.ones((2,), dtype="int32"), "int32"),
        (lambda: T.switch(T.eq(T.ivector(), 1), 1.0, 0), "float32"),
    ],
)
def test_dtypes(build, dtype):
    assert build().dtype == dtype


def test_upcast():
    assert T.upcast("int32", "float32") == "float64"
    assert T.upcast("int8", "int8", "int16") == "int16"


# ---- broadcasting


def test_broadcastable_patterns():
    m, r, c, v = T.matrix(), T.row(), T.col(), T.vector()
    assert (m + r).broadcastable == (False, False)
    assert (r + r).broadcastable == (True, False)
    assert (r + c).broadcastable == (False, False)
    assert (m + v).broadcastable == (False, False)
    assert m.sum(axis=1, keepdims=True).broadcastable == (False, True)
    assert v.dimshuffle("x", 0).broadcastable == (True, False)
    assert v.dimshuffle(("x", 0, "x")).broadcastable == (True, False, True)
    assert m.reshape((1, -1)).broadcastable == (True, False)
    assert r.T.broadcastable == (False, True)
    assert v[None, :].broadcastable == (True, False)
    assert snug.shared(np.ones((1, 3))).broadcastable == (False, False)
    assert snug.shared(np.ones((1, 3)), broadcastable=(True, False)).broadcastable == (True, False)
    assert T.shape_padleft(v, 2).broadcastable == (True, True, False)
    assert T.shape_padright(v).broadcastable == (False, True)
    assert T.shape_padaxis(m, 1).broadcastable == (False, True, False)
    assert T.addbroadcast(m, 0).broadcastable == (True, False)
    assert T.unbroadcast(r, 0).broadcastable == (False, False)
    assert T.patternbroadcast(r, (False, True)).broadcastable == (False, True)
    assert T.squeeze(r).ndim == 1


def test_broadcasting_is_static():
    x, y = T.vectors("xy")
    f = snug.function([x, y], x + y)
    with pytest.raises(ValueError):
        f(np.ones(3, f32), np.ones(1, f32))
    r = T.frow("r")
    g = snug.function([x, r], x + r)
    with pytest.raises(TypeError):
        g(np.ones(3, f32), np.ones((2, 3), f32))
    np.testing.assert_array_equal(g(np.ones(3, f32), np.ones((1, 3), f32)), 2 * np.ones((1, 3)))


# ---- elementwise


UNARY = {
    "exp": np.exp,
    "expm1": np.expm1,
    "sqrt": lambda a: np.sqrt(np.abs(a)),
    "log": lambda a: np.log(np.abs(a)),
    "log1p": lambda a: np.log1p(np.abs(a)),
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "arctan": np.arctan,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "abs_": np.abs,
    "sgn": np.sign,
    "sqr": np.square,
    "neg": np.negative,
    "inv": np.reciprocal,
    "isnan": np.isnan,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    x = T.matrix("x")
    a = rand(3, 4)
    argument = T.abs_(x) if name in ("sqrt", "log", "log1p") else x
    check(getattr(T, name)(argument), {x: a}, UNARY[name](a))


def test_binary_operators():
    x, y = T.matrices("xy")
    a, b = rand(3, 4), np.abs(rand(3, 4, seed=1)) + 0.5
    cases = [
        (x + y, a + b),
        (x - y, a - b),
        (x * y, a * b),
        (x / y, a / b),
        (x // y, a // b),
        (x % y, a % b),
        (y**x, b**a),
        (2 - x + y, 2 - a + b),
        (3 / y + x, 3 / b + a),
        (-x + abs(y), -a + abs(b)),
        (T.maximum(x, y), np.maximum(a, b)),
        (T.minimum(x, y), np.minimum(a, b)),
        (T.switch(x > y, x, y), np.maximum(a, b)),
        (T.clip(x, -0.5, 0.5) + 0 * y, np.clip(a, -0.5, 0.5)),
        (x < y, a < b),
        (x >= y, a >= b),
        (T.eq(x, y), a == b),
        (T.neq(x, y), a != b),
        ((x > 0) & (y > 1), (a > 0) & (b > 1)),
        ((x > 0) | (y > 1), (a > 0) | (b > 1)),
        (~(x > y), ~(a > b)),
    ]
    for expression, expected in cases:
        check(expression, {x: a, y: b}, expected)


def test_integer_operators():
    i, j = T.lvectors("ij")
    a, b = np.array([-7, 7, 5, 0]), np.array([2, -2, 3, 4])
    with np.errstate(divide="ignore"):
        cases = [
            (i // j, a // b),
            (i % j, a % b),
            (i & j, a & b),
            (i ^ j, a ^ b),
            (i << abs(j), a << abs(b)),
            (i / j, (a / b).astype(f32)),
        ]
    for expression, expected in cases:
        check(expression, {i: a, j: b}, expected)


# ---- reductions


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), [1]])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "var", "std"])
def test_reductions(name, axis):
    x = T.tensor3("x")
    a = rand(2, 3, 4)
    numpy_axis = tuple(axis) if isinstance(axis, list) else axis
    expected = getattr(np, name)(a.astype("float64"), axis=numpy_axis)
    check(getattr(T, name)(x, axis=axis), {x: a}, expected, rtol=1e-4)
    check(getattr(x, name)(axis), {x: a}, expected, rtol=1e-4)
    check(
        getattr(x, name)(axis=axis, keepdims=True),
        {x: a},
        getattr(np, name)(a.astype("float64"), axis=numpy_axis, keepdims=True),
        rtol=1e-4,
    )


def test_argmax_any_all():
    x = T.matrix("x")
    a = rand(5, 4)
    check(T.argmax(x, axis=1), {x: a}, a.argmax(1))
    check(x.argmin(axis=0), {x: a}, a.argmin(0))
    check(T.argmax(x), {x: a}, a.argmax())
    check(T.argmax(x, axis=1, keepdims=True), {x: a}, a.argmax(1)[:, None])
    check(T.any(x > 1, axis=1), {x: a}, (a > 1).any(1))
    check(T.all(x > -1, axis=0), {x: a}, (a > -1).all(0))
    with pytest.raises((ValueError, IndexError)):
        x.sum(axis=2)


def test_sum_dtypes():
    x = T.bmatrix("x")
    a = np.full((20, 20), 100, "int8")
    assert value(x.sum(), {x: a}) == 40000
    assert x.sum(dtype="float64").dtype == "float64"


# ---- shapes


def test_shape_functions():
    x = T.tensor3("x")
    a = rand(2, 3, 4)
    cases = [
        (x.shape, np.array(a.shape)),
        (x.shape[1], np.array(3)),
        (x.size, np.array(24)),
        (x.reshape((6, 4)), a.reshape(6, 4)),
        (x.reshape((-1, 2)), a.reshape(-1, 2)),
        (x.reshape((x.shape[0], -1)), a.reshape(2, -1)),
        (x.reshape(x.shape[::-1]), a.reshape(4, 3, 2)),
        (T.reshape(x, [4, 6]), a.reshape(4, 6)),
        (x.flatten(), a.ravel()),
        (x.flatten(2), a.reshape(2, 12)),
        (T.flatten(x, outdim=2), a.reshape(2, 12)),
        (x.ravel(), a.ravel()),
        (x.dimshuffle(2, 0, 1), a.transpose(2, 0, 1)),
        (x.dimshuffle([2, "x", 0, 1]), a.transpose(2, 0, 1)[:, None]),
        (x.T, a.T),
        (x.transpose(1, 0, 2), a.transpose(1, 0, 2)),
        (x.transpose((1, 0, 2)), a.transpose(1, 0, 2)),
        (T.transpose(x, axes=[1, 0, 2]), a.transpose(1, 0, 2)),
        (x.swapaxes(0, 2), a.swapaxes(0, 2)),
        (T.concatenate([x, x * 2], axis=1), np.concatenate([a, a * 2], 1)),
        (T.concatenate([x, x], axis=-1), np.concatenate([a, a], -1)),
        (T.join(0, x, x), np.concatenate([a, a])),
        (T.stack([x, x + 1]), np.stack([a, a + 1])),
        (T.stack([x, x + 1], axis=1), np.stack([a, a + 1], 1)),
        (T.stack(x[0, 0, 0], x[0, 0, 1]), a[0, 0, :2]),
        (T.zeros_like(x), np.zeros_like(a)),
        (T.ones_like(x, dtype="int8"), np.ones_like(a, "int8")),
        (T.zeros((x.shape[0], 2)), np.zeros((2, 2))),
        (T.ones(x.shape[1:]), np.ones((3, 4))),
        (T.alloc(x[0, 0], 5, 4), np.broadcast_to(a[0, 0], (5, 4))),
        (T.fill(x, 3.0), np.full((2, 3, 4), 3.0)),
    ]
    for expression, expected in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(expression, {x: a} if depends(expression, x) else {}, expected)


def depends(expression, x):
    return any(v is x for v in snug._core.ancestors([expression]))


def test_generators():
    n = T.iscalar("n")
    check(T.arange(5), {}, np.arange(5))
    check(T.arange(2, 11, 3), {}, np.arange(2, 11, 3))
    check(T.arange(n), {n: 4}, np.arange(4))
    check(T.arange(n, 0, -1), {n: 4}, np.arange(4, 0, -1))
    check(T.arange(3, dtype="float32"), {}, np.arange(3, dtype=f32))
    check(T.eye(3), {}, np.eye(3))
    check(T.eye(n, 5, 1), {n: 3}, np.eye(3, 5, 1))
    check(T.extra_ops.to_one_hot(T.arange(3), 4), {}, np.eye(3, 4))


# ---- indexing


X = np.arange(5 * 6 * 4, dtype=f32).reshape(5, 6, 4)
ROWS = np.array([3, 0, 3])
COLUMNS = np.array([1, -1, 2])
FORMS = {
    "int": lambda i: np.s_[2],
    "negative": lambda i: np.s_[-1],
    "numpy int": lambda i: np.int64(1),
    "slice": lambda i: np.s_[1:4],
    "open": lambda i: np.s_[2:],
    "stop": lambda i: np.s_[:-2],
    "step": lambda i: np.s_[::2],
    "reverse": lambda i: np.s_[::-1],
    "negative step": lambda i: np.s_[4:1:-2],
    "beyond": lambda i: np.s_[2:100],
    "empty": lambda i: np.s_[3:3],
    "two": lambda i: np.s_[1, 2],
    "three": lambda i: np.s_[1, 2, 3],
    "mixed": lambda i: np.s_[1:, 2, ::-1],
    "ellipsis": lambda i: np.s_[..., 1],
    "ellipsis inside": lambda i: np.s_[1, ..., 1:3],
    "only ellipsis": lambda i: np.s_[...],
    "newaxis": lambda i: np.s_[:, None, 1],
    "newaxis first": lambda i: np.s_[None, 1],
    "all": lambda i: np.s_[:],
    "symbolic": lambda i: np.s_[i],
    "symbolic slice": lambda i: np.s_[i * 2 : (i + 1) * 2],
    "symbolic step": lambda i: np.s_[:: i + 1],
    "array": lambda i: ROWS,
    "list": lambda i: [3, 0, 3],
    "matrix": lambda i: np.array([[0, 1], [2, 3]]),
    "two arrays": lambda i: (ROWS, COLUMNS),
    "array and int": lambda i: (ROWS, 1),
    "slice and array": lambda i: np.s_[:, COLUMNS],
    "array and slice": lambda i: (ROWS, slice(1, 3)),
    "outer": lambda i: (ROWS[:, None], COLUMNS[None, :]),
    "apart": lambda i: (ROWS, slice(None), COLUMNS),
    "mask": lambda i: np.array([True, False, True, True, False]),
    "mask of two": lambda i: X[:, :, 0] % 3 == 0,
    "full mask": lambda i: X > 40,
}


def concrete(index, i, number):
    """The same index with a number in place of the symbol."""

    def change(item):
        if isinstance(item, slice):
            return slice(change(item.start), change(item.stop), change(item.step))
        if isinstance(item, snug.Variable):
            return int(value(item, {i: number}))
        return item

    return tuple(map(change, index)) if isinstance(index, tuple) else change(index)


@pytest.mark.parametrize("form", FORMS)
def test_index_forms(form):
    x, i = T.tensor3("x"), T.lscalar("i")
    index = FORMS[form](i)
    numpy_index = concrete(index, i, 1)
    picked = x[index]

    def check_used(expression, expected):
        given = {v: value for v, value in ((x, X), (i, 1)) if depends(expression, v)}
        check(expression, given, expected)

    check_used(picked, X[numpy_index])
    y = rand(*X[numpy_index].shape)
    expected = X.copy()
    expected[numpy_index] = y
    check_used(T.set_subtensor(picked, y), expected)
    expected = X.copy()
    np.add.at(expected, numpy_index, y)
    check_used(T.inc_subtensor(picked, y), expected)
    expected = X.copy()
    expected[numpy_index] = 7
    check_used(T.set_subtensor(picked, 7.0), expected)


@pytest.mark.parametrize("picked", [lambda x: x[:], lambda x: x[...], lambda x: x[:, None]])
def test_set_all(picked):
    x, y = T.matrix("x"), T.matrix("y")
    part = picked(x)
    z = T.set_subtensor(part, y if part.ndim == 2 else y[:, None])
    f = snug.function([x, y], z)  # x is used: its sizes are
    a, b = rand(2, 3), rand(2, 3)
    np.testing.assert_array_equal(f(a, b), b)
    with pytest.raises(ValueError, match="differ"):
        f(a, rand(2, 4))
    np.testing.assert_array_equal(snug.grad(z.sum(), x).eval({x: a, y: b}), 0 * a)
    np.testing.assert_array_equal(snug.grad(z.sum(), y).eval({x: a, y: b}), 0 * b + 1)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32"])
@pytest.mark.parametrize("passes", [(), ("fold_constants", "simplify")])
def test_sizes_wrap_like_values(dtype, passes):
    x = np.arange(300)
    v, n = T.lvector("v"), T.scalar("n", dtype)
    one, top = np.ones((), dtype), np.array(np.iinfo(dtype).max, dtype)
    for number in (np.array(3, dtype), top, top - one):
        with np.errstate(over="ignore"):
            cases = {
                n + one: number + one,
                n * n: number * number,
                -n: -number,
                abs(-n - one): abs(-number - one),
                (n + one) // (one + one): (number + one) // (one + one),
                T.maximum(n + one, one): np.maximum(number + one, one),
                T.cast(n + one, "int64"): (number + one).astype("int64"),
                T.cast(n, "int8"): number.astype("int8"),
                T.cast(n, "uint16"): number.astype("uint16"),
                n + one > one: number + one > one,
            }
        for size, expected in cases.items():
            f = snug.function([n], size, disabled_passes=passes)
            assert f(number) == expected, (size, number)
            if size.dtype != "bool" and np.dtype(dtype).itemsize < 4:
                f = snug.function([v, n], v[:size], disabled_passes=passes)
                np.testing.assert_array_equal(f(x, number), x[: int(expected)])


def test_list_of_slices_is_a_tuple():
    x = T.tensor3("x")
    check(x[[slice(1, 3), slice(None), slice(0, 2)]], {x: X}, X[1:3, :, 0:2])


def test_index_by_variables():
    x, i, j = T.tensor3("x"), T.ivector("i"), T.lmatrix("j")
    check(x[i], {x: X, i: ROWS.astype("int32")}, X[ROWS])
    check(x[j], {x: X, j: np.array([[0, 1], [2, -1]])}, X[[[0, 1], [2, -1]]])
    y = T.ivector("y")
    p = T.matrix("p")
    a = rand(3, 4)
    check(p[T.arange(y.shape[0]), y], {p: a, y: np.int32([0, 3, 1])}, a[[0, 1, 2], [0, 3, 1]])
    check(p[(p > 0).nonzero()], {p: a}, a[a > 0])
    check(p[p > 0], {p: a}, a[a > 0])
    check(T.take(p, [1, 0], axis=1), {p: a}, a[:, [1, 0]])


def test_index_errors():
    x = T.matrix("x")
    for bad in (1.5, "a"):
        with pytest.raises((IndexError, TypeError, NotImplementedError)):
            x[bad]
    with pytest.raises((IndexError, ValueError)):
        x[1, 2, 3]
    with pytest.raises(TypeError, match="indexing"):
        T.set_subtensor(x, 1)
    with pytest.raises(TypeError):
        x[0] = 1
    f = snug.function([x], x[7])
    with pytest.raises(IndexError, match="7"):
        f(np.ones((3, 2), f32))
    i = T.ivector("i")
    g = snug.function([x, i], x[i])
    with pytest.raises(IndexError, match="3"):
        g(np.ones((3, 2), f32), np.int32([0, 3]))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 6),
    st.one_of(st.none(), st.integers(-9, 9)),
    st.one_of(st.none(), st.integers(-9, 9)),
    st.one_of(st.none(), st.integers(-4, 4).filter(bool)),
)
def test_slices_as_python(n, start, stop, step):
    a = np.arange(n, dtype=f32)
    x = T.vector("x")
    np.testing.assert_array_equal(value(x[start:stop:step], {x: a}), a[start:stop:step])


bounds = [T.lscalar(name) for name in ("start", "stop", "step")]
vector = T.vector("x")
run_slice = []


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 6), st.integers(-9, 9), st.integers(-9, 9), st.integers(-4, 4).filter(bool))
def test_slices_with_run_time_bounds(n, start, stop, step):
    if not run_slice:
        picked = vector[bounds[0] : bounds[1] : bounds[2]]
        run_slice.append(snug.function([vector, *bounds], picked))
    a = np.arange(n, dtype=f32)
    np.testing.assert_array_equal(run_slice[0](a, start, stop, step), a[start:stop:step])


# ---- linear algebra and networks


def test_dot():
    three, two_three = (3,), (2, 3)
    for m, n in [
        (three, three),
        (two_three, three),
        (three, (3, 4)),
        (two_three, (3, 4)),
        ((2, 3, 4), (4, 5)),
    ]:
        x, y = T.tensor(f32, (False,) * len(m)), T.tensor(f32, (False,) * len(n))
        a, b = rand(*m), rand(*n, seed=1)
        check(T.dot(x, y), {x: a, y: b}, np.dot(a, b))
        check(x.dot(y), {x: a, y: b}, np.dot(a, b))
    x, y = T.tensor3s("xy")
    a, b = rand(2, 3, 4), rand(2, 4, 5)
    check(T.batched_dot(x, y), {x: a, y: b}, a @ b)
    c = rand(3, 4, 5, seed=2)
    check(T.tensordot(x, y, axes=[[1, 2], [0, 1]]), {x: a, y: c}, np.tensordot(a, c, 2))
    check(T.tensordot(x, y, axes=2), {x: a, y: c}, np.tensordot(a, c, 2))
    u, v = T.vectors("uv")
    check(T.outer(u, v), {u: a[0, 0], v: b[0, 0]}, np.outer(a[0, 0], b[0, 0]))


def test_linear_systems():
    a = rand(4, 4, dtype="float64")
    p = a @ a.T + 4 * np.eye(4)
    b = rand(4, 2, dtype="float64")
    x, y = T.dmatrices("xy")
    check(T.slinalg.cholesky(x), {x: p}, np.linalg.cholesky(p))
    check(T.slinalg.cholesky(x, lower=False), {x: p}, np.linalg.cholesky(p).T)
    check(T.slinalg.solve(x, y), {x: a, y: b}, np.linalg.solve(a, b))
    check(
        T.slinalg.solve_lower_triangular(x, y),
        {x: np.tril(p), y: b},
        np.linalg.solve(np.tril(p), b),
    )
    f = snug.function([x], T.slinalg.cholesky(x))
    with pytest.raises(np.linalg.LinAlgError):
        f(-p)


def softmax(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_nnet():
    x = T.matrix("x")
    a = rand(5, 4)
    s = 1 / (1 + np.exp(-a))
    cases = [
        (T.nnet.softmax(x), softmax(a)),
        (T.nnet.logsoftmax(x), np.log(softmax(a))),
        (T.nnet.sigmoid(x), s),
        (T.nnet.softplus(x), np.log1p(np.exp(a))),
        (T.nnet.relu(x), np.maximum(a, 0)),
        (T.nnet.relu(x, 0.1), np.where(a > 0, a, a * np.float32(0.1))),
        (T.nnet.elu(x), np.where(a > 0, a, np.expm1(a))),
        (T.nnet.hard_sigmoid(x), np.clip(0.2 * a + 0.5, 0, 1)),
        (T.nnet.softsign(x), a / (1 + abs(a))),
        (T.nnet.binary_crossentropy(T.nnet.sigmoid(x), 1.0), -np.log(s)),
        (T.nnet.sigmoid_binary_crossentropy(x, 1.0), -np.log(s)),
    ]
    for expression, expected in cases:
        check(expression, {x: a}, expected, rtol=1e-4)
    y = T.ivector("y")
    k = np.int32([0, 1, 2, 3, 0])
    check(
        T.nnet.categorical_crossentropy(T.nnet.softmax(x), y),
        {x: a, y: k},
        -np.log(softmax(a))[np.arange(5), k],
        rtol=1e-4,
    )
    q = T.matrix("q")
    check(
        T.nnet.categorical_crossentropy(T.nnet.softmax(x), q),
        {x: a, q: softmax(a[::-1])},
        -(softmax(a[::-1]) * np.log(softmax(a))).sum(1),
        rtol=1e-4,
    )


def test_softmax_takes_vectors_and_matrices():
    v = T.vector("v")
    assert T.nnet.softmax(v).broadcastable == (True, False)
    check(T.nnet.softmax(v), {v: X[0, 0]}, softmax(X[0, :1]))
    with pytest.raises(ValueError, match="3 dimensions"):
        T.nnet.softmax(T.tensor3())


def conv_by_hand(x, w, pad, stride, dilation, flip):
    (top, bottom), (left, right) = pad
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right))).astype("float64")
    if flip:
        w = w[:, :, ::-1, ::-1]
    rows = (x.shape[2] - (w.shape[2] - 1) * dilation[0] - 1) // stride[0] + 1
    columns = (x.shape[3] - (w.shape[3] - 1) * dilation[1] - 1) // stride[1] + 1
    out = np.zeros((x.shape[0], w.shape[0], rows, columns))
    for r in range(w.shape[2]):
        for c in range(w.shape[3]):
            top, left = r * dilation[0], c * dilation[1]
            part = x[:, :, top:, left:][:, :, :: stride[0], :: stride[1]][:, :, :rows, :columns]
            out += np.einsum("nchw,oc->nohw", part, w[:, :, r, c])
    return out


@pytest.mark.parametrize(
    "mode, pad",
    [
        ("valid", ((0, 0), (0, 0))),
        ("half", ((1, 1), (1, 1))),
        ("full", ((2, 2), (2, 2))),
        (1, ((1, 1), (1, 1))),
        ((1, 2), ((1, 1), (2, 2))),
        (((0, 1), (2, 0)), ((0, 1), (2, 0))),
    ],
)
@pytest.mark.parametrize("flip", [True, False])
def test_conv2d(mode, pad, flip):
    x, w = T.tensor4s("xw")
    a, b = rand(2, 3, 7, 8), rand(4, 3, 3, 3, seed=1)
    expected = conv_by_hand(a, b, pad, (1, 1), (1, 1), flip)
    out = T.nnet.conv2d(x, w, filter_shape=(4, 3, 3, 3), border_mode=mode, filter_flip=flip)
    check(out, {x: a, w: b}, expected, rtol=1e-4, atol=1e-4)
    out = T.nnet.conv2d(x, snug.shared(b), border_mode=mode, filter_flip=flip)
    check(out, {x: a}, expected, rtol=1e-4, atol=1e-4)


def test_conv2d_strides_and_arguments():
    x, w = T.tensor4s("xw")
    a, b = rand(2, 3, 7, 8), rand(4, 3, 3, 3, seed=1)
    out = T.nnet.conv2d(x, w, (2, 3, 7, 8), (4, 3, 3, 3), "valid", (2, 1))
    expected = conv_by_hand(a, b, ((0, 0), (0, 0)), (2, 1), (1, 1), True)
    check(out, {x: a, w: b}, expected, rtol=1e-4, atol=1e-4)
    out = T.nnet.conv2d(x, w, filter_dilation=(2, 2))
    expected = conv_by_hand(a, b, ((0, 0), (0, 0)), (1, 1), (2, 2), True)
    check(out, {x: a, w: b}, expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="valid"):
        T.nnet.conv2d(x, w, border_mode="vaild")
    assert inspect.signature(T.nnet.conv2d).parameters["num_groups"].default == 1


# ---- loops


def test_map():
    x, k = T.matrix("x"), T.scalar("k")
    a = rand(5, 3)
    out, updates = snug.map(lambda row: row.sum() * k, x)
    assert not updates
    check(out, {x: a, k: 2.0}, a.sum(1) * 2)
    out, _ = snug.map(lambda row, f: [row * f, row.max()], x, non_sequences=[k])
    check(out[0], {x: a, k: 2.0}, a * 2)
    check(out[1], {x: a, k: 2.0}, a.max(1))
    out, _ = snug.map(lambda row: row.sum(), x, go_backwards=True)
    check(out, {x: a}, a.sum(1)[::-1])


def test_loop():
    x, n = T.vector("x"), T.iscalar("n")
    a = rand(6)
    zero = T.constant(0.0)
    (last,), (all_,) = snug.loop(lambda i, e, s: ([s[0] + e[0]], [s[0] * 2]), [x], [zero])
    check(last, {x: a}, a.sum())
    check(all_, {x: a}, 2 * np.concatenate([[0], np.cumsum(a)[:-1]]))
    (power,), _ = snug.loop(lambda i, e, s: (s[0] * 2.0, []), [], [T.constant(1.0)], n_steps=n)
    check(power, {n: 5}, np.array(32.0))


# ---- gradients


def test_grad_values():
    x, w = T.matrices("xw")
    a, b = rand(5, 3), rand(3, 4, seed=1)
    cost = T.sqr(T.dot(x, w)).sum()
    gx, gw = T.grad(cost, [x, w])
    check(gx, {x: a, w: b}, 2 * (a @ b) @ b.T, rtol=1e-4, atol=1e-4)
    check(gw, {x: a, w: b}, 2 * a.T @ (a @ b), rtol=1e-4, atol=1e-4)


def test_grad_forms():
    x, y = T.vectors("xy")
    cost = (x * y).sum()
    cost.name = "cost"
    assert isinstance(T.grad(cost, x), snug.Variable)
    assert isinstance(T.grad(cost, [x, y]), list) and isinstance(snug.grad(cost, (x, y)), tuple)
    assert T.grad(T.sqr(x).sum(), x).type == x.type
    assert snug.gradient.grad is snug.grad
    with pytest.raises(TypeError):
        T.grad(x, x)
    z = T.vector("z")
    with pytest.raises(snug.DisconnectedInputError):
        T.grad(cost, z)
    assert issubclass(snug.DisconnectedInputError, ValueError)
    with pytest.warns(UserWarning, match="z"):
        T.grad(cost, z, disconnected_inputs="warn")
    assert T.grad(cost, z, disconnected_inputs="ignore").type == z.type
    none = T.grad(cost, z, disconnected_inputs="ignore", return_disconnected="None")
    assert none is None
    with pytest.raises(ValueError):
        T.grad(cost, x, disconnected_inputs="never")


def test_grad_names():
    x = T.vector("x")
    cost = T.sqr(x).sum()
    assert T.grad(cost, x).name is None
    cost.name = "cost"
    assert T.grad(cost, x).name == "(dcost/dx)"
    assert x.name == "x"


def test_grad_constants_and_known():
    x = T.vector("x")
    y = x * 3.0
    a = rand(4)
    check(T.grad((x * y).sum(), x, consider_constant=[y]), {x: a}, 3 * a)
    check(T.grad((x * snug.gradient.disconnected_grad(y)).sum(), x), {x: a}, 3 * a)
    g = T.grad(None, wrt=x, known_grads={y: T.ones_like(y) * 2})
    check(g, {x: a} if depends(g, x) else {}, 6 * np.ones(4))
    with pytest.raises(ValueError):
        T.grad(None, x)


# ---- random numbers


def test_random_streams():
    rng = T.shared_randomstreams.RandomStreams(seed=7)
    u, n = rng.uniform((2000,)), rng.normal(size=(2000,), avg=1.0, std=2.0)
    b = rng.binomial((2000,), p=0.25)
    assert u.dtype == "float32" and b.dtype == "int64"
    f = snug.function([], [u, n, b])
    first, second = f(), f()
    for x, y in zip(first, second):
        assert (x != y).any()
    assert first[0].min() >= 0 and first[0].max() < 1 and abs(first[0].mean() - 0.5) < 0.05
    assert abs(first[1].mean() - 1) < 0.2 and abs(first[1].std() - 2) < 0.2
    assert set(np.unique(first[2])) == {0, 1} and abs(first[2].mean() - 0.25) < 0.05
    rng.seed(7)
    for x, y in zip(first, f()):
        np.testing.assert_array_equal(x, y)
    still = snug.function([], u, no_default_updates=True)
    np.testing.assert_array_equal(still(), still())
    assert len(rng.updates()) == 3


def test_random_sizes():
    rng = T.shared_randomstreams.RandomStreams(3)
    x = T.matrix("x")
    a = rand(4, 5)
    assert value(rng.normal(x.shape), {x: a}).shape == (4, 5)
    assert value(rng.uniform((x.shape[0], 2)), {x: a}).shape == (4, 2)
    assert value(rng.uniform()).shape == ()
    d = value(T.nnet.dropout(x, 0.5, rng), {x: np.ones((50, 50), f32)})
    assert set(np.unique(d)) == {0, 2}


# ---- gradients of forms that overflow


def sigmoid(z):
    return 1 / (1 + T.exp(-z))


STABLE = {
    "log(sigmoid)": (lambda z: T.log(sigmoid(z)), lambda z: 1 / (1 + np.exp(z))),
    "log(1 - sigmoid)": (lambda z: T.log(1 - sigmoid(z)), lambda z: -1 / (1 + np.exp(-z))),
    "log1p(-sigmoid)": (lambda z: T.log1p(-T.nnet.sigmoid(z)), lambda z: -1 / (1 + np.exp(-z))),
    "log(1 + exp)": (lambda z: T.log(1 + T.exp(z)), lambda z: 1 / (1 + np.exp(-z))),
    "log1p(exp)": (lambda z: T.log1p(T.exp(z)), lambda z: 1 / (1 + np.exp(-z))),
    "elu": (T.nnet.elu, lambda z: np.where(z > 0, 1, np.exp(np.minimum(z, 0)))),
}


@pytest.mark.parametrize("name", STABLE)
def test_gradients_of_forms_that_overflow(name):
    form, gradient = STABLE[name]
    z = T.dvector("z")
    value = np.array([-800.0, -40, -1, 0.5, 30, 90, 800])
    with np.errstate(over="ignore"):
        want = gradient(value)
    got = snug.function([z], T.grad(form(z).sum(), z))(value)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-300)


def test_gradient_of_a_softmax_written_out():
    x = T.fmatrix("x")
    p = T.exp(x) / T.exp(x).sum(axis=1, keepdims=True)
    f = snug.function([x], T.grad(-T.log(p)[:, 0].sum(), x))
    np.testing.assert_allclose(f(np.array([[1000, 200, 3]], "float32")), [[0, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(f(np.array([[3, 1000, 200]], "float32")), [[-1, 1, 0]], atol=1e-6)


@pytest.mark.parametrize("keepdims", [True, False])
def test_logsumexp_does_not_overflow(keepdims):
    x = T.fmatrix("x")
    total = T.log(T.exp(x).sum(axis=1, keepdims=keepdims))
    value, gradient = snug.function([x], [total, T.grad(total.sum(), x)])(
        np.array([[1000, 200, 3], [-500, -500, -500]], "float32")
    )
    np.testing.assert_allclose(value.ravel(), [1000, -500 + np.log(3)], rtol=1e-6)
    np.testing.assert_allclose(gradient, [[1, 0, 0], [1 / 3, 1 / 3, 1 / 3]], atol=1e-6)


def test_gradient_by_a_value_inside_a_stable_form():
    z = T.dvector("z")
    p = sigmoid(z)
    by_p, by_z = T.grad(T.log(p).sum(), [p, z])
    value = np.array([-2.0, 0.5, 3])
    got = snug.function([z], [by_p, by_z])(value)
    np.testing.assert_allclose(got[0], 1 + np.exp(-value))
    np.testing.assert_allclose(got[1], 1 / (1 + np.exp(value)))


def test_relu_of_an_array_is_an_array():
    a = np.array([-1, 2, np.nan], "float32")
    got = T.nnet.relu(a)
    assert isinstance(got, np.ndarray) and got.dtype == "float32"
    np.testing.assert_array_equal(got, [0, 2, np.nan])
    assert T.nnet.relu(3) == 3.0 and T.nnet.relu(np.array([-3, 4])).dtype == "float64"
    assert isinstance(T.nnet.relu(a, 0.1), snug.Variable)
    assert isinstance(T.nnet.relu([1.0, 2.0]), snug.Variable)


def test_relu_keeps_nan():
    x = T.fvector("x")
    got = snug.function([x], T.nnet.relu(x))(np.array([np.nan, -1, 2], "float32"))
    np.testing.assert_array_equal(got, [np.nan, 0, 2])


def test_truncated_normal_numbers():
    draw = snug.tensor.shared_randomstreams.RandomStreams(5).normal(
        (200, 100), avg=1.0, std=3.0, truncate=True
    )
    a = snug.function([], draw)()
    assert a.min() >= -5 and a.max() <= 7 and a.min() < -4.9 and a.max() > 6.9
    np.testing.assert_allclose([a.mean(), a.std()], [1, 3 * 0.87962], rtol=0.03)
