"""Functions whose batch runs in slices: the same results, what is refused, and budgets."""

import numpy as np
import pytest

import snug
import snug.tensor as T

f32 = np.float32


def values(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(f32)


def expect_same_in_slices(inputs, outputs, arguments, **near):
    """In slices of equal size, with a smaller last one, and one row each."""
    whole = snug.function(inputs, outputs)(*arguments)
    for slices in (2, 3, 100):
        f = snug.function(inputs, outputs, micro_batches=slices)
        assert "rows of the batch run in at most" in f.explain()
        for a, b in zip(f(*arguments), whole):
            np.testing.assert_allclose(a, b, **{"rtol": 2e-5, "atol": 1e-5, **near})


# ---- axes that the batch is folded into

X = T.tensor3("x")  # (n, t, 6)
LABELS = T.imatrix("labels")  # (n, t)
W = snug.shared(values(6, 4), "W")
TABLE = snug.shared(values(4, 6), "table")


def with_gradient(y, *by):
    return [y, *T.grad(T.sqr(y).mean(), list(by))]


def logits():
    return T.dot(X.reshape((-1, 6)), W)


def heads():
    """Attention of two heads, each of the batch's rows by itself."""
    n, t = X.shape[0], X.shape[1]
    q = T.dot(X.reshape((-1, 6)), W.dot(W.T)).reshape((n, t, 2, 3)).dimshuffle(0, 2, 1, 3)
    q = q.reshape((-1, t, 3))
    scores = T.nnet.softmax(T.batched_dot(q, q.dimshuffle(0, 2, 1)).reshape((-1, t)))
    out = T.batched_dot(scores.reshape((n * 2, t, t)), q)
    return out.reshape((n, 2, t, 3)).dimshuffle(0, 2, 1, 3).reshape((n, t, 6))


def log_likelihood(count):
    return -T.log(T.nnet.softmax(logits()))[T.arange(count), LABELS.flatten()]


FOLDED = {
    "-1": lambda: with_gradient(logits(), W),
    "n * t": lambda: with_gradient(T.dot(X.reshape((X.shape[0] * X.shape[1], 6)), W), W, X),
    "and back": lambda: with_gradient(logits().reshape((X.shape[0], X.shape[1], 4)), W, X),
    "and back by -1": lambda: with_gradient(logits().reshape((X.shape[0], -1, 4)).sum(1), W),
    "everything": lambda: [X.flatten() * 2, X.flatten().sum()],
    "in part": lambda: [
        X.reshape((X.shape[0] * 2, -1)).max(1),
        X.reshape((X.shape[0], -1)).sum(0),
    ],
    "dot of three axes": lambda: with_gradient(T.dot(X, W), W, X),
    "tensordot": lambda: with_gradient(T.tensordot(X, W, axes=[[2], [0]]), W),
    "heads": lambda: with_gradient(heads(), W, X),
    "stretched": lambda: [logits() + T.alloc(W[0], X.shape[0] * X.shape[1], 4)],
    "numbered": lambda: [logits() * T.arange(logits().shape[0]).dimshuffle(0, "x")],
    "on another axis": lambda: [T.dot(W.T, X.reshape((-1, 6)).T), X.reshape((-1, 6)).T.sum(1)],
}


@pytest.mark.parametrize("name", FOLDED)
def test_a_batch_may_be_folded_with_the_axes_behind(name):
    expect_same_in_slices([X], FOLDED[name](), [values(7, 3, 6)])


@pytest.mark.parametrize("count", ["of labels", "of rows"])
def test_labels_of_a_folded_batch(count):
    n = LABELS.shape[0] * LABELS.shape[1] if count == "of labels" else logits().shape[0]
    y = log_likelihood(n)
    labels = np.random.default_rng(2).integers(0, 4, (7, 3)).astype("int32")
    expect_same_in_slices([X, LABELS], with_gradient(y, W), [values(7, 3, 6), labels])
    cost = T.nnet.categorical_crossentropy(T.nnet.softmax(logits()), LABELS.flatten()).mean()
    expect_same_in_slices([X, LABELS], [cost, T.grad(cost, W)], [values(7, 3, 6), labels])
    f = snug.function([X, LABELS], y, micro_batches=2)
    with pytest.raises(ValueError):
        f(values(7, 3, 6), labels[:6])


def test_a_fold_that_may_mix_rows_is_refused_at_the_call():
    y = X.reshape((-1, 4)).sum(1)
    f = snug.function([X], y, micro_batches=2)
    np.testing.assert_allclose(f(np.ones((5, 3, 4), f32)), np.full(15, 4))
    with pytest.raises(ValueError, match="rows of the batch could mix"):
        f(np.ones((2, 3, 6), f32))
    # Where slices are only one way to keep to a budget, it is another that is taken.
    whole = snug.function([X], y).memory(x=(2, 3, 6))
    with pytest.raises(MemoryError):
        snug.function([X], y, memory=whole.peak - 8)(np.ones((2, 3, 6), f32))


def test_rows_of_a_table_by_a_folded_batch():
    rows = TABLE[LABELS.flatten()].reshape((LABELS.shape[0], LABELS.shape[1], 6))
    labels = np.random.default_rng(2).integers(0, 4, (7, 3)).astype("int32")
    expect_same_in_slices([LABELS], with_gradient(rows.sum(1), TABLE), [labels])


def test_a_folded_batch_draws_the_numbers_of_the_whole():
    def draw(**options):
        stream = T.shared_randomstreams.RandomStreams(3)
        y = X.reshape((-1, 6)) * stream.normal((X.shape[0] * X.shape[1], 6))
        return snug.function([X], y, **options)(np.ones((7, 3, 6), f32))

    np.testing.assert_array_equal(draw(), draw(micro_batches=4))


# ---- what is refused

m = T.matrix("m")

REFUSED = {
    "sort needs several rows at once: it runs along the batch": lambda: T.sort(m, axis=0),
    "cumsum needs several rows at once: it runs along the batch": lambda: T.cumsum(m, axis=0),
    "subtensor needs several rows at once: it picks rows": lambda: m[np.array([1, 0])],
    "subtensor needs several rows at once: it takes part of": lambda: m[::-1],
    "set_subtensor needs several rows at once: it changes": lambda: T.set_subtensor(m[1:], 0.0),
    "concatenate needs several rows at once: it runs along": lambda: T.concatenate([m, m], axis=0),
    "dot needs several rows at once: the batch would be on two axes": lambda: T.dot(m, m.T),
    "mul needs several rows at once: the batch would be on two": lambda: (
        m[:, 0].dimshuffle(0, "x") * m[:, 0].dimshuffle("x", 0)
    ),
    "flatten needs several rows at once: the batch is not the first": lambda: m.T.flatten(),
    "argmax needs several rows": lambda: T.argmax(m, axis=0),
    r"sub combines rows with a value of the whole batch, by sum \(.*test_micro": lambda: (
        m - m.sum(axis=0)
    ),
    "scan does not work on slices": lambda: snug.scan(lambda r: r * 2, sequences=[m.T])[0],
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_needs_several_rows_is_refused_by_name(text):
    with pytest.raises(ValueError, match="micro_batches: " + text) as caught:
        snug.function([m], REFUSED[text](), micro_batches=2)
    assert "test_micro_batches.py" in str(caught.value)


# ---- budgets


def network(rows=480, layers=6, **options):
    x, y = T.matrix("x"), T.matrix("y")
    weights = [snug.shared(values(48, 48, seed=k) / 7, f"w{k}") for k in range(layers)]
    h = x
    for w in weights:
        h = T.tanh(T.dot(h, w))
    loss = T.sqr(h - y).mean()
    updates = [(w, w - 0.1 * g) for w, g in zip(weights, T.grad(loss, weights))]
    f = snug.function([x, y], [loss, h], updates=updates, **options)
    return f, weights, {"x": (rows, 48), "y": (rows, 48)}


def train(f, weights, shapes):
    arguments = [values(*shape, seed=9) for shape in shapes.values()]
    outputs = [f(*arguments) for _ in range(2)]
    return [a for out in outputs for a in out] + [w.get_value() for w in weights]


@pytest.mark.parametrize(("slices", "percents"), [(2, (40, 70, 80, 90, 100)), (7, (84, 92, 100))])
def test_recomputation_inside_slices(slices, percents):
    f, weights, shapes = network(micro_batches=slices)
    plain, want = f.memory(**shapes), train(f, weights, shapes)
    assert (plain.slices, plain.slice_rows) == (slices, -(-480 // slices))
    slower, plans = np.inf, 0
    for percent in percents:
        budget = plain.peak * percent // 100
        with snug.config.change_flags(share_arenas=False):
            f, weights, shapes = network(micro_batches=slices, memory=budget)
        try:
            plan = f.memory(**shapes)
        except MemoryError:
            assert plans == 0, "a smaller budget was met"
            continue
        plans += 1
        assert plan.peak <= budget and plan.seconds <= slower
        assert not plan.recomputed or budget < plain.peak
        slower = plan.seconds
        before = snug.process_memory().arenas
        got = train(f, weights, shapes)
        assert 0 <= snug.process_memory().arenas - before - plan.arena < 4096
        for a, b in zip(got, want):
            np.testing.assert_array_equal(a, b)  # to the bit
    assert plans > 1


def test_budgets_choose_slices_and_recomputation():
    f, weights, shapes = network(layers=8)
    plain, want = f.memory(**shapes), train(f, weights, shapes)
    slower, ways = np.inf, set()
    for percent in (100, 90, 65, 45):
        budget = plain.peak * percent // 100
        f, weights, shapes = network(layers=8, memory=budget)
        try:
            plan = f.memory(**shapes)
        except MemoryError:
            break
        assert plan.peak <= budget
        assert slower == np.inf or plan.seconds >= slower
        slower = plan.seconds
        ways.add((plan.micro_batches > 1, bool(plan.recomputed)))
        for a, b in zip(train(f, weights, shapes), want):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)
        assert (plan.micro_batches > 1) == f.explain().startswith("the last call ran in slices")
    assert (False, False) in ways and len(ways) > 1


def test_few_rows_need_both_slices_and_recomputation():
    x = T.tensor3("x")
    w = snug.shared(values(48, 48) / 7, "w")
    h = x.reshape((-1, 48))
    for _ in range(8):
        h = T.tanh(T.dot(h, w))
    outputs = [T.grad(T.sqr(h).mean(), w), h.reshape(x.shape)]
    value = values(2, 500, 48)
    slices = snug.function([x], outputs, micro_batches=2)
    want, peak = slices(value), slices.memory(x=value.shape).peak
    f = snug.function([x], outputs, memory=peak * 8 // 10, micro_batches=2)
    plan = f.memory(x=value.shape)
    assert plan.slices == 2 and plan.recomputed and plan.peak <= peak * 8 // 10
    for a, b in zip(f(value), want):
        np.testing.assert_array_equal(a, b)


def test_what_slices_say_of_themselves():
    f, weights, shapes = network(micro_batches=4)
    plan = f.memory(**shapes)
    sums = sum(w.get_value().nbytes for w in weights)
    assert sums <= plan.accumulators <= sums + 64  # and the loss
    assert plan.as_dict()["slices"] == 4 and plan.as_dict()["slice_rows"] == 120
    assert "the batch runs in 4 slices of 120 rows; what they sum up takes" in str(plan)
    assert "live throughout" in str(plan)
    assert "all alive at once: they are sums over the micro-batches" in str(plan)
    train(f, weights, shapes)
    assert "4 slices of 120 rows: arena" in f.explain()
    assert network()[0].memory(**shapes).slices == 0


def test_a_loop_recomputes_too():
    u = snug.shared(values(32, 32) / 6, "u")
    x = T.tensor3("x")

    def step(row, state):
        h = row
        for _ in range(6):
            h = T.tanh(T.dot(h, u))
        return T.tanh(state + h)

    states, _ = snug.scan(step, sequences=[x], outputs_info=[T.zeros_like(x[0])])
    outputs = [T.grad(states[-1].sum(), u), states[-1]]
    value = values(5, 400, 32)
    free = snug.function([x], outputs)
    want, peak = free(value), free.memory(x=value.shape).peak
    f = snug.function([x], outputs, memory=int(0.9 * peak), micro_batches=1)
    plan = f.memory(x=value.shape)
    assert plan.recomputed and plan.peak <= int(0.9 * peak)
    for a, b in zip(f(value), want):
        np.testing.assert_array_equal(a, b)
