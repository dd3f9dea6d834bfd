"""`scan` and what is made of it, against loops in NumPy. Values of the examples with taps, `until`
and truncated gradients are those of Theano 1.0.5."""

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug.loops import until
from snug.tensor.shared_randomstreams import RandomStreams

ZERO = np.array(0.0)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def value(e, given=None):
    return snug.function(list(given or {}), e)(*(given or {}).values())


def test_states_sequences_and_other_arguments():
    x, a = T.dvector("x"), T.dvector("a")
    sums, updates = snug.scan(lambda e, s: s + e, x, ZERO)
    assert value(sums, {x: [1, 2, 3]}).tolist() == [1, 3, 6]
    assert isinstance(updates, snug.OrderedUpdates) and not updates
    n = T.iscalar("n")
    powers, _ = snug.scan(lambda p, a: p * a, None, T.ones_like(a), a, n)
    assert value(powers, {a: [1, 2], n: 3}).tolist() == [[1, 2], [1, 4], [1, 8]]
    (first, second), _ = snug.scan(lambda e, s: [s + e, s * e], [x], [ZERO, None])
    assert value(first, {x: [1, 2, 3]}).tolist() == [1, 3, 6]
    assert value(second, {x: [1, 2, 3]}).tolist() == [0, 2, 9]
    two, _ = snug.scan(lambda a, b: a + b, [x, x[1:]])  # as long as the shorter one
    assert value(two, {x: [1, 2, 3]}).tolist() == [3, 5]
    back, _ = snug.scan(lambda e, s: s * 10 + e, x, ZERO, go_backwards=True, n_steps=2)
    assert value(back, {x: [1, 2, 3]}).tolist() == [3, 32]
    one, _ = snug.scan(lambda e: e, x, return_list=True)
    assert isinstance(one, list) and value(one[0], {x: [1, 2]}).tolist() == [1, 2]


def test_taps():
    x = T.dvector("x")
    start = {"initial": np.array([0.0, 1]), "taps": [-2, -1]}
    fibonacci, _ = snug.scan(lambda a, b: a + b, outputs_info=[start], n_steps=8)
    assert value(fibonacci).tolist() == [1, 2, 3, 5, 8, 13, 21, 34]
    only_old = {"initial": np.array([1.0, 2, 3]), "taps": -3}
    assert value(snug.scan(lambda a: a * 2, None, only_old, n_steps=5)[0]).tolist() == [
        2,
        4,
        6,
        4,
        8,
    ]

    def digits(a, b, c):
        return a * 100 + b * 10 + c

    taps = {"input": x, "taps": [-1, 0, 2]}
    for backwards, want in ((False, [13, 124, 235, 346]), (True, [346, 235, 124, 13])):
        found, _ = snug.scan(digits, taps, go_backwards=backwards)
        assert value(found, {x: np.arange(7.0)}).tolist() == want


def test_updates():
    count = snug.shared(np.int64(0), "count")
    outputs, updates = snug.scan(lambda: (count * 2.0, {count: count + 1}), n_steps=4)
    f = snug.function([], outputs, updates=updates)
    assert f().tolist() == [0, 2, 4, 6] and count.get_value() == 4
    assert f().tolist() == [8, 10, 12, 14] and count.get_value() == 8
    for returned in ({count: count + 1}, [(count, count + 1)], ([], {count: count + 1})):
        outputs, updates = snug.scan(lambda: returned, n_steps=3)  # noqa: B023
        assert outputs is None and list(updates) == [count]
        count.set_value(0)
        snug.function([], [], updates=updates)()
        assert count.get_value() == 3


def test_until():
    m, x = T.dscalar("m"), T.dvector("x")
    powers, _ = snug.scan(lambda p, m: (p * 2, until(p * 2 > m)), None, np.array(1.0), m, 1000)
    f = snug.function([m], [powers, powers.shape[0], T.grad(powers.sum(), m, None, "ignore")])
    assert f(45)[0].tolist() == [2, 4, 8, 16, 32, 64] and f(45)[1] == 6
    assert f(1)[0].tolist() == [2]
    # Steps after the end change nothing: neither updates nor gradients.
    steps = snug.shared(np.int64(0))
    sums, updates = snug.scan(
        lambda e, s: (s + e**2, {steps: steps + 1}, until(s + e**2 > 4)), x, ZERO
    )
    f = snug.function([x], [sums, T.grad(sums[-1], x)], updates=updates)
    found, gradient = f([1, 2, 3, 4])
    assert found.tolist() == [1, 5] and gradient.tolist() == [2, 4, 0, 0]
    assert steps.get_value() == 2


def test_gradients_of_a_recurrent_network():
    x, h = T.dmatrix("x"), T.dvector("h")
    w = snug.shared(numbers(3, 3, seed=1), "w")
    states, _ = snug.scan(lambda e, s, w: T.tanh(T.dot(s, w) + e), x, h, w, strict=True)
    unrolled, s = [], h
    for k in range(4):
        s = T.tanh(T.dot(s, w) + x[k])
        unrolled.append(s)
    given = {x: numbers(4, 3), h: numbers(3, seed=2)}
    for cost in (lambda y: (y**2).sum(), lambda y: y[-1].sum()):
        results = [[y, *T.grad(cost(y), [x, h, w])] for y in (states, T.stack(unrolled))]
        for found, want in zip(*(value(r, given) for r in results)):
            np.testing.assert_allclose(found, want, rtol=1e-10)


