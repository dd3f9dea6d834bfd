"""Limits of the process and of its control group: a plan within them runs, one above is refused
before it takes anything, and the program goes on."""

import contextlib
import os
import pathlib
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
