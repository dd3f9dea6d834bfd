"""Python numbers take the type of what stands beside them and keep all its digits; the dtypes of
results are those of Theano's rules."""

import numpy as np
import pytest

import snug
from snug import nn, optim
from snug import tensor as T

X = np.array([[0.1, -0.7, 0.01], [1 / 3, 2.5, -1e-3]])
C = np.array([0.1 + 0.7j, -1 / 3 - 0.01j])
M, V, S = T.dmatrix("m"), T.dvector("v"), T.dscalar("s")
Z = T.zvector("z")


def value(expression):
    f = snug.function([M, V, S, Z], expression, on_unused_input="ignore")
    return f(X, X[0], X[1, 0], C)


CASES = {
    "mul": (0.01 * M, 0.01 * X),
    "rmul": (M * 0.01, X * 0.01),
    "add": (M + 0.1, X + 0.1),
    "sub": (0.1 - M, 0.1 - X),
    "div": (0.1 / M, 0.1 / X),
    "rdiv": (M / 0.1, X / 0.1),
    "floor_div": (M // 0.1, X // 0.1),
    "mod": (M % 0.1, X % 0.1),
    "pow": (abs(M) ** 0.1, abs(X) ** 0.1),
    "rpow": (0.1**M, 0.1**X),
    "scalar": (S * 0.1, X[1, 0] * 0.1),
    "eq": (T.eq(M, 0.1), X == 0.1),
    "neq": (T.neq(M, 0.01), X != 0.01),
    "lt": (M < 0.1, X < 0.1),
    "ge": (M >= 0.1, X >= 0.1),
    "le": (M <= 0.1, X <= 0.1),
    "switch": (T.switch(M > 0, M, 0.1), np.where(X > 0, X, 0.1)),
    "switch first": (T.switch(M > 0, 0.1, M), np.where(X > 0, 0.1, X)),
    "where": (T.where(M > 0, M, 0.1), np.where(X > 0, X, 0.1)),
    "clip": (T.clip(M, 0.01, 0.1), np.clip(X, 0.01, 0.1)),
    "method clip": (M.clip(0.01, 0.1), np.clip(X, 0.01, 0.1)),
    "maximum": (T.maximum(M, 0.3), np.maximum(X, 0.3)),
    "minimum": (T.minimum(0.3, M), np.minimum(0.3, X)),
    "largest": (T.largest(0.3, M, S), np.maximum(np.maximum(X, 0.3), X[1, 0])),
    "arctan2": (T.arctan2(M, 0.3), np.arctan2(X, 0.3)),
    "cast": (T.cast(0.1, "float64"), np.array(0.1)),
    "constant": (T.constant(0.1) * M, 0.1 * X),
    "as_tensor_variable": (T.as_tensor_variable(0.1) + M, 0.1 + X),
    "full_like": (T.full_like(M, 0.1), np.full_like(X, 0.1)),
    "full": (T.full((2, 3), 0.1, "float64"), np.full((2, 3), 0.1)),
    "set_subtensor": (T.set_subtensor(M[0], 0.1), np.vstack([[0.1] * 3, X[1]])),
    "inc_subtensor": (T.inc_subtensor(M[0], 0.1), np.vstack([X[0] + 0.1, X[1]])),
    "set elements": (T.set_subtensor(V[[0, 2]], 0.1), np.array([0.1, X[0, 1], 0.1])),
    "stack": (T.stack([S, 0.1]), np.array([X[1, 0], 0.1])),
    "list": (T.as_tensor_variable([0.1, S]), np.array([0.1, X[1, 0]])),
    "hstack": (T.hstack([V, 0.1]), np.append(X[0], 0.1)),
    "pad": (T.pad(V, 1, constant_values=0.1), np.pad(X[0], 1, constant_values=0.1)),
    "fill_diagonal": (
        T.fill_diagonal(T.dot(M, M.T), 0.1),
        (X @ X.T) * (1 - np.eye(2)) + 0.1 * np.eye(2),
    ),
    "arange": (T.arange(0.1, 0.75, 0.1, "float64"), np.arange(0.1, 0.75, 0.1)),
    "count of arange": (T.arange(0, 0.3, 0.1).shape[0], np.array(3)),
    "arange to": (T.arange(0.1, S * 2, 0.1), np.arange(0.1, X[1, 0] * 2, 0.1)),
    "linspace": (T.linspace(0.1, 0.7, 4, dtype="float64"), np.linspace(0.1, 0.7, 4)),
    "isclose": (T.isclose(M, 0.1, rtol=0, atol=1e-12), np.isclose(X, 0.1, 0, 1e-12)),
    "searchsorted": (T.searchsorted(T.sort(V), 0.1), np.array(2)),
    "int64": (T.cast(M, "int64") + 0.1, X.astype("int64") + 0.1),
    "int32": (T.cast(M, "int32") * 0.1, X.astype("int32") * 0.1),
    "range of float32": (1e300 * M, 1e300 * X),
    "complex": (Z * 0.1, C * 0.1),
    "complex number": ((0.1 + 0.7j) * Z, (0.1 + 0.7j) * C),
    "complex of reals": (M * 0.1j, X * 0.1j),
    "complex pow": (Z**0.1, C**0.1),
    "make complex": (T.complex(M, 0.1), X + 0.1j),
    "relu": (T.nnet.relu(M, 0.01), np.where(X > 0, X, 0.01 * X)),
    "elu": (T.nnet.elu(M, 0.1), np.where(X > 0, X, 0.1 * np.expm1(X))),
    "logsumexp shift": (T.log(T.exp(M - 0.1).sum()), np.log(np.exp(X - 0.1).sum())),
}


@pytest.mark.parametrize("name", CASES)
def test_digits(name):
    expression, expected = CASES[name]
    got = value(expression)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-15, atol=0)


