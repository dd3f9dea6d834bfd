"""What programs and libraries written for Theano do, in small: classes around shared variables,
minibatches by givens, corrupted inputs, penalties of Jacobians, libraries that look into graphs."""

import pickle

import numpy as np
import pytest

import snug

snug.install_as_theano()

import theano  # noqa: E402
import theano.tensor as T  # noqa: E402
from theano.sandbox.rng_mrg import MRG_RandomStreams  # noqa: E402


@pytest.fixture(autouse=True)
def theanos_defaults():
    with theano.config.change_flags(floatX="float64"):
        yield


def data(rows=60, columns=8, classes=3):
    rng = np.random.RandomState(3)
    centres = rng.rand(classes, columns)
    y = rng.randint(0, classes, rows)
    return np.clip(centres[y] * 0.7 + 0.3 * rng.rand(rows, columns), 0, 1), y


class LogisticRegression:
    """A layer that keeps expressions as attributes, and is pickled with them."""

    def __init__(self, input, n_in, n_out):
        zeros = np.zeros((n_in, n_out), dtype=theano.config.floatX)
        self.W = theano.shared(value=zeros, name="W", borrow=True)
        self.b = theano.shared(np.zeros((n_out,), theano.config.floatX), "b", borrow=True)
        self.p_y_given_x = T.nnet.softmax(T.dot(input, self.W) + self.b)
        self.y_pred = T.argmax(self.p_y_given_x, axis=1)
        self.params = [self.W, self.b]
        self.input = input

    def negative_log_likelihood(self, y):
        return -T.mean(T.log(self.p_y_given_x)[T.arange(y.shape[0]), y])

    def errors(self, y):
        if y.ndim != self.y_pred.ndim:
            raise TypeError("y should have the same shape as self.y_pred", y.type)
        return T.mean(T.neq(self.y_pred, y))


def test_minibatches_of_shared_data_by_givens():
    values, labels = data()
    train_x = theano.shared(np.asarray(values, theano.config.floatX), borrow=True)
    train_y = T.cast(theano.shared(np.asarray(labels, theano.config.floatX)), "int32")
    index, x, y = T.lscalar(), T.matrix("x"), T.ivector("y")
    size = 20
    model = LogisticRegression(x, 8, 3)
    cost = model.negative_log_likelihood(y)
    g_W, g_b = T.grad(cost=cost, wrt=model.W), T.grad(cost=cost, wrt=model.b)
    rows = slice(index * size, (index + 1) * size)
    givens = {x: train_x[rows], y: train_y[rows]}
    updates = [(model.W, model.W - 0.5 * g_W), (model.b, model.b - 0.5 * g_b)]
    train = theano.function([index], cost, updates=updates, givens=givens)
    wrong = theano.function([index], model.errors(y), givens=givens)
    costs = [np.mean([train(i) for i in range(3)]) for _ in range(60)]
    np.testing.assert_allclose(costs[0], np.log(3), rtol=0.1)
    assert costs[-1] < 0.5 * costs[0] and np.mean([wrong(i) for i in range(3)]) == 0
    again = pickle.loads(pickle.dumps(model))
    predict = theano.function([again.input], again.y_pred)
    np.testing.assert_array_equal(predict(values), labels)


def test_a_denoising_autoencoder():
    values, _ = data()
    rng = MRG_RandomStreams(np.random.RandomState(123).randint(2**30))
    x = T.dmatrix("input")
    start = np.random.RandomState(1).uniform(-0.5, 0.5, (8, 5))
    W, b, c = theano.shared(start, "W"), theano.shared(np.zeros(5)), theano.shared(np.zeros(8))
    noisy = rng.binomial(size=x.shape, n=1, p=0.7, dtype=theano.config.floatX) * x
    z = T.nnet.sigmoid(T.dot(T.nnet.sigmoid(T.dot(noisy, W) + b), W.T) + c)
    cost = T.mean(-T.sum(x * T.log(z) + (1 - x) * T.log(1 - z), axis=1))
    params = [W, b, c]
    updates = [(p, p - 0.1 * g) for p, g in zip(params, T.grad(cost, params))]
    train = theano.function([x], cost, updates=updates)
    costs = [float(train(values)) for _ in range(100)]
    assert np.mean(costs[-10:]) < 0.97 * np.mean(costs[:3])


