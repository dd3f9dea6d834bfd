"""Limits of the process and of its control group: a plan within them runs, one above is refused
before it takes anything, and the program goes on."""

import contextlib
import os
import pathlib
import resource
import subprocess
import sys

import pytest

MIB = 1 << 20
LIMIT = 384 * MIB

# Batches that double until one is refused. Its first argument says how the process is limited: by a
# number of bytes more than it has, or by the control group whose file it joins.
PROGRAM = """
import resource, sys
kind, value = sys.argv[1:]
if kind == "group":
    with open(value, "w") as file:
        file.write("0")
import numpy as np, snug, snug.tensor as T
from snug import nn, optim
model = nn.Sequential(nn.Dense(512, activation="tanh"), nn.Dense(512), nn.Dense(4))
x, y = T.matrix("x"), T.lvector("y")
loss = nn.cross_entropy(model.build((None, 16))(x), y)
step = snug.function([x, y], loss, updates=optim.momentum(loss, model.parameters(), 0.1), name="f")
def train(rows):
    step(np.ones((rows, 16), "float32"), np.zeros(rows, "int64"))
train(16)
if kind == "RLIMIT_DATA":
    with open("/proc/self/status") as file:
        used = next(int(l.split()[1]) * 1024 for l in file if l.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (used + int(value), resource.RLIM_INFINITY))
rows = 64
try:
    while rows < 1 << 24:
        rows *= 2
        train(rows)
    print("never refused")
except MemoryError as error:
    print(rows, error)
before = snug.process_memory()
for rows in (16, 128, 512):
    train(rows)
assert snug.process_memory().arenas <= before.arenas + (4 << 20)
print("went on")
"""


def run(kind, value):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind, str(value)], capture_output=True, text=True
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def in_a_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def check(out, limit):
    """Some batches ran, the arena of a larger one was refused for the limit, and the rest ran."""
    first, *_ = out.splitlines()
    assert int(first.split()[0]) > 1024, out
    assert "the arena of f needs" in out and "are free" in out and limit in out, out
    assert out.endswith("went on\n")


def test_limit_of_data():
    check(run("RLIMIT_DATA", LIMIT), "RLIMIT_DATA")


def own_group():
    """(folder of the control group of this process that limits memory, version), or the reason why
    there is none."""
    root = pathlib.Path("/sys/fs/cgroup")
    lines = [line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text().split()]
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            return root / "memory" / path.lstrip("/"), 1
    for _, controllers, path in lines:
        folder = root / path.lstrip("/")
        if not controllers and (folder / "cgroup.controllers").exists():
            if "memory" not in (folder / "cgroup.subtree_control").read_text().split():
                pytest.skip(f"{folder} does not let groups in it limit memory")
            return folder, 2
    return pytest.skip("no control group limits memory here")


@contextlib.contextmanager
def limited_group(limit):
    """The file by which a process joins a group with this limit, inside of our own one."""
    outer, version = own_group()
    group = outer / f"snug_test_{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        name = "memory.limit_in_bytes" if version == 1 else "memory.max"
        (group / name).write_text(str(limit))
        yield group / "cgroup.procs"
    finally:
        group.rmdir()


def test_limit_of_the_control_group():
    with limited_group(LIMIT) as procs:
        check(run("group", procs), "control group")


