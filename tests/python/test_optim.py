"""Update rules against loops in NumPy, written from the formulas of torch.optim."""

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import optim

STEPS = 12
TARGETS = np.random.default_rng(0).normal(size=(STEPS, 3, 4))


def start():
    rng = np.random.default_rng(1)
    return [rng.normal(size=(3, 4)), rng.normal(size=(4,))]


def gradients(w, b, target):
    """Of the loss ((w * b - target)^2 * weights).sum()."""
    d = 2 * (w * b - target)
    return [d * b, (d * w).sum(0)]


def trained(rule, *arguments, steps=STEPS, **options):
    """The parameters and the updates after some steps of a rule."""
    w, b = (snug.shared(v, n) for v, n in zip(start(), "wb"))
    target = T.dmatrix("target")
    updates = rule(((w * b - target) ** 2).sum(), [w, b], *arguments, **options)
    step = snug.function([target], [], updates=updates)
    for k in range(steps):
        step(TARGETS[k])
    return [w.get_value(), b.get_value()], updates


def expected(step, steps=STEPS, clip=lambda gs: gs, decay=0.0):
    """step(t, p, g, state) gives the new parameter; `state` is a dict of its own per parameter."""
    params, states = start(), [{}, {}]
    for t in range(steps):
        gs = clip(gradients(*params, TARGETS[t]))
        params = [step(t + 1, p, g + decay * p, s) for p, g, s in zip(params, gs, states)]
    return params


def close(found, wanted):
    for a, b in zip(found, wanted):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def adam_numpy(rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, shrink=0.0):
    def step(t, p, g, s):
        r = rate(t - 1) if callable(rate) else rate
        p = p * (1 - r * shrink)
        s["m"] = beta1 * s.get("m", 0) + (1 - beta1) * g
        s["v"] = beta2 * s.get("v", 0) + (1 - beta2) * g * g
        root = np.sqrt(s["v"]) / np.sqrt(1 - beta2**t)
        return p - r / (1 - beta1**t) * s["m"] / (root + epsilon)

    return step


def test_sgd():
    close(trained(optim.sgd, 0.01)[0], expected(lambda t, p, g, s: p - 0.01 * g))


def test_weight_decay():
    found, _ = trained(optim.sgd, 0.01, weight_decay=0.1)
    close(found, expected(lambda t, p, g, s: p - 0.01 * g, decay=0.1))


def test_momentum():
    def step(t, p, g, s):
        s["v"] = 0.8 * s.get("v", 0) + g
        return p - 0.01 * s["v"]

    found, updates = trained(optim.momentum, 0.01, 0.8)
    close(found, expected(step))
    assert [s.name for s in updates.states] == ["w.momentum", "b.momentum"]


def test_nesterov():
    def step(t, p, g, s):
        s["v"] = 0.9 * s.get("v", 0) + g
        return p - 0.01 * (g + 0.9 * s["v"])

    close(trained(optim.nesterov, 0.01)[0], expected(step))


def test_adagrad():
    def step(t, p, g, s):
        s["s"] = s.get("s", 0) + g * g
        return p - 0.1 * g / (np.sqrt(s["s"]) + 1e-10)

    close(trained(optim.adagrad, 0.1)[0], expected(step))


def test_adadelta():
    def step(t, p, g, s):
        s["s"] = 0.9 * s.get("s", 0) + 0.1 * g * g
        d = np.sqrt(s.get("e", 0) + 1e-6) / np.sqrt(s["s"] + 1e-6) * g
        s["e"] = 0.9 * s.get("e", 0) + 0.1 * d * d
        return p - d

    close(trained(optim.adadelta)[0], expected(step))


@pytest.mark.parametrize("momentum", [0, 0.5])
@pytest.mark.parametrize("centered", [False, True])
def test_rmsprop(momentum, centered):
    def step(t, p, g, s):
        s["s"] = 0.95 * s.get("s", 0) + 0.05 * g * g
        s["m"] = 0.95 * s.get("m", 0) + 0.05 * g
        s["v"] = momentum * s.get("v", 0) + g / (
            np.sqrt(s["s"] - (s["m"] ** 2 if centered else 0)) + 1e-8
        )
        return p - 0.01 * s["v"]

    found, _ = trained(optim.rmsprop, 0.01, 0.95, momentum=momentum, centered=centered)
    close(found, expected(step))


