"""The speed table of the core: ratios measured within one run, with 2 threads each.

    .venv/bin/python benchmarks/core.py [--json FILE]

Each row interleaves its contestants and takes the best of several rounds: on a noisy machine only
ratios within one run mean something. Hand-written C++ loops are compiled here with g++ -O3
-march=native.
"""

import argparse
import ctypes
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np

import snug
import snug.tensor as T

C_SOURCE = r"""
#include <cstdint>
#include <cstring>
#include <omp.h>
extern "C" {
void copy2(float* out, const float* a, int64_t n) {  // reads n, writes n
#pragma omp parallel for num_threads(2) schedule(static)
  for (int t = 0; t < 2; ++t) memcpy(out + n / 2 * t, a + n / 2 * t, 4 * (n / 2));
}
void times_row3(float* out, const float* a, const float* row, int64_t n) {
#pragma omp parallel for num_threads(2) schedule(static)
  for (int64_t i = 0; i < n; ++i)
    for (int j = 0; j < 3; ++j) out[i * 3 + j] = a[i * 3 + j] * row[j];
}
void row_sums10(float* out, const float* a, int64_t n) {
#pragma omp parallel for num_threads(2) schedule(static)
  for (int64_t i = 0; i < n; ++i) {
    double s = 0;
    for (int j = 0; j < 10; ++j) s += a[i * 10 + j];
    out[i] = s;
  }
}
}
"""


def build_c():
    folder = Path(tempfile.mkdtemp())
    (folder / "loops.cpp").write_text(C_SOURCE)
    subprocess.run(
        [
            "g++",
            "-O3",
            "-march=native",
            "-fopenmp",
            "-shared",
            "-fPIC",
            "loops.cpp",
            "-o",
            "loops.so",
        ],
        cwd=folder,
        check=True,
    )
    return ctypes.CDLL(str(folder / "loops.so"))


