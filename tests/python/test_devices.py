"""Functions on an OpenCL device: options, budgets, training, what is said."""

import gc
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import nn

TOOL = Path(sys.executable).parent / "snug"
THERE = [d.name for d in snug.devices() if d.name != "cpu"]
pytestmark = pytest.mark.skipif(not THERE, reason=f"no OpenCL device: {snug.devices().trouble}")


def chain(device, **options):
    x = T.matrix("x")
    w = snug.shared(np.eye(4, dtype="float32") * 0.5, "w")
    loss = T.tanh(T.dot(x, w)).sum()
    update = (w, w - 0.1 * T.grad(loss, w))
    return snug.function([x], loss, updates=[update], device=device, **options), w


def test_a_function_on_a_device_agrees_with_the_host():
    values = np.linspace(-2, 2, 20, dtype="float32").reshape(5, 4)
    (here, w), (there, v) = chain("cpu"), chain("opencl:0")
    for _ in range(3):
        np.testing.assert_allclose(here(values), there(values), rtol=1e-5)
    np.testing.assert_allclose(w.get_value(), v.get_value(), rtol=1e-5)


def test_the_setting_holds_for_functions_made_from_now_on():
    x = T.vector("x")
    with snug.config.change_flags(device="opencl:0"):
        f = snug.function([x], T.exp(x))
    g = snug.function([x], T.exp(x))
    assert "kernel@1" in f.explain() and "kernel@1" not in g.explain()
    np.testing.assert_allclose(f([0.0, 1.0]), [1, np.e], rtol=1e-6)


def test_devices_are_listed():
    names = [d.name for d in snug.devices()]
    assert names[:2] == ["cpu", "opencl:0"]
    told = subprocess.run([TOOL, "devices"], capture_output=True, text=True, check=True).stdout
    assert told.rstrip() == repr(snug.devices())
    assert re.search(r"^opencl:0 +(cpu|gpu) +[\d.]+ GiB", told, re.MULTILINE)


def test_names_that_are_not_there():
    with pytest.raises(ValueError, match="there is no device 'moon'"):
        snug.config.device = "moon"
    with pytest.raises(RuntimeError, match="no device 'opencl:77'; there are: cpu, opencl:0"):
        chain("opencl:77")


def test_a_budget_for_each_device():
    f, _ = chain("opencl:0", memory={"opencl:0": "1MiB", "cpu": "1MiB"})
    plan = f.memory((5, 4))
    assert plan.peak <= 2**20
    (there,) = plan.devices
    assert there["name"] == "opencl:0" and there["variables"] == 64 and 0 < there["arena"] <= 2**20
    with pytest.raises(MemoryError, match=r"opencl:0: needs .* the budget is 100 B"):
        chain("opencl:0", memory={"opencl:0": 100})[0](np.ones((5, 4), "float32"))
    with pytest.raises(ValueError, match="'gpu=1GiB' is no budget of a device of the function"):
        chain("opencl:0", memory={"gpu": "1GiB"})


def deep(device="opencl:0", **options):
    """A training step whose activations are most of what it needs."""
    x, y = T.matrix("x"), T.matrix("y")
    h, weights = x, []
    for k in range(6):
        values = np.random.default_rng(k).standard_normal((32, 32)) / 8
        weights.append(snug.shared(values.astype("float32"), f"w{k}"))
        h = T.tanh(T.dot(h, weights[-1]))
    loss = T.mean((h - y) ** 2)
    updates = [(w, w - 0.1 * g) for w, g in zip(weights, T.grad(loss, weights))]
    return snug.function([x, y], loss, updates=updates, device=device, **options)


def deep_batch(rows=512):
    return np.ones((rows, 32), "float32"), np.zeros((rows, 32), "float32")


DEEP = (512, 32), (512, 32)


def on_device(plan):
    (there,) = plan.devices
    return there


def taken():
    return sum(d["bytes"] for d in snug.process_memory().devices if d["name"] == "opencl:0")


