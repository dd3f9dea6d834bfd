"""Training steps of convolutional networks beside those of PyTorch and JAX: time and memory.

    .venv/bin/python benchmarks/convnets.py --torch PYTHON [--compiled] [--jax PYTHON]
        [--networks a,b] [--precision p,q] [--rounds N] [--json FILE]

PYTHON is an interpreter that has PyTorch, or JAX, of an environment outside this tree:

    python3 -m venv ~/torch-env && ~/torch-env/bin/pip install torch numpy
    python3 -m venv ~/jax-env && ~/jax-env/bin/pip install jax numpy

Every contestant is a fresh process on the same 2 cores that makes steps (forward, gradients,
momentum) on command, on the same batch; the rounds are interleaved. A time is the median of the
rounds, a ratio the median of the ratios of the rounds. Memory is the most the process ever had
resident, and what of that came after its imports. PyTorch runs eagerly in both layouts of images,
and the faster one counts; --compiled adds torch.compile.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

from convnets_worker import NETWORKS
from worker import Worker, fault, listed, print_machine


def median_ratio(a, b):
    return statistics.median(x / y for x, y in zip(a.seconds, b.seconds, strict=True))


def measure(network, precision, options):
    """The rows of one network in one precision, by contestant."""
    workers = {"snug": Worker(sys.executable, "convnets_snug.py", network, precision, "")}
    for variant in ["eager", "channels_last"] + ["compiled"] * options.compiled:
        name = f"torch {variant}"
        workers[name] = Worker(options.torch, "convnets_torch.py", network, precision, variant)
    if options.jax:
        workers["jax"] = Worker(options.jax, "convnets_jax.py", network, precision, "")
    counts = {worker.start["parameters"] for worker in workers.values()}
    if len(counts) != 1:
        fault(f"{network}: the models differ: {counts} parameters")
    steps = {}
    for name, worker in workers.items():
        steps[name] = max(1, round(0.5 / worker.demand("step 2")["seconds"]))
    for _ in range(options.rounds):
        for name, worker in workers.items():
            worker.seconds.append(worker.demand(f"step {steps[name]}")["seconds"])
    for worker in workers.values():
        worker.end()
    return workers


def mib(count):
    return f"{count / 2**20:.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch", required=True, help="an interpreter that has PyTorch")
    parser.add_argument("--jax", help="an interpreter that has JAX")
    parser.add_argument("--networks", default="vgg-small,vgg16,resnet50,unet")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    networks = listed(options.networks, NETWORKS, "network")
    print_machine()
    print(
        f"{'':33} {'ms/step':>9} {'snug /':>7} {'MiB':>7} {'after':>7} {'snug /':>7} {'first':>7}"
    )
    print(f"{'':33} {'':>9} {'it':>7} {'peak':>7} {'import':>7} {'it':>7} {'step s':>7}")
    for network in networks:
        for precision in options.precision.split(","):
            workers = measure(network, precision, options)
            snug = workers["snug"]
            for name, worker in workers.items():
                grown = worker.memory["peak"] - worker.memory["before"]
                ours = snug.memory["peak"] - snug.memory["before"]
                row = {
                    "network": network,
                    "precision": precision,
                    "contestant": name,
                    "version": worker.version,
                    "seconds": statistics.median(worker.seconds),
                    "snug_time_ratio": median_ratio(snug, worker),
                    "peak": worker.memory["peak"],
                    "grown": grown,
                    "snug_memory_ratio": snug.memory["peak"] / worker.memory["peak"],
                    "snug_grown_ratio": ours / grown,
                    "first_seconds": worker.start["first_seconds"],
                }
                rows.append(row)
                if name == "snug":
                    print(f"{network} x {NETWORKS[network][0]} {precision}")
                print(
                    f"  {name + ' ' + row['version'].split('+')[0]:31}",
                    f"{1e3 * row['seconds']:9.1f} {row['snug_time_ratio']:7.2f}"
                    f" {mib(row['peak']):>7} {mib(grown):>7} {row['snug_grown_ratio']:7.2f}"
                    f" {row['first_seconds']:7.1f}",
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
