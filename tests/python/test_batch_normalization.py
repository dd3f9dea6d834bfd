"""Batch normalisation against its definition, and against the gradient of the definition."""

import numpy as np
import pytest

import snug
import snug.tensor as T
from conformance import agree_gradient, rows
from snug.tensor.nnet import bn


def definition(x, gamma, beta, axes, epsilon):
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + epsilon) * gamma + beta, mean, var


CASES = [("per-activation", (0,)), ("spatial", (0, 2, 3)), ((0, 3), (0, 3))]


@pytest.mark.parametrize("axes, over", CASES)
@pytest.mark.parametrize("squeezed", [False, True])
def test_train_and_test(axes, over, squeezed):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(5, 2, 3, 4))
    shape = [1 if k in over else s for k, s in enumerate(a.shape)]
    gamma, beta, mean, var = rng.uniform(0.5, 2, (4, *shape))
    given = [p.squeeze(over) if squeezed else p for p in (gamma, beta, mean, var)]
    x = T.dtensor4("x")
    g, b, m, v = (T.TensorType("float64", (False,) * p.ndim)() for p in given)
    outputs = bn.batch_normalization_train(x, g, b, axes, 1e-3, 0.3, m, v)
    fixed = bn.batch_normalization_test(x, g, b, m, v, axes, 1e-3)
    got = snug.function([x, g, b, m, v], [*outputs, fixed])(a, *given)
    want, batch_mean, batch_var = definition(a, gamma, beta, over, 1e-3)
    count = np.prod([a.shape[k] for k in over])
    unbiased = batch_var * count / (count - 1)
    statistics = [
        batch_mean,
        1 / np.sqrt(batch_var + 1e-3),
        0.7 * mean + 0.3 * batch_mean,
        0.7 * var + 0.3 * unbiased,
    ]
    expected = [
        want,
        *(s.squeeze(over) if squeezed else s for s in statistics),
        (a - mean) / np.sqrt(var + 1e-3) * gamma + beta,
    ]
    for found, wanted in zip(got, expected):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_float32_stays():
    x, g = T.fmatrix("x"), T.fvector("g")
    outputs = bn.batch_normalization_train(x, g, g, running_mean=g, running_var=g)
    assert [y.dtype for y in outputs] == ["float32"] * 5
    assert len(bn.batch_normalization_train(x, g, g)) == 3


@rows("standardize")
@pytest.mark.parametrize("mode", ["fast", "check", "reference"])
def test_gradients_are_those_of_the_definition(row, mode):
    """Also the second ones, which go through the mean and the deviation."""
    rng = np.random.default_rng(2)
    x, weight = T.dtensor4("x"), rng.normal(size=(3, 4, 2, 5))
    one, zero = np.ones(4), np.zeros(4)
    mean, var = (f(x, axis=(0, 2, 3), keepdims=True) for f in (T.mean, T.var))
    written = (x - mean) / T.sqrt(var + 1e-4)
    made = bn.batch_normalization_train(x, one, zero, "spatial")[0]
    results = []
    for y in (written, made):
        first = snug.grad((weight * T.tanh(y)).sum(), x)
        results.append([y, first, snug.grad((first**2).sum(), x)])
    a = rng.normal(size=weight.shape)
    for wanted, found in zip(*(snug.function([x], r, mode=mode)(a) for r in results), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)
    agree_gradient(row, made, [x], [a], 1e-5)


@pytest.mark.parametrize("rows_, channels", [(65, 8), (200, 33), (1000, 100), (3, 70)])
def test_statistics_down_columns_in_float32(rows_, channels):
    """Rows are read in blocks, by any number of threads with the same result."""
    rng = np.random.default_rng(3)
    a = rng.normal(3, 2, (rows_, channels)).astype("float32")
    x, g = T.fmatrix("x"), np.ones(channels, "float32")
    y = bn.batch_normalization_train(x, g, g, epsilon=1e-5)[0]
    outputs = [y, snug.grad((y * a).sum(), x, consider_constant=[]), x.max(0), x.sum(0)]
    one, two = (snug.function([x], outputs, threads=n)(a) for n in (1, 2))
    for u, v in zip(one, two, strict=True):
        np.testing.assert_array_equal(u, v)
    wide = a.astype("float64")
    want = definition(wide, 1, 1, (0,), 1e-5)[0]
    np.testing.assert_allclose(one[0], want, rtol=2e-6, atol=4e-6)
    np.testing.assert_array_equal(one[2], a.max(0))
    np.testing.assert_allclose(one[3], wide.sum(0), rtol=1e-6)


def test_gradient():
    x, g, b = T.dmatrix("x"), T.dvector("g"), T.dvector("b")
    y = bn.batch_normalization_train(x, g, b)[0]
    rng = np.random.default_rng(1)
    arguments = [rng.normal(size=(4, 3)), rng.uniform(0.5, 2, 3), rng.normal(size=3)]
    agree_gradient("mul", y, [x, g, b], arguments, 1e-5)


def test_errors():
    x, g = T.dmatrix("x"), T.dvector("g")
    with pytest.raises(ValueError, match="choose 'per-activation'"):
        bn.batch_normalization_train(x, g, g, axes="rows")
    with pytest.raises(ValueError, match="or neither"):
        bn.batch_normalization_train(x, g, g, running_mean=g)
    with pytest.raises(ValueError, match="has 3 dimensions, not 2"):
        bn.batch_normalization_train(x, T.dtensor3(), g)
    with pytest.raises(ValueError, match="low_mem"):
        bn.batch_normalization(x, g, g, g, g, mode="fast")


def test_parameters_without_the_axes():
    """Statistics are then without them, too, as in Theano."""
    x, gamma, mean = T.dtensor4("x"), T.dvector("gamma"), snug.shared(np.zeros(3))
    a = np.random.default_rng(0).normal(size=(4, 5, 6, 3))
    results = T.nnet.bn.batch_normalization_train(
        x, gamma, gamma * 0, (0, 1, 2), 1e-4, 0.5, mean, mean + 1
    )
    assert [r.ndim for r in results] == [4, 1, 1, 1, 1]
    f = snug.function([x, gamma], list(results), updates=[(mean, results[3])])
    _, average, inverse, running, _ = f(a, np.ones(3))
    np.testing.assert_allclose(average, a.mean((0, 1, 2)))
    np.testing.assert_allclose(inverse, (a.var((0, 1, 2)) + 1e-4) ** -0.5)
    np.testing.assert_allclose(running, average / 2)
    np.testing.assert_array_equal(mean.get_value(), running)
