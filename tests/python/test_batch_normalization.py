"""Batch normalisation against its definition, and against the gradient of the definition."""

import numpy as np
import pytest

import snug
import snug.tensor as T
from conformance import agree_gradient
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
