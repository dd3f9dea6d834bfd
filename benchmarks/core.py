"""The speed table of the core: ratios measured within one run, with 2 threads each.

    .venv/bin/python benchmarks/core.py [--json FILE]

Each row interleaves its contestants and takes the median of the ratios, or the best of the times,
of many rounds: on a noisy machine only ratios within one run mean something. The hand-written loops
of loops.cpp are compiled with g++ -O3 -march=native.
"""

import argparse
import ctypes
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np

import snug
import snug.tensor as T

HERE = Path(__file__).resolve().parent


def build_loops():
    """The C++ loops of loops.cpp, for this machine; sums and products stay apart, as in Snug."""
    library = Path(tempfile.mkdtemp()) / "loops.so"
    flags = ["-O3", "-march=native", "-ffp-contract=off", "-fopenmp", "-shared", "-fPIC"]
    subprocess.run(["g++", *flags, HERE / "loops.cpp", "-o", library], check=True)
    loops = ctypes.CDLL(str(library))
    loops.vectors.restype = ctypes.c_char_p
    return loops


def samples(contestants, rounds=7, number=1):
    """Seconds per call of each in every round, interleaved."""
    times = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            start = time.perf_counter()
            for _ in range(number):
                call()
            times[name].append((time.perf_counter() - start) / number)
    return times


def best(contestants, rounds=7, number=1):
    """Seconds per call of each, best of the rounds."""
    return {name: min(t) for name, t in samples(contestants, rounds, number).items()}


def ratio(contestants, rounds=31):
    """The first over the second: the median of the rounds, which neighbours disturb least."""
    a, b = samples(contestants, rounds).values()
    return statistics.median(x / y for x, y in zip(a, b, strict=True))


def aligned(shape):
    """Zeros that begin at a cache line, as the storage of Snug does."""
    count = int(np.prod(shape))
    room = np.zeros(count + 16, np.float32)
    first = -room.ctypes.data % 64 // 4
    return room[first : first + count].reshape(shape)


def pointer(a):
    return ctypes.c_void_p(a.ctypes.data)


def chain_with_functions(loops, rng, row):
    """tanh(exp(x) * 0.5 + log(y)) beside intrinsics with the same polynomials."""
    n = 10**7
    x, y, out = aligned(n), aligned(n), aligned(n)
    x[:] = rng.standard_normal(n, dtype=np.float32)
    y[:] = rng.random(n, dtype=np.float32) + np.float32(0.01)
    vx, vy = T.fvector("x"), T.fvector("y")
    kept = snug.shared(out)
    chain = snug.function([vx, vy], [], updates=[(kept, T.tanh(T.exp(vx) * 0.5 + T.log(vy)))])
    args = pointer(out), pointer(x), pointer(y), ctypes.c_int64(n)
    vectors = loops.vectors().decode()
    if not vectors:
        print("chain with exp, log, tanh: not measured, the CPU has neither AVX-512 nor AVX2")
        return
    r = ratio({"snug": lambda: chain(x, y), "C": lambda: loops.exp_log_tanh(*args)})
    if not np.array_equal(kept.get_value(), out):
        raise SystemExit("the chain and the hand-written loop differ")
    row(f"chain with exp, log, tanh / {vectors} loop by hand", r, "<= 1.1")


def update_rows(loops, rng, row):
    """An update of 100 rows of tables of two sizes.

    The same rows each time stay in the caches: what differs is ours. New rows each time miss the
    caches and the TLB in the larger table, in a C loop just as here.
    """
    small, large, sets = 10**4, 10**6, 64
    delta = np.ones((100, 100), np.float32)
    same, fresh, tables = {}, {}, {}
    for size in (small, large):
        table = tables[size] = np.ones((size, 100), np.float32)  # written, so every page is there
        E = snug.shared(table)
        idx, g = T.ivector("idx"), T.fmatrix("g")
        update = snug.function([idx, g], [], updates=[(E, T.inc_subtensor(E[idx], g))])
        where = [rng.integers(0, size, 100).astype(np.int32) for _ in range(sets)]
        rest = pointer(delta), ctypes.c_int64(100)
        calls = [(pointer(table), pointer(w), *rest) for w in where]

        def all_sets(update=update, where=where):
            for w in where:
                update(w, delta)

        def all_sets_c(calls=calls):
            for args in calls:
                loops.add_rows100(*args)

        same["snug", size] = lambda update=update, w=where[0]: update(w, delta)
        fresh["snug", size] = all_sets
        fresh["C", size] = all_sets_c
        arena = update.memory(idx=(100,), g=(100, 100)).arena

    def by_size(times, name):
        pairs = zip(times[name, large], times[name, small], strict=True)
        return statistics.median(a / b for a, b in pairs)

    t = samples(same, rounds=31, number=500)
    row(
        "100 rows of a 1e6 x 100 table / of 1e4 x 100, the same rows", by_size(t, "snug"), "about 1"
    )
    t = samples(fresh, rounds=31, number=5)
    row("  new rows each time", by_size(t, "snug"), "as C")
    row("  new rows each time, C loop", by_size(t, "C"), "")
    for size in (small, large):
        pairs = zip(t["snug", size], t["C", size], strict=True)
        above = statistics.median(a - b for a, b in pairs) / sets
        row(f"  new rows of {size}, above the C loop", 1e6 * above, "", "us")
    row("  its arena", arena, "small", "B")


