"""Small programs of every kind beside JAX and PyTorch: which are behind, and by how much.

    .venv/bin/python benchmarks/cells.py --torch PYTHON --jax PYTHON [--compiled]
        [--only PATTERN] [--kinds a,b] [--sizes 0,1,2] [--dtypes float32,float64] [--threads 1,2]
        [--rounds N | --quick] [--avx2] [--json FILE]

PYTHON is an interpreter that has PyTorch, or JAX, of an environment outside this tree, as for
convnets.py. Every contestant is a process of its own on the same cores; the rounds are taken in
turn. A ratio is a rival's time over ours, so below 1 we are behind: of the means, and of the best
rounds. --avx2 holds all contestants to the instructions of AVX2. The kernels of a checkout of
github.com/dionhaefner/pyhpc-benchmarks are measured too if $PYHPC names it.
"""

import argparse
import fnmatch
import json
import math
import re
import statistics
import sys
import time
from pathlib import Path

from cells_table import BOTH, CELLS, PYHPC
from worker import Worker, fault, listed, print_machine

SIZES = max(len(cell.sizes) for cell in CELLS.values())
ROUND_SECONDS = 0.03  # of each contestant in each round, about
PAUSE = 0.03  # before each: OpenMP's threads spin for some 15 ms after the work of PyTorch
AVX2 = {
    "DNNL_MAX_CPU_ISA": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
}


def start(options, threads):
    def worker(python, script, *arguments):
        environment = AVX2 if options.avx2 else None
        return Worker(python, script, *arguments, threads=threads, environment=environment)

    workers = {"snug": worker(sys.executable, "cells_snug.py")}
    if options.jax:
        workers["jax"] = worker(options.jax, "cells_jax.py")
    for form in ["eager"] + ["compiled"] * options.compiled:
        if options.torch:
            name = f"torch {form}"
            workers[name] = worker(options.torch, "cells_torch.py", form, str(threads))
    return workers


def differs(a, b):
    return len(a) != len(b) or any(
        not math.isclose(x, y, rel_tol=1e-2, abs_tol=1e-5) for x, y in zip(a, b, strict=True)
    )


def measure(workers, name, size, dtype, rounds):
    """The seconds of every round by contestant, and what failed."""
    ready, faults = {}, {}
    for contestant, worker in workers.items():
        made = worker.ask(f"cell {name} {size} {dtype}")
        if "fault" in made:
            faults[contestant] = made["fault"]
            continue
        ready[contestant] = (worker, made["digest"])
    if "snug" in ready:
        for contestant, (_, digest) in ready.items():
            if differs(digest, ready["snug"][1]):
                faults[contestant] = f"other results: {digest}, snug {ready['snug'][1]}"
    counts = {}
    for contestant, (worker, _) in ready.items():
        once = worker.demand("run 1")["seconds"]
        counts[contestant] = max(1, min(1000, round(ROUND_SECONDS / max(once, 1e-7))))
    seconds = {contestant: [] for contestant in ready}
    for _ in range(rounds):
        for contestant, (worker, _) in ready.items():
            time.sleep(PAUSE)
            seconds[contestant].append(worker.demand(f"run {counts[contestant]}")["seconds"])
    return seconds, faults


def chosen(options):
    """(cell, size, dtype) of all that is asked for."""
    kinds = listed(options.kinds, sorted({cell.kind for cell in CELLS.values()}), "kind")
    sizes = [int(s) for s in listed(options.sizes, [str(s) for s in range(SIZES)], "size")]
    dtypes = listed(options.dtypes, BOTH, "dtype")
    patterns = [p for p in options.only.split(",") if p]
    for pattern in patterns:
        if not fnmatch.filter(CELLS, pattern):
            hint = "" if PYHPC else "; the pyhpc kernels need a checkout in $PYHPC"
            fault(f"there is no cell {pattern}; there are {', '.join(CELLS)}{hint}")
    found = [
        (cell, size, dtype)
        for name, cell in CELLS.items()
        if (not kinds or cell.kind in kinds)
        and (not patterns or any(fnmatch.fnmatch(name, p) for p in patterns))
        for size in sizes
        for dtype in dtypes
        if size < len(cell.sizes) and dtype in cell.dtypes
    ]
    if not found:
        fault("no cell has all that is asked for; take some of the options away")
    return found


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


