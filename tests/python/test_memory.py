"""What functions say of their memory, and that the process keeps to it."""

import gc
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import nn, optim

MIB = 1 << 20
CLASSES = ("gradients", "activations", "temporaries", "workspace", "copies", "gap")


def resident():
    """To the page: /proc/self/status lags behind by what threads have not told yet."""
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Rss:"))


def training(name, rule="adam", **options):
    model = nn.make_model(name)
    x, y = (T.matrix if name == "mlp" else T.tensor4)("x"), T.ivector("y")
    loss = nn.cross_entropy(model(x, training=True), y)
    updates = getattr(optim, rule)(loss, model.parameters(), **options)
    return snug.function([x, y], loss, updates=updates, name=name), model


def in_a_process(code):
    """Runs a program that must succeed; what it prints."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_report_says_where_the_order_is_proved_best():
    x = T.fmatrix("x")
    m = snug.function([x], [T.dot(T.tanh(T.dot(x, x)), x), T.dot(x, x.T).sum()]).memory((64, 64))
    assert m.best_order and m.as_dict()["best_order"]
    assert "no other order of these steps needs less" in str(m)
    y = x
    for _ in range(70):
        y = T.dot(y, y)
    m = snug.function([x], y).memory((64, 64))
    assert m.steps > 64 and not m.best_order and "no other order" not in str(m)


def test_the_report_as_table_and_as_dict():
    f, model = training("lenet")
    m = f.memory(x=(16, 1, 28, 28), y=(16,))
    d = m.as_dict()
    assert json.loads(json.dumps(d)) == d
    b = d["bytes"]
    assert sum(b[c] for c in CLASSES) == b["arena"] == m.arena
    assert b["peak"] == sum(
        b[c] for c in ("arena", "outputs", "parameters", "optimizer", "constants")
    )
    weights = sum(p.get_value().nbytes for p in model.parameters())
    assert b["parameters"] == weights and b["optimizer"] >= 2 * weights
    assert {"inputs", "outputs", "floor", "not_planned"} <= set(b) and b["floor"] <= b["peak"]
    assert sum(a["bytes"] for a in d["alive"]) + b["gap"] == m.arena
    assert all("test_memory.py" in a["where"] for a in d["alive"])
    assert [a.bytes for a in m.alive] == sorted((a.bytes for a in m.alive), reverse=True)
    text = str(m)
    for word in ("parameters", "optimizer state", "activations", "gap", "peak", "not planned"):
        assert word in text
    assert f"step {m.step} of {m.steps}" in text and "test_memory.py" in m.peak_step


@pytest.mark.parametrize(
    "name, shape, rule, options",
    [
        ("mlp", (32, 784), "momentum", {}),
        ("vgg-small", (8, 3, 32, 32), "sgd", {}),
        ("resnet18", (4, 3, 64, 64), "adam", {}),
        ("mobilenet", (4, 3, 64, 64), "momentum", {"clip_global_norm": 1.0}),
        ("unet", (1, 3, 64, 64), "rmsprop", {}),
    ],
)
def test_classes_sum_up_to_the_arena_of_models(name, shape, rule, options):
    model = nn.make_model(name, input=shape[1:], classes=3)
    x = T.TensorType("float32", (False,) * len(shape))("x")
    loss = T.sqr(model(x, training=True)).mean()
    parameters = model.parameters()
    f = snug.function([x], loss, updates=getattr(optim, rule)(loss, parameters, **options))
    before = resident()
    m = f.memory(x=shape)
    assert resident() - before < 32 * MIB and not any(p.materialised for p in parameters)
    assert sum(getattr(m, c) for c in CLASSES) == m.arena
    assert m.as_dict()["most"]["activations"] > 0
    assert bool(m.gradients_wait) == bool(options)
    # Without a state of the rule there is that of random numbers, if any.
    assert (m.optimizer > 8) == (rule != "sgd")


def test_planning_vgg16_takes_no_memory():
    f, model = training("vgg16")
    before = resident()
    m = f.memory(x=(128, 3, 224, 224), y=(128,))
    assert resident() - before < 32 * MIB
    assert not any(p.materialised for p in model.parameters())
    assert m.peak > 5 << 30 and m.parameters > 500 * MIB and m.optimizer > 1000 * MIB
    assert m.gradients < m.all_gradients / 2
    assert 392 * MIB <= m.as_dict()["most"]["gradients"] < m.all_gradients


def test_the_high_water_mark_is_the_plan_and_the_residue():
    out = in_a_process(
        """