LOGISTIC = """
import time, numpy as np, snug, snug.tensor as T
x, y = T.fmatrix("x"), T.ivector("y")
W, b = snug.shared(np.zeros((784, 10), "float32")), snug.shared(np.zeros(10, "float32"))
loss = T.nnet.categorical_crossentropy(T.nnet.softmax(T.dot(x, W) + b), y).mean()
gW, gb = T.grad(loss, [W, b])
start = time.perf_counter()
snug.function([x, y], loss, updates=[(W, W - 0.1 * gW), (b, b - 0.1 * gb)])
print(time.perf_counter() - start)
"""

LONG = """
import sys, time, snug, snug.tensor as T
z = T.fvector("z")
y = z
for k in range(int(sys.argv[1]) // 2):
    y = T.tanh(y) + z if k % 50 else T.dot(y, y) * y
start = time.perf_counter()
snug.function([z], y)
print(time.perf_counter() - start)
"""


def compile_times(row):
    """Fresh processes, each program with caches of its own: cold unless the row says warm."""

    def seconds(program, cache, *args):
        run = subprocess.run(
            [sys.executable, "-c", program, *args],
            env=dict(os.environ, SNUG_CACHE_DIR=cache),
            check=True,
            capture_output=True,
            text=True,
        )
        return float(run.stdout)

    cold, warm = [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(seconds(LOGISTIC, cache))
            warm += [seconds(LOGISTIC, cache) for _ in range(2)]
    row("logistic regression, cold compile", min(cold), "<= 0.3", "s")
    row("logistic regression, warm from the disk cache", 1e3 * min(warm), "<= 50", "ms")
    for ops in (100, 300, 1000, 3000, 10000):
        times = []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as cache:
                times.append(seconds(LONG, cache, str(ops)))
        row(f"compile {ops} ops, cold", min(times), "linear", "s")
        row("  per op", 1e6 * min(times) / ops, "", "us")


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

    loops = build_loops()
    n = 10**7
    x, out = aligned(n), aligned(n)
    x[:] = rng.random(n, dtype=np.float32)
    v = T.fvector("v")
    expression = (v * 2 + 1) * v - v * v * 0.5
    kept = snug.shared(out.copy())
    into = snug.function([v], [], updates=[(kept, expression)])
    fresh = snug.function([v], expression)
    args = pointer(out), pointer(x), ctypes.c_int64(n)
    r = ratio({"snug": lambda: into(x), "copy": lambda: loops.copy(*args)})
    row("arithmetic chain over 1e7 floats into a shared variable / copy", r, "<= 1.3")
    r = ratio({"snug": lambda: fresh(x), "copy": x.copy})
    row("  as a new array / x.copy()", r, "<= 1.3")

    chain_with_functions(loops, rng, row)

    m = T.fmatrix("m")
    one_row = T.frow("r")
    n3 = 10**6
    x3, r3 = rng.random((n3, 3), dtype=np.float32), rng.random((1, 3), dtype=np.float32)
    out3 = aligned((n3, 3))
    kept3 = snug.shared(out3.copy())
    times = snug.function([m, one_row], [], updates=[(kept3, m * one_row)])
    args3 = pointer(out3), pointer(x3), pointer(r3), ctypes.c_int64(n3)
    r = ratio({"snug": lambda: times(x3, r3), "C": lambda: loops.times_row3(*args3)})
    row("(n, 3) * row into a shared variable / C loop", r, "<= 1.5")

    x10, out10 = rng.random((n3, 10), dtype=np.float32), aligned(n3)
    W10 = snug.shared(x10)
    sums = snug.function([], W10.sum(axis=1))
    args10 = pointer(out10), pointer(x10), ctypes.c_int64(n3)
    r = ratio({"snug": sums, "C": lambda: loops.row_sums10(*args10)})
    row("row sums over 10 columns / C loop", r, "<= 1.5")

    update_rows(loops, rng, row)

    compile_times(row)

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
