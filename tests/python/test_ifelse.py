"""ifelse: only the chosen branch is computed."""

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug.ifelse import ifelse
from snug.printing import Print


def noted(x, seen, word):
    return Print(global_fn=lambda op, v: seen.append(word))(x)


@pytest.mark.parametrize("kind", ["iscalar", "bscalar", "dscalar"])
def test_only_the_chosen_branch_runs(kind):
    seen = []
    c = getattr(T, kind)("c")
    x, y = T.dvector("x"), T.dvector("y")
    z = ifelse(c, noted(x * 2, seen, "then") + 1, noted(y * 3, seen, "else"))
    f = snug.function([c, x, y], z)
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    assert f(1, a, b).tolist() == [3.0, 5.0] and seen == ["then"]
    assert f(0, a, b).tolist() == [9.0, 12.0] and seen == ["then", "else"]
    f(0, a, b)
    assert seen == ["then", "else", "else"]


def test_conditions_that_are_computed():
    seen = []
    x = T.dvector("x")
    z = ifelse(T.lt(x.sum(), 0), noted(-x, seen, "then"), noted(x, seen, "else"))
    f = snug.function([x], z * 2)
    assert f([-1.0, -2.0]).tolist() == [2.0, 4.0]
    assert f([1.0, 2.0]).tolist() == [2.0, 4.0]
    assert seen == ["then", "else"]


def test_lists():
    c, x, y = T.iscalar("c"), T.dscalar("x"), T.dvector("y")
    two = ifelse(c, [x, y * 2], [x * 10, y])
    assert isinstance(two, list)
    f = snug.function([c, x, y], two)
    assert [v.tolist() for v in f(1, 2.0, [1.0])] == [2.0, [2.0]]
    assert [v.tolist() for v in f(0, 2.0, [1.0])] == [20.0, [1.0]]
    assert isinstance(ifelse(c, (x,), (x,)), tuple)


def test_names():
    c, x = T.iscalar("c"), T.dscalar("x")
    assert ifelse(c, x, x * 2, name="z").name == "z"


def test_sizes_may_differ():
    c, x, y = T.iscalar("c"), T.dmatrix("x"), T.dmatrix("y")
    f = snug.function([c, x, y], ifelse(c, x * 2, y + 1))
    a, b = np.ones((2, 3)), np.ones((4, 1))
    np.testing.assert_array_equal(f(1, a, b), 2 * a)
    np.testing.assert_array_equal(f(0, a, b), b + 1)


def test_types_must_not_differ():
    c = T.iscalar("c")
    with pytest.raises(TypeError, match="branch"):
        ifelse(c, T.dvector(), T.fvector())
    with pytest.raises(TypeError, match="branch"):
        ifelse(c, T.dvector(), T.dmatrix())
    with pytest.raises(TypeError, match="dimensions"):
        ifelse(T.ivector(), T.dvector(), T.dvector())
    with pytest.raises(ValueError, match="branch"):
        ifelse(c, [T.dvector()], [T.dvector(), T.dvector()])


def test_what_fails_in_the_other_branch_does_not_matter():
    c, x, i = T.iscalar("c"), T.dvector("x"), T.lvector("i")
    f = snug.function([c, x, i], ifelse(c, x[i], x * 0))
    with pytest.raises(IndexError):
        f(1, [1.0, 2.0], [5, 6])
    assert f(0, [1.0, 2.0], [5, 6]).tolist() == [0.0, 0.0]


def test_gradients_run_through_one_branch_only():
    seen = []
    c, x, y = T.iscalar("c"), T.dvector("x"), T.dvector("y")
    W = snug.shared(np.array([2.0, 3.0]), "W")
    cost = ifelse(c, noted(x * W, seen, "then") ** 2, noted(y * W, seen, "else")).sum()
    f = snug.function([c, x, y], T.grad(cost, [x, y, W]))
    a, b, w = np.array([1.0, 2.0]), np.array([3.0, 4.0]), W.get_value()
    for got, want in zip(f(1, a, b), [2 * a * w * w, 0 * b, 2 * a * a * w]):
        np.testing.assert_allclose(got, want)
    assert "else" not in seen
    seen.clear()
    for got, want in zip(f(0, a, b), [0 * a, w, b]):
        np.testing.assert_allclose(got, want)
    assert "then" not in seen