import numpy as np, snug, snug.tensor as T
from snug import nn, optim
model = nn.make_model("vgg-small", input=(3, 32, 32), classes=10)
x, y = T.tensor4("x"), T.ivector("y")
loss = nn.cross_entropy(model(x, training=True), y)
f = snug.function([x, y], loss, updates=optim.adam(loss, model.parameters()))
images, labels = np.ones((256, 3, 32, 32), "float32"), np.zeros(256, "int32")
m = f.memory(images, labels)
for _ in range(3):
    f(images, labels)
after = snug.process_memory()
print(m.peak, m.arena, after.arenas, after.not_planned, after.high_water, after.resident)
"""
    )
    peak, arena, arenas, residue, high_water, now = map(int, out.split())
    assert arena > 32 * MIB and 0 <= arenas - arena < 4096
    # Line by line: what was planned, and what is measured besides.
    assert abs(peak + residue - now) < MIB // 16
    assert abs(peak + residue - high_water) < 4 * MIB


def test_a_deleted_variable_gives_its_memory_back_at_once():
    w = snug.shared(np.ones(16 * MIB, "float32"), "w")
    gc.collect()
    before = resident()
    del w
    assert resident() <= before - 63 * MIB


def test_a_function_gives_its_arena_back():
    x = T.matrix("x")
    f = snug.function([x], T.dot(T.exp(T.dot(x, x)), x).sum())
    f(np.zeros((2900, 2900), "float32"))
    before = resident()
    f.free()
    assert resident() <= before - 31 * MIB and f.counter("arena_bytes") == 0


def test_exports_are_listed():
    w = snug.shared(np.ones(4 * MIB, "float32"), "exported_w")

    def listed():
        return [e for e in snug.process_memory().exports if e.name == "exported_w"]

    assert not listed()
    f = snug.function([], w.sum(), updates=[(w, w + 1)])
    borrowed = w.get_value(borrow=True)
    assert [(e.bytes, e.current) for e in listed()] == [(16 * MIB, True)]
    assert "exported_w (16.00 MiB)" in f.memory().exported
    assert "held by others: exported_w" in str(f.memory())
    f()
    assert [e.current for e in listed()] == [False] and borrowed[0] == 1
    del f, w
    gc.collect()
    assert len(listed()) == 1 and "exported_w" in str(snug.process_memory())
    before = resident()
    del borrowed
    v = snug.shared(np.ones(10, "float32"), "exported_w")
    view = np.from_dlpack(v)
    assert [e.bytes for e in listed()] == [40]
    del view
    assert not listed() and resident() <= before - 15 * MIB


def test_arenas_may_be_shared_or_not():
    x = T.matrix("x")
    y = T.dot(T.exp(T.dot(x, x)), x).sum()
    value = np.zeros((512, 512), "float32")

    def arenas_of_two():
        before = snug.process_memory().arenas
        f, g = snug.function([x], y), snug.function([x], y * 2)
        f(value), g(value)
        return snug.process_memory().arenas - before, f.counter("arena_bytes")

    gc.collect()
    both, one = arenas_of_two()
    assert both <= one
    with snug.config.change_flags(share_arenas=False):
        both, one = arenas_of_two()
    assert both == 2 * one
    with pytest.raises(ValueError, match="share_arenas"):
        snug.config.share_arenas = "perhaps"


def test_a_limit_of_the_process_is_told_before_the_arena_is_touched():
    out = in_a_process(
        """
import resource, numpy as np, snug, snug.tensor as T
x = T.matrix("x")
w = snug.shared(np.zeros((), "float32"), "w")
f = snug.function([x], (T.dot(T.exp(T.dot(x, x)), x)).sum(), updates=[(w, w + 1)], name="big")
f(np.zeros((64, 64), "float32"))
large = np.zeros((4096, 4096), "float32")
with open("/proc/self/status") as file:
    used = next(int(l.split()[1]) * 1024 for l in file if l.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (used + (100 << 20), resource.RLIM_INFINITY))
need = f.memory(large).arena
assert need > 100 << 20
arenas = snug.process_memory().arenas
try:
    f(large)
    print("not refused")
except MemoryError as e:
    print(e)