def test_rounded_once():
    assert (value(0.01 * M) == 0.01 * X).all()


@pytest.mark.parametrize(
    "expression, dtype",
    [
        (T.fmatrix() * 0.1, "float32"),
        (T.bvector() * 1, "int8"),
        (T.bvector() * 1000, "int16"),
        (T.bvector() * 0.1, "float32"),
        (T.ivector() * 0.1, "float64"),
        (T.lvector() * 0.1, "float64"),
        (T.fvector() * 2, "float32"),
        (T.fvector() * 100000, "float64"),
        (T.fvector() * 1j, "complex64"),
        (T.dvector() * 1j, "complex128"),
        (T.switch(T.bvector(), 0.1, 0.2), "float32"),
        (T.alloc(0.1, 2), "float32"),
        (T.fill(T.dmatrix(), 0.1), "float32"),
        (T.constant(0.1), "float32"),
        (T.eq(T.dvector(), 0.1), "bool"),
    ],
)
def test_dtypes_stay(expression, dtype):
    assert expression.dtype == dtype


def test_float32_is_compared_in_float32():
    x = T.fvector("x")
    assert snug.function([x], T.eq(x, 0.1))(np.array([0.1], "float32")).all()


@pytest.mark.parametrize("float_x", ["float16", "bfloat16", "float64"])
def test_other_default_floats(float_x):
    with snug.config.change_flags(floatX=float_x):
        x, y = T.dvector("x"), T.fvector("y")
        f = snug.function([x, y], [0.1 * x, 0.1 * y])
    a, b = f(X[0], X[0].astype("float32"))
    assert (a == 0.1 * X[0]).all()
    if float_x != "float64":
        assert b.dtype == "float32"
        assert (b == np.float32(0.1) * X[0].astype("float32")).all()


def test_numpy_floatx_policy():
    with snug.config.change_flags(cast_policy="numpy+floatX"):
        f = snug.function([M], M * 0.1)
    assert (f(X) == X * 0.1).all()