def test_updates():
    c = T.iscalar("c")
    w = snug.shared(1.0, "w")
    f = snug.function([c], [], updates=[(w, ifelse(c, w * 2, w - 1))])
    f(1)
    f(1)
    f(0)
    assert w.get_value() == 3.0


def test_branches_in_branches():
    a, b, x = T.iscalar("a"), T.iscalar("b"), T.dscalar("x")
    f = snug.function([a, b, x], ifelse(a, ifelse(b, x, x * 2), ifelse(b, x * 3, x * 4)))
    assert [float(f(i, j, 1.0)) for i in (1, 0) for j in (1, 0)] == [1.0, 2.0, 3.0, 4.0]


def test_in_loops():
    seen = []
    x = T.dvector("x")

    def step(i, elements, states):
        (e,), (s,) = elements, states
        larger = noted(T.exp(e * s), seen, "then")
        return [ifelse(T.gt(e, s), larger, s * e)], []

    states, _ = snug.loop(step, [x], [T.constant(0.5, dtype="float64")])
    f = snug.function([x], states[0])
    g = snug.function([x], T.grad(states[0], x))
    a = np.array([1.0, 0.3, 0.9])

    def by_hand(values):
        s = 0.5
        for e in values:
            s = np.exp(e * s) if e > s else s * e
        return s

    np.testing.assert_allclose(f(a), by_hand(a))
    assert len(seen) == 2  # for the first and the last element
    for k, got in enumerate(g(a)):
        step_ = 1e-6 * np.eye(3)[k]
        want = (by_hand(a + step_) - by_hand(a - step_)) / 2e-6
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_jacobians_and_second_derivatives():
    c, x = T.iscalar("c"), T.dvector("x")
    y = ifelse(c, x**3, T.exp(x))
    f = snug.function([c, x], [T.jacobian(y, x), T.hessian(y.sum(), x)])
    a = np.array([1.0, 2.0])
    np.testing.assert_allclose(f(1, a), [np.diag(3 * a**2), np.diag(6 * a)])
    np.testing.assert_allclose(f(0, a), [np.diag(np.exp(a))] * 2)


def test_leaves_and_constants():
    c, x = T.iscalar("c"), T.dscalar("x")
    f = snug.function([c, x], ifelse(c, x, T.constant(5.0, dtype="float64")))
    assert f(1, 2.0) == 2.0 and f(0, 2.0) == 5.0


def test_memory_is_that_of_the_chosen_branch():
    c, x = T.iscalar("c"), T.fmatrix("x")
    big = T.dot(T.dot(x, x), T.dot(x.T, x)).sum()
    f = snug.function([c, x], ifelse(c, big, x[0, 0]))
    a = np.ones((200, 200), "float32")
    f(1, a)
    f(0, a)
    assert f(0, a) == 1.0


@pytest.mark.parametrize("mode", ["fast", "reference", "check"])
def test_modes(mode):
    c, x = T.iscalar("c"), T.dmatrix("x")
    f = snug.function([c, x], ifelse(c, T.exp(x).sum(axis=0), x[0]), mode=mode)
    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(f(1, a), np.exp(a).sum(axis=0))
    np.testing.assert_allclose(f(0, a), a[0])


def test_sizes_of_the_branch_not_taken_are_not_checked():
    c, a, b = T.iscalar("c"), T.dmatrix("a"), T.dmatrix("b")
    x, y = np.ones((2, 3)), np.ones((2, 4))
    for fits, other in [(a * 2, T.dot(a, b)), (b.sum(0), (a + b).sum(0)), (a, T.exp(a) * b)]:
        for mode in ("fast", "reference", "check"):
            f = snug.function([c, a, b], ifelse(c, fits, other), mode=mode)
            want = snug.function([a, b], fits, on_unused_input="ignore")(x, y)
            np.testing.assert_array_equal(f(1, x, y), want)
            with pytest.raises(ValueError, match="shape error"):
                f(0, x, y)