def test_a_table_for_each_device():
    gc.collect()
    before = taken()
    f = deep()
    there = on_device(f.memory(*DEEP))
    classes = ("gradients", "activations", "temporaries", "workspace", "copies", "gap")
    assert sum(there[name] for name in classes) == there["arena"]
    assert there["peak"] == there["variables"] + there["constants"] + there["arena"]
    assert there["floor"] <= there["peak"] and there["activations"] > 0
    assert "test_devices.py:" in there["alive"][0]["where"]
    assert f.memory(*DEEP).activations == 0  # the table of the host has what is on the host
    text = str(f.memory(*DEEP))
    assert re.search(r"on opencl:0:\n  parameters .*\n(.*\n)*  peak .* at step \d+ of \d+: ", text)
    f(*deep_batch())
    assert taken() - before == there["peak"]  # planned is what is there
    owners = next(d for d in snug.process_memory().devices if d["name"] == "opencl:0")["owners"]
    assert owners["w3"] >= 4096
    assert re.search(r"opencl:0 .* w\d ", str(snug.process_memory()))


def test_slices_keep_to_a_budget_of_the_device_alone():
    plain = deep()
    peak = on_device(plain.memory(*DEEP))["peak"]
    f = deep(memory={"opencl:0": peak * 6 // 10}, recompute=False)
    plan = f.memory(*DEEP)
    assert plan.slices > 1 and on_device(plan)["peak"] <= peak * 6 // 10
    np.testing.assert_allclose(f(*deep_batch()), plain(*deep_batch()), rtol=1e-5)


def test_remedies_of_a_device_can_be_typed():
    peak = on_device(deep().memory(*DEEP))["peak"]
    budget = peak * 3 // 4
    options = {"memory": {"opencl:0": budget}, "micro_batches": 1, "recompute": False}
    with pytest.raises(MemoryError) as refused:
        deep(**options)(*deep_batch())
    text = str(refused.value)
    assert re.search(r"opencl:0: needs .*, the budget is ", text)
    assert "on opencl:0:" in text and "the largest buffers there" in text
    rows = text[text.index("what fits (each was planned; bytes on opencl:0)") :].splitlines()[1:]
    typed = [re.match(r"  (\w+=.*?)  +[\d.]+ [KM]iB", row) for row in rows]
    given = [eval(f"dict({row[1]})") for row in typed if row]
    assert {"recompute", "micro_batches", "device", "memory"} <= {
        name for each in given for name in each
    }
    for each in given:
        changed = options | each
        if each.get("device") == "cpu":
            changed["memory"] = None
        plan = deep(**changed).memory(*DEEP)
        if "memory" not in each and changed.get("device") != "cpu":
            assert on_device(plan)["peak"] <= budget, each


def test_the_first_case_of_the_article():
    # A matrix of 400 MB, and a device with 256 MiB: drivers accept it and die later.
    x = T.matrix("x")
    w = snug.shared(np.zeros((10_000, 10_000), "float32"), "w", borrow=True)
    budget = {"opencl:0": "256MiB"}
    before = taken()
    with pytest.raises(MemoryError, match=r"opencl:0: needs ") as refused:
        snug.function([x], T.dot(x, w), device="opencl:0", memory=budget, shapes={x: (2, 10_000)})
    assert 'device="cpu"' in str(refused.value) and "each was planned" in str(refused.value)
    with pytest.raises(MemoryError, match=r"w, float32 \(10000, 10000\)"):
        snug.function([x], T.dot(x, w), device="opencl:0", memory=budget)
    assert taken() == before
    f = snug.function([x], T.dot(x, w), device="cpu")
    assert f(np.zeros((2, 10_000), "float32")).shape == (2, 10_000)


def test_a_small_device_refuses_large_values_and_has_slabs(tmp_path):
    # PoCL's own limit: 1 GiB, of which 256 MiB can be allocated at a time.
    program = """
import numpy, snug, snug.tensor as T
x = T.matrix("x")
w = snug.shared(numpy.zeros((10_000, 10_000), "float32"), "w", borrow=True)
try: snug.function([x], T.dot(x, w), device="opencl:0")
except MemoryError as e: print(str(e).splitlines()[0])
f = snug.function([x], T.exp(x).sum(axis=1), device="opencl:0")
v = numpy.zeros((70, 1_000_000), "float32")
print(f(v)[:2], f.memory(v.shape).staging > 2**28)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "POCL_MEMORY_LIMIT": "1"},
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0 or "allocates at most" in done.stderr, done.stderr
    assert "opencl:0: a value has 381.47 MiB" in lines[0]


def test_the_budget_of_the_process_bounds_the_device():
    peak = on_device(deep().memory(*DEEP))["peak"]
    w = snug.shared(np.zeros(peak // 4, "float32"), "large")
    gc.collect()
    with snug.config.change_flags(memory={"opencl:0": taken() + peak * 3 // 4}):
        f = deep()
        f(*deep_batch())
        assert on_device(f.memory(*DEEP))["peak"] <= peak * 3 // 4
        with pytest.raises(MemoryError, match=r"config\.memory"):
            deep(micro_batches=1, recompute=False)(*deep_batch())
        with pytest.raises(MemoryError, match=r"(?s)large.*config\.memory"):
            snug.function([], w.sum(), device="opencl:0")()
    with pytest.raises(ValueError, match="memory"):
        snug.config.memory = {"opencl:0": "many"}


def test_the_largest_batch_of_a_device():
    f = deep()
    budget = on_device(f.memory((100, 32), (100, 32)))["peak"]
    found = snug.max_batch(
        deep(micro_batches=1, recompute=False), (1, 32), (1, 32), memory={"opencl:0": budget}
    )
    assert 100 <= found.rows <= 110 and on_device(found.plan)["peak"] <= budget
    assert "on opencl:0" in str(found)


def test_a_training_shows_what_the_device_has():
    program = """
import numpy as np
from snug import nn
x, y = np.zeros((64, 16), "float32"), np.zeros(64, "int64")
made = nn.fit(nn.Sequential(nn.Dense(8), nn.Dense(3)), (x, y), batch=16, epochs=1,
              device="opencl:0", progress="lines")
print(made.planned)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    shown = re.search(r"memory ([\d.]+) (\w+) on opencl:0, [\d.]+ \w+ on cpu", done.stderr)
    planned = eval(done.stdout)
    assert shown, done.stderr
    assert planned["opencl:0"] == pytest.approx(float(shown[1]) * 1024, rel=0.01)
    assert planned["cpu"] > 0


def tool(*arguments, status=0):
    done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def test_the_tool_has_a_table_for_each_device():
    step = ("plan", "lenet", "--batch", 256, "--device", "opencl:0")
    plain = json.loads(tool(*step, "--json"))
    there = plain["devices"]["opencl:0"]["bytes"]
    classes = ("gradients", "activations", "temporaries", "workspace", "copies", "gap")
    assert sum(there[name] for name in classes) == there["arena"]
    assert there["floor"] <= there["smallest"] <= there["peak"]
    budget = there["peak"] * 3 // 4
    memory = ("--memory", f"opencl:0={budget}", "--memory", "cpu=2GiB")
    text = tool(*step, *memory, status=1)
    assert f"budget {snug_amount(budget)} on opencl:0, 2.00 GiB on cpu" in text
    assert "too much on opencl:0. What does (each was planned; bytes on opencl:0):" in text
    flags = re.findall(r"^  (--\S.*?)  +[\d.]+ [KM]iB", text, re.MULTILINE)
    assert any(flag.startswith("--memory opencl:0=") and "--memory cpu=" in flag for flag in flags)
    assert {"--micro-batch", "--device", "--batch"} <= {flag.split()[0] for flag in flags}
    fitted = json.loads(tool(*step, *memory, "--fit", "--json"))
    assert fitted["fits"] and fitted["devices"]["opencl:0"]["budget"] == budget
    assert fitted["devices"]["opencl:0"]["bytes"]["peak"] <= budget
    batches = tool("fit", "lenet", "--device", "opencl:0", "--memory", f"opencl:0={budget}")
    assert "on opencl:0" in batches and "--memory opencl:0=" in batches


def snug_amount(bytes):
    return f"{bytes / 2**20:.2f} MiB"


def test_slices_of_a_batch_are_on_the_device():
    f, _ = chain("opencl:0", micro_batches=2)
    g, _ = chain("cpu")
    values = np.ones((6, 4), "float32")
    np.testing.assert_allclose(f(values), g(values), rtol=1e-6)
    assert "loop@1" in f.explain()


def test_training_a_network():
    rng = np.random.default_rng(3)
    x = rng.random((64, 1, 8, 8)).astype("float32")
    y = rng.integers(0, 3, 64)

    def losses(device):
        model = nn.Sequential(
            nn.Conv2d(4, 3, pad="half"),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.MaxPool(2),
            nn.Flatten(),
            nn.Dense(3),
        )
        made = nn.fit(
            model, (x, y), batch=16, epochs=2, device=device, seed=1, rate=0.01, progress="silent"
        )
        return [epoch.loss for epoch in made.epochs]

    np.testing.assert_allclose(losses("opencl:0"), losses("cpu"), rtol=1e-4)


def test_random_numbers_are_those_of_the_host():
    stream = T.shared_randomstreams.RandomStreams(7)
    u = stream.uniform((1000,))
    here = snug.function([], u, no_default_updates=True)()
    there = snug.function([], u, no_default_updates=True, device="opencl:0")()
    np.testing.assert_array_equal(here, there)


MODELS = [("transformer", 1), ("resnet50", 1), ("unet", 1), ("vgg16", 1)]


@pytest.mark.skipif("SNUG_LONG" not in os.environ, reason="takes long: use --long")
@pytest.mark.parametrize("name, batch", MODELS)
def test_a_step_of_a_large_model_has_the_loss_of_the_host(name, batch):
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from memory_step import Training

    losses = []
    for device in ("cpu", "opencl:0"):
        np.random.seed(0)
        training = Training(name)
        step = training.function(device=device)
        arguments = training.arguments(batch)
        losses.append([float(step(*arguments)) for _ in range(2)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)


FORKING = """
import os, sys, time
import numpy as np, snug, snug.tensor as T

def fork(*attempts):
    "What attempts say in a child that then ends as processes do."
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        for attempt in attempts:
            begin = time.monotonic()
            try:
                print(attempt())
            except Exception as e:
                print(type(e).__name__, str(e).splitlines()[0])
            if time.monotonic() - begin > 1: print("too slow")
        sys.exit(7)
    print("ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

x = T.matrix("x")
ones = np.ones((2, 4), "float32")
w = snug.shared(np.eye(4, dtype="float32"), "w")
def make(device="opencl:0"):
    return snug.function([x], T.dot(x, w).sum(), device=device)
"""


def forking(program):
    done = subprocess.run(
        [sys.executable, "-c", FORKING + program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_forked_child_is_told_at_once_and_ends():
    told = "RuntimeError device error: {}opencl:0 is of the process that forked this one"
    *said, ended, again = forking(
        "f, host = make(), make('cpu')\n"
        "f(ones)\n"
        "fork(lambda: f(ones), make, w.get_value, lambda: host(ones),\n"
        "     lambda: [d.name for d in snug.devices()][:2],\n"
        "     lambda: w.set_value(np.eye(4, dtype='float32') * 2), lambda: host(ones))\n"
        "print(f(ones))\n"
    )
    for line, start in zip(
        said[:4], [told.format("")] * 2 + [told.format("the shared variable w: ")] * 2, strict=True
    ):
        assert line.startswith(start), line
    assert said[4:] == ["['cpu', 'opencl:0']", "None", "16.0"]
    assert (ended, again) == ("ended with 7", "8.0")


def test_a_child_may_use_a_device_that_its_parent_only_lists():
    assert forking(
        "assert len(snug.devices()) > 1\nfork(lambda: make()(ones))\nprint(make()(ones))\n"
    ) == ["8.0", "ended with 7", "8.0"]


def test_a_fork_while_another_thread_compiles():
    said = forking(
        "import threading\n"
        "y = x\n"
        "for k in range(3): y = T.tanh(T.dot(y, w) * (1.5 + k) + time.time())\n"
        "f = snug.function([x], y, device='opencl:0')\n"
        "thread = threading.Thread(target=f, args=(ones,))\n"
        "thread.start()\n"
        "for _ in range(3): fork(make)\n"
        "thread.join()\n"
        "print(f(ones).shape)\n"
    )
    assert said[1::2][:3] == ["ended with 7"] * 3 and said[-1] == "(2, 4)"
    assert all("of the process that forked this one" in line for line in said[0:6:2])


def child(program, vendors):
    """What a process prints that has the drivers of a folder."""
    done = subprocess.run(
        [sys.executable, "-c", "import snug, snug.tensor as T\n" + program],
        env={"OCL_ICD_VENDORS": str(vendors), "PATH": "/usr/bin:/bin", "HOME": str(vendors)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_driver_all_else_works(tmp_path):
    said = child(
        "x = T.vector()\n"
        "print(snug.function([x], x + 1)([1.0])[0], len(snug.devices()), snug.devices().trouble)\n"
        "try: snug.function([x], x, device='opencl:0')\n"
        "except RuntimeError as e: print(e)\n",
        tmp_path,
    )
    assert said.startswith("2.0 1 the OpenCL library finds no driver: install that of the card")
    assert "there is no device 'opencl:0'; there are: cpu; the OpenCL library finds no" in said


def test_a_driver_that_crashes_while_it_is_asked(tmp_path):
    # A driver is a library that the file of a vendor names: this one ends the process.
    source = tmp_path / "crash.c"
    source.write_text(
        "#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libcrash.so", source], check=True)
    (tmp_path / "crash.icd").write_text(f"{tmp_path}/libcrash.so\n")
    assert child("print(len(snug.devices()), snug.devices().trouble)", tmp_path) == (
        "1 the OpenCL driver of crash.icd crashed while it was asked for its devices (Aborted)\n"
    )


def test_ctrl_c_is_not_lost_to_the_driver(tmp_path):
    # The compiler inside of a driver takes the signal when it first runs.
    (tmp_path / "cache").mkdir()
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, signal, time, numpy, snug, snug.tensor as T\n"
            "x = T.vector()\n"
            "f = snug.function([x], T.exp(x * 3.25 + 1).sum(), device='opencl:0')\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "f(numpy.ones(3, 'float32')), f(numpy.ones(300000, 'float32'))\n"
            "try: os.kill(os.getpid(), signal.SIGINT); time.sleep(5)\n"
            "except KeyboardInterrupt: print('interrupted')\n",
        ],
        env={
            "POCL_CACHE_DIR": str(tmp_path / "cache"),
            "SNUG_CACHE_DIR": "",
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr


def test_ctrl_c_while_kernels_are_compiled(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, signal, threading, numpy as np, snug, snug.tensor as T\n"
            "x = T.matrix()\n"
            "W = [snug.shared(np.eye(3 + k, 4 + k, dtype='float32'), f'w{k}') for k in range(8)]\n"
            "y = x\n"
            "for k, w in enumerate(W): y = T.tanh(T.dot(y, w) * (1.5 + k) + k)\n"
            "def make():\n"
            "    updates = [(w, w - 0.1 * T.grad(y.sum(), w)) for w in W]\n"
            "    return snug.function([x], y.sum(), updates=updates, device='opencl:0')\n"
            "f = make()\n"
            "before = [w.get_value() for w in W]\n"
            "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
            "try: f(np.ones((2, 3), 'float32'))\n"
            "except KeyboardInterrupt: print('interrupted')\n"
            "print(all((w.get_value() == b).all() for w, b in zip(W, before)))\n",
        ],
        env={
            "POCL_CACHE_DIR": str(tmp_path),
            "SNUG_CACHE_DIR": "",
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
    )
    # The driver is in the middle of its work when the process ends.
    assert (done.stdout, done.returncode) == ("interrupted\nTrue\n", 0), done.stderr


def test_flags_that_name_no_device():
    done = subprocess.run(
        [sys.executable, "-c", "import snug"],
        env={**os.environ, "SNUG_FLAGS": "device=opencl:77"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-2:] == [
        "ValueError: SNUG_FLAGS: device: there is no device 'opencl:77'",
        "  hint  choose one of 'cpu', " + ", ".join(repr(name) for name in THERE),
    ], done.stderr


# ---- expressions that are put on a device


def tasks(f):
    """The kinds of tasks of a function: {"kernel", "kernel@1", ...}"""
    told = f.explain().split("== tasks")[1].split("== kernels")[0]
    return set(re.findall(r"^ +\d+ (\w+(?:@\d)?)", told, re.MULTILINE))


def test_a_block_is_on_its_device():
    x = T.matrix("x")
    with snug.device("opencl:0"):
        h = T.tanh(x * 2)
    f = snug.function([x], T.exp(h).sum())
    assert {"kernel", "kernel@1"} <= tasks(f)
    assert "put on opencl:0 by the program" in f.explain()
    values = np.ones((2, 3), "float32")
    np.testing.assert_allclose(f(values), np.exp(np.tanh(2 * values)).sum(), rtol=1e-5)
    with snug.device("cpu"):
        h = T.tanh(x * 2)
    f = snug.function([x], T.exp(h).sum(), device="opencl:0")
    assert {"kernel", "kernel@1"} <= tasks(f)
    np.testing.assert_allclose(f(values), np.exp(np.tanh(2 * values)).sum(), rtol=1e-5)


def test_a_block_inside_of_a_scan():
    xs = T.matrix("xs")

    def step(x, s):
        with snug.device("opencl:0"):
            return T.tanh(x + s)

    states, _ = snug.scan(step, xs, [T.zeros(3)])
    f = snug.function([xs], states[-1])
    values = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)
    want = np.zeros(3)
    for row in values:
        want = np.tanh(row + want)
    np.testing.assert_allclose(f(values), want, atol=1e-6)
    assert "loop@1" in f.explain()


def test_names_of_blocks():
    there_are = "there is no device 'opencl:77'; there are: cpu, opencl:0"
    with pytest.raises(ValueError, match=there_are), snug.device("opencl:77"):
        pass
    with pytest.raises(TypeError, match="expected a name, got 3"), snug.device(3):
        pass
    x = T.vector()
    try:
        with snug.device("opencl:0"):
            raise KeyError
    except KeyError:
        pass
    assert "kernel@1" not in tasks(snug.function([x], T.exp(x)))  # the block has ended


def test_transfer_and_target():
    x = T.vector("x")
    w = snug.shared(np.full(3, 2, "float32"), "w", target="opencl:0")
    f = snug.function([x], T.exp(x * w), updates=[(w, w + 1)])
    assert "kernel@1" in tasks(f)
    np.testing.assert_allclose(f([0, 1, 2]), np.exp([0, 2, 4]), rtol=1e-5)
    np.testing.assert_array_equal(w.get_value(), [3, 3, 3])
    np.testing.assert_array_equal(w.get_value(borrow=True, return_internal_type=True), [3, 3, 3])
    f = snug.function([x], T.exp(x.transfer("opencl:0") + 1))
    assert "kernel@1" in tasks(f)
    np.testing.assert_allclose(f([0, 1]), np.exp([1, 2]), rtol=1e-5)
    f = snug.function([x], T.exp((x.transfer("opencl:0") + 1).transfer("cpu")))
    assert {"kernel", "kernel@1"} <= tasks(f)
    with pytest.raises(ValueError, match="there is no device 'moon'"):
        x.transfer("moon")


def test_theano_sees_what_is_on_a_device():
    x = T.vector("x")
    there = snug.function([x], T.exp(x), device="opencl:0")
    here = snug.function([x], T.exp(x))

    def used_the_gpu(f):  # as Theano's tutorial asks
        return not any(
            isinstance(node.op, T.Elemwise) and "Gpu" not in type(node.op).__name__
            for node in f.maker.fgraph.toposort()
        )

    assert used_the_gpu(there) and not used_the_gpu(here)
    text = snug.printing.debugprint(there, file="str")
    assert "GpuElemwise{exp" in text and "GpuFromHost<None>" in text and "HostFromGpu" in text


def test_names_of_theano_without_a_gpu(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import theano, numpy, theano.tensor as T\n"
        "from theano.gpuarray.type import GpuArrayType, gpuarray_shared_constructor\n"
        "from theano.gpuarray.basic_ops import GpuFromHost, host_from_gpu\n"
        "v = theano.shared(numpy.ones(3, 'float32'), target='dev0')\n"
        "w = gpuarray_shared_constructor(numpy.ones(3, 'float32'))\n"
        "x = GpuArrayType('float32', (False,), context_name='dev1')('x')\n"
        "f = theano.function([x], host_from_gpu(GpuFromHost('dev1')(x) * v.transfer('dev1') + w))\n"
        "print(f([1, 2, 3]), theano.gpuarray.pygpu_activated, theano.config.contexts)\n"
    )
    done = subprocess.run(
        [TOOL, "run", program],
        env={
            **os.environ,
            "THEANO_FLAGS": "contexts=dev0->cuda0;dev1->cuda1,init_gpu_device=cuda,floatX=float32",
        },
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[2. 3. 4.] False dev0->cuda0;dev1->cuda1\n", done.stderr
    assert done.stderr.count("snug: there is no GPU for device = ") == 1
    assert done.stderr.count("\n") == 1


def test_random_programs():
    """Functions are made before any is called: their kernels are compiled together."""
    from random_programs import Program
    from test_random_graphs import compare, function, tolerance

    cases = []
    for seed in range(60):
        program = Program(seed)
        outputs = [program.items[-1], program.items[len(program.items) // 2]]
        expressions = [item.x for item in outputs]
        there = function(program, expressions, device="opencl:0")
        reference = function(program, expressions, mode="reference")
        cases.append((seed, program, outputs, there, reference))
    for seed, program, outputs, there, reference in cases:
        got, want = there(*program.values), reference(*program.values)
        for k, item in enumerate(outputs):
            compare(f"program {seed}, output {k}", got[k], item.v, want[k], tolerance(program))


def test_budgets_of_the_process_name_devices_that_are_there():
    for wrong, what in (
        ({"opncl:0": "3GiB"}, "there is no device 'opncl:0'"),
        ("moon=1GiB", "there is no device 'moon'"),
        ("cpu=1GiB,cpu=2GiB", "cpu has two budgets"),
    ):
        with pytest.raises(ValueError, match=what):
            snug.config.memory = wrong
    assert snug.config.memory is None


def test_a_budget_of_a_device_that_is_not_planned_for():
    command = [TOOL, "plan", "lenet", "--memory", "opencl:0=1GiB"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and done.stdout == ""
    assert "--memory opencl:0=1GiB: it is not planned for opencl:0" in done.stderr
    assert "give --device opencl:0, or a budget of cpu" in done.stderr
