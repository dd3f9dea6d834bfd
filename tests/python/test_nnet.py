"""Activations and losses of snug.tensor.nnet against NumPy and SciPy, and their gradients."""

import math

import numpy as np
import pytest
from scipy import special

import snug
import snug.tensor as T
from conformance import FLOATS, agree_gradient, compare, sample, variable, wide
from snug import _core
from snug.tensor import nnet

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SPREAD = np.array(
    [-1e3, -88, -30, -5, -3.1, -2.5, -1.7, -1, -0.3, -0.0, 0, 0.1, 1, 2.5, 3.4, 5, 50]
)


def value(outputs, inputs, *arguments, **options):
    return snug.function(inputs, outputs, **options)(*arguments)


# ---- activations


def ultra_fast(x):
    half = np.abs(x) / 2
    line = 0.935409070603099 + 0.0458812946797165 * (half - 1.7)
    curve = np.where(
        half < 1.7, 1.5 * half / (1 + half), np.where(half < 3, line, 0.99505475368673)
    )
    return 0.5 * (np.sign(x) * curve + 1)


SCALE, ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
ACTIVATIONS = {
    "sigmoid": special.expit,
    "softplus": lambda x: np.logaddexp(x, 0),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "ultra_fast_sigmoid": ultra_fast,
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: SCALE * np.where(x > 0, x, ALPHA * np.expm1(x)),
    "relu": lambda x: np.maximum(x, 0),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_activations(name, dtype):
    x = variable(dtype, 1)
    y = getattr(nnet, name)(x)
    assert y.dtype == dtype
    a = SPREAD.astype(y.eval({x: sample(dtype, (1,))}).dtype)
    got = value(y, [x], a)
    # Constants and intermediate results are rounded, too.
    tolerance = {"float64": 1e-14, "float32": 1e-5, "float16": 4e-3, "bfloat16": 4e-2}[dtype]
    want = ACTIVATIONS[name](wide(a))
    exact_near_0 = name not in ("hard_sigmoid", "ultra_fast_sigmoid")
    atol = 1e-40 if exact_near_0 and dtype in ("float32", "float64") else tolerance
    np.testing.assert_allclose(wide(got), want, rtol=tolerance, atol=atol)
    special_values = value(y, [x], np.array([np.nan, np.inf, -np.inf]).astype(a.dtype))
    assert np.isnan(wide(special_values)[0])
    if name != "softsign":  # which is inf / inf
        limits = ACTIVATIONS[name](np.array([1e4, -1e4]))
        bounded = np.abs(limits) < 100
        np.testing.assert_allclose(
            wide(special_values)[1:][bounded], limits[bounded], rtol=1e-2, atol=2e-3
        )


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradients_of_activations(name):
    x = T.dvector("x")
    y = getattr(nnet, name)(x)
    a = np.array([-4.1, -2.3, -1.2, -0.3, 0.2, 0.9, 2.1, 4.3])
    agree_gradient(next(iter(ops_in(y))), y, [x], [a], 1e-5)
    for function in (nnet.sigmoid, nnet.softplus, nnet.elu, nnet.selu):
        g = value(T.grad(function(x).sum(), x), [x], np.array([-1e4, -800.0, 800.0, 1e4]))
        assert np.isfinite(g).all(), function


def ops_in(y):
    return {v.owner.op.name for v in _core.ancestors([y]) if v.owner is not None}


def test_integers_become_floats():
    for name in set(ACTIVATIONS) - {"relu"}:
        assert getattr(nnet, name)(T.bvector()).dtype == "float32", name
        assert getattr(nnet, name)(T.ivector()).dtype == "float64", name


def test_slopes():
    x, alpha = T.dmatrix("x"), T.dvector("alpha")
    a, b = sample("float64", (4, 3)), np.array([0.1, -0.5, 2])
    outputs = [nnet.relu(x, 0.25), nnet.relu(x, alpha), nnet.elu(x, 0.5), nnet.elu(x, alpha)]
    got = value(outputs, [x, alpha], a, b)
    low = np.expm1(np.minimum(a, 0))
    want = [np.where(a > 0, a, s * a) for s in (0.25, b)]
    want += [np.where(a > 0, a, s * low) for s in (0.5, b)]
    for v, w in zip(got, want):
        np.testing.assert_allclose(v, w, rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradient_of_sigmoid_far_out(dtype):
    """y * (1 - y) would be 0 where y rounds to 1."""
    x = variable(dtype, 1)
    edge = 80.0 if dtype == "float32" else 700.0
    a = np.linspace(-edge, edge, 101).astype(dtype)
    want = special.expit(wide(a)) * special.expit(-wide(a))
    compare(value(T.grad(nnet.sigmoid(x).sum(), x), [x], a), want, 8, "sigmoid")
    compare(value(1 - nnet.sigmoid(x), [x], a), special.expit(-wide(a)), 8, "1 - sigmoid")
    written = 1 / (1 + T.exp(-x))
    compare(value(T.grad(written.sum(), x), [x], a), want, 8, "1 / (1 + exp(-x))")
    hessian = T.grad(T.grad(nnet.sigmoid(x).sum(), x).sum(), x)
    s = special.expit(wide(a))
    t = special.expit(-wide(a))
    np.testing.assert_allclose(value(hessian, [x], a), s * t * (t - s), rtol=1e-4, atol=1e-40)


# ---- softmax


def softmax(a, axis=-1):
    return special.softmax(a, axis)


def test_softmax_takes_rows():
    v, m, t = T.dvector("v"), T.dmatrix("m"), T.dtensor3("t")
    a, b = sample("float64", (4,), special=False), sample("float64", (3, 4), special=False)
    for function, exact in [
        (nnet.softmax, special.softmax),
        (nnet.logsoftmax, special.log_softmax),
        (nnet.softmax_op, special.softmax),
        (nnet.logsoftmax_op, special.log_softmax),
    ]:
        assert function(v).broadcastable == (True, False)
        np.testing.assert_allclose(value(function(v), [v], a), exact(a)[None], rtol=1e-13)
        np.testing.assert_allclose(value(function(m), [m], b), exact(b, 1), rtol=1e-13)
        with pytest.raises(ValueError, match="3 dimensions"):
            function(t)
    np.testing.assert_allclose(
        value(nnet.softmax_with_bias(m, v), [m, v], b, a), softmax(b + a), rtol=1e-13
    )
    np.testing.assert_allclose(value(nnet.softmax_graph(m), [m], b), softmax(b), rtol=1e-13)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_softmax_over_any_axis(axis):
    x = T.dtensor3("x")
    a = sample("float64", (3, 4, 5), special=False)
    outputs = [_core.softmax(x, axis), _core.log_softmax(x, axis), T.log(_core.softmax(x, axis))]
    got = value(outputs, [x], a)
    for v, w in zip(got, [softmax(a, axis)] + [special.log_softmax(a, axis)] * 2):
        np.testing.assert_allclose(v, w, rtol=1e-12)
    agree_gradient("softmax", outputs[0], [x], [a[:2, :2, :2]])
    big = a * 1e4
    y = T.log(_core.softmax(x, axis))
    np.testing.assert_allclose(value(y, [x], big), special.log_softmax(big, axis), rtol=1e-12)
    g = value(T.grad(y[0, 0, 0], x), [x], big)
    assert np.isfinite(g).all()
    with pytest.raises(ValueError, match="axis 3"):
        _core.softmax(x, 3)


# ---- losses

LOGITS = [
    np.array([[1.0, 2, 3], [0, 0, 0], [-1, 4, 0.5]]),
    np.array([[1e4, 0, -1e4], [-1e5, 0, 1e5], [0, 0, 90]]),
    np.array([[300.0, 0, -300], [-1000, -1000, -2000], [88.8, -88.8, 0]]),
]
CLASSES = np.array([2, 0, 1], "int32")


def loss_of(logits, classes):
    return -special.log_softmax(logits, 1)[np.arange(len(classes)), classes]


def written_out(e, y):
    return -T.log((e / e.sum(axis=1, keepdims=True))[T.arange(y.shape[0]), y])


FORMS = {
    "categorical_crossentropy": lambda x, b, y: nnet.categorical_crossentropy(
        nnet.softmax(x + b), y
    ),
    "categorical_crossentropy_of_biased": lambda x, b, y: nnet.categorical_crossentropy(
        nnet.softmax_with_bias(x, b), y
    ),
    "crossentropy_categorical_1hot": lambda x, b, y: nnet.crossentropy_categorical_1hot(
        nnet.softmax(x + b), y
    ),
    "distributions": lambda x, b, y: nnet.categorical_crossentropy(
        nnet.softmax(x + b), T.cast(T.eq(y.dimshuffle(0, "x"), T.arange(3)), "float64")
    ),
    "softmax_graph": lambda x, b, y: nnet.categorical_crossentropy(nnet.softmax_graph(x + b), y),
    "crossentropy_softmax_1hot": lambda x, b, y: nnet.crossentropy_softmax_1hot(x + b, y)[0],
    "crossentropy_softmax_1hot_with_bias": lambda x, b, y: nnet.crossentropy_softmax_1hot_with_bias(
        x, b, y
    )[0],
    "crossentropy_softmax_argmax_1hot_with_bias": lambda x, b, y: (
        nnet.crossentropy_softmax_argmax_1hot_with_bias(x, b, y)[0]
    ),
    "crossentropy_softmax_max_and_argmax_1hot": lambda x, b, y: (
        nnet.crossentropy_softmax_max_and_argmax_1hot(x + b, y)[0]
    ),
    "crossentropy_softmax_max_and_argmax_1hot_with_bias": lambda x, b, y: (
        nnet.crossentropy_softmax_max_and_argmax_1hot_with_bias(x, b, y)[0]
    ),
    "logsoftmax": lambda x, b, y: -nnet.logsoftmax(x + b)[T.arange(y.shape[0]), y],
    "log_of_softmax": lambda x, b, y: -T.log(nnet.softmax(x + b))[T.arange(y.shape[0]), y],
    "written_out": lambda x, b, y: written_out(T.exp(x + b), y),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_crossentropies_of_extreme_logits(form, dtype):
    x, b, y = variable(dtype, 2), variable(dtype, 1), T.ivector("y")
    bias = np.array([0.5, -0.25, 0], dtype)
    loss = FORMS[form](x, b, y)
    gradients = T.grad(loss.sum(), [x, b])
    f = snug.function([x, b, y], [loss, *gradients])
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    for logits in LOGITS:
        a = logits.astype(dtype)
        scores = wide(a) + wide(bias)
        got, dx, db = f(a, bias, CLASSES)
        np.testing.assert_allclose(got, loss_of(scores, CLASSES), rtol=tolerance, atol=tolerance)
        want = softmax(scores) - np.eye(3)[CLASSES]
        np.testing.assert_allclose(dx, want, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(db, want.sum(0), rtol=tolerance, atol=10 * tolerance)


def test_what_the_crossentropies_give():
    x, b, y = T.dmatrix("x"), T.dvector("b"), T.bvector("y")
    a, bias = LOGITS[0], np.array([0.5, -0.25, 0])
    p = softmax(a + bias)
    classes = CLASSES.astype("int8")
    loss, probabilities, best = value(
        nnet.crossentropy_softmax_argmax_1hot_with_bias(x, b, y), [x, b, y], a, bias, classes
    )
    np.testing.assert_allclose(probabilities, p, rtol=1e-13)
    np.testing.assert_array_equal(best, p.argmax(1))
    assert best.dtype == np.int8
    outputs = nnet.crossentropy_softmax_max_and_argmax_1hot_with_bias(x, b, y)
    loss, probabilities, top, place = value(list(outputs), [x, b, y], a, bias, classes)
    np.testing.assert_allclose(loss, loss_of(a + bias, CLASSES), rtol=1e-13)
    np.testing.assert_allclose(top, p.max(1), rtol=1e-13)
    np.testing.assert_array_equal(place, p.argmax(1))
    assert place.dtype == np.int64


def test_gradient_functions():
    x, y = T.dmatrix("x"), T.ivector("y")
    p, g = nnet.softmax(x), T.dmatrix("g")
    a, weight = LOGITS[0], sample("float64", (3, 3), special=False)
    got = value([nnet.softmax_grad(g, p), T.grad((p * g).sum(), x)], [x, g], a, weight)
    np.testing.assert_allclose(got[0], got[1], rtol=1e-12)
    d = T.dvector("d")
    loss = nnet.categorical_crossentropy(p, y)
    outputs = [
        nnet.crossentropy_softmax_1hot_with_bias_dx(d, p, y),
        T.grad((loss * d).sum(), x),
        nnet.crossentropy_categorical_1hot_grad(d, p, y),
        T.grad((loss * d).sum(), p),
    ]
    got = value(outputs, [x, y, d], a, CLASSES, weight[0])
    np.testing.assert_allclose(got[0], got[1], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(got[2], got[3], rtol=1e-12, atol=1e-15)


def test_categorical_crossentropy_of_distributions():
    p, q = T.dtensor3("p"), T.dtensor3("q")
    a = softmax(sample("float64", (2, 3, 4), special=False))
    b = softmax(sample("float64", (2, 3, 4), special=False, key=1))
    got = value(nnet.categorical_crossentropy(p, q), [p, q], a, b)
    np.testing.assert_allclose(got, -(b * np.log(a)).sum(-1), rtol=1e-13)
    for wrong in (T.dvector(), T.itensor3()):
        with pytest.raises(TypeError, match="categorical_crossentropy"):
            nnet.categorical_crossentropy(T.dmatrix(), wrong)
    with pytest.raises(TypeError, match="crossentropy_categorical_1hot"):
        nnet.crossentropy_categorical_1hot(T.dmatrix(), T.imatrix())


BINARY = {
    "binary_crossentropy": lambda x, y: nnet.binary_crossentropy(nnet.sigmoid(x), y),
    "sigmoid_binary_crossentropy": nnet.sigmoid_binary_crossentropy,
    "written_out": lambda x, y: nnet.binary_crossentropy(1 / (1 + T.exp(-x)), y),
}


@pytest.mark.parametrize("form", BINARY)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_binary_crossentropies_of_extreme_logits(form, dtype):
    x, y = variable(dtype, 1), variable(dtype, 1)
    loss = BINARY[form](x, y)
    assert loss.dtype == dtype
    f = snug.function([x, y], [loss, T.grad(loss.sum(), x)])
    a = np.array([-1e4, -200, -40, -20, -1, 0, 0, 0.5, 20, 40, 200, 1e4] * 3).astype(dtype)
    t = np.repeat([0.0, 1.0, 0.25], 12).astype(dtype)
    got, gradient = f(a, t)
    z, s = wide(a), wide(t)
    want = s * np.logaddexp(0, -z) + (1 - s) * np.logaddexp(0, z)
    np.testing.assert_allclose(got, want, rtol=1e-5 if dtype == "float32" else 1e-12, atol=1e-44)
    slope = (1 - s) * special.expit(z) - s * special.expit(-z)
    np.testing.assert_allclose(
        gradient, slope, rtol=1e-5 if dtype == "float32" else 1e-11, atol=1e-37
    )


def test_binary_crossentropy_takes_integers():
    loss = nnet.binary_crossentropy(T.fvector(), T.bvector())
    assert loss.dtype == "float32"
    assert nnet.binary_crossentropy(T.fvector(), T.ivector()).dtype == "float64"


# ---- others


def test_h_softmax():
    rng = np.random.default_rng(3)
    batch, features, classes, per_class, outputs = 5, 4, 3, 4, 10
    x, t = T.dmatrix("x"), T.ivector("t")
    shapes = [(features, classes), (classes,), (classes, features, per_class), (classes, per_class)]
    weights = [snug.shared(rng.normal(size=s)) for s in shapes]
    a = rng.normal(size=(batch, features))
    w1, b1, w2, b2 = (w.get_value() for w in weights)
    p = softmax(a @ w1 + b1)[:, :, None] * softmax(np.einsum("bf,cfo->bco", a, w2) + b2)
    want = p.reshape(batch, -1)[:, :outputs]
    whole = nnet.h_softmax(x, batch, outputs, classes, per_class, *weights)
    np.testing.assert_allclose(value(whole, [x], a), want, rtol=1e-12)
    target = np.array([0, 9, 3, 4, 7], "int32")
    one = nnet.h_softmax(x, batch, outputs, classes, per_class, *weights, target=t)
    picked = want[np.arange(batch), target]
    np.testing.assert_allclose(value(one, [x, t], a, target), picked, rtol=1e-12)
    loss = -T.log(one).mean()
    same = -T.log(whole[T.arange(batch), t]).mean()
    pairs = value([*T.grad(loss, weights), *T.grad(same, weights)], [x, t], a, target)
    for one, other in zip(pairs[:4], pairs[4:]):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-13)
    with pytest.raises(TypeError, match="h_softmax"):
        nnet.h_softmax(x, batch, outputs, classes, per_class, *weights, target=T.dvector())


def test_prepended_columns():
    m, s = T.fmatrix("m"), T.fscalar("s")
    a = np.arange(6, dtype="float32").reshape(2, 3)
    outputs = [
        nnet.prepend_scalar_to_each_row(s, m),
        nnet.prepend_0_to_each_row(m),
        nnet.prepend_1_to_each_row(m),
    ]
    for got, first in zip(value(outputs, [m, s], a, 7.5), (7.5, 0, 1)):
        np.testing.assert_array_equal(got, np.hstack([np.full((2, 1), first), a]))
        assert got.dtype == np.float32
    with pytest.raises(TypeError, match="a number and a matrix"):
        nnet.prepend_scalar_to_each_row(m, m)


def test_modules():
    assert nnet.nnet.softmax is nnet.softmax
    assert nnet.sigm.sigmoid is nnet.sigmoid
    assert nnet.sigm.hard_sigmoid is nnet.hard_sigmoid
    assert math.isclose(
        float(nnet.sigm.ultra_fast_sigmoid(T.constant(0.5)).eval()), 0.65, rel_tol=1e-6
    )


def test_relu_of_integers_is_a_float():
    for dtype, result in [("int8", "float32"), ("int32", "float64"), ("float32", "float32")]:
        x = T.vector("x", dtype)
        assert nnet.relu(x).dtype == result
    f = snug.function([x], nnet.relu(x))
    np.testing.assert_array_equal(f([-1.0, 2.0]), [0.0, 2.0])