assert snug.process_memory().arenas == arenas and w.get_value() == 1
assert f(np.zeros((64, 64), "float32")) is not None and w.get_value() == 2
# A plan within the limit runs: threads and libraries need some of the rest.
resource.setrlimit(resource.RLIMIT_DATA, (used + need + (64 << 20), resource.RLIM_INFINITY))
f(large)
"""
    )
    assert "the arena of big needs" in out and "RLIMIT_DATA" in out and "are free" in out
    assert "hint" in out


def test_what_fits_a_limit_of_the_process_is_planned():
    out = in_a_process(
        """
import re, resource, numpy as np, snug, snug.tensor as T
x, w = T.matrix("x"), snug.shared(np.full((256, 256), 0.01, "float32"), "w")
h = x
for _ in range(12):
    h = T.tanh(T.dot(h, w))
loss = T.sqr(h).mean()
def make(**options):
    return snug.function([x], loss, updates=[(w, w - snug.grad(loss, w))], **options)
f, large = make(), np.ones((16384, 256), "float32")
f(large[:64])
plan = f.memory(large)
with open("/proc/self/status") as file:
    used = next(int(l.split()[1]) * 1024 for l in file if l.startswith("VmData"))
limit = used + (48 << 20) + plan.arena // 2
resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))
try:
    f(large)
    raise SystemExit("not refused")
except MemoryError as e:
    text = str(e)
print(text)
before = w.get_value()
f(large[: int(re.search(r"a batch of (\\d+) ", text)[1])])
w.set_value(before)
del f
make(memory=re.search(r'memory="(\\d+)"', text)[1])(large)
"""
    )
    assert "what fits (each was planned)" in out and "micro_batches=" in out
    assert "recompute=True" in out


@pytest.mark.long
@pytest.mark.parametrize(
    "name, shape",
    [
        ("mlp", (4096, 784)),
        ("lenet", (4096, 1, 28, 28)),
        ("vgg11", (4, 3, 224, 224)),
        ("resnet18", (16, 3, 224, 224)),
        ("mobilenet", (8, 3, 224, 224)),
        ("unet", (1, 3, 256, 256)),
    ],
)
def test_models_of_full_size_keep_to_their_plan(name, shape):
    out = in_a_process(
        f"""
import numpy as np, snug, snug.tensor as T
from snug import nn, optim
shape = {shape!r}
model = nn.make_model({name!r}, input=shape[1:])
x = T.TensorType("float32", (False,) * len(shape))("x")
loss = T.sqr(model(x, training=True)).mean()
f = snug.function([x], loss, updates=optim.adam(loss, model.parameters()))
images = np.ones(shape, "float32")
m = f.memory(images)
for _ in range(2):
    f(images)
steady = snug.process_memory()
for _ in range(3):
    f(images)
after = snug.process_memory()
print(m.peak, m.arena, after.arenas, after.not_planned, after.high_water,
      after.resident - steady.resident)
