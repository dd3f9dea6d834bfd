"""The examples of Theano's tutorial and library documentation, with the results that it gives."""

import numpy as np
import pytest

import snug

snug.install_as_theano()

import theano  # noqa: E402
import theano.tensor as T  # noqa: E402
from theano import function, pp, shared  # noqa: E402


@pytest.fixture(autouse=True)
def theanos_defaults():
    with theano.config.change_flags(floatX="float64"):
        yield


def close(value, expected, tolerance=1e-8):
    np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)


# ---- adding


def test_adding_two_scalars():
    x = T.dscalar("x")
    y = T.dscalar("y")
    z = x + y
    f = function([x, y], z)
    result = f(2, 3)
    assert result == 5.0 and result.shape == () and result.dtype == "float64"
    close(f(16.3, 12.1), 28.4)
    assert isinstance(x, T.TensorVariable) and x.type == T.dscalar
    assert repr(T.dscalar) == "TensorType(float64, scalar)"
    assert pp(z) == "(x + y)"
    close(z.eval({x: 16.3, y: 12.1}), 28.4)


def test_adding_two_matrices():
    x = T.dmatrix("x")
    y = T.dmatrix("y")
    f = function([x, y], x + y)
    expected = [[11.0, 22.0], [33.0, 44.0]]
    close(f([[1, 2], [3, 4]], [[10, 20], [30, 40]]), expected)
    close(f(np.array([[1, 2], [3, 4]]), np.array([[10, 20], [30, 40]])), expected)


def test_exercise():
    a, b = T.vector(), T.vector()
    f = function([a, b], a**2 + b**2 + 2 * a * b)
    close(f([1, 2], [4, 5]), [25.0, 49.0])


# ---- more examples


LOGISTIC = [[0.5, 0.73105858], [0.26894142, 0.11920292]]


def test_logistic_function():
    x = T.dmatrix("x")
    s = 1 / (1 + T.exp(-x))
    close(function([x], s)([[0, 1], [-1, -2]]), LOGISTIC)
    close(function([x], (1 + T.tanh(x / 2)) / 2)([[0, 1], [-1, -2]]), LOGISTIC)


def test_more_than_one_thing_at_a_time():
    a, b = T.dmatrices("a", "b")
    diff = a - b
    f = function([a, b], [diff, abs(diff), diff**2])
    difference, absolute, squared = f([[1, 1], [1, 1]], [[0, 1], [2, 3]])
    close(difference, [[1, 0], [-1, -2]])
    close(absolute, [[1, 0], [1, 2]])
    close(squared, [[1, 0], [1, 4]])


def test_default_values():
    x, y = T.dscalars("x", "y")
    f = function([x, theano.In(y, value=1)], x + y)
    assert f(33) == 34.0 and f(33, 2) == 35.0
    x, y, w = T.dscalars("x", "y", "w")
    inputs = [x, theano.In(y, value=1), theano.In(w, value=2, name="w_by_name")]
    f = function(inputs, (x + y) * w)
    assert f(33) == 68.0
    assert f(33, 2) == 70.0
    assert f(33, 0, 1) == 33.0
    assert f(33, w_by_name=1) == 34.0
    assert f(33, w_by_name=1, y=0) == 33.0


def accumulator():
    state = shared(0)
    inc = T.iscalar("inc")
    return state, function([inc], state, updates=[(state, state + inc)])


def test_shared_state():
    state, accumulate = accumulator()
    assert state.get_value() == 0
    assert accumulate(1) == 0
    assert state.get_value() == 1
    assert accumulate(300) == 1
    assert state.get_value() == 301
    state.set_value(-1)
    assert accumulate(3) == -1
    assert state.get_value() == 2
    inc = T.iscalar("inc")
    decrement = function([inc], state, updates=[(state, state - inc)])
    assert decrement(2) == 2
    assert state.get_value() == 0
    fn_of_state = state * 2 + inc
    foo = T.scalar(dtype=state.dtype)
    skip_shared = function([inc, foo], fn_of_state, givens=[(state, foo)])
    assert skip_shared(1, 3) == 7
    assert state.get_value() == 0


def test_copying_functions():
    state, accumulate = accumulator()
    assert accumulate(10) == 0
    assert state.get_value() == 10
    new_state = shared(0)
    new_accumulate = accumulate.copy(swap={state: new_state})
    assert new_accumulate(100) == 0
    assert new_state.get_value() == 100
    assert state.get_value() == 10
    null_accumulate = accumulate.copy(delete_updates=True)
    assert null_accumulate(9000) == 10
    assert state.get_value() == 10