def test_adam():
    found, updates = trained(optim.adam)
    close(found, expected(adam_numpy()))
    assert updates.states[0].name == "step" and updates.states[0].get_value() == STEPS


def test_adamw():
    found, _ = trained(optim.adamw, 0.01, weight_decay=0.3)
    close(found, expected(adam_numpy(0.01, shrink=0.3)))


def test_adamax():
    def step(t, p, g, s):
        s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
        s["u"] = np.maximum(0.999 * s.get("u", 0), np.abs(g) + 1e-8)
        return p - 0.002 / (1 - 0.9**t) * s["m"] / s["u"]

    close(trained(optim.adamax)[0], expected(step))


# ---- learning rates


def test_a_shared_rate_can_be_set_between_calls():
    rate = snug.shared(np.float64(0.0))
    p = snug.shared(np.float64(1.0))
    step = snug.function([], [], updates=optim.sgd(p * 2, [p], rate))
    step()
    assert p.get_value() == 1
    rate.set_value(0.25)
    step()
    assert p.get_value() == 0.5


def one_cycle_numpy(t, peak=0.1, steps=10):
    wave = lambda a, b, part: b + (a - b) / 2 * (1 + np.cos(np.pi * part))
    top, end = 0.3 * steps - 1, steps - 1
    if t <= top:
        return wave(peak / 25, peak, t / top)
    return wave(peak, peak / 25 / 1e4, min(1, (t - top) / (end - top)))