def test_truncated_gradients():
    x, w = T.dvector("x"), snug.shared(2.0)
    for steps, by_w, by_x in (
        (-1, 7, [7, 3, 1]),
        (1, 4, [0, 0, 1]),
        (2, 7, [0, 3, 1]),
        (5, 7, [7, 3, 1]),
    ):
        y, _ = snug.scan(lambda e, h: h * w + e, x, ZERO, truncate_gradient=steps)
        f = snug.function([x], [y, *T.grad(y.sum(), [w, x])])
        found = f([1, 2, 3])
        assert found[0].tolist() == [1, 4, 11]
        assert found[1] == by_w and found[2].tolist() == by_x


@pytest.mark.parametrize("truncate", [-1, 2])
def test_random_numbers(truncate):
    """Other ones in every step and call, and no two loops share them."""
    stream = RandomStreams(3)
    draws, updates = snug.scan(
        lambda s: s * 0 + stream.uniform((2,)), None, T.zeros((2,)), None, 5, truncate
    )
    f = snug.function([], draws, updates=updates)
    found = np.concatenate([f(), f()]).ravel()
    assert len(set(found)) == found.size and np.all((found >= 0) & (found < 1))


def test_the_function_is_called_once():
    calls = []

    def step(e, s):
        calls.append(snug.shared(1.0))
        return s + e * calls[-1]

    x = T.dvector("x")
    row = T.zeros((1,), "float64")  # broadcastable before the first step, and not behind it
    y, _ = snug.scan(step, T.stack([x, x]), row)
    assert len(calls) == 1
    assert value(T.grad(y[-1].sum(), calls[0]), {x: [3]}) == 6


def test_map_and_folds():
    x = T.dvector("x")
    given = {x: [1, 2, 3]}
    assert value(snug.foldl(lambda e, s: s * 10 + e, x, ZERO)[0], given) == 123
    assert value(snug.foldr(lambda e, s: s * 10 + e, x, ZERO)[0], given) == 321
    (total, product), _ = snug.reduce(lambda e, s, p: (s + e, p * e), x, [ZERO, np.array(1.0)])
    assert value(total, given) == 6 and value(product, given) == 6
    squares, _ = snug.map(lambda e: e**2, x, name="squares")
    assert squares.name == "squares" and value(squares, given).tolist() == [1, 4, 9]


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({}, ValueError, "neither sequences nor n_steps"),
        ({"sequences": 1.0}, TypeError, "has no axis to run over"),
        ({"outputs_info": [{"taps": [-1]}], "n_steps": 2}, ValueError, "no initial value"),
        ({"outputs_info": [{"initial": 1.0, "taps": [1]}], "n_steps": 2}, ValueError, "taps of an"),
        ({"outputs_info": [{"initial": 1.0, "taps": [-2]}], "n_steps": 2}, TypeError, "is one"),
        ({"outputs_info": [None, None], "n_steps": 2}, ValueError, "1 outputs, outputs_info has 2"),
    ],
)
def test_errors(arguments, kind, text):
    with pytest.raises(kind, match=text):
        snug.scan(lambda *_: T.constant(1.0), **arguments)


def test_theanos_modules(tmp_path):
    import subprocess
    import sys

    program = tmp_path / "program.py"
    program.write_text(
        "import theano\n"
        "from theano.scan_module import scan, until\n"
        "from theano.scan_module.scan_utils import until as same\n"
        "assert until is same and scan is theano.scan is theano.scan_module.scan\n"
        "from theano import foldl, foldr, map, reduce, scan\n"
        "print(scan(lambda s: s * 2, None, theano.tensor.constant(1.0), n_steps=2)[0].eval())\n"
    )
    command = [sys.executable, "-m", "snug", "run", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[2. 4.]\n"


def test_index_computed_inside():
    """A single place that a step computes picks an element; no size depends on it."""
    table, xs = T.dmatrix("table"), T.dmatrix("xs")
    b, v = np.random.RandomState(0).randn(3, 4), np.random.RandomState(1).randn(5, 3)

    def step(x, h):
        return table[h.argmax() % 3] + x.sum() * 0.1

    outputs, _ = snug.scan(step, xs, T.zeros((4,), "float64"))
    f = snug.function([table, xs], [outputs, T.grad(outputs[-1].sum(), table)])
    h, want, places = np.zeros(4), [], []
    for x in v:
        places.append(h.argmax() % 3)
        h = b[places[-1]] + x.sum() * 0.1
        want.append(h)
    got, gradient = f(b, v)
    np.testing.assert_allclose(got, want)
    np.testing.assert_allclose(gradient, np.eye(3)[places[-1]][:, None] * np.ones(4))

    def write(x, h):
        return T.set_subtensor(h[h.argmin()], x.sum())

    outputs, _ = snug.scan(write, xs, T.zeros((4,), "float64"))
    h, want = np.zeros(4), []
    for x in v:
        h = h.copy()
        h[h.argmin()] = x.sum()
        want.append(h)
    np.testing.assert_allclose(snug.function([xs], outputs)(v), want)