def test_random_numbers():
    from theano.tensor.shared_randomstreams import RandomStreams

    srng = RandomStreams(seed=234)
    rv_u = srng.uniform((2, 2))
    rv_n = srng.normal((2, 2))
    f = function([], rv_u)
    g = function([], rv_n, no_default_updates=True)
    nearly_zeros = function([], rv_u + rv_u - 2 * rv_u)
    first, second = f(), f()
    assert first.shape == (2, 2) and (first >= 0).all() and (first < 1).all()
    assert (first != second).all()
    np.testing.assert_array_equal(g(), g())
    close(nearly_zeros(), np.zeros((2, 2)))
    again = RandomStreams(seed=234)
    np.testing.assert_array_equal(function([], again.uniform((2, 2)))(), first)
    srng.seed(902340)
    assert (f() != first).all()


def test_logistic_regression(capsys):
    rng = np.random.RandomState(0)
    N, feats, steps = 40, 20, 300
    D = (rng.randn(N, feats), rng.randint(size=N, low=0, high=2))
    x = T.dmatrix("x")
    y = T.dvector("y")
    w = shared(rng.randn(feats), name="w")
    b = shared(0.0, name="b")
    p_1 = 1 / (1 + T.exp(-T.dot(x, w) - b))
    prediction = p_1 > 0.5
    xent = -y * T.log(p_1) - (1 - y) * T.log(1 - p_1)
    cost = xent.mean() + 0.01 * (w**2).sum()
    gw, gb = T.grad(cost, [w, b])
    train = function(
        inputs=[x, y],
        outputs=[prediction, xent],
        updates=((w, w - 0.1 * gw), (b, b - 0.1 * gb)),
    )
    predict = function(inputs=[x], outputs=prediction)
    weights, bias = w.get_value(), 0.0
    for _ in range(steps):
        train(*D)
        error = 1 / (1 + np.exp(-D[0] @ weights - bias)) - D[1]
        weights = weights - 0.1 * (D[0].T @ error / N + 0.02 * weights)
        bias = bias - 0.1 * error.mean()
    close(w.get_value(), weights)
    close(b.get_value(), bias)
    np.testing.assert_array_equal(predict(D[0]), D[0] @ weights + bias > 0)

    # From "Printing/Drawing Theano graphs".
    assert pp(prediction) == (
        "gt((TensorConstant{1} / (TensorConstant{1} + exp(((-(x \\dot w)) - b)))), "
        "TensorConstant{0.5})"
    )
    theano.printing.debugprint(prediction)
    tree = """\
Elemwise{gt,no_inplace} [id A] ''
 |Elemwise{true_div,no_inplace} [id B] ''
 | |InplaceDimShuffle{x} [id C] ''
 | | |TensorConstant{1} [id D]
 | |Elemwise{add,no_inplace} [id E] ''
 |   |InplaceDimShuffle{x} [id F] ''
 |   | |TensorConstant{1} [id D]
 |   |Elemwise{exp,no_inplace} [id G] ''
 |     |Elemwise{sub,no_inplace} [id H] ''
 |       |Elemwise{neg,no_inplace} [id I] ''
 |       | |dot [id J] ''
 |       |   |x [id K]
 |       |   |w [id L]
 |       |InplaceDimShuffle{x} [id M] ''
 |         |b [id N]
 |InplaceDimShuffle{x} [id O] ''
   |TensorConstant{0.5} [id P]
"""
    printed = capsys.readouterr().out
    assert [line.rstrip() for line in printed.splitlines()] == tree.splitlines()


# ---- derivatives


def test_derivative_of_a_square():
    x = T.dscalar("x")
    y = x**2
    gy = T.grad(y, x)
    f = function([x], gy)
    assert f(4) == 8.0
    close(f(94.2), 188.4)


def test_derivative_of_the_logistic_function():
    x = T.dmatrix("x")
    s = T.sum(1 / (1 + T.exp(-x)))
    dlogistic = function([x], T.grad(s, x))
    close(dlogistic([[0, 1], [-1, -2]]), [[0.25, 0.19661193], [0.19661193, 0.10499359]])


def test_jacobian_and_hessian():
    x = T.dvector("x")
    f = function([x], theano.gradient.jacobian(x**2, x))
    close(f([4, 4]), [[8, 0], [0, 8]])
    f = function([x], theano.gradient.hessian((x**2).sum(), x))
    close(f([4, 4]), [[2, 0], [0, 2]])


def test_jacobian_times_a_vector():
    W, V = T.dmatrix("W"), T.dmatrix("V")
    x = T.dvector("x")
    y = T.dot(x, W)
    f = function([W, V, x], theano.Rop(y, W, V))
    close(f([[1, 1], [1, 1]], [[2, 2], [2, 2]], [0, 1]), [2.0, 2.0])
    v = T.dvector("v")
    f = function([v, x], theano.Lop(y, W, v))
    close(f([2, 2], [0, 1]), [[0, 0], [2, 2]])


def test_hessian_times_a_vector():
    x, v = T.dvector("x"), T.dvector("v")
    y = T.sum(x**2)
    gy = T.grad(y, x)
    f = function([x, v], T.grad(T.sum(gy * v), x))
    close(f([4, 4], [2, 2]), [4.0, 4.0])