def test_the_penalty_of_a_contractive_autoencoder():
    values, _ = data(rows=4)
    start = np.random.RandomState(1).uniform(-0.5, 0.5, (8, 5))
    x, W = T.matrix("x"), theano.shared(start)
    h = T.nnet.sigmoid(T.dot(x, W))
    J = T.reshape(h * (1 - h), (4, 1, 5)) * T.reshape(W, (1, 8, 5))
    penalty = T.sum(J**2) / 4
    f = theano.function([x], [penalty, T.grad(penalty, W)])
    found, gradient = f(values)
    jacobians = theano.function([x], theano.gradient.jacobian(h[0], x))
    first = jacobians(values)[:, 0, :]
    np.testing.assert_allclose((J.eval({x: values})[0] ** 2).sum(), (first**2).sum())
    step = 1e-6
    W.set_value(start + step * np.eye(8, 5))
    np.testing.assert_allclose((f(values)[0] - found) / step, np.trace(gradient), rtol=1e-4)


def test_normalisation_over_channels_into_zeros():
    """T.alloc(0., ...) is narrower than the values that are put into it."""
    x = T.tensor4("x")
    b, ch, r, c = x.shape
    squares = T.set_subtensor(T.alloc(0.0, b, ch + 2, r, c)[:, 1 : 1 + ch], T.sqr(x))
    assert T.alloc(0.0, b).dtype == squares.dtype == "float32"
    scale = sum(squares[:, i : i + ch] for i in range(3))
    a = np.random.RandomState(0).rand(2, 3, 2, 2)
    padded = np.pad(a**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    want = sum(padded[:, i : i + 3] for i in range(3))
    np.testing.assert_allclose(theano.function([x], scale)(a), want, rtol=1e-6)
    with pytest.raises(TypeError, match="cannot take float64"):
        T.set_subtensor(T.ivector()[:2], T.dvector())


def test_labels_between_blanks():
    """As Keras prepares labels for CTC: T.alloc(-1, ...) is narrower than they are."""
    y = T.ivector("y")
    blanks = T.alloc(-1, y.shape[0] * 2 + 1)
    assert blanks.dtype == "int8"
    places = T.arange(y.shape[0]) * 2 + 1
    for e in (T.set_subtensor(blanks[places], y), T.set_subtensor(blanks[1::2], y)):
        found = theano.function([y], e)(np.array([3, 7], "int32"))
        assert found.dtype == "int8" and found.tolist() == [-1, 3, -1, 7, -1]


def test_a_correlation_by_tensordot_over_strided_copies():
    x, w = T.tensor3("x"), T.tensor3("w")
    parts = T.stack([x[:, :, k : k + 4] for k in range(3)], axis=2)
    found = T.tensordot(parts, w, np.asarray([[1, 2], [1, 2]])).dimshuffle(0, 2, 1)
    rng = np.random.RandomState(0)
    a, k = rng.rand(2, 3, 6), rng.rand(5, 3, 3)
    want = [[sum(np.correlate(a[n, c], f[c]) for c in range(3)) for f in k] for n in range(2)]
    np.testing.assert_allclose(found.eval({x: a, w: k}), want)


def test_a_library_that_looks_into_graphs():
    x, W = T.matrix("x"), theano.shared(np.ones((3, 2)), "W")
    loss = T.nnet.relu(T.dot(x, W)).mean() + (W**2).sum()
    found = [
        v for v in theano.gof.graph.inputs([loss]) if isinstance(v, theano.compile.SharedVariable)
    ]
    assert found == [W]
    assert [v for v in theano.gof.graph.inputs([loss]) if isinstance(v, theano.gof.Constant)]
    doubled = theano.clone(loss, replace={W: W * 2})
    f = theano.function([x], [loss, doubled])
    np.testing.assert_allclose(f(np.ones((1, 3))), [3 + 6, 6 + 24])
    assert theano.gof.graph.is_same_graph(loss, theano.clone(loss))
    nodes = theano.function([x], T.dot(x, W)).maker.fgraph.toposort()
    assert any(isinstance(node.op, T.Dot) for node in nodes)