def test_memory_of_a_computed_condition():
    x = T.tensor("float32", (False, True), name="x")
    c = T.fvector("c")
    f = snug.function([c, x], ifelse(T.gt(c.sum(), 0), x * 2, x))
    report = f.memory(c=(2,), x=(3, 1))
    assert report.arena >= 0
    assert f(np.ones(2, "float32"), np.ones((3, 1), "float32")).shape == (3, 1)


def test_values_sized_by_an_argument():
    n, c = T.lscalar("n"), T.lscalar("c")
    for y, want in [
        (T.zeros((n, 3), "float32"), np.zeros((2, 3))),
        (T.alloc(2.5, n), np.full(2, 2.5)),
        (T.arange(n) * 1.0, np.arange(2.0)),
    ]:
        f = snug.function([n, c], ifelse(c, y, y + 1))
        np.testing.assert_array_equal(f(2, 1), want)
        np.testing.assert_array_equal(f(2, 0), want + 1)


NESTED = {
    "same": (lambda c, x, a: ifelse(c > 0, x, a + 1), lambda c, x, a: x if c > 0 else a + 1),
    "other": (
        lambda c, x, a: ifelse(a.sum() > 0, x, 3 * x),
        lambda c, x, a: x if a.sum() > 0 else 3 * x,
    ),
    "later": (lambda c, x, a: ifelse(c > 1, x, a + 1), lambda c, x, a: x if c > 1 else a + 1),
    "slice": (
        lambda c, x, a: ifelse(c > 0, a[1:], x[1:]),
        lambda c, x, a: a[1:] if c > 0 else x[1:],
    ),
    "mod": (lambda c, x, a: ifelse(c > 0, x, x % a), lambda c, x, a: x if c > 0 else x % a),
    "sizes": (
        lambda c, x, a: ifelse(c > -9, ifelse(a[0] > 0, x[:1], a), x),
        lambda c, x, a: (x[:1] if a[0] > 0 else a) if c > -9 else x,
    ),
    "three": (
        lambda c, x, a: ifelse(c > -9, ifelse(a.sum() > 0, ifelse(a[0] > 1, x, a), x + 2), x),
        lambda c, x, a: ((x if a[0] > 1 else a) if a.sum() > 0 else x + 2) if c > -9 else x,
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested(name):
    make, expected = NESTED[name]
    x = T.dvector("x")
    c = x.sum()
    y = make(c, x, ifelse(c > 0, x, 2 * x))
    f = snug.function([x], [y, T.grad(T.sqr(y).sum(), x)])
    g = snug.function([x], y, mode="reference")
    for value in ([1.0, -3, 1], [1, 3, 1], [2, 0.5, -1], [-1, -20, 1], [0.25, 0.5, -0.5]):
        v = np.array(value)
        want = expected(v.sum(), v, v if v.sum() > 0 else 2 * v)
        got, gradient = f(v)
        np.testing.assert_allclose(got, want)
        np.testing.assert_allclose(g(v), want)
        step = 1e-6

        def cost(v):
            return (expected(v.sum(), v, v if v.sum() > 0 else 2 * v) ** 2).sum()

        numeric = [(cost(v + step * e) - cost(v - step * e)) / (2 * step) for e in np.eye(3)]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)


def test_a_condition_inside_is_not_asked_for_nothing():
    """What the inner condition needs may be wrong where the outer one refuses it."""
    x = T.dvector("x")
    y = ifelse(T.gt(x.size, 0), ifelse(x[0] > 0, x, -x), x)
    f = snug.function([x], y)
    np.testing.assert_array_equal(f(np.array([-2.0, 1])), [2, -1])
    assert f(np.zeros(0)).shape == (0,)


def test_nested_in_a_scan():
    xs = T.dmatrix("xs")

    def step(x, h):
        a = ifelse(x.sum() > 0, x, 2 * x)
        return ifelse(h.sum() > 0, a + h, ifelse(a[0] > 0, a - h, h * 0.5))

    outputs, _ = snug.scan(step, xs, T.zeros((3,), "float64") - 1)
    f = snug.function([xs], outputs)
    values = np.random.RandomState(0).randn(8, 3)
    h, want = -np.ones(3), []
    for x in values:
        a = x if x.sum() > 0 else 2 * x
        h = a + h if h.sum() > 0 else a - h if a[0] > 0 else h * 0.5
        want.append(h)
    np.testing.assert_allclose(f(values), want)