# All kinds of work under a limit of so many MiB more than the process has. A part ends with the
# right result or is refused; a refused one has changed nothing.
WORK = """
import resource, sys
kind, value = sys.argv[1:]
if kind == "group":
    with open(value, "w") as file:
        file.write("0")
import numpy as np, snug, snug.tensor as T
from snug import nn, optim
names = {"RLIMIT_AS": "VmSize", "RLIMIT_DATA": "VmData"}
if kind in names:
    with open("/proc/self/status") as file:
        used = next(int(l.split()[1]) * 1024 for l in file if l.startswith(names[kind]))
    resource.setrlimit(getattr(resource, kind), (used + (int(value) << 20),) * 2)

def product():
    x = T.fmatrix("x")
    f = snug.function([x], T.tanh(T.dot(x, x.T)), name="product")
    assert np.allclose(f(np.full((300, 200), 0.01, "f4")), np.tanh(0.02), rtol=1e-5)

def convolution():
    x, w = T.tensor4("x", dtype="float32"), snug.shared(np.full((16, 8, 3, 3), 0.1, "f4"), "w")
    loss = (T.nnet.conv2d(x, w) ** 2).mean()
    f = snug.function([x], [loss, T.grad(loss, w), T.grad(loss, x)], name="convolution")
    loss, by_w, by_x = f(np.ones((4, 8, 20, 20), "f4"))
    assert np.isclose(loss, 7.2**2) and np.allclose(by_w, 0.9, rtol=1e-4)
    assert np.isclose(by_x.sum(), 2 * 7.2**2, rtol=1e-4)

def doubles():
    x = T.dmatrix("x")
    a = np.eye(400) * 2
    assert (snug.function([x], T.dot(x, x), name="doubles")(a) == 2 * a).all()

def factors():
    x = T.dmatrix("x")
    out = [T.nlinalg.matrix_inverse(x), T.slinalg.cholesky(x)]
    inverse, root = snug.function([x], out, name="factors")(np.eye(300) * 4)
    assert np.allclose(inverse, np.eye(300) / 4) and np.allclose(root, np.eye(300) * 2)

def training():
    w = snug.shared(np.sin(np.arange(64 * 512, dtype="f4")).reshape(64, 512) / 8, "w")
    v = snug.shared(np.cos(np.arange(512 * 4, dtype="f4")).reshape(512, 4) / 22, "v")
    x, y = T.matrix("x"), T.lvector("y")
    loss = nn.cross_entropy(T.dot(T.tanh(T.dot(x, w)), v), y)
    before = w.get_value()
    try:
        step = snug.function([x, y], loss, updates=optim.momentum(loss, [w, v], 0.1), name="step")
        rows = np.sin(np.arange(256 * 64, dtype="f4") ** 1.5).reshape(256, 64)
        losses = [float(step(rows, np.arange(256) % 4)) for _ in range(5)]
    except MemoryError:
        assert (w.get_value(borrow=True) == before).all()
        raise
    assert losses[-1] < losses[0]

for part in (product, convolution, doubles, factors, training):
    try:
        part()
        print(part.__name__, "ok")
    except MemoryError as error:
        print(part.__name__, "refused", " ".join(str(error).split()))
"""
PARTS = ["product", "convolution", "doubles", "factors", "training"]