class Table:
    """Prints rows as they come, and keeps a file of all of them."""

    def __init__(self, rivals, file):
        self.rivals = rivals
        self.file = file
        self.rows = []
        print(
            f"{'':38} {'ms':>9} {'best':>9}"
            + "".join(f"  {r + ' mean':>14} {'best':>5}" for r in rivals)
        )

    def add(self, cell, size, dtype, threads, seconds, faults):
        ours = seconds.get("snug")
        row = {
            "cell": cell.name,
            "kind": cell.kind,
            "shape": cell.sizes[size],
            "dtype": dtype,
            "threads": threads,
            "seconds": seconds,
            "faults": faults,
        }
        label = (
            f"{cell.name} {'x'.join(map(str, cell.sizes[size]))} {dtype[0]}{dtype[-2:]} {threads}t"
        )
        row["label"] = label
        text = f"{label:38}"
        if ours:
            text += f" {1e3 * statistics.fmean(ours):9.3f} {1e3 * min(ours):9.3f}"
            for rival in self.rivals:
                if rival in seconds:
                    mean = statistics.fmean(seconds[rival]) / statistics.fmean(ours)
                    best = min(seconds[rival]) / min(ours)
                    row[f"{rival} mean"], row[f"{rival} best"] = mean, best
                    text += f"  {mean:14.2f} {best:5.2f}"
                else:
                    text += f"  {'-':>14} {'-':>5}"
        for contestant, reason in faults.items():
            text += f"\n    {contestant}: {reason}"
        print(text, flush=True)
        self.rows.append(row)
        if self.file:
            self.file.write_text(json.dumps(self.rows, indent=1) + "\n")

    def summary(self):
        for rival in self.rivals:
            means = [r[f"{rival} mean"] for r in self.rows if f"{rival} mean" in r]
            bests = [r[f"{rival} best"] for r in self.rows if f"{rival} best" in r]
            print(
                f"geometric mean of {len(means)} cells to {rival}:"
                f" {geometric_mean(means):.2f}, of the best {geometric_mean(bests):.2f}"
            )
        behind = []
        for row in self.rows:
            against = {r: row[f"{r} best"] for r in self.rivals if f"{r} best" in row}
            if against and min(against.values()) < 1:
                rival = min(against, key=against.get)
                behind.append((against[rival], rival, row["label"]))
        print(f"behind in {len(behind)} of {len(self.rows)} cells (best rounds):")
        for ratio, rival, label in sorted(behind):
            print(f"  {ratio:5.2f} {rival:15} {label}")


def counts(text):
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
        fault(f"--threads takes numbers from 1 on, such as 1,2, not {text}")
    return [int(n) for n in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", help="an interpreter that has PyTorch")
    parser.add_argument("--jax", help="an interpreter that has JAX")
    parser.add_argument("--compiled", action="store_true", help="torch.compile too")
    parser.add_argument("--only", default="", help="names of cells, with * and ?")
    parser.add_argument("--kinds", default="")
    parser.add_argument("--sizes", default=",".join(map(str, range(SIZES))))
    parser.add_argument("--dtypes", default=",".join(BOTH))
    parser.add_argument("--threads", type=counts, default="1,2")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="5 rounds")
    parser.add_argument("--avx2", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rounds = 5 if options.quick else options.rounds
    asked = chosen(options)
    print_machine()
    table = None
    for threads in options.threads:
        workers = start(options, threads)
        print(*(f"{name} {worker.version}" for name, worker in workers.items()), sep=", ")
        table = table or Table([name for name in workers if name != "snug"], options.json)
        for cell, size, dtype in asked:
            result = measure(workers, cell.name, size, dtype, rounds)
            table.add(cell, size, dtype, threads, *result)
        for worker in workers.values():
            worker.end()
    table.summary()


if __name__ == "__main__":
    main()
