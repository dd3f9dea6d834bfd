"""How steady training steps and functions are beside busy processes, next to PyTorch and JAX.

    .venv/bin/python benchmarks/busy.py --torch PYTHON --jax PYTHON
        [--networks mlp,vgg-small] [--cells a,b] [--seconds S] [--rounds N] [--json FILE]

PYTHON is an interpreter that has PyTorch, or JAX, of an environment outside this tree, as for
convnets.py. Every contestant is a process of its own on the same 2 cores, all with 2 threads, and
Snug also with one; those that are not asked wait without using a core. A neighbour is a process
that counts for ever: none, one and two per core, in the scheduling group of the contestants or
each in a group of its own (a session of its own, where the kernel has autogroups: it shares cores
between groups first).

Printed are the mean and the 95th percentile of the calls of all rounds, how many times slower the
mean is than alone, and that over what a fair share of the cores would make of it: with n threads
that want to run on a core each gets 1 / n of it. In groups of their own the share of one thread of
ours decides, which the row of Snug on one thread shows.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from cells_table import CELLS
from convnets_worker import NETWORKS
from worker import Worker, listed, print_machine

CORES = 2
# neighbours per core, in groups of their own
LOADS = [(0, False), (1, False), (2, False), (1, True), (2, True)]


class Neighbours:
    """Processes that use whatever they get of the cores."""

    def __init__(self, per_core, apart):
        cores = sorted(os.sched_getaffinity(0))[:CORES]
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-c", "while True: pass"],
                start_new_session=apart,
                preexec_fn=lambda: os.sched_setaffinity(0, cores),
            )
            for _ in range(per_core * CORES)
        ]
        time.sleep(0.2 * bool(self.processes))  # until they run

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


def network_contestants(network, options):
    def start(python, kind, variant="", threads=CORES):
        script = f"convnets_{kind}.py"
        arguments = network, "float32", variant
        return Worker(python, script, *arguments, threads=threads, cores=CORES)

    contestants = {
        "snug": start(sys.executable, "snug"),
        "snug, 1 thread": start(sys.executable, "snug", threads=1),
    }
    if options.torch:
        layout = "eager" if network == "mlp" else "channels_last"
        contestants["torch"] = start(options.torch, "torch", layout)
    if options.jax:
        contestants["jax"] = start(options.jax, "jax")
    return contestants


def cell_contestants(name, options):
    def start(python, script, threads, *arguments):
        worker = Worker(python, script, *arguments, threads=threads, cores=CORES)
        worker.demand(f"cell {name} 1 float32")
        return worker

    contestants = {
        "snug": start(sys.executable, "cells_snug.py", 2),
        "snug, 1 thread": start(sys.executable, "cells_snug.py", 1),
    }
    if options.torch:
        contestants["torch"] = start(options.torch, "cells_torch.py", 2, "eager", "2")
    if options.jax:
        contestants["jax"] = start(options.jax, "cells_jax.py", 2)
    return contestants


def measure(contestants, options):
    """By load and contestant the seconds of all calls."""
    for worker in contestants.values():
        worker.demand(f"for {options.seconds / 2}")  # code is made, caches are warm
    times = {}
    for load in LOADS:
        for _ in range(options.rounds):
            for name, worker in contestants.items():
                with Neighbours(*load):
                    seconds = worker.demand(f"for {options.seconds}")["seconds"]
                times.setdefault(load, {}).setdefault(name, []).extend(seconds)
    for worker in contestants.values():
        worker.end()
    return times


def show(program, times):
    rows = []
    print(program)
    for (per_core, apart), by_name in times.items():
        where = f"{per_core} per core" + (", apart" if apart else "") if per_core else "alone"
        for name, seconds in by_name.items():
            mean, late = np.mean(seconds), np.percentile(seconds, 95)
            slower = mean / np.mean(times[LOADS[0]][name])
            rows.append(
                {
                    "program": program,
                    "neighbours": per_core,
                    "apart": apart,
                    "contestant": name,
                    "mean": mean,
                    "p95": late,
                    "slower": slower,
                }
            )
            text = f"  {where:17} {name:15} {1e3 * mean:9.3f} {1e3 * late:9.3f} {slower:8.2f}"
            if not apart:
                text += f" {slower / (1 + per_core):8.2f}"
            print(text, flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", help="an interpreter that has PyTorch")
    parser.add_argument("--jax", help="an interpreter that has JAX")
    parser.add_argument("--networks", default="mlp,vgg-small")
    parser.add_argument("--cells", default="chain,softmax-rows,product-square,sum-columns")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a contestant in a round")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    networks = listed(options.networks, NETWORKS, "network")
    cells = listed(options.cells, CELLS, "cell")
    print_machine()
    print(f"  {'neighbours':17} {'':15} {'mean ms':>9} {'95 % ms':>9} {'slower':>8} {'/ share':>8}")
    rows = []
    for network in networks:
        rows += show(network, measure(network_contestants(network, options), options))
    for cell in cells:
        rows += show(cell, measure(cell_contestants(cell, options), options))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