def work(kind, value):
    """What became of each part: "ok" or the text of its refusal."""
    done = subprocess.run(
        [sys.executable, "-c", WORK, kind, str(value)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}{done.stderr}"
    rows = [line.split(" ", 2) for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == PARTS, done.stdout
    return [row[-1].removeprefix("refused").strip() for row in rows]


def check_refusals(outcome, limit, room):
    for text in outcome:
        if text == "ok" or text.startswith("Unable to allocate"):  # NumPy's own
            continue
        if not text and room < 16:
            continue  # Python's own
        assert "bytes) are free" in text and limit in text, text


ROOM = [*range(0, 800, 20)]
SOME = [0, 20, 40, 100, 200, 320, 440]


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
@pytest.mark.parametrize(
    "room", [pytest.param(n, marks=[] if n in SOME else pytest.mark.long) for n in ROOM]
)
def test_work_within_a_limit_is_right_or_refused(limit, room):
    check_refusals(work(limit, room), limit, room)


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_enough_is_not_refused(limit):
    assert work(limit, 1000) == ["ok"] * len(PARTS)


@pytest.mark.parametrize(
    "room", [100, 160, *(pytest.param(n, marks=pytest.mark.long) for n in range(120, 400, 20))]
)
def test_work_within_a_control_group_is_right_or_refused(room):
    with limited_group(room * MIB) as procs:
        check_refusals(work("group", procs), "control group", room)


def test_plans_make_no_code_of_libraries():
    """Descriptors say how much workspace a call takes; primitives are made to be run."""
    out = in_a_process(
        """
import numpy as np, snug, snug.tensor as T
x, w = T.tensor4("x", dtype="float32"), snug.shared(np.ones((16, 8, 3, 3), "f4"), "w")
v = snug.shared(np.ones((16, 64), "f4"), "v")
h = T.dot(T.nnet.conv2d(x, w).mean((2, 3)), v)
loss = (h ** 2).mean()
updates = [(p, p - 0.1 * snug.grad(loss, p)) for p in (w, v)]
f = snug.function([x], loss, updates=updates, memory="1GiB")  # measures the machine, if need be
before = f.counter("primitives")
rows = np.ones((64, 8, 20, 20), "f4")
plan = f.memory(rows)
assert snug.max_batch(f, rows, memory="64MiB").rows > 64
snug.function([x], loss, updates=updates, plan_only=True).memory(rows)
try:
    snug.function([x], loss, updates=updates, memory=str(plan.peak // 4), micro_batches=1)(rows)
except MemoryError as e:
    assert "what fits" in str(e)
else:
    raise SystemExit("not refused")
assert f.counter("primitives") == before
f(rows)
assert f.counter("primitives") > before
print("planned")
"""
    )
    assert out == "planned\n"


def test_a_first_call_is_refused_with_what_fits():
    """Also where the values of its parameters are still to be made."""
    out = in_a_process(
        """
import re, resource, numpy as np, snug, snug.tensor as T
from snug import nn, optim
model = nn.Sequential(*(nn.Dense(256, activation="tanh") for _ in range(8)), nn.Dense(64))
x, y = T.matrix("x"), T.lvector("y")
loss = nn.cross_entropy(model.build((None, 64))(x), y)
def make(**options):
    updates = optim.momentum(loss, model.parameters(), 0.1)
    return snug.function([x, y], loss, updates=updates, **options)
f, rows, labels = make(), np.ones((16384, 64), "float32"), np.zeros(16384, "int64")
arena = f.memory(rows, labels).arena
with open("/proc/self/status") as file:
    used = next(int(l.split()[1]) * 1024 for l in file if l.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (used + (80 << 20) + arena // 2, -1))
try:
    f(rows, labels)
    raise SystemExit("not refused")
except MemoryError as e:
    text = str(e)
print(text)
n = int(re.search(r"a batch of (\\d+) ", text)[1])
f(rows[:n], labels[:n])
"""
    )
    assert "making the shared variables" in out and "RLIMIT_DATA" in out, out
    assert "what fits (each was planned)" in out and "micro_batches=" in out, out


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
@pytest.mark.parametrize("room", [150, 300, 450, 900])
def test_limits_that_a_process_is_born_with(limit, room):
    """Libraries take memory while they are loaded, and OpenBLAS would try for ever."""
    if limit == "RLIMIT_AS":
        room += 300  # code is mapped, too

    def limited(*command):
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # of NumPy's
            preexec_fn=lambda: resource.setrlimit(getattr(resource, limit), (room * MIB,) * 2),
        )

    tool = limited(pathlib.Path(sys.executable).parent / "snug", "info")
    assert tool.returncode == 0 and "free memory" in tool.stdout, tool
    program = """
import numpy as np, snug, snug.tensor as T
x = T.dmatrix("x")
try:
    print(snug.function([x], T.dot(x, x))(np.ones((300, 300)))[0, 0])
except MemoryError as error:
    print(error)
"""
    out = limited(sys.executable, "-c", program)
    assert out.returncode == 0, out
    if room >= 900:
        assert out.stdout == "300.0\n", out
    else:
        assert out.stdout == "300.0\n" or f"bytes) are free: {limit}" in out.stdout, out


# What is kept of results counts as free.
RESULTS = """
import resource
import numpy as np, snug, snug.tensor as T
x = T.fvector("x")
f = snug.function([x], x * 2 + 1)
values = np.ones(4 << 20, "float32")
f(values)
with open("/proc/self/status") as file:
    used = next(int(l.split()[1]) * 1024 for l in file if l.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (used + (128 << 20), resource.RLIM_INFINITY))
for _ in range(3):
    assert f(values).sum() == 3 * values.size
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    assert snug.process_memory().kept <= limit // 16
assert snug.process_memory().kept == values.nbytes
w = snug.shared(np.broadcast_to(np.float32(1), 34 << 20), "w")  # 136 MiB
assert snug.process_memory().kept == 0
print("fits")
"""


def test_kept_results_give_way_to_a_limit_of_the_process():
    assert in_a_process(RESULTS) == "fits\n"
