"""Random graphs under budgets, budgets of whole functions, and many calls with changing shapes."""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import snug
import snug.tensor as T
from random_programs import Program
from snug import nn, optim
from snug.tensor.shared_randomstreams import RandomStreams


class Network:
    """A random graph of matrices with skips, products, sums and dropout, and its gradients."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        self.rows, self.columns = int(rng.integers(60, 140)), int(rng.integers(8, 40))
        self.x = T.matrix("x")
        self.weights, self.stream = [], RandomStreams(seed)
        values = [self.x]
        for _ in range(int(rng.integers(6, 20))):
            values.append(self.step(values))
        loss = T.sqr(values[-1]).mean() + T.sqr(values[-2]).mean()
        wrt = [self.x, *self.weights]
        self.outputs = [loss, *snug.grad(loss, wrt, disconnected_inputs="ignore"), values[-1]]
        self.value = rng.standard_normal((self.rows, self.columns)).astype("float32")

    def step(self, values):
        recent = values[max(0, len(values) - 3) :]
        a = recent[self.rng.integers(len(recent))]
        b = values[self.rng.integers(len(values))]
        return [
            lambda: T.tanh(self.product(a)),
            lambda: T.nnet.relu(self.product(a)) + b,
            lambda: a * T.nnet.sigmoid(b),
            lambda: T.nnet.softmax(a + b),
            lambda: a - a.mean(axis=0, keepdims=True),
            lambda: a / (1 + T.sqr(b).sum(axis=1, keepdims=True)),
            lambda: T.concatenate([a[:, ::2], b[:, 1::2]], axis=1),
            lambda: T.dot(T.dot(a, a.T) / self.rows, b),
            lambda: T.switch(self.stream.binomial(a.shape, p=0.7), a, 0).astype("float32"),
        ][self.rng.integers(9)]()

    def product(self, a):
        scale = np.float32(self.columns**-0.5)
        w = scale * self.rng.standard_normal((self.columns, self.columns)).astype("float32")
        self.weights.append(snug.shared(w, f"w{len(self.weights)}"))
        return T.dot(a, self.weights[-1])

    def function(self, **options):
        return snug.function([self.x], self.outputs, no_default_updates=True, **options)


def budgets_between(low, high, count):
    return [int(low + (high - low) * k / (count - 1)) for k in range(count)]


def planned(function, budget, *shapes):
    """The plan within a budget, or None."""
    try:
        return function(memory=budget, plan_only=True).memory(*shapes)
    except MemoryError:
        return None


def check_sweep(function, shapes, count, **options):
    """Plans follow the budget: with less of it they are lower and slower, until none is found."""
    plain = function(plan_only=True, **options).memory(*shapes)
    peak, seconds, smallest, refused = plain.peak, plain.seconds, plain.peak, 0
    for budget in reversed(budgets_between(0.98 * plain.floor, plain.peak, count)):
        plan = planned(lambda **o: function(**o, **options), budget, *shapes)
        if plan is None:
            refused += 1
            if refused == 3:  # a refusal plans what would fit, which takes its time
                break
            continue
        assert not refused, f"{budget} is met, {smallest} was the smallest"
        assert plan.peak <= min(peak, budget)
        assert plan.seconds >= seconds * (1 - 1e-12)
        peak, seconds, smallest = plan.peak, plan.seconds, budget
    return plain, smallest


@pytest.mark.parametrize("seed", range(8))
def test_random_networks(seed):
    network = Network(seed)
    shapes = [network.value.shape]
    plain, smallest = check_sweep(network.function, shapes, 12, micro_batches=1)
    want = network.function()(network.value)
    for budget in budgets_between(smallest, plain.peak, 4)[:-1]:
        f = network.function(memory=budget, micro_batches=1)
        assert f.memory(*shapes).peak <= budget
        for a, b in zip(f(network.value), want, strict=True):
            np.testing.assert_array_equal(a, b)


def recomputes(network):
    """Whether most of what can be saved is saved, by tasks that run again."""
    shapes = [network.value.shape]
    plain = network.function(plan_only=True).memory(*shapes)
    budget = int(plain.floor + 0.7 * (plain.peak - plain.floor))
    plan = planned(lambda **o: network.function(micro_batches=1, **o), budget, *shapes)
    return plan is not None and bool(plan.recomputed)


def test_some_random_networks_recompute():
    assert sum(recomputes(Network(seed)) for seed in range(8)) > 2


@pytest.mark.parametrize("batch", range(6))
def test_random_programs(batch):
    """Programs over all rows of the op table: bits do not depend on the budget."""
    for seed in range(20 * batch, 20 * (batch + 1)):
        program = Program(seed)
        outputs = [item.x for item in program.items[len(program.inputs) :]] or program.inputs
        make = lambda program=program, outputs=outputs, **o: snug.function(
            program.inputs, outputs, on_unused_input="ignore", micro_batches=1, **o
        )
        plain = make()
        try:
            m = plain.memory(*program.values)
        except MemoryError:
            raise AssertionError(f"seed {seed}: refused without a budget") from None
        want = plain(*program.values)
        for budget in {m.floor, (m.floor + m.peak) // 2, m.peak - 1}:
            if budget <= 0:
                continue
            f = make(memory=budget)
            try:
                got = f(*program.values)
            except MemoryError:
                continue
            for a, b in zip(got, want, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=f"seed {seed}, budget {budget}")


@pytest.mark.parametrize("name", ["logistic", "lenet"])
def test_200_budgets_of_functions(name):
    """By all techniques, slices of the batch among them."""
    size = (1, 28, 28)
    model = nn.make_model(name, size)
    x, y = T.tensor4("x"), T.lvector("y")
    loss = nn.cross_entropy(model(x, training=True), y)
    updates = optim.momentum(loss, model.parameters(), 0.1)
    make = lambda **options: snug.function([x, y], loss, updates=updates, **options)
    check_sweep(make, [(256, *size), (256,)], 200)


def test_frontiers_are_kept():
    """All budgets of one program and sizes share the searches; answers do not depend on that."""
    network = Network(3)
    shapes = [network.value.shape]
    plain = network.function(plan_only=True).memory(*shapes)
    budgets = budgets_between(plain.floor, plain.peak - 1, 12)

    def sweep(order, forget):
        found, searches = {}, 0
        for budget in order:
            f = network.function(memory=budget, micro_batches=1, plan_only=True)
            try:
                plan = f.memory(*shapes)
                found[budget] = plan.peak, plan.seconds, plan.recomputed
            except MemoryError as refusal:
                found[budget] = str(refusal).splitlines()[0]
            searches += f.counter("frontiers")
            if forget:
                f.free()
        return found, searches

    anew, searches = sweep(budgets, True)
    assert searches >= 11
    kept, first = sweep(reversed(budgets), False)
    assert kept == anew and first < searches / 3
    again, later = sweep(budgets, False)
    assert again == anew and later == 0


SOAK = """
import numpy as np, snug, snug.tensor as T
from snug import nn, optim
def resident():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Rss:"))
model = nn.Sequential(nn.Dense(24, activation="tanh"), nn.Dense(24, activation="tanh"), nn.Dense(4))
x, y = T.matrix("x"), T.lvector("y")
loss = nn.cross_entropy(model.build((None, 8))(x), y)
updates = optim.momentum(loss, model.parameters(), 0.01)
make = lambda **options: snug.function([x, y], loss, updates=updates, threads=1, **options)
plain = make(plan_only=True).memory((200, 8), (200,))
step = make(memory=plain.peak - (plain.peak - plain.floor) // 4)
plan = step.memory((200, 8), (200,))
assert plan.recomputed or plan.micro_batches > 1
batches = [(np.ones((n, 8), "float32"), np.zeros(n, "int64")) for n in range(1, 201, 7)]
order = np.random.default_rng(1).integers(0, len(batches), 10_000)
for images, labels in batches:
    step(images, labels)
for k in order[:500]:
    step(*batches[k])
before = resident()
for k in order[500:]:
    step(*batches[k])
print(resident() - before, step.counter("calls"))
"""


def test_ten_thousand_calls_with_changing_shapes():
    run = subprocess.run([sys.executable, "-c", SOAK], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    growth, _ = map(int, run.stdout.split())
    assert growth <= 64 * 1024


@pytest.mark.parametrize(
    "text, bytes", [("4gib", 4 << 30), ("1.5 KB", 1500), ("2pb", 2 * 10**15), ("1PiB", 1 << 50)]
)
def test_units_of_memory(text, bytes):
    tool = [pathlib.Path(sys.executable).parent / "snug", "plan", "logistic", "--batch", "1"]
    done = subprocess.run([*tool, "--json", "--memory", text], capture_output=True, text=True)
    assert json.loads(done.stdout)["budget"] == bytes


@pytest.mark.parametrize(
    "text", ["inf", "1e30", "99999999999999999999GiB", "nan", "0x10", "4G", "4Gi", "0", "-1", "0.5"]
)
def test_amounts_that_are_refused(text):
    with pytest.raises(ValueError, match=r"is (no amount of memory|more than any machine has)"):
        snug.function([], T.constant(1.0) * 2, memory=text)
    with pytest.raises(ValueError, match=r"config.memory: '.*' is (no amount|more than)"):
        snug.config.memory = text


def test_true_is_no_amount():
    with pytest.raises(TypeError, match="memory must be bytes or text"):
        snug.function([], T.constant(1.0) * 2, memory=True)


def test_refusals_name_budgets_that_work():
    x = T.fmatrix("x")
    w = snug.shared(np.zeros((64, 256), "float32"), "w")
    make = lambda **how: snug.function([x], T.tanh(T.dot(x, w)).sum(axis=0), **how)
    whole = {"micro_batches": 1, "recompute": False}
    rows = np.ones((512, 64), "float32")
    with pytest.raises(MemoryError, match=r"needs .*impossible") as refusal:
        make(memory=10).memory((512, 64))
    smallest = re.search(r'memory="([\d.]+\w+)"', str(refusal.value))[1]
    assert make(memory=smallest).memory((512, 64)).peak > 10
    other = snug.shared(np.zeros(1 << 18, "float32"), "other")
    snug.config.memory = snug.process_memory().counted + (64 << 10)
    try:
        with pytest.raises(MemoryError, match=r"of config\.memory=.* other variables") as refusal:
            make(**whole)(rows)
        assert "(axis 0 of x)" in str(refusal.value)
        snug.config.memory = re.search(r'config\.memory="([\d.]+\w+)"', str(refusal.value))[1]
        assert make(**whole)(rows).shape == (256,)
    finally:
        snug.config.memory = None
    assert other.get_value().size == 1 << 18