def test_hessian_times_a_vector_by_rop():
    x, v = T.dvector("x"), T.dvector("v")
    gy = T.grad(T.sum(x**2), x)
    close(function([x, v], theano.Rop(gy, x, v))([4, 4], [2, 2]), [4.0, 4.0])


# ---- conditions


def test_switch_and_ifelse():
    a, b = T.scalars("a", "b")
    x, y = T.matrices("x", "y")
    big1, big2 = np.ones((100, 10)), np.full((100, 10), 3.0)
    switched = function([a, b, x, y], T.switch(T.lt(a, b), T.mean(x), T.mean(y)))
    assert switched(0, 1, big1, big2) == 1 and switched(1, 0, big1, big2) == 3
    lazy = function([a, b, x, y], theano.ifelse.ifelse(T.lt(a, b), T.mean(x), T.mean(y)))
    assert lazy(0, 1, big1, big2) == 1 and lazy(1, 0, big1, big2) == 3


# ---- broadcasting


def test_broadcasting():
    r = T.row()
    assert r.broadcastable == (True, False)
    mtr = T.matrix()
    assert mtr.broadcastable == (False, False)
    f_row = function([r, mtr], [r + mtr])
    R = np.arange(3).reshape(1, 3)
    M = np.arange(9).reshape(3, 3)
    (result,) = f_row(R, M)
    close(result, [[0, 2, 4], [3, 5, 7], [6, 8, 10]])
    c = T.col()
    assert c.broadcastable == (False, True)
    f_col = function([c, mtr], [c + mtr])
    (result,) = f_col(np.arange(3).reshape(3, 1), M)
    close(result, [[0, 1, 2], [4, 5, 6], [8, 9, 10]])


def test_broadcasting_needs_to_be_declared():
    x, y = T.vectors("x", "y")
    with pytest.raises(ValueError):
        function([x, y], x + y)(np.ones(3), np.ones(1))
    one = T.addbroadcast(y, 0)
    close(function([x, y], x + one)(np.ones(3), np.ones(1)), [2, 2, 2])


# ---- indexing


def test_indexing():
    x = T.matrix("x")
    i = T.iscalar("i")
    a = np.arange(12.0).reshape(3, 4)
    f = function([x, i], [x[i], x[:, i], x[i:, 1:3], x[-1], x[::-1], x[0, None]])
    for got, expected in zip(f(a, 1), [a[1], a[:, 1], a[1:, 1:3], a[-1], a[::-1], a[0, None]]):
        np.testing.assert_array_equal(got, expected)
    k = T.ivector("k")
    np.testing.assert_array_equal(function([x, k], x[k])(a, [2, 0]), a[[2, 0]])
    np.testing.assert_array_equal(function([x, k], x[[0, 1], k])(a, [2, 0]), [2, 4])
    np.testing.assert_array_equal(function([x], x[x > 5])(a), a[a > 5])


def test_assigning_to_a_part():
    """The documentation's `r[10:] = 5` and `r[10:] += 5`."""
    r = T.vector("r")
    a = np.arange(12.0)
    expected = a.copy()
    expected[10:] = 5
    np.testing.assert_array_equal(function([r], T.set_subtensor(r[10:], 5))(a), expected)
    expected = a.copy()
    expected[10:] += 5
    np.testing.assert_array_equal(function([r], T.inc_subtensor(r[10:], 5))(a), expected)


# ---- reductions, shapes, casts: library/tensor/basic


def test_reshape_and_dimshuffle():
    x = T.matrix()
    assert x.dimshuffle("x", 0, 1).broadcastable == (True, False, False)
    assert x.reshape((1, -1)).eval({x: np.ones((2, 3))}).shape == (1, 6)
    assert T.shape_padright(x).broadcastable == (False, False, True)
    v = T.vector()
    for pattern, shape in (
        (("x",), None),
        ((0, "x"), (20, 1)),
        (("x", 0), (1, 20)),
    ):
        if shape is not None:
            assert v.dimshuffle(*pattern).eval({v: np.ones(20)}).shape == shape


def test_cast():
    x = T.matrix()
    assert T.cast(x, "int32").dtype == "int32"
    x_as_float = T.cast(T.imatrix(), "float32")
    assert x_as_float.dtype == "float32"


def test_ordered_updates():
    a, b = shared(1.0, "a"), shared(2.0, "b")
    updates = theano.OrderedUpdates([(a, a + 1)])
    updates[b] = b * 2
    more = updates + theano.OrderedUpdates({a: updates[a]})
    assert list(more) == [a, b]
    function([], [], updates=more)()
    assert a.get_value() == 2 and b.get_value() == 4
    with pytest.raises(KeyError, match="two different updates"):
        updates.update([(a, a + 2)])
    with pytest.raises(TypeError, match="no shared variable"):
        updates[T.scalar("x")] = 1