SCHEDULES = {
    "constant": (optim.constant(0.1), lambda t: 0.1),
    "step": (optim.step_decay(0.1, 4, 0.5), lambda t: 0.1 * 0.5 ** (t // 4)),
    "exponential": (optim.exponential_decay(0.1, 0.9), lambda t: 0.1 * 0.9**t),
    "cosine": (
        optim.cosine(0.1, 8, 0.01),
        lambda t: 0.01 + 0.09 * (1 + np.cos(np.pi * min(t, 8) / 8)) / 2,
    ),
    "warm_up": (
        optim.warm_up(4, optim.exponential_decay(0.1, 0.9)),
        lambda t: 0.1 * (t + 1) / 4 if t < 4 else 0.1 * 0.9 ** (t - 4),
    ),
    "warm_up_number": (optim.warm_up(4, 0.1), lambda t: 0.1 * min(1, (t + 1) / 4)),
    "one_cycle": (optim.one_cycle(0.1, 10), one_cycle_numpy),
    "function": (lambda t: np.float64(0.1) / (1 + t), lambda t: 0.1 / (1 + t)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name):
    schedule, wanted = SCHEDULES[name]
    close(trained(optim.adam, schedule)[0], expected(adam_numpy(wanted)))
    t = T.dscalar()
    f = snug.function([t], schedule(t), on_unused_input="ignore")
    np.testing.assert_allclose([f(float(k)) for k in range(12)], [wanted(k) for k in range(12)])


# ---- gradients


def by_norm(gs, limit, together):
    norms = [np.sqrt((g * g).sum()) for g in gs]
    if together:
        norms = [np.sqrt(sum(n * n for n in norms))] * len(gs)
    return [g * min(1, limit / n) for g, n in zip(gs, norms)]


@pytest.mark.parametrize(
    "option, clip",
    [
        ("clip_value", lambda gs: [np.clip(g, -1.5, 1.5) for g in gs]),
        ("clip_norm", lambda gs: by_norm(gs, 1.5, False)),
        ("clip_global_norm", lambda gs: by_norm(gs, 1.5, True)),
    ],
)
def test_clipping(option, clip):
    found, _ = trained(optim.sgd, 0.01, **{option: 1.5})
    close(found, expected(lambda t, p, g, s: p - 0.01 * g, clip=clip))


def test_clipping_of_zeros_gives_zeros():
    g = T.vector("g")
    f = snug.function([g], optim.clip_by_norm([g], 1.0) + optim.clip_by_global_norm([g], 1.0))
    for value in f(np.zeros(3, "float32")):
        np.testing.assert_array_equal(value, 0)


def test_accumulated_gradients_equal_a_larger_batch():
    """Three calls per step: a step with the mean of their gradients, state and averages too."""

    def run(accumulate, calls):
        w, b = (snug.shared(v, n) for v, n in zip(start(), "wb"))
        target = T.dtensor3("target")
        loss = ((w * b - target) ** 2).sum((1, 2)).mean()
        updates = optim.adam(
            loss, [w, b], 0.1, clip_global_norm=2, average=0.5, accumulate=accumulate
        )
        f = snug.function([target], [], updates=updates)
        for call in calls:
            f(call)
        return [v.get_value() for v in [w, b, *updates.averages]], w.get_value()

    parts = TARGETS.reshape(STEPS, 1, 3, 4)
    whole = TARGETS.reshape(STEPS // 3, 3, 3, 4)
    close(run(3, parts)[0], run(1, whole)[0])
    # Between the steps nothing but the sums moves.
    np.testing.assert_array_equal(run(3, parts[:3])[1], run(3, parts[:5])[1])


def test_averages():
    found, updates = trained(optim.sgd, 0.01, average=0.75)
    means = start()
    params = start()
    for t in range(STEPS):
        gs = gradients(*params, TARGETS[t])
        params = [p - 0.01 * g for p, g in zip(params, gs)]
        means = [0.75 * m + 0.25 * p for m, p in zip(means, params)]
    close(found, params)
    close([a.get_value() for a in updates.averages], means)
    assert [a.name for a in updates.averages] == ["w.average", "b.average"]


# ---- types, memory, errors


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("rule", ["sgd", "nesterov", "adagrad", "adadelta", "rmsprop", "adam"])
def test_parameters_keep_their_dtype(rule, dtype):
    p = snug.shared(snug.Recipe((3, 1), dtype), "p", broadcastable=(False, True))
    x = T.fmatrix("x")
    updates = getattr(optim, rule)((p * x).sum(), [p], accumulate=2, average=0.9, clip_norm=1)
    f = snug.function([x], [], updates=updates)
    assert not any(s.materialised for s in updates.states), "state is made at the first call"
    for _ in range(2):
        f(np.ones((3, 2), "float32"))
    assert str(p.get_value().dtype) == dtype
    assert (p.get_value().astype("float64") < 0).all()


def test_a_step_of_adam_is_one_loop():
    p = snug.shared(snug.Recipe((30, 4)), "p")
    x = T.fmatrix("x")
    f = snug.function([x], [], updates=optim.adam(((p * x) ** 2).sum(), [p]))
    assert f.memory(x=(30, 4)).temporaries < 30 * 4 * 4, "no temporary of the parameter's size"


def test_gradients_instead_of_a_loss():
    p = snug.shared(np.ones(3), "p")
    f = snug.function([], [], updates=optim.sgd([2 * p], [p], 0.25))
    f()
    np.testing.assert_array_equal(p.get_value(), 0.5)


def test_errors():
    p = snug.shared(np.ones(3), "p")
    with pytest.raises(TypeError, match="did you mean 'clip_value'"):
        optim.sgd(p.sum(), [p], clip_valu=1)
    with pytest.raises(TypeError, match="no shared variable"):
        optim.sgd(p.sum(), [p * 2])
    with pytest.raises(ValueError, match="beta1 is 1"):
        optim.adam(p.sum(), [p], beta1=1)
    with pytest.raises(ValueError, match="1 gradients for 2 parameters"):
        optim.adam([p], [p, p])
    with pytest.raises(ValueError, match="accumulate is 0"):
        optim.sgd(p.sum(), [p], accumulate=0)
    with pytest.raises(TypeError, match="the rate is"):
        optim.sgd(p.sum(), [p], rate=p)
    with pytest.raises(ValueError, match="no learning rate"):
        optim.constant(-1)
    i = snug.shared(np.ones(3, "int32"), "i")
    with pytest.raises(TypeError, match="has no gradient"):
        optim.sgd(p.sum(), [i])