def best(contestants, rounds=7, number=1):
    """Seconds per call of each, interleaved, best of the rounds."""
    times = {name: float("inf") for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            start = time.perf_counter()
            for _ in range(number):
                call()
            times[name] = min(times[name], (time.perf_counter() - start) / number)
    return times


def pointer(a):
    return a.ctypes.data_as(ctypes.c_void_p)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    rows = []

    def row(what, value, target, unit="x"):
        rows.append({"what": what, "value": value, "target": target, "unit": unit})
        print(f"{what:<62} {value:>9.3g} {unit:<3} target {target}", flush=True)

    # A call on 4 small vectors, beside numpy's a + b.
    vs = [T.fvector(n) for n in "abcd"]
    f = snug.function(vs, vs[0] + vs[1] * vs[2] - vs[3])
    small = [rng.random(10, dtype=np.float32) for _ in range(4)]
    a, b = small[:2]
    t = best({"snug": lambda: f(*small), "numpy": lambda: a + b}, rounds=15, number=20000)
    row(
        "call on 4 vectors of 10 floats, above numpy's a + b",
        1e6 * (t["snug"] - t["numpy"]),
        "<= 2",
        "us",
    )

    loops = build_c()
    n = 10**7
    x, out = rng.random(n, dtype=np.float32), np.empty(n, np.float32)
    v = T.fvector("v")
    expression = (v * 2 + 1) * v - v * v * 0.5
    kept = snug.shared(out.copy())
    into = snug.function([v], [], updates=[(kept, expression)])
    fresh = snug.function([v], expression)
    t = best(
        {
            "snug": lambda: into(x),
            "copy": lambda: loops.copy2(pointer(out), pointer(x), ctypes.c_int64(n)),
        },
        rounds=15,
    )
    row(
        "arithmetic chain over 1e7 floats into a shared variable / copy",
        t["snug"] / t["copy"],
        "<= 1.3",
    )
    t = best({"snug": lambda: fresh(x), "copy": x.copy}, rounds=15)
    row("  as a new array / x.copy()", t["snug"] / t["copy"], "<= 1.3")

    m = T.fmatrix("m")
    r = T.frow("r")
    n3 = 10**6
    x3, r3, out3 = (
        rng.random((n3, 3), dtype=np.float32),
        rng.random((1, 3), dtype=np.float32),
        np.empty((n3, 3), np.float32),
    )
    kept3 = snug.shared(out3.copy())
    times = snug.function([m, r], [], updates=[(kept3, m * r)])
    t = best(
        {
            "snug": lambda: times(x3, r3),
            "C": lambda: loops.times_row3(
                pointer(out3), pointer(x3), pointer(r3), ctypes.c_int64(n3)
            ),
        }
    )
    row("(n, 3) * row into a shared variable / C loop", t["snug"] / t["C"], "<= 1.5")

    x10, out10 = rng.random((n3, 10), dtype=np.float32), np.empty(n3, np.float32)
    W10 = snug.shared(x10)
    sums = snug.function([], W10.sum(axis=1))
    t = best(
        {
            "snug": sums,
            "C": lambda: loops.row_sums10(pointer(out10), pointer(x10), ctypes.c_int64(n3)),
        }
    )
    row("row sums over 10 columns / C loop", t["snug"] / t["C"], "<= 1.5")

    # An update of 100 rows of tables of two sizes.
    seconds = {}
    for size in (10**4, 10**6):
        E = snug.shared(np.zeros((size, 100), np.float32))
        idx, g = T.ivector("idx"), T.fmatrix("g")
        update = snug.function([idx, g], [], updates=[(E, T.inc_subtensor(E[idx], g))])
        where = rng.integers(0, size, 100).astype(np.int32)
        delta = np.ones((100, 100), np.float32)
        update(where, delta)
        seconds[size] = best(
            {"u": lambda u=update, w=where, d=delta: u(w, d)}, rounds=9, number=200
        )["u"]
        arena = update.memory(idx=(100,), g=(100, 100)).arena
    row(
        "100 rows of a 1e6 x 100 table / of a 1e4 x 100 table",
        seconds[10**6] / seconds[10**4],
        "about 1",
    )
    row("  its arena", arena, "small", "B")

    # Compiling logistic regression, cold and warm: fresh processes, a cache of their own.
    program = """
import sys, time, numpy as np, snug, snug.tensor as T
def build():
    x, y = T.fmatrix("x"), T.ivector("y")
    W, b = snug.shared(np.zeros((784, 10), "float32")), snug.shared(np.zeros(10, "float32"))
    loss = T.nnet.categorical_crossentropy(T.nnet.softmax(T.dot(x, W) + b), y).mean()
    gW, gb = T.grad(loss, [W, b])
    start = time.perf_counter()
    snug.function([x, y], loss, updates=[(W, W - 0.1 * gW), (b, b - 0.1 * gb)])
    return time.perf_counter() - start
print(build())
"""
    with tempfile.TemporaryDirectory() as cache:
        env = dict(os.environ, SNUG_CACHE_DIR=cache)
        runs = [
            float(
                subprocess.run(
                    [sys.executable, "-c", program],
                    env=env,
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
            )
            for _ in range(4)
        ]
    row("logistic regression, cold compile", runs[0], "<= 0.3", "s")
    row("logistic regression, warm from the disk cache", 1e3 * min(runs[1:]), "<= 50", "ms")

    curve = []
    for ops in (1000, 3000, 10000):
        z = T.fvector("z")
        y = z
        for k in range(ops // 2):
            y = T.tanh(y) + z if k % 50 else T.dot(y, y) * y
        start = time.perf_counter()
        snug.function([z], y)
        curve.append((ops, time.perf_counter() - start))
    for ops, s in curve:
        row(f"compile {ops} ops, per op", 1e6 * s / ops, "constant", "us")

    if options.json:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
        cpu = names[0] if names else platform.processor()
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(
            json.dumps({"cpu": cpu, "date": time.strftime("%Y-%m-%d"), "rows": rows}, indent=2)
        )


if __name__ == "__main__":
    main()