def test_large_integers():
    big = 2**53 + 1
    n = T.lvector("n")
    x = np.array([big, 3, -big])
    for expression, expected in [
        (n + big, x + big),
        (T.eq(n, big), x == big),
        (T.maximum(n, big), np.maximum(x, big)),
        (T.clip(n, -big + 1, big - 1), np.clip(x, -big + 1, big - 1)),
        (T.set_subtensor(n[1], big), np.array([big, big, -big])),
        (T.full_like(n, big), np.full_like(x, big)),
        (T.alloc(big, 2), np.full(2, big)),
        (T.switch(n > 5, n, big), np.where(x > 5, x, big)),
        (T.stack([n[0], big]), np.array([big, big])),
        (n // 3, x // 3),
        (T.cast(n, "float64") * 3, x.astype("float64") * 3),
    ]:
        got = snug.function([n], expression, on_unused_input="ignore")(x)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def test_gradients_keep_them():
    for cost, expected in [
        ((0.1 * M).sum(), np.full_like(X, 0.1)),
        ((abs(M) ** 0.3).sum(), 0.3 * abs(X) ** (0.3 - 1) * np.sign(X)),
        (T.switch(M > 0, M * 0.7, M * 0.1).sum(), np.where(X > 0, 0.7, 0.1)),
    ]:
        np.testing.assert_allclose(value(T.grad(cost, M)), expected, rtol=1e-15)


def test_scan():
    v = X[0]
    outputs, _ = snug.scan(lambda x, h: 0.9 * h + 0.1 * x, V, T.cast(0.3, "float64"))
    h, expected = 0.3, []
    for x in v:
        h = 0.9 * h + 0.1 * x
        expected.append(h)
    np.testing.assert_allclose(value(outputs), expected, rtol=1e-15)


def test_updates_and_givens():
    w = snug.shared(X.copy())
    f = snug.function([], w.sum(), updates=[(w, w - 0.01 * w)])
    f()
    np.testing.assert_allclose(w.get_value(), X - 0.01 * X, rtol=2e-16)
    s = snug.shared(np.float64(3))
    snug.function([], [], updates=[(s, 0.1)])()
    assert s.get_value() == 0.1
    x = T.dscalar("x")
    assert snug.function([], x * 3, givens={x: 0.1})() == 0.1 * 3


@pytest.mark.parametrize(
    "rule, expected",
    [
        (lambda c, w: optim.sgd(c, w, 0.1), lambda w, g: w - 0.1 * g),
        (lambda c, w: optim.sgd(c, w, lambda step: 0.1), lambda w, g: w - 0.1 * g),
        (lambda c, w: optim.sgd(c, w, 0.1, weight_decay=0.3), lambda w, g: w - 0.1 * (g + 0.3 * w)),
        (
            lambda c, w: optim.sgd(c, w, 0.1, clip_value=0.3),
            lambda w, g: w - 0.1 * g.clip(-0.3, 0.3),
        ),
        (lambda c, w: optim.adagrad(c, w, 0.1), lambda w, g: w - 0.1 * g / (abs(g) + 1e-10)),
        (lambda c, w: optim.adam(c, w, 0.1), lambda w, g: w - 0.1 * g / (abs(g) + 1e-8)),
    ],
)
def test_optim(rule, expected):
    w = snug.shared(X.copy())
    snug.function([], [], updates=rule((0.7 * w * w).sum(), [w]))()
    np.testing.assert_allclose(w.get_value(), expected(X, 2 * 0.7 * X), rtol=1e-12)


def test_layers_of_doubles():
    with snug.config.change_flags(floatX="float64"):
        model = nn.Sequential(nn.Dense(3), nn.LayerNorm(), nn.Activation("leaky_relu"))
        model.build((None, 3))
    with snug.config.change_flags(floatX="float32"):
        f = snug.function([M], model(M))
    with snug.config.change_flags(floatX="float64"):
        g = snug.function([M], model(M))
    assert (f(X) == g(X)).all()


def test_clone_keeps_digits():
    x = 0.1 * V
    (copy,) = snug.clone([x], share_inputs=False)
    assert copy is not x
    assert (value(snug.clone(T.constant(0.1) * V)) == 0.1 * X[0]).all()