"""
    )
    peak, arena, arenas, residue, high_water, growth = map(int, out.split())
    assert 0 <= arenas - arena < 4096
    assert growth < MIB // 4
    assert abs(peak + residue - high_water) < 4 * MIB


def test_values_may_go_to_a_file(tmp_path):
    def step(**options):
        rng = np.random.default_rng(0)
        x, h, weights = T.matrix("x"), None, []
        for _ in range(6):
            weights.append(snug.shared(rng.normal(0, 0.1, (64, 64)).astype("float32")))
            h = T.tanh(T.dot(x if h is None else h, weights[-1]))
        loss = (h**2).mean()
        updates = [(w, w - g) for w, g in zip(weights, T.grad(loss, weights), strict=True)]
        return snug.function([x], loss, updates=updates, micro_batches=1, **options), weights

    rows = np.random.default_rng(1).normal(size=(2048, 64)).astype("float32")
    plain, wanted = step()
    budget = plain.memory(rows.shape).peak * 6 // 10
    f, weights = step(memory=budget, recompute=False, offload=tmp_path)
    plan = f.memory(rows.shape)
    assert plan.peak <= budget
    assert plan.offloaded > 0
    assert "go to a file" in str(plan)
    for _ in range(3):
        assert f(rows) == plain(rows)
    for a, b in zip(weights, wanted, strict=True):
        np.testing.assert_array_equal(a.get_value(), b.get_value())
    assert list(tmp_path.iterdir()) == []  # the file has no name
    with pytest.raises(FileNotFoundError, match="offload"):
        step(memory=budget, offload=tmp_path / "missing")
    with pytest.raises(MemoryError, match="offload=DIRECTORY"):
        step(memory=budget, recompute=False)[0](rows)


@pytest.mark.parametrize("rule", ["sgd", "momentum", "adam", "rmsprop"])
def test_recomputation_lowers_plans_of_every_optimizer(rule):
    model = nn.make_model("vgg-small")
    x, y = T.tensor4("x"), T.ivector("y")
    loss = nn.cross_entropy(model(x, training=True), y)
    updates = getattr(optim, rule)(loss, model.parameters())
    shapes = {"x": (256, 1, 28, 28), "y": (256,)}
    plain = snug.function([x, y], loss, updates=updates, plan_only=True).memory(**shapes)
    budget = plain.peak - plain.arena // 5
    f = snug.function([x, y], loss, updates=updates, plan_only=True, memory=budget, micro_batches=1)
    plan = f.memory(**shapes)
    assert plan.peak <= budget
    assert plan.recomputed


def test_a_training_step_computes_no_layer_twice():
    f, _ = training("vgg-small", "sgd")
    f(np.zeros((2, 1, 28, 28), "float32"), np.zeros(2, "int32"))
    schedule = f.explain().split("== schedule and plan")[1]
    forward = [line for line in schedule.splitlines() if " conv2d_last " in line]
    assert len(forward) == 4
    assert schedule.count(" max_pool_last ") == 2


def test_the_budget_of_the_process():
    start = snug.process_memory()
    assert start.budget == 0 and "budget" not in str(start)
    x = T.vector("x")
    with snug.config.change_flags(memory=start.counted + 8 * MIB):
        w = snug.shared(np.zeros(3 * MIB // 4, "float32"), "w")
        now = snug.process_memory()
        assert now.budget == start.counted + 8 * MIB and now.shared >= start.shared + 3 * MIB
        assert now.counted == now.shared + now.arenas + now.loaders
        assert "taken by shared variables, arenas and loaders" in str(now)
        with pytest.raises(MemoryError, match=r"the shared variable v needs 6\.00 MiB"):
            snug.shared(np.zeros(6 * MIB // 4, "float32"), "v")
        with pytest.raises(MemoryError, match=r"a loader needs 16\.00 MiB"):
            snug.data.Loader(snug.data.arrays(np.zeros((8, 8), "float32")), 4, memory="16MiB")
        f = snug.function([x], T.sort(x * 2).sum() + w.sum())
        with pytest.raises(MemoryError):
            f(np.zeros(8 * MIB // 4, "float32"))
        assert f(np.ones(10, "float32")) == 20  # the program goes on
    assert snug.process_memory().budget == 0


def test_a_function_gets_what_the_budget_of_the_process_leaves():
    x, w = T.matrix("x"), snug.shared(np.full((128, 128), 0.01, "float32"), "w")
    h = x
    for _ in range(10):
        h = T.tanh(T.dot(h, w))
    updates = [(w, w - snug.grad(h.sum(), w))]
    plain = snug.function([x], [], updates=updates).memory(x=(2048, 128))
    held = snug.shared(np.zeros(4 * MIB // 4, "float32"))
    others = snug.process_memory().counted - snug.process_memory().arenas - 128 * 128 * 4
    with snug.config.change_flags(memory=others + plain.peak - MIB):
        fitted = snug.function([x], [], updates=updates).memory(x=(2048, 128))
    assert fitted.peak <= plain.peak - MIB
    assert fitted.recomputed or fitted.micro_batches > 1
    assert held.get_value().nbytes == 4 * MIB


def test_a_new_value_of_the_same_shape_needs_no_more_memory():
    v = snug.shared(np.zeros(MIB // 4, "float32"), "v")
    with snug.config.change_flags(memory=snug.process_memory().counted + MIB // 2):
        v.set_value(np.full(MIB // 4, 2, "float32"))
        assert v.get_value()[0] == 2
        held = v.get_value(borrow=True)
        with pytest.raises(MemoryError, match="shared variable v"):
            v.set_value(np.full(MIB // 4, 3, "float32"))  # it would change under its holder
        assert held[0] == 2 and v.get_value()[0] == 2


def test_strided_arguments_are_planned_as_calls_take_them():
    x = T.fmatrix("x")
    y = T.dot(T.exp(T.dot(x, x.T)), x)
    array = np.ones((256, 256), "float32")
    strided = {"every other row": np.ones((512, 256), "float32")[::2], "Fortran": array.T}
    plain = snug.function([x], y).memory(array)
    assert plain.copies == 0
    for value in strided.values():
        with snug.config.change_flags(share_arenas=False):
            f = snug.function([x], y)
            plan = f.memory(value)
            assert plan.copies == value.nbytes and plan.peak > plain.peak
            f(value)
        assert f.counter("arena_bytes") == -(-plan.arena // 4096) * 4096
    f = snug.function([x], y, memory=plain.peak)
    assert f.memory(array).peak == plain.peak
    for ask in (f, f.memory):
        with pytest.raises(MemoryError) as refused:
            ask(strided["Fortran"])
        assert "np.ascontiguousarray of x" in str(refused.value)
        # To be typed: in few digits, and never less than it needs.
        typed = re.search(r'memory="(\d\d\d)KiB"', str(refused.value))[1]
        assert plan.peak <= int(typed) * 1024 < plan.peak + 1024
        snug.function([x], y, memory=f"{typed}KiB")(strided["Fortran"])
    f(np.ascontiguousarray(strided["Fortran"]))
    # Converted before the call, so there is nothing to copy.
    assert snug.function([x], y).memory(np.ones((256, 256), "float64").T).copies == 0


def test_sizes_are_no_less_than_zero():
    x = T.matrix("x")
    with pytest.raises(ValueError, match=r"argument 0 \(x\): -3 is no size"):
        snug.function([x], x + 1).memory((4, -3))


@pytest.mark.parametrize("rows", [2**31, 2**32, 2**32 + 1])
def test_plans_beyond_what_libraries_count(rows):
    x, images = T.fmatrix("x"), T.ftensor4("images")
    w = snug.shared(np.zeros((784, 10), "float32"))
    filters = snug.shared(np.zeros((8, 4, 3, 3), "float32"))
    assert snug.function([x], T.dot(x, w)).memory((rows, 784)).outputs == 40 * rows
    conv = snug.function([images], T.nnet.conv2d(images, filters))
    assert conv.memory((rows, 4, 5, 5)).outputs == 4 * 8 * 9 * rows


# ---- freed results are kept


def chain():
    x = T.fvector("x")
    return snug.function([x], (x * 2 + 1) * x)


def test_results_use_the_memory_of_earlier_ones():
    f, values = chain(), np.arange(3 * MIB, dtype="float32") % 1000
    wanted = (values * 2 + 1) * values
    first = f(values)
    address = first.ctypes.data
    np.testing.assert_array_equal(first, wanted)
    before = snug.process_memory()
    assert before.arrays >= 12 * MIB  # the caller's result
    del first
    kept = snug.process_memory()
    assert kept.kept >= 12 * MIB and kept.arrays == before.arrays - 12 * MIB
    assert "freed arrays, for the next ones" in str(kept)
    again = f(values)
    assert again.ctypes.data == address
    np.testing.assert_array_equal(again, wanted)
    other = f(values)  # while the first is held
    assert other.ctypes.data != address
    np.testing.assert_array_equal(again, wanted)
    del again, other
    f.free()
    assert snug.process_memory().kept == 0


def test_results_that_are_kept_leave_room_to_a_budget():
    f = chain()
    f(np.ones(3 * MIB, "float32"))
    start = snug.process_memory()
    assert start.kept >= 12 * MIB
    with snug.config.change_flags(memory=start.counted + 8 * MIB):
        w = snug.shared(np.zeros(7 * MIB // 4, "float32"), "w")
        assert snug.process_memory().kept <= MIB
        f(np.ones(3 * MIB, "float32"))
        assert snug.process_memory().kept <= MIB
        assert w.get_value(borrow=True).nbytes == 7 * MIB


def test_a_child_of_fork_has_memory_of_its_own():
    f, values = chain(), np.ones(3 * MIB, "float32")
    address = f(values).ctypes.data
    child = os.fork()
    if child == 0:
        good = snug.process_memory().kept == 0 and float(f(values).sum()) == 3.0 * values.size
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert f(values).ctypes.data == address
