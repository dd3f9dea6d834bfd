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
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

from cells_table import CELLS

HERE = Path(__file__).resolve().parent
ROUND_SECONDS = 0.03  # of each contestant in each round, about
AVX2 = {
    "DNNL_MAX_CPU_ISA": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
}


class Worker:
    """A contestant: a process that computes cells."""

    def __init__(self, python, script, threads, avx2, *arguments, cores=None):
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **(AVX2 if avx2 else {})}
        cores = sorted(os.sched_getaffinity(0))[: cores or threads]
        self.process = subprocess.Popen(
            [python, HERE / script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
            text=True,
        )
        self.version = self.answer()["version"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(map(str, self.process.args))} ended")
        return json.loads(line)

    def ask(self, command):
        print(command, file=self.process.stdin, flush=True)
        return self.answer()

    def end(self):
        print("end", file=self.process.stdin, flush=True)
        self.process.wait()


def start(options, threads):
    workers = {"snug": Worker(sys.executable, "cells_snug.py", threads, options.avx2)}
    if options.jax:
        workers["jax"] = Worker(options.jax, "cells_jax.py", threads, options.avx2)
    for form in ["eager"] + ["compiled"] * options.compiled:
        if options.torch:
            workers[f"torch {form}"] = Worker(
                options.torch, "cells_torch.py", threads, options.avx2, form, str(threads)
            )
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
        once = worker.ask("run 1")["seconds"]
        counts[contestant] = max(1, min(1000, round(ROUND_SECONDS / max(once, 1e-7))))
    seconds = {contestant: [] for contestant in ready}
    for _ in range(rounds):
        for contestant, (worker, _) in ready.items():
            seconds[contestant].append(worker.ask(f"run {counts[contestant]}")["seconds"])
    return seconds, faults


def chosen(options):
    kinds = options.kinds.split(",") if options.kinds else None
    for name, cell in CELLS.items():
        if kinds and cell.kind not in kinds:
            continue
        if options.only and not any(fnmatch.fnmatch(name, p) for p in options.only.split(",")):
            continue
        yield cell


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
        for contestant, fault in faults.items():
            text += f"\n    {contestant}: {fault}"
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", help="an interpreter that has PyTorch")
    parser.add_argument("--jax", help="an interpreter that has JAX")
    parser.add_argument("--compiled", action="store_true", help="torch.compile too")
    parser.add_argument("--only", help="names of cells, with * and ?")
    parser.add_argument("--kinds")
    parser.add_argument("--sizes", default="0,1,2,3,4,5")
    parser.add_argument("--dtypes", default="float32,float64")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="5 rounds")
    parser.add_argument("--avx2", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rounds = 5 if options.quick else options.rounds
    cpus = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next(line for line in cpus if line.startswith("model name"))
    print(cpu.split(":")[1].strip(), platform.python_version(), f"load {os.getloadavg()[0]:.1f}")
    table = None
    for threads in map(int, options.threads.split(",")):
        workers = start(options, threads)
        print(*(f"{name} {worker.version}" for name, worker in workers.items()), sep=", ")
        table = table or Table([name for name in workers if name != "snug"], options.json)
        for cell in chosen(options):
            for size in map(int, options.sizes.split(",")):
                for dtype in options.dtypes.split(","):
                    if size < len(cell.sizes) and dtype in cell.dtypes:
                        result = measure(workers, cell.name, size, dtype, rounds)
                        table.add(cell, size, dtype, threads, *result)
        for worker in workers.values():
            worker.end()
    table.summary()


if __name__ == "__main__":
    main()
